"""From stored messages to exchanges that can be sent: cleaned, healed, and counted once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.core.formats.format import Format
from app.core.markup import Profile, strip_message
from app.core.messages import calls_of, results_of
from app.core.model import Body, Large, StoredMessage
from app.core.pairs import Repair, heal
from app.core.ports import Count
from app.core.tokens import SENT_MEMBERS
from app.core.window import exchange_starts

_REPAIRED = {
    "call-without-result": "a tool call was left out: no result follows it",
    "result-without-call": "a tool result was left out: it follows no call",
    "empty-message": "a message was left out: it says nothing",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """How the messages of one load are cleaned, counted and chosen.

    budget:  in tokens of the encoding, which count counts in.
    marker:  one is wanted.
    profile: None leaves presentation markup in.
    trusted: stored counts made under this rules id hold here; None counts everything anew.
    """

    format: Format
    count: Count
    encoding: str
    budget: int
    marker: bool
    profile: Profile | None
    trusted: str | None
    stub_large: bool

    def cost(self, body: Mapping[str, object]) -> int:
        """Return what one message costs in this load's format and encoding."""
        return self.format.cost(body, self.count)


@dataclass(frozen=True, slots=True)
class Entry:
    """One message on its way out. position: 0 when it is not stored."""

    body: Body
    cost: int
    position: int
    message_id: str


@dataclass(frozen=True, slots=True)
class Exchange:
    """One exchange on its way out.

    size:    stored messages it stands for, those left out included.
    missing: values that must be read from their blobs before it can be sent.
    """

    entries: tuple[Entry, ...] = ()
    size: int = 0
    warnings: tuple[Mapping[str, object], ...] = ()
    missing: tuple[Large, ...] = ()

    @property
    def cost(self) -> int:
        """Tokens of all its messages."""
        return sum(entry.cost for entry in self.entries)

    @property
    def bodies(self) -> tuple[Body, ...]:
        """Its messages as they are sent."""
        return tuple(entry.body for entry in self.entries)


def prepare_exchanges(messages: Sequence[StoredMessage], rules: Rules) -> list[Exchange]:
    """Split messages into exchanges, oldest first, each ready to be sent."""
    starts = exchange_starts([message.body for message in messages])
    edges = pairwise([*starts, len(messages)])
    return [prepare_exchange(messages[start:end], rules) for start, end in edges]


def prepare_exchange(messages: Sequence[StoredMessage], rules: Rules) -> Exchange:
    """Clean, heal and count the messages of one exchange."""
    shown = [_show(message, rules) for message in messages]
    healed, repairs = heal(shown)
    entries = tuple(
        Entry(body, _cost(message, body, body is was, rules), message.position, message.id)
        for message, was, body in zip(messages, shown, healed, strict=True)
        if body is not None
    )
    return Exchange(
        entries,
        size=len(messages) - sum(message.position == 0 for message in messages[-1:]),
        warnings=tuple(_warning(repair, messages[repair.index]) for repair in repairs),
        missing=tuple(
            large for message in messages if message.large for large in _missing(message, rules)
        ),
    )


def large_stub(large: Large) -> Body:
    """Return the part that stands for a value which stays in its blob."""
    return {
        "type": "threadkeep_ref",
        "channel": large.channel,
        "bytes": large.size_bytes,
        "tokens": large.tokens,
        "preview": large.preview,
    }


def place(position: int, message_id: str) -> Mapping[str, object]:
    """Return the members by which a warning names a message; an unsaved one has neither."""
    return {"position": position, "message_id": message_id or None} if position else {}


def _show(message: StoredMessage, rules: Rules) -> Body:
    body = message.body if rules.profile is None else strip_message(message.body, rules.profile)
    for large in message.large:
        if _can_stub(message, large):
            body = {**body, "content": [large_stub(large)]}
    return body


def _missing(message: StoredMessage, rules: Rules) -> list[Large]:
    return [
        large
        for large in message.large
        if large.member in SENT_MEMBERS and not (rules.stub_large and _can_stub(message, large))
    ]


def _can_stub(message: StoredMessage, large: Large) -> bool:
    """Tell whether a stub may take the value's place: calls and results in parts would be lost."""
    if large.member != "content":
        return False
    parts = {"role": "user", "content": message.body.get("content")}
    return not calls_of(parts) and not results_of(parts)


def _cost(message: StoredMessage, body: Body, unchanged: bool, rules: Rules) -> int:
    missing = _missing(message, rules) if message.large else []
    if message.large and not missing:
        return rules.cost(body)
    if unchanged and message.rules == rules.trusted:
        return message.tokens
    # Missing ones were counted by other rules when stored: near enough to choose what to read.
    small = {name: value for name, value in body.items() if not _is_large(message, name)}
    return rules.cost(small) + sum(large.tokens for large in missing)


def _is_large(message: StoredMessage, member: str) -> bool:
    return any(large.member == member for large in message.large)


def _warning(repair: Repair, message: StoredMessage) -> Mapping[str, object]:
    calls = {"tool_call_ids": list(repair.ids)} if repair.ids else {}
    return {
        "code": repair.code,
        "detail": _REPAIRED[repair.code],
        **place(message.position, message.id),
        **calls,
    }
