"""Why a load sent what it sent: the fate of each message, read off what was drafted and chosen.

Nothing is decided here, and nothing runs unless an explanation is asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.core.compose import Choice, Composed, framed_cost, sendable
from app.core.exchanges import Entry, Exchange, Rules
from app.core.explanation import (
    Explanation,
    Fate,
    MessageFate,
    Overheads,
    RangeFate,
    WindowExplained,
)
from app.core.messages import role_of
from app.core.model import StoredMessage, SummaryState
from app.core.window import Grid

WARNED: Mapping[str, tuple[Fate, str]] = {
    "opening-left-out": ("left-out", "opening-left-out"),
    "tool-step-left-out": ("left-out", "tool-step-left-out"),
    "result-shortened": ("shortened", "too-large-result"),
    "call-without-result": ("healed", "call-without-result"),
    "result-without-call": ("healed", "result-without-call"),
    "empty-message": ("left-out", "empty-message"),
    "reasoning-left-out": ("left-out", "reasoning-left-out"),
    "not-carried": ("left-out", "not-carried"),
    "arguments-wrapped": ("kept", "arguments-wrapped"),
}
"""What a warning about a message says of its fate; of several, the first one here."""

DETAILS = {
    "in-window": "sent: it is in the window",
    "final-turn": "sent: it is part of what the model is to answer",
    "tool-step-left-out": "a tool call and its results did not fit",
    "empty-message": "a message was left out: it says nothing",
    "covered-by-summary": "the summary stands for it",
    "before-window": "it is older than the window, and no summary stands for it",
    "before-summary": "it is too old for the summary that was made while loading",
    "summary-left-out": "the summary that stands for it did not fit the token budget",
    "outside-requested-window": "it is older than the window that the request asks for",
    "missing-value": "a large value of this or of a later message could not be read",
    "over-budget": "it did not fit the token budget",
    "history-trimmed": "the beginning of the history did not fit the token budget",
}

_FILLED = "no stored summary stands at the window's start: one was condensed while loading"


@dataclass(frozen=True, slots=True)
class Read:
    """What a load read and planned.

    messages: oldest first; the current one is the last, at position 0, if it is not stored.
    start, grid, cap: messages before the window as planned, and by what grid and cap.
    ahead:    where the window would begin with a summary before it; 0: there as well.
    filled:   the summary was made while loading. given: the history is the caller's own.
    extra:    the fate of what is no message: an opaque history.
    """

    messages: Sequence[StoredMessage]
    start: int
    grid: Grid
    cap: int | None
    ahead: int = 0
    filled: bool = False
    given: bool = False
    extra: tuple[MessageFate, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cuts:
    """Positions that part what was not sent by why, ascending but for the summary's.

    begins, reaches: the summary stands for what lies between. sent: it did fit.
    start, asked, readable: what lies before was left out by the plan, by the request's smaller
        window, by a missing value; what is behind but not in the window, by the budget.
    """

    begins: int
    reaches: int
    sent: bool
    start: int
    asked: int
    readable: int

    def fate(self, position: int) -> tuple[Fate, str]:
        """Return fate and reason of a message before the window."""
        if self.sent and self.begins < position <= self.reaches:
            return "summarized", "covered-by-summary"
        return "trimmed", self._trimmed(position)

    def _trimmed(self, position: int) -> str:
        if position <= self.begins:
            return "before-summary"
        if position <= self.reaches:
            return "summary-left-out"
        if position <= self.start:
            return "before-window"
        if position <= self.asked:
            return "outside-requested-window"
        return "missing-value" if position <= self.readable else "over-budget"


@dataclass(frozen=True, slots=True)
class _Story:
    """What is sent and warned of, by position: 0 for the message that is not stored.

    window, final: messages before the window and before the final turn.
    """

    entries: Mapping[int, Entry]
    warnings: Mapping[int, Mapping[str, Mapping[str, object]]]
    window: int
    final: int


def explain(composed: Composed, read: Read, rules: Rules) -> Explanation:
    """Explain a context.

    Shape: each position from 1 to coverage.total is in one message or in one range.
    Keeps: fates add up to the coverage; sent tokens, summary, marker and overheads to the total.
    """
    cuts = _cuts(composed, read)
    stored = [message.position for message in read.messages if message.position]
    unread = stored[0] - 1 if stored else composed.draft.total
    story = _story(composed)
    return Explanation(
        messages=(*read.extra, *(_explain(message, story, cuts) for message in read.messages)),
        ranges=tuple(_ranges(cuts, unread)),
        stripped=composed.stripped,
        window=_window(composed, read),
        overheads=_overheads(composed, rules),
    )


def _cuts(composed: Composed, read: Read) -> _Cuts:
    draft, summary = composed.draft, composed.draft.summary
    return _Cuts(
        begins=summary.begins if summary else 0,
        reaches=summary.boundary.position if summary else 0,
        sent=composed.choice.kept.summary,
        start=read.start,
        asked=draft.total - _size(draft.window) - draft.final.size,
        readable=draft.total - _size(sendable(draft.window)) - draft.final.size,
    )


def _size(exchanges: Sequence[Exchange]) -> int:
    return sum(exchange.size for exchange in exchanges)


def _story(composed: Composed) -> _Story:
    draft, choice = composed.draft, composed.choice
    warnings: dict[int, dict[str, Mapping[str, object]]] = {}
    for warning in _warnings_of(choice):
        position = warning.get("position", 0)
        if isinstance(position, int):
            warnings.setdefault(position, {})[str(warning["code"])] = warning
    entries = {entry.position: entry for entry in choice.entries}
    # A call's warning stands for its results too.
    gone = {entry.position for entry in draft.final.entries} - entries.keys()
    for position in gone:
        step = {"detail": DETAILS["tool-step-left-out"]}
        warnings.setdefault(position, {}).setdefault("tool-step-left-out", step)
    final = draft.total - draft.final.size
    return _Story(entries, warnings, window=final - _size(choice.window), final=final)


def _warnings_of(choice: Choice) -> Iterator[Mapping[str, object]]:
    for exchange in (*choice.window, choice.final):
        yield from exchange.warnings
        for entry in exchange.entries:
            yield from entry.warnings


def _explain(message: StoredMessage, story: _Story, cuts: _Cuts) -> MessageFate:
    entry = story.entries.get(message.position)
    if message.position and message.position <= story.window:
        fate, reason = cuts.fate(message.position)
        detail = DETAILS[reason]
    else:
        fate, reason, detail = _fate_in_window(message.position, story)
    return MessageFate(
        position=message.position or None,
        id=message.id or None,
        role=role_of(message.body),
        checkpoint_id=message.checkpoint_id or None,
        fate=fate,
        reason=reason,
        detail=detail,
        tokens=message.tokens if message.checkpoint_id else None,
        sent_tokens=entry.cost if entry else 0,
    )


def _fate_in_window(position: int, story: _Story) -> tuple[Fate, str, str]:
    entry, warned = story.entries.get(position), story.warnings.get(position, {})
    sent = bool(entry and entry.sent)
    code = next((code for code in WARNED if code in warned), None)
    if code is not None:
        fate, reason = WARNED[code]
        if fate in {"kept", "left-out"}:
            fate = "kept" if sent else "left-out"
        return fate, reason, _detail(warned[code])
    if not sent:
        return "left-out", "empty-message", DETAILS["empty-message"]
    reason = "in-window" if 0 < position <= story.final else "final-turn"
    return "kept", reason, DETAILS[reason]


def _detail(warning: Mapping[str, object]) -> str:
    what = warning.get("what")
    named = f" ({', '.join(map(str, what))})" if isinstance(what, list) else ""
    return f"{warning['detail']}{named}"


def _ranges(cuts: _Cuts, last: int) -> Iterator[RangeFate]:
    edges = {cuts.begins, cuts.reaches, cuts.start, cuts.asked, cuts.readable, last}
    for before, end in pairwise(sorted({0, *(min(edge, last) for edge in edges)})):
        yield RangeFate(before + 1, end, *cuts.fate(end))


def _overheads(composed: Composed, rules: Rules) -> Overheads:
    reply, pinned = rules.format.reply_overhead, framed_cost(composed.draft.pinned, rules)
    tokens = composed.context.tokens
    apart = tokens.summary + tokens.window + tokens.marker + tokens.message
    return Overheads(reply, pinned, merged=reply + pinned + apart - tokens.total)


def _window(composed: Composed, read: Read) -> WindowExplained:
    grid, summary = read.grid, composed.draft.summary
    return WindowExplained(
        start=read.start,
        window=grid.window,
        stride=grid.stride,
        token_span=grid.token_span,
        token_step=grid.token_step,
        cap=read.cap,
        checkpoint_id=summary.boundary.checkpoint_id if summary else None,
        position=summary.boundary.position if summary else None,
        state=composed.context.summary_state,
        why=_why(composed, read),
    )


def _why(composed: Composed, read: Read) -> str:
    """Say why the summary is in its state."""
    if composed.draft.told and not composed.choice.kept.summary:
        return "the summary did not fit the token budget"
    if read.given:
        told = "; it brings the one that an earlier load put in" if composed.draft.recap else ""
        return f"a caller's own history is not summarised{told}"
    return _why_stored(composed.context.summary_state, read)


def _why_stored(state: SummaryState, read: Read) -> str:
    if state == "fresh":
        return _FILLED if read.filled else "a stored summary stands at the window's start"
    if state == "none" and read.start:
        return "no summary could be read or made of what stands before the window"
    if not read.ahead:
        return "the window begins with the first message: there is nothing to summarise"
    gone = f"no summary stands at message {read.ahead}: the window reaches back"
    if state == "none":
        return f"{gone} to the first message"
    return f"{gone} {read.ahead - read.start} messages, to the end of the newest summary"
