"""What load and save are handed by the composition root, and how they run heavy work."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from app.core.exchanges import Prepared
from app.core.markup import Profile, strip_message
from app.core.model import Body, LoadOptions, Pointer, Policy, Registry, Summary, ThreadKey
from app.core.ports import HistoryStore, SummaryCache, SummaryStore, TokenCounter
from app.core.window import Grid, grid_for, is_due

_P = ParamSpec("_P")
_T = TypeVar("_T")

CHARACTERS_A_TOKEN = 4
"""Roughly, to tell much work from little before any text is at hand."""

_LONG_TEXT = 100_000
"""Characters from which on work leaves the event loop, so that others are served meanwhile."""


@dataclass(frozen=True, slots=True)
class HistoryPorts:
    """What load and save need.

    rules:  the id under which stored counts hold (see StoredMessage.rules).
    memo:   exchanges that earlier loads have prepared; None prepares them anew.
    notify: queues a thread whose next summary is due. later: runs something once the answer is out.
    Both return at once.
    """

    store: HistoryStore
    summaries: SummaryStore
    cache: SummaryCache
    counter: TokenCounter
    policy: Policy
    profile: Profile
    rules: str
    image_tokens: int
    max_turn_messages: int
    notify: Callable[[ThreadKey], None]
    later: Callable[[Coroutine[object, object, None]], None]
    memo: Prepared | None = None

    @property
    def grid(self) -> Grid:
        """The deployment's grid, from which summaries take their boundaries."""
        return grid_for(self.policy, LoadOptions())[0]

    def clean(self, body: Mapping[str, object]) -> Body:
        """Return a message as a load sends it."""
        return strip_message(body, self.profile)

    def notify_if_due(
        self, key: ThreadKey, *, position: int, tokens: int, pointers: Sequence[Pointer]
    ) -> None:
        """Queue the thread when no summary stands where its window will soon begin."""
        if is_due(self.grid, position=position, tokens=tokens, pointers=pointers):
            self.notify(key)

    async def read_summary(
        self, key: ThreadKey, pointer: Pointer, registry: Registry, *, built: bool = False
    ) -> Summary | None:
        """Read a summary: one GET, on a miss the durable copy, which then refills the cache.

        built: as its build made it, not what loads were given before (see app.services.gap).
        """
        epoch = registry.summary_epoch
        if built:
            return await self.summaries.read(key, pointer, epoch=epoch)
        summary = await self.cache.get(key, pointer, epoch=epoch)
        if summary is None:
            summary = await self.summaries.read(key, pointer, epoch=epoch)
            if summary is not None:
                self.later(self.cache.put(key, summary, epoch=epoch))
        return summary


async def run_aside(
    characters: int, work: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs
) -> _T:
    """Run pure work, in a thread when there is much of it: counting lets go of the lock."""
    if characters < _LONG_TEXT:
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


def characters_of(bodies: Sequence[Body]) -> int:
    """Return roughly how much text there is in messages."""
    return sum(len(str(value)) for body in bodies for value in body.values())
