"""A load's answer, put together from plain values. No I/O.

The three request shapes differ in where the history comes from (`assemble`: the store,
`assemble_given`: a caller's messages, `assemble_text`: a caller's string); what is sent of it is
chosen alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.core import markup, tokens
from app.core.compose import Draft, compose, costs_of, draft_of, framed_cost, newest
from app.core.dialects.neutral import Dialect
from app.core.dialects.recognise import recognise
from app.core.dialects.view import client_id
from app.core.digest import message_digest
from app.core.exchanges import Entry, Exchange, Prepared, Rules, prepare_exchanges
from app.core.explain import DETAILS, Read, explain
from app.core.explanation import Fate, MessageFate
from app.core.formats.format import Format
from app.core.formats.named import format_named
from app.core.given import Given, take_conversation
from app.core.marker import history_message
from app.core.messages import is_empty
from app.core.model import (
    Body,
    Context,
    Large,
    LoadOptions,
    Policy,
    StoredMessage,
    Summary,
    SummaryState,
)
from app.core.ports import Count
from app.core.trim import trim
from app.core.window import MESSAGE_TOKENS, grid_for, window_start

DEFAULT_ENCODING = "o200k_base"

RULES = tokens.rules_id(markup.VERSION, tokens.IMAGE_TOKENS)
"""The rules id of stored counts: cleaned by the default profile, counted by app.core.tokens."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one load asks for, and how it is to be read.

    count: of options.encoding. rules: the id under which stored counts hold (StoredMessage.rules).
    memo: exchanges that earlier loads have prepared.
    """

    options: LoadOptions
    policy: Policy
    count: Count
    profile: markup.Profile = markup.DEFAULT
    rules: str = RULES
    image_tokens: int = tokens.IMAGE_TOKENS
    memo: Prepared | None = None

    @property
    def format(self) -> Format:
        """The format that is asked for."""
        return format_named(self.options.format, self.image_tokens)


@dataclass(frozen=True, slots=True)
class Branch:
    """A stored branch as one load sees it.

    messages: the newest up to position, oldest first, at least back to start.
    start:    messages before the window (WindowPlan.start).
    summary:  covers no more than start; state says how far it is behind.
    ahead:    WindowPlan.ahead. filled: the summary was made by a load.
    """

    messages: Sequence[StoredMessage] = ()
    position: int = 0
    start: int = 0
    summary: Summary | None = None
    state: SummaryState = "none"
    ahead: int = 0
    filled: bool = False


def assemble(branch: Branch, reading: Reading) -> Context:
    """Assemble the context of a stored thread.

    Shape:  an exchange of which a large value is missing (see large_to_fetch) counts as trimmed.
    Errors: ValueError when the summary reaches past start.
    """
    rules = _rules(reading)
    draft = _draft(branch, reading, rules)
    if not reading.options.explain:
        return compose(draft, rules).context
    messages = _with_current(branch.messages, reading.options.message)
    read = Read(messages, branch.start, *grid_for(reading.policy, reading.options))
    return _explained(draft, replace(read, ahead=branch.ahead, filled=branch.filled), rules)


def large_to_fetch(branch: Branch, reading: Reading) -> list[Large]:
    """Return the values to read from blobs before assembling: those of messages that will be sent.

    With stubs asked for, only what no stub can stand for: tool calls, and results in parts.
    """
    if not any(message.large for message in branch.messages):
        return []
    rules = _rules(reading)
    draft = _draft(branch, reading, rules)
    kept = trim(costs_of(draft, rules), rules.budget)
    sent = [*newest(draft.window, kept.exchanges), draft.final]
    return [large for exchange in sent for large in exchange.missing]


def assemble_given(conversation: Sequence[Body], reading: Reading) -> Context:
    """Assemble a context from a caller's own messages.

    Shape: system messages are merged into one, first, in order; a summary that an earlier load put
        in stands as the summary again, its marker is left out. Positions and coverage count the
        others.
    """
    rules = _rules(reading)
    taken = take_conversation(conversation)
    given = [
        _unsaved(body, taken.dialect, position)
        for position, body in enumerate(taken.spoken, start=1)
    ]
    messages = _with_current(given, reading.options.message)
    exchanges = prepare_exchanges(messages, rules)
    start = _start_of(given, exchanges, _beside(taken, exchanges, rules), reading)
    draft = draft_of(_within_cap(_after(exchanges, start), reading), total=len(given))
    draft = replace(draft, pinned=taken.pinned, recap=taken.recap, warnings=taken.warnings)
    if not reading.options.explain:
        return compose(draft, rules).context
    read = Read(messages, start, *grid_for(reading.policy, reading.options), given=True)
    return _explained(draft, read, rules)


def assemble_text(history: str, reading: Reading) -> Context:
    """Assemble a context from a pre-built string, which stays one block.

    Shape: cleaned as an assistant's text, then trimmed from its beginning at line breaks; a blank
        one is an empty history. Coverage is all zero: a string holds no stored messages.
    """
    rules = _rules(reading)
    messages = _with_current([], reading.options.message)
    draft = draft_of(prepare_exchanges(messages, rules), total=0)
    text, costs = _clean(history, rules), costs_of(draft, rules)
    kept = _fit_lines(text, rules.budget - costs.least - costs.marker, rules)
    if kept.strip():
        draft = replace(draft, window=(Exchange((_history_entry(history, text, kept, rules),)),))
    if text.strip() and kept != text:
        draft = replace(draft, warnings=(_history_trimmed(len(text) - len(kept)),))
    if not reading.options.explain:
        return compose(draft, rules).context
    extra = (_history_fate(draft, kept == text),) if text.strip() else ()
    grid, cap = grid_for(reading.policy, reading.options)
    return _explained(draft, Read(messages, 0, grid, cap, given=True, extra=extra), rules)


def _explained(draft: Draft, read: Read, rules: Rules) -> Context:
    composed = compose(draft, rules)
    return replace(composed.context, explanation=explain(composed, read, rules))


def _rules(reading: Reading) -> Rules:
    options, budget = reading.options, reading.options.token_budget
    stored_alike = (
        options.encoding == DEFAULT_ENCODING and options.strip and options.format == "openai"
    )
    return Rules(
        format=reading.format,
        count=reading.count,
        encoding=options.encoding,
        budget=reading.policy.token_budget if budget is None else budget,
        marker=options.marker,
        profile=reading.profile if options.strip else None,
        trusted=reading.rules if stored_alike else None,
        stub_large=options.stub_large,
        memo=reading.memo,
    )


def _draft(branch: Branch, reading: Reading, rules: Rules) -> Draft:
    first = branch.position - len(branch.messages)
    messages = _with_current(branch.messages[branch.start - first :], reading.options.message)
    exchanges = prepare_exchanges(messages, rules)
    draft = draft_of(_within_cap(exchanges, reading), total=branch.position)
    return replace(draft, summary=branch.summary, state=branch.state)


def _with_current(
    messages: Sequence[StoredMessage], current: Body | None
) -> Sequence[StoredMessage]:
    """Return the history with the current message behind it, unless it already stands there.

    A current message that begins no exchange (a tool's result) goes on with the last one.
    """
    if current is None or is_empty(current) or (messages and is_same(messages[-1], current)):
        return messages
    return [*messages, _unsaved(current, recognise([current]), 0)]


def _unsaved(body: Body, dialect: Dialect, position: int) -> StoredMessage:
    name = client_id(body) if position else ""
    return StoredMessage(name, position, "", body, tokens=0, rules="", dialect=dialect)


def is_same(stored: StoredMessage, current: Body) -> bool:
    """Tell whether a message is the stored one, by content."""
    return (stored.digest or message_digest(stored.body)) == message_digest(current)


def _within_cap(exchanges: Sequence[Exchange], reading: Reading) -> Sequence[Exchange]:
    """Keep the newest exchanges that hold no more messages than a smaller window asks for."""
    _, cap = grid_for(reading.policy, reading.options)
    size = kept = 0
    for exchange in reversed(exchanges if cap else ()):
        if cap and size and size + exchange.size > cap:
            break
        size += exchange.size
        kept += 1
    return newest(exchanges, kept) if cap else exchanges


def _beside(taken: Given, exchanges: Sequence[Exchange], rules: Rules) -> int:
    """Return what a caller's pinned, summary and current messages cost together."""
    unsaved = sum(e.cost for exchange in exchanges for e in exchange.entries if not e.position)
    return framed_cost(taken.pinned, rules) + framed_cost(taken.recap, rules) + unsaved


def _start_of(
    given: Sequence[StoredMessage], exchanges: Sequence[Exchange], beside: int, reading: Reading
) -> int:
    """Return where the window starts in a caller's messages; their tokens are known by now.

    Units: beside, the tokens of what is sent with them. Beyond the room kept for a summary and the
        current message they move the window on, so that the trim need not at every turn.
    """
    grid, _ = grid_for(reading.policy, reading.options)
    costs = {entry.position: entry.cost for exchange in exchanges for entry in exchange.entries}
    counted = [replace(message, tokens=costs.get(message.position, 0)) for message in given]
    spent = sum(message.tokens for message in counted)
    unsaved = max(0, beside - reading.policy.summary_tokens - MESSAGE_TOKENS)
    return window_start(grid, counted, position=len(given), tokens=spent, unsaved=unsaved) or 0


def _after(exchanges: Sequence[Exchange], start: int) -> Sequence[Exchange]:
    passed = index = 0
    while passed < start:
        passed += exchanges[index].size
        index += 1
    return exchanges[index:]


def _clean(history: str, rules: Rules) -> str:
    if rules.profile is None:
        return history
    cleaned = markup.strip_message({"role": "assistant", "content": history}, rules.profile)
    return str(cleaned["content"])


def _fit_lines(text: str, room: int, rules: Rules) -> str:
    """Return as many lines from the end as fit the room, as one text."""
    if _history_cost(text, rules) <= room:
        return text
    lines = text.split("\n")
    first, left = len(lines), room - _history_cost("", rules)
    while first and (left := left - rules.count(lines[first - 1] + "\n")) >= 0:
        first -= 1
    # Lines cost at least as much one by one as together, in every encoding we know; look anyway.
    while first < len(lines) and _history_cost("\n".join(lines[first:]), rules) > room:
        first += 1
    return "\n".join(lines[first:])


def _history_cost(text: str, rules: Rules) -> int:
    return rules.cost(rules.format.frame(history_message(text)))


def _history_entry(history: str, text: str, kept: str, rules: Rules) -> Entry:
    body = history_message(kept)
    written = rules.format.frame(body)
    whole = body if kept == text else history_message(text)
    cleaning = None if text == history else (history_message(history), whole)
    return Entry(body, "openai", (written,), rules.cost(written), cleaning=cleaning)


def _history_fate(draft: Draft, whole: bool) -> MessageFate:
    """Return the fate of an opaque history; the warning of its trim says what was done."""
    sent = sum(exchange.cost for exchange in draft.window)
    fate: Fate = "kept" if whole else "shortened" if sent else "left-out"
    reason = "in-window" if whole else "history-trimmed"
    detail = DETAILS[reason]
    return MessageFate(None, None, "system", None, fate, reason, detail, None, sent)


def _history_trimmed(characters: int) -> Mapping[str, object]:
    detail = DETAILS["history-trimmed"]
    return {"code": "history-trimmed", "detail": detail, "characters": characters}
