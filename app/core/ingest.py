"""From parsed JSON to message bodies: what is taken, what is refused, what is never stored.

A flaw's text never repeats what was sent: it ends up in answers and logs.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from app.core.digest import canonical
from app.core.errors import Flaw, InvalidPayload
from app.core.messages import MARKER_NAME, TEXT_PART_TYPES, is_injected
from app.core.model import Body

ROLES: Mapping[str, str] = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "system": "system",
    "developer": "developer",
    "human": "user",
    "ai": "assistant",
    "function": "tool",
}
"""Every spelling of a role that is taken, and its canonical one."""

MAX_FLAWS = 20
MAX_DEPTH = 64
MAX_METADATA_BYTES = 16 * 1024

_ROLE_FLAW = "must be one of user, assistant, tool, system, developer, human, ai, function"
_PREAMBLE_ROLES = frozenset({"system", "developer"})
_CONTENT_ELSEWHERE = ("tool_calls", "function_call", "refusal", "audio")
_MAX_POINTER_NAME = 80
_PART_STRINGS = {
    **dict.fromkeys(TEXT_PART_TYPES, ("text",)),
    "tool_use": ("id", "name"),
    "tool_result": ("tool_use_id",),
}


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages of one save.

    stored:     what is to be stored, in order.
    indexes:    for each of `stored`, its index in the list as sent, from 0.
    ignored:    {index, role, reason} of the others; reason: injected, preamble, ephemeral, history.
    transcript: a marker stood in the list, so what came before it was history.
    """

    stored: tuple[Body, ...]
    indexes: tuple[int, ...]
    ignored: tuple[Mapping[str, object], ...]
    transcript: bool


def parse_message(value: object, pointer: str) -> Body:
    """Check one message and return it with its role in canonical spelling, all else as it was.

    Errors: InvalidPayload with up to 20 flaws, each naming its place below pointer.
    """
    return _parsed([value], _message_flaws(value, pointer))[0]


def parse_messages(values: object, pointer: str) -> tuple[Body, ...]:
    """Check a list of messages, which may be empty. Errors: InvalidPayload with up to 20 flaws."""
    if not isinstance(values, list):
        raise InvalidPayload((Flaw(pointer, "must be an array of messages"),))
    flaws = (_message_flaws(value, f"{pointer}/{index}") for index, value in enumerate(values))
    return _parsed(values, chain.from_iterable(flaws))


def parse_batch(values: object, pointer: str) -> Batch:
    """Check the messages of a save and set aside what is never stored.

    Errors: InvalidPayload with up to 20 flaws, one of them for a list without a message.
    """
    if values == []:
        raise InvalidPayload((Flaw(pointer, "must hold at least one message"),))
    return split_preamble(parse_messages(values, pointer))


def parse_metadata(value: object, pointer: str = "#/metadata") -> Body:
    """Check the metadata of a turn or a thread; null is none.

    Units:  at most 16 KiB as canonical JSON.
    Errors: InvalidPayload with up to 20 flaws; NUL is one, since jsonb cannot hold it.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidPayload((Flaw(pointer, "must be an object"),))
    _refuse(_value_flaws(value, pointer))
    _refuse(_nul_flaws(value, pointer))
    if len(canonical(value)) > MAX_METADATA_BYTES:
        detail = f"must be at most {MAX_METADATA_BYTES} bytes of JSON"
        raise InvalidPayload((Flaw(pointer, detail),))
    return value


def split_preamble(bodies: Sequence[Body]) -> Batch:
    """Set aside what is never stored: injected and system messages, ephemeral ones, and history.

    Shape: history is what stands before the last structural marker, if there is one.
    """
    markers = [index for index, body in enumerate(bodies) if _is_marker(body)]
    start = markers[-1] if markers else 0
    reasons = [_reason(body, before=index < start) for index, body in enumerate(bodies)]
    indexes = tuple(index for index, reason in enumerate(reasons) if not reason)
    return Batch(
        stored=tuple(bodies[index] for index in indexes),
        indexes=indexes,
        ignored=tuple(
            {"index": index, "role": bodies[index]["role"], "reason": reason}
            for index, reason in enumerate(reasons)
            if reason
        ),
        transcript=bool(markers),
    )


def _is_marker(body: Body) -> bool:
    return is_injected(body) and body["name"] == MARKER_NAME


def _reason(body: Body, *, before: bool) -> str:
    if is_injected(body):
        return "injected"
    if body["role"] in _PREAMBLE_ROLES:
        return "preamble"
    if body.get("ephemeral") is True:
        return "ephemeral"
    return "history" if before else ""


def _parsed(values: Sequence[object], flaws: Iterator[Flaw]) -> tuple[Body, ...]:
    _refuse(flaws)
    return tuple(
        {**value, "role": ROLES[value["role"]]} for value in values if isinstance(value, dict)
    )


def _refuse(flaws: Iterable[Flaw]) -> None:
    if found := tuple(islice(flaws, MAX_FLAWS)):
        raise InvalidPayload(found)


def _message_flaws(value: object, pointer: str) -> Iterator[Flaw]:
    if not isinstance(value, dict):
        yield Flaw(pointer, "must be an object with role and content")
        return
    yield from _value_flaws(value, pointer)
    spelling = value.get("role")
    role = ROLES.get(spelling) if isinstance(spelling, str) else None
    if role is None:
        yield Flaw(f"{pointer}/role", _ROLE_FLAW)
        return
    yield from _content_flaws(value, role, f"{pointer}/content")
    yield from _string_flaws(value, ("name", "tool_call_id", "refusal"), pointer, optional=True)
    yield from _call_flaws(value, role, pointer)
    if role == "tool" and value.get("tool_call_id") is None and value.get("name") is None:
        yield Flaw(f"{pointer}/tool_call_id", "must name the call that this result answers")


def _content_flaws(body: Mapping[str, object], role: str, pointer: str) -> Iterator[Flaw]:
    content = body.get("content")
    if isinstance(content, str):
        return
    if content is None:
        if role != "assistant" or not any(body.get(member) for member in _CONTENT_ELSEWHERE):
            yield Flaw(pointer, "must be there, but for an assistant message that calls tools")
    elif not isinstance(content, list) or not content:
        yield Flaw(pointer, "must be a string or a non-empty array of parts")
    else:
        for index, part in enumerate(content):
            yield from _part_flaws(part, f"{pointer}/{index}")


def _part_flaws(part: object, pointer: str) -> Iterator[Flaw]:
    if isinstance(part, str):
        return
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        yield Flaw(pointer, "must be a string or an object with a string 'type'")
        return
    yield from _string_flaws(part, _PART_STRINGS.get(part["type"], ()), pointer)


def _call_flaws(body: Mapping[str, object], role: str, pointer: str) -> Iterator[Flaw]:
    legacy = body.get("function_call")
    if legacy is not None:
        yield from _named_flaws(legacy, "arguments", f"{pointer}/function_call")
    calls = body.get("tool_calls")
    pointer = f"{pointer}/tool_calls"
    if calls is None:
        return
    if not isinstance(calls, list):
        yield Flaw(pointer, "must be an array of calls")
    elif calls and role != "assistant":
        yield Flaw(pointer, "must be left out: only an assistant message calls tools")
    else:
        for index, call in enumerate(calls):
            yield from _one_call_flaws(call, f"{pointer}/{index}")


def _one_call_flaws(call: object, pointer: str) -> Iterator[Flaw]:
    if not isinstance(call, dict):
        yield Flaw(pointer, "must be an object")
        return
    yield from _string_flaws(call, ("id",), pointer, optional=True)
    if call.get("function") is not None:
        yield from _named_flaws(call["function"], "arguments", f"{pointer}/function")
    elif call.get("custom") is not None:
        yield from _named_flaws(call["custom"], "input", f"{pointer}/custom")
    elif not isinstance(call.get("name"), str) or not isinstance(call.get("args"), dict):
        yield Flaw(pointer, "must have 'function' or 'custom' (or LangChain's 'name' and 'args')")


def _named_flaws(value: object, text: str, pointer: str) -> Iterator[Flaw]:
    if isinstance(value, dict):
        yield from _string_flaws(value, ("name", text), pointer)
    else:
        yield Flaw(pointer, "must be an object")


def _string_flaws(
    value: Mapping[str, object], members: Iterable[str], pointer: str, *, optional: bool = False
) -> Iterator[Flaw]:
    for member in members:
        found = value.get(member)
        if not isinstance(found, str) and not (optional and found is None):
            yield Flaw(f"{pointer}/{member}", "must be a string")


def _value_flaws(value: object, pointer: str, depth: int = 1) -> Iterator[Flaw]:
    if not isinstance(value, dict | list):
        if detail := _scalar_flaw(value):
            yield Flaw(pointer, detail)
    elif depth > MAX_DEPTH:
        yield Flaw(pointer, f"must not be nested deeper than {MAX_DEPTH} levels")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _value_flaws(item, f"{pointer}/{index}", depth + 1)
    else:
        for name, member in value.items():
            below = f"{pointer}/{_escape(name)}"
            if detail := _scalar_flaw(name):
                yield Flaw(below, f"{detail}, in a member's name too")
            yield from _value_flaws(member, below, depth + 1)


def _scalar_flaw(value: object) -> str:
    if isinstance(value, str):
        return "" if _is_unicode(value) else "must not hold half a surrogate pair"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "must be a finite number"
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return "must fit into 64 bits; send longer integers as strings"
    return ""


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _nul_flaws(value: object, pointer: str) -> Iterator[Flaw]:
    if isinstance(value, str):
        if "\0" in value:
            yield Flaw(pointer, "must not hold NUL")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _nul_flaws(item, f"{pointer}/{index}")
    elif isinstance(value, dict):
        for name, member in value.items():
            below = f"{pointer}/{_escape(name)}"
            yield from _nul_flaws(name, below)
            yield from _nul_flaws(member, below)


def _escape(name: str) -> str:
    """RFC 6901, kept short and writable: the name of a bad member may itself be what is bad."""
    shown = name[:_MAX_POINTER_NAME].encode(errors="replace").decode()
    return shown.replace("~", "~0").replace("/", "~1")
