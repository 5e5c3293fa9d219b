"""Comparing a batch with a thread that was written in another dialect.

A list that a load wrote as Anthropic messages, over turns that were saved as OpenAI chat, is the
same conversation cut in other pieces. So both sides are cut as fine as any dialect cuts them, one
text, one call, one result each, spelled as chat messages; what `decide` says of the pieces is then
said of the messages they came from.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from app.core.appending import Decision, Diverged, Rest, Retry, Strip, decide
from app.core.dialects.neutral import Dialect
from app.core.digest import canonical
from app.core.formats.openai import OpenAIFormat
from app.core.messages import parts_of, role_of
from app.core.model import Body, StoredMessage

_CHAT = OpenAIFormat()


@dataclass(frozen=True, slots=True)
class Compared:
    """A batch to be compared with a thread. dialect: the batch's own."""

    batch: Sequence[Body]
    dialect: Dialect
    tail: Sequence[StoredMessage]
    total: int


def decide_in_any(compared: Compared, *, strip: Strip, window: int) -> Decision:
    """Tell what a batch is to a thread, whatever dialects both were written in. See `decide`."""
    batch, tail, total = compared.batch, compared.tail, compared.total
    if all(message.dialect == compared.dialect for message in tail):
        return decide(batch, tail, total=total, strip=strip, window=window)
    pieces = [
        (index, piece) for index, body in enumerate(batch) for piece in _cut(body, compared.dialect)
    ]
    stored = [piece for message in tail for piece in _cut_stored(message)]
    more = len(stored) - len(tail)
    decision = decide(
        [piece for _, piece in pieces],
        stored,
        total=total + more,
        strip=strip,
        window=window + more,
    )
    return _of_messages(decision, [index for index, _ in pieces], len(batch))


def _of_messages(decision: Decision, owners: Sequence[int], size: int) -> Decision:
    """Say of whole messages what was decided of their pieces."""
    match decision:
        case Retry(matched):
            return Retry(_whole(matched))
        case Diverged(index, position):
            return Diverged(owners[index - 1] + 1, position)
        case Rest(offset, matched) if owners[offset - 1] == owners[offset]:
            return Diverged(owners[offset] + 1, matched[-1].position)
        case Rest(offset, matched):
            return Rest(min(owners[offset], size), _whole(matched))
    return decision


def _whole(pieces: Sequence[StoredMessage]) -> tuple[StoredMessage, ...]:
    return tuple({piece.position: piece for piece in pieces}.values())


def _cut_stored(message: StoredMessage) -> Iterator[StoredMessage]:
    if message.large:
        yield message  # what it says is not at hand; its digest is
        return
    for piece in _cut(message.body, message.dialect):
        yield replace(message, body=piece, dialect="openai")


def _cut(body: Body, dialect: Dialect) -> Iterator[Body]:
    for chat in _CHAT.translate(body, dialect).bodies:
        yield from _cut_chat(chat)


def _cut_chat(body: Body) -> Iterator[Body]:
    role, calls = role_of(body), body.get("tool_calls")
    if role == "tool":
        # The tool's name stands beside its result in some dialects; the call has it in all.
        yield {name: body[name] for name in ("role", "tool_call_id", "content") if name in body}
        return
    if not isinstance(calls, list) or not calls:
        yield body
        return
    if any(part != "" for part in parts_of(body)):
        yield {"role": role, "content": body["content"]}
    for call in calls:
        yield {"role": role, "tool_calls": [_spelled(call)]}


def _spelled(call: object) -> object:
    """Return a call with canonical arguments: as an object they have lost their spaces."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict):
        return call
    arguments = _canonical(function.get("arguments"))
    return {
        "id": call.get("id"),
        "function": {"name": function.get("name"), "arguments": arguments},
    }


def _canonical(arguments: object) -> object:
    if not isinstance(arguments, str):
        return arguments
    try:
        return canonical(json.loads(arguments)).decode()
    except (ValueError, RecursionError):
        return arguments
