"""From stored messages to exchanges that can be sent: cleaned, healed, written, counted once."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from app.core.dialects.neutral import Dialect
from app.core.dialects.view import content_of, with_content
from app.core.formats.format import Format, Translated
from app.core.healing import heal_exchange, order_with_pairs
from app.core.markup import Profile, strip_message
from app.core.memo import Memo
from app.core.messages import results_of
from app.core.model import Body, Large, StoredMessage
from app.core.pairs import Repair
from app.core.ports import Count
from app.core.tokens import SENT_MEMBERS
from app.core.window import exchange_starts

_REPAIRED = {
    "call-without-result": "a tool call was left out: no result follows it",
    "result-without-call": "a tool result was left out: it follows no call",
    "empty-message": "a message was left out: it says nothing",
}
_ROLE_DIALECTS = frozenset({"openai", "anthropic"})
_CONTENTS = frozenset({"content", "data.content"})


@dataclass(frozen=True, slots=True)
class Rules:
    """How the messages of one load are cleaned, written, counted and chosen.

    budget:  in tokens of the encoding, which count counts in.
    marker:  one is wanted.
    profile: None leaves presentation markup in.
    trusted: stored counts made under this rules id hold here; None counts everything anew.
    memo:    exchanges prepared by earlier loads, if they are remembered.
    """

    format: Format
    count: Count
    encoding: str
    budget: int
    marker: bool
    profile: Profile | None
    trusted: str | None
    stub_large: bool
    memo: Memo[StoredMessage, "Exchange"] | None = None

    @property
    def variant(self) -> Hashable:
        """What of these rules a prepared exchange depends on."""
        rules = self.profile and self.profile.version
        return (self.format, self.encoding, rules, self.trusted, self.stub_large)

    def cost(self, body: Mapping[str, object]) -> int:
        """Return what one written message costs in this load's format and encoding."""
        return self.format.cost(body, self.count)

    def cost_all(self, bodies: Sequence[Body]) -> int:
        """Return what written messages cost together, at most."""
        return sum(map(self.cost, bodies))


@dataclass(frozen=True, slots=True)
class Entry:
    """One message on its way out.

    body:     cleaned and healed, in the dialect it was stored in.
    sent:     as the format writes it: none, one or several messages, of this cost.
    position: 0 when it is not stored.
    cleaning: the stored body before and after, where cleaning changed it.
    """

    body: Body
    dialect: Dialect
    sent: tuple[Body, ...]
    cost: int
    position: int = 0
    message_id: str = ""
    warnings: tuple[Mapping[str, object], ...] = ()
    cleaning: tuple[Body, Body] | None = None


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
    def sent(self) -> tuple[Body, ...]:
        """Its messages as they are sent."""
        return tuple(body for entry in self.entries for body in entry.sent)


Prepared: TypeAlias = Memo[StoredMessage, Exchange]
"""Exchanges of earlier loads, by the messages they were made of."""


def prepare_exchanges(messages: Sequence[StoredMessage], rules: Rules) -> list[Exchange]:
    """Split messages into exchanges, oldest first, each ready to be sent."""
    starts = exchange_starts([message.body for message in messages])
    edges = pairwise([*starts, len(messages)])
    return [prepare_exchange(messages[start:end], rules) for start, end in edges]


def prepare_exchange(messages: Sequence[StoredMessage], rules: Rules) -> Exchange:
    """Clean, heal, write and count the messages of one exchange.

    A stored one never changes, so it need be done once; but not for values put back from blobs,
    which are other objects at every load.
    """
    if rules.memo is None or not all(one.checkpoint_id and not one.large for one in messages):
        return _prepare(messages, rules)
    return rules.memo.get(rules.variant, messages, lambda: _prepare(messages, rules))


def _prepare(messages: Sequence[StoredMessage], rules: Rules) -> Exchange:
    cleaned = [_clean(message.body, rules) for message in messages]
    shown = [
        _stub(message, body) if message.large else body
        for message, body in zip(messages, cleaned, strict=True)
    ]
    healed, repairs, widows = heal_exchange(shown)
    entries = [
        _enter(messages[index], body, cleaned[index], body is shown[index], rules)
        for index, body in enumerate(healed)
        if body is not None
    ]
    if rules.format.pairs_meet:
        order = order_with_pairs([entry.body for entry in entries])
        entries = [entries[index] for index in order]
    return Exchange(
        tuple(entries),
        size=len(messages) - sum(message.position == 0 for message in messages[-1:]),
        warnings=(
            *(_warning(repair, messages[repair.index]) for repair in repairs),
            *(_widowed(messages[index]) for index in widows),
        ),
        missing=tuple(
            large for message in messages if message.large for large in _missing(message, rules)
        ),
    )


def rewrite(entry: Entry, body: Body, rules: Rules) -> Entry:
    """Return the entry with another body, written and counted anew."""
    written = rules.format.translate(body, entry.dialect)
    return replace(entry, body=body, sent=written.bodies, cost=rules.cost_all(written.bodies))


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


def _clean(body: Body, rules: Rules) -> Body:
    return body if rules.profile is None else strip_message(body, rules.profile)


def _stub(message: StoredMessage, body: Body) -> Body:
    for large in message.large:
        if _can_stub(message, large):
            stub = [large_stub(large)]
            body = (
                {**body, "output": stub} if large.member == "output" else with_content(body, stub)
            )
    return body


def _missing(message: StoredMessage, rules: Rules) -> list[Large]:
    return [
        large
        for large in message.large
        if _is_sent(message, large) and not (rules.stub_large and _can_stub(message, large))
    ]


def _is_sent(message: StoredMessage, large: Large) -> bool:
    return large.member in SENT_MEMBERS or message.dialect not in _ROLE_DIALECTS


def _can_stub(message: StoredMessage, large: Large) -> bool:
    """Tell whether a stub may take the value's place: calls and results in parts would be lost."""
    if large.member == "output":
        return bool(results_of(message.body))
    return large.member in _CONTENTS and not content_of(message.body)


def _enter(
    message: StoredMessage, body: Body, cleaned: Body, unchanged: bool, rules: Rules
) -> Entry:
    written = rules.format.translate(body, message.dialect)
    return Entry(
        body,
        message.dialect,
        written.bodies,
        _cost(message, written, unchanged, rules),
        message.position,
        message.id,
        tuple(_notes(written, message)),
        None if cleaned is message.body else (message.body, cleaned),
    )


def _cost(message: StoredMessage, written: Translated, unchanged: bool, rules: Rules) -> int:
    missing = _missing(message, rules) if message.large else []
    trusted = message.dialect == "openai" and message.rules == rules.trusted
    if unchanged and trusted and (missing or not message.large):
        return message.tokens
    # Missing ones were counted by other rules when stored: near enough to choose what to read.
    return rules.cost_all(written.bodies) + sum(large.tokens for large in missing)


def _warning(repair: Repair, message: StoredMessage) -> Mapping[str, object]:
    calls = {"tool_call_ids": list(repair.ids)} if repair.ids else {}
    return {
        "code": repair.code,
        "detail": _REPAIRED[repair.code],
        **place(message.position, message.id),
        **calls,
    }


def _widowed(message: StoredMessage) -> Mapping[str, object]:
    detail = "reasoning was left out: what it led to is not sent"
    return {"code": "reasoning-left-out", "detail": detail, **place(message.position, message.id)}


def _notes(written: Translated, message: StoredMessage) -> Iterator[Mapping[str, object]]:
    where = place(message.position, message.id)
    if written.lost:
        detail = "parts of a message were left out: the format has no place for them"
        what = sorted(set(written.lost))
        yield {"code": "not-carried", "detail": detail, **where, "what": what}
    if written.wrapped:
        detail = "a call's arguments are no JSON object, so they were wrapped in one"
        yield {
            "code": "arguments-wrapped",
            "detail": detail,
            **where,
            "tool_call_ids": list(written.wrapped),
        }
