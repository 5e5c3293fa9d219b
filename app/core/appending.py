"""A save without key and parent: what its messages are to the thread, told from content alone.

Rule 3 of docs/identity.md. Two messages are the same when the client's own id says so, where the
thread knows that id; else when the content is, raw or cleaned (a loaded transcript comes back
cleaned).

That relation is not transitive (raw and cleaned may match different messages), so no prefix
function can be used. Each message of the batch becomes the set of stored messages it matches, as
the bits of an integer, and runs are found by shifting it along.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from app.core.dialects.view import client_id, is_item
from app.core.digest import message_digest
from app.core.messages import begins_exchange, calls_of, results_of, role_of
from app.core.model import Body, StoredMessage

Strip: TypeAlias = Callable[[Mapping[str, object]], Body]
"""Cleans one message as a load does."""


@dataclass(frozen=True, slots=True)
class New:
    """None of it stands in the thread."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The batch starts with what the thread ends with: batch[offset:] is new.

    matched: the stored messages that batch[:offset] is, as far back as the tail goes.
    """

    offset: int
    matched: tuple[StoredMessage, ...]


@dataclass(frozen=True, slots=True)
class Retry:
    """All of it stands in the thread already, as `matched` (as far back as the tail goes)."""

    matched: tuple[StoredMessage, ...]


@dataclass(frozen=True, slots=True)
class Diverged:
    """A transcript that contradicts the thread, first at message index (from 1) of the batch.

    position: where the thread says otherwise; None where it has nothing that far back.
    """

    index: int
    position: int | None


Decision: TypeAlias = New | Rest | Retry | Diverged


def decide(
    batch: Sequence[Body],
    tail: Sequence[StoredMessage],
    *,
    total: int,
    strip: Strip,
    window: int,
) -> Decision:
    """Tell what a batch of messages is to the thread whose newest messages are `tail`.

    Shape: tail is oldest first, the newest `len(tail)` of the thread's `total` messages. Where the
        batch reaches back further than the tail, it is compared on as much as there is.
    Units: window in messages: how far back a whole turn counts as a late retry.
    Cost:  one digest a message, then linear in the batch for a tail of some hundred.
    """
    matches = _match(batch, tail, strip)
    offset = _overlap(matches.bits, len(tail), total)
    if offset:
        matched = tuple(tail[-offset:])
        return Retry(matched) if offset == len(batch) else Rest(offset, matched)
    if run := _late_retry(batch, matches.bits, len(tail), window):
        return Retry(tuple(tail[run.start : run.stop]))
    return _diverged(batch, tail, matches, total) or New()


def orphan_results(
    bodies: Sequence[Body], before: Sequence[Mapping[str, object]] | None
) -> Iterator[int]:
    """Find the messages, by index, that hold a tool result without its call.

    Shape: before is what the thread ends with; None: not known, and results that open the batch
        pass.
    """
    made = _Open(None if before is None else set(), set())
    for body in before or ():
        made = made.after(body)
    for index, body in enumerate(bodies):
        if not made.holds(results_of(body)):
            yield index
        made = made.after(body)


@dataclass(frozen=True, slots=True)
class _Open:
    """Calls that a result may answer.

    adjacent: of the message that called, with nothing but results since; None: not known.
    items:    calls that are items of their own, which other items may part from their outputs.
    """

    adjacent: set[str] | None
    items: set[str]

    def holds(self, results: Sequence[str]) -> bool:
        return self.adjacent is None or (self.adjacent | self.items).issuperset(results)

    def after(self, body: Mapping[str, object]) -> "_Open":
        calls = {call.id for call in calls_of(body)}
        if is_item(body):
            return _Open(self.adjacent, self.items | calls)
        if begins_exchange(body):
            return _Open(set(), set())
        return _Open(calls or (self.adjacent if results_of(body) else set()), self.items)


@dataclass(frozen=True, slots=True)
class _Matches:
    """bits[i] has bit j set where batch[i] is tail[j]; by_id[i]: the client's id told so."""

    bits: tuple[int, ...]
    by_id: tuple[bool, ...]


def _match(batch: Sequence[Body], tail: Sequence[StoredMessage], strip: Strip) -> _Matches:
    ids: dict[str, int] = {}
    contents: dict[bytes, int] = {}
    for index, message in enumerate(tail):
        for name in {message.id, client_id(message.body)}:
            ids[name] = ids.get(name, 0) | 1 << index
        for digest in set(_digests(message, strip)):
            contents[digest] = contents.get(digest, 0) | 1 << index
    ids.pop("", None)
    known = [ids.get(client_id(body), 0) for body in batch]
    return _Matches(
        bits=tuple(
            bits or contents.get(message_digest(body), 0)
            for bits, body in zip(known, batch, strict=True)
        ),
        by_id=tuple(bits > 0 for bits in known),
    )


def _digests(message: StoredMessage, strip: Strip) -> Iterator[bytes]:
    if message.digest is not None:
        yield message.digest
        yield message.cleaned_digest or message.digest
        return
    yield message_digest(message.body)
    if role_of(message.body) == "assistant":
        yield message_digest(strip(message.body))


def _overlap(bits: Sequence[int], size: int, total: int) -> int:
    """Return the longest k with batch[:k] equal to the thread's last k messages, 0 without one."""
    longest = 0
    # Bit j: a run ends at tail[j] that goes back to the batch's first message, or to the tail's
    # first where the batch began before it. Any of the tail may be the batch's first.
    alive = (1 << size) - 1
    for length, mask in enumerate(bits[:total], 1):
        alive = (alive << 1 | 1) & mask
        if size and alive >> (size - 1):
            longest = length
    return longest


def _late_retry(batch: Sequence[Body], bits: Sequence[int], size: int, window: int) -> range | None:
    # A question and an answer: "Yes." alone may well be the answer to two questions (ADR 0012).
    if not any(role_of(body) == "assistant" for body in batch):
        return None
    if not any(begins_exchange(body) for body in batch):
        return None
    outside = max(size - window, 0)
    ends = _ends_of_runs(bits, (1 << size) - (1 << outside))
    return range(ends.bit_length() - len(batch), ends.bit_length()) if ends else None


def _ends_of_runs(bits: Sequence[int], starts: int) -> int:
    """Return where in the tail runs end that are the given messages and begin at one of starts."""
    alive = starts & bits[0]
    for mask in bits[1:]:
        alive = alive << 1 & mask
    return alive


def _diverged(
    batch: Sequence[Body], tail: Sequence[StoredMessage], matches: _Matches, total: int
) -> Diverged | None:
    exchanges = _exchanges(batch)
    if len(exchanges) < 2:  # noqa: PLR2004 - one exchange alone is a turn, not a transcript
        return None
    common = (
        _known_id(matches)
        or _common_exchange(exchanges, tail, matches.bits)
        or _common_question(tail, matches.bits[0], total)
    )
    return None if common is None else _first_difference(common, tail, matches.bits, total)


def _exchanges(bodies: Sequence[Mapping[str, object]]) -> list[range]:
    starts = [index for index, body in enumerate(bodies) if begins_exchange(body)]
    return [range(start, stop) for start, stop in pairwise([*starts, len(bodies)])]


def _known_id(matches: _Matches) -> tuple[int, int] | None:
    for index, known in enumerate(matches.by_id):
        if known:
            return index, matches.bits[index].bit_length() - 1
    return None


def _common_exchange(
    exchanges: Sequence[range], tail: Sequence[StoredMessage], bits: Sequence[int]
) -> tuple[int, int] | None:
    """Return where a whole exchange of the batch stands as a whole exchange of the tail."""
    stored = _exchanges([message.body for message in tail])
    starts = sum(1 << exchange.start for exchange in stored)
    stops = sum(1 << exchange.stop - 1 for exchange in stored)
    for exchange in exchanges:
        if ends := _ends_of_runs(bits[exchange.start : exchange.stop], starts) & stops:
            return exchange.start, ends.bit_length() - len(exchange)
    return None


def _common_question(
    tail: Sequence[StoredMessage], mask: int, total: int
) -> tuple[int, int] | None:
    """Return where the batch begins with the thread's first or last question."""
    starts = [index for index, message in enumerate(tail) if begins_exchange(message.body)]
    ends = starts[-1:] + (starts[:1] if len(tail) == total else [])
    return next(((0, index) for index in ends if mask >> index & 1), None)


def _first_difference(
    common: tuple[int, int], tail: Sequence[StoredMessage], bits: Sequence[int], total: int
) -> Diverged:
    index, twin = common
    shift = twin - index
    for at, mask in enumerate(bits):
        place = at + shift
        if place + total < len(tail):
            return Diverged(at + 1, None)
        if 0 <= place < len(tail) and not mask >> place & 1:
            return Diverged(at + 1, tail[place].position)
    # A run in the middle of the thread, without an answer in it: neither a retry nor a rest.
    return Diverged(index + 1, tail[twin].position)
