"""What stays within the budget: the window goes first, then the summary; the final turn stays."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Costs:
    """What each section would cost, in tokens of one encoding.

    fixed:     the reply's overhead and the pinned system message.
    pinned:    there is a pinned message, so something stands before the final turn in any case.
    marker:    charged as soon as anything stands before the final turn; 0 for none.
    summary:   0 for none.
    exchanges: of the window without the final turn, oldest first.
    """

    fixed: int
    pinned: bool
    final: int
    marker: int
    summary: int
    exchanges: Sequence[int]

    @property
    def least(self) -> int:
        """The cost of what is never left out."""
        return self.fixed + self.final + (self.marker if self.pinned else 0)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is sent beside the pinned message and the final turn. exchanges: of the newest."""

    summary: bool
    exchanges: int
    marker: bool


def trim(costs: Costs, budget: int) -> Kept:
    """Choose what fits the budget, newest exchanges first.

    Shape: the kept exchanges are a contiguous suffix, and none is kept when the summary does not
        fit, so a bigger budget never loses a message that a smaller one kept.
    Units: budget in tokens of the costs' encoding. Cost: one addition for each exchange.
    Keeps: the final turn, over budget or not.
    """
    marked = costs.pinned
    room = budget - costs.least
    if costs.summary:
        room -= costs.summary + (0 if marked else costs.marker)
        if room < 0:
            return Kept(summary=False, exchanges=0, marker=marked and costs.marker > 0)
        marked = True
    kept = 0
    for cost in reversed(costs.exchanges):
        # An exchange of which nothing can be sent costs nothing, and leaves nothing to be marked.
        needed = cost + (costs.marker if cost and not marked else 0)
        if needed > room:
            break
        room -= needed
        marked = marked or cost > 0
        kept += 1
    return Kept(summary=costs.summary > 0, exchanges=kept, marker=marked and costs.marker > 0)
