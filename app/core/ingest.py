"""From parsed JSON to message bodies: what is taken, what is refused, what is never stored.

A flaw's text never repeats what was sent: it ends up in answers and logs.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from app.core.dialects.checking import message_flaws
from app.core.dialects.neutral import Dialect
from app.core.dialects.recognise import recognise, sign_of
from app.core.dialects.roles import ROLES
from app.core.digest import canonical
from app.core.errors import Flaw, InvalidPayload
from app.core.injected import injected_name, take_out
from app.core.messages import INJECTED_NAMES, MARKER_NAME, role_of
from app.core.model import Body

MAX_FLAWS = 20
MAX_DEPTH = 64
MAX_METADATA_BYTES = 16 * 1024

_PREAMBLE_ROLES = frozenset({"system", "developer"})
_MAX_POINTER_NAME = 80


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages of one save.

    stored:     what is to be stored, in order.
    indexes:    for each of `stored`, its index in the list as sent, from 0.
    ignored:    {index, role, reason} of the others; reason: injected, preamble, ephemeral, history.
    transcript: a marker stood in the list, so what came before it was history.
    dialect:    how the messages are written.
    """

    stored: tuple[Body, ...]
    indexes: tuple[int, ...]
    ignored: tuple[Mapping[str, object], ...]
    transcript: bool
    dialect: Dialect = "openai"


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


def parse_batch(values: object, pointer: str, dialect: Dialect | None = None) -> Batch:
    """Check the messages of a save and set aside what is never stored.

    Shape:  dialect is the one that the caller names; None: told from the messages.
    Errors: InvalidPayload with up to 20 flaws, one of them for a list without a message, and one
        for each message that is in another dialect than the rest or the one named.
    """
    if values == []:
        raise InvalidPayload((Flaw(pointer, "must hold at least one message"),))
    bodies = parse_messages(values, pointer)
    named = dialect or recognise(bodies)
    _refuse(_dialect_flaws(bodies, pointer, named, strict=dialect is not None))
    return replace(split_preamble(bodies), dialect=named)


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

    Shape: history is what stands before the last structural marker, if there is one; a user's
        message of parts loses those that a load put into it.
    """
    cleaned = [take_out(body) for body in bodies]
    markers = [
        index
        for index, (_, marked) in enumerate(cleaned)
        if marked or injected_name(bodies[index]) == MARKER_NAME
    ]
    start = markers[-1] if markers else 0
    left = [body for body, _ in cleaned]
    reasons = [_reason(body, before=index < start) for index, body in enumerate(left)]
    return Batch(
        stored=tuple(b for b, reason in zip(left, reasons, strict=True) if b and not reason),
        indexes=tuple(index for index, reason in enumerate(reasons) if not reason),
        ignored=tuple(
            {"index": index, "role": role_of(bodies[index]), "reason": reason}
            for index, reason in enumerate(reasons)
            if reason
        ),
        transcript=bool(markers),
    )


def _reason(body: Body | None, *, before: bool) -> str:
    if body is None or injected_name(body):
        return "injected"
    if role_of(body) in _PREAMBLE_ROLES:
        return "preamble"
    if body.get("ephemeral") is True:
        return "ephemeral"
    return "history" if before else ""


def _dialect_flaws(
    bodies: Sequence[Body], pointer: str, dialect: Dialect, *, strict: bool
) -> Iterator[Flaw]:
    """Find what contradicts the dialect; LangChain's messages have nothing in common with others.

    Shape: strict also refuses what only another dialect writes, which else passes as it is.
    """
    for index, body in enumerate(bodies):
        sign = sign_of(body)
        wrapped = (sign == "langchain") != (dialect == "langchain")
        if wrapped or (strict and sign not in (None, dialect)):
            yield Flaw(f"{pointer}/{index}", f"must be written in the {dialect} dialect")


def _parsed(values: Sequence[object], flaws: Iterator[Flaw]) -> tuple[Body, ...]:
    _refuse(flaws)
    return tuple(_canonical(value) for value in values if isinstance(value, dict))


def _canonical(value: Body) -> Body:
    role = value.get("role")
    return {**value, "role": ROLES[role]} if isinstance(role, str) else value


def _refuse(flaws: Iterable[Flaw]) -> None:
    if found := tuple(islice(flaws, MAX_FLAWS)):
        raise InvalidPayload(found)


def _message_flaws(value: object, pointer: str) -> Iterator[Flaw]:
    if not isinstance(value, dict):
        yield Flaw(pointer, "must be an object with role and content")
        return
    yield from _value_flaws(value, pointer)
    yield from message_flaws(value, pointer)
    name = value.get("name")
    if isinstance(name, str) and name in INJECTED_NAMES and role_of(value) not in _PREAMBLE_ROLES:
        # Whoever looks for the marker by its name must find no second one.
        yield Flaw(f"{pointer}/name", "is reserved for what a load puts in")


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
