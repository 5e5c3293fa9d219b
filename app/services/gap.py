"""Stale, never a hole: what stands between summary and window is condensed at once.

Needed only until the background build is through, or for a window that no stored summary fits. The
summariser is the extractive one, which quotes and takes milliseconds; no model is asked.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from app.core.context import DEFAULT_ENCODING, Branch
from app.core.extract import VERSION, summarize_extractively
from app.core.model import Body, History, Pointer, StoredMessage, Summary, ThreadKey, Turn
from app.core.plain import plain_message
from app.core.rolling import with_previews
from app.core.window import STALE_STRIDES, exchange_starts
from app.services.ports import CHARACTERS_A_TOKEN, HistoryPorts, run_aside

MAX_GAP = 2_000
"""The most messages one load condenses; what is older counts as trimmed until a build covers it."""


async def fill_gap(ports: HistoryPorts, key: ThreadKey, history: History, branch: Branch) -> Branch:
    """Return the branch with a summary of everything before its window.

    Shape: branch.summary is the newest usable one, to be continued where it proves to be of this
        branch.
    """
    if history.head is None or branch.start == 0:
        return replace(branch, summary=None, state="none")
    known = await given_before(ports, key, history, branch.start)
    known = known or await given_before(ports, key, history, branch.start, name=_of_gap)
    if known is not None:
        return replace(branch, summary=known, state="fresh")
    covered = branch.summary.boundary.position if branch.summary else 0
    after = max(covered, branch.start - MAX_GAP)
    turns = await ports.store.turns(key, head=history.head, after=after)
    read = replace(history, turns=turns)
    boundary = _pointer_at(history, branch.start) or _pointer_at(read, branch.start)
    if boundary is None:
        return replace(branch, summary=None, state="none")  # erased meanwhile
    summary = await _condense(ports, branch.summary, turns, boundary)
    if summary is None:
        return replace(branch, summary=None, state="none")
    is_late = branch.start - covered <= STALE_STRIDES * ports.grid.stride
    cached = summary if is_late else replace(summary, boundary=_of_gap(boundary))
    # At once: the build that this load or the last save queued must find it.
    await ports.cache.put(key, cached, epoch=history.registry.summary_epoch)
    return replace(branch, summary=summary, state="fresh")


async def given_before(
    ports: HistoryPorts,
    key: ThreadKey,
    history: History,
    start: int,
    *,
    name: Callable[[Pointer], Pointer] = lambda boundary: boundary,
) -> Summary | None:
    """Return what loads have been given for a window that starts there, while it is known."""
    boundary = _pointer_at(history, start)
    if boundary is None:
        return None
    known = await ports.cache.get(key, name(boundary), epoch=history.registry.summary_epoch)
    return known and replace(known, boundary=boundary)


async def _condense(
    ports: HistoryPorts, previous: Summary | None, turns: Sequence[Turn], boundary: Pointer
) -> Summary | None:
    if previous is not None and not _is_before(previous.boundary, turns):
        previous = None  # of a branch that was left
    after = previous.boundary.position if previous else 0
    messages = [
        message
        for turn in turns
        for message in turn.messages
        if after < message.position <= boundary.position
    ]
    begins = 0 if previous else _whole(messages)
    messages = [message for message in messages if message.position > begins]
    count = await ports.counter.counter(DEFAULT_ENCODING)
    text = await run_aside(
        CHARACTERS_A_TOKEN * sum(message.tokens for message in messages),
        lambda: summarize_extractively(
            previous.text if previous else None,
            [_plain(ports, message) for message in messages],
            max_tokens=ports.policy.summary_tokens,
            count=count,
        ),
    )
    if not text:
        return None
    return Summary(text, boundary, "extractive", None, VERSION, datetime.now(UTC), begins)


def _of_gap(boundary: Pointer) -> Pointer:
    """Name a cache entry of its own, for what a build must replace at once: an extract of much.

    Where a build was only late the extract has the boundary's own entry, and stays in it for as
    long as prompt caches may hold it: a window that stands keeps its text.
    """
    return replace(boundary, checkpoint_id=f"gap-{boundary.checkpoint_id}")


def _plain(ports: HistoryPorts, message: StoredMessage) -> Body:
    return plain_message(ports.clean(with_previews(message).body))


def _whole(messages: Sequence[StoredMessage]) -> int:
    """Return how many messages stand before the first whole exchange that was read."""
    if not messages or messages[0].position == 1:
        return 0
    starts = exchange_starts([message.body for message in messages])
    first = starts[1] if len(starts) > 1 else 0
    return messages[first].position - 1


def _is_before(boundary: Pointer, turns: Sequence[Turn]) -> bool:
    """Tell whether a boundary is of the branch whose turns were read from it on."""
    ids = {turn.checkpoint_id for turn in turns} | {turn.parent_id for turn in turns[:1]}
    return boundary.checkpoint_id in ids


def _pointer_at(history: History, position: int) -> Pointer | None:
    """Return the boundary after `position` messages, None where that turn was not read."""
    tokens = history.tokens
    for message in reversed(history.messages):
        if message.position == position:
            return Pointer(message.checkpoint_id, position, tokens)
        tokens -= message.tokens
    first = history.turns[0] if history.turns else None
    if first and first.parent_id and first.messages[0].position == position + 1:
        return Pointer(first.parent_id, position, tokens)
    return None
