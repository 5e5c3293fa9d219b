"""Request bodies: read with a limit, parsed as strict JSON, and their flaws named for the sender.

orjson parses; only a body it refuses, or one that may hold an integer it would round, is looked at
again with the standard library, which takes more and so can say where the flaw is. Of two equal
keys the last one counts in both. Nothing of the body's values ever enters an error.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

import orjson
from starlette.requests import Request

from app.core.errors import Flaw, InvalidPayload, PayloadTooLarge, UnsupportedMediaType

MAX_DEPTH: Final = 100
"""Levels of arrays and objects. orjson writes at most 254; an answer wraps a message in a few."""
MAX_FLAWS: Final = 20

_DIGITS_ONLY = bytes(ord("0" if chr(byte) in "0123456789" else " ") for byte in range(256))
_LONG_NUMBER = b"0" * 19
_MAX_DIGITS = 20
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.-]{1,64}")

Path = tuple[str | int, ...]


def parse_object(body: bytes) -> dict[str, object]:
    """Parse a body, which must be a JSON object. Errors: InvalidPayload, see parse_json."""
    parsed = parse_json(body)
    if not isinstance(parsed, dict):
        raise InvalidPayload([Flaw("#", "must be a JSON object")])
    return parsed


def require_json(request: Request) -> None:
    """Refuse a body that is declared as something else than JSON.

    `*/json` and `*/*+json` are JSON whatever their parameters; a missing type is taken for JSON,
    except from a browser (it sends `Origin`), which may send any site's typeless bodies here
    without asking first.
    Errors: UnsupportedMediaType, for a compressed body too.
    """
    headers = request.headers
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise UnsupportedMediaType("Send the body uncompressed, without Content-Encoding.")
    if kind.endswith(("/json", "+json")) or (not kind and "origin" not in headers):
        return
    raise UnsupportedMediaType("Send the body as Content-Type: application/json.")


async def read_body(request: Request, *, max_bytes: int) -> bytes:
    """Read the whole body. Errors: PayloadTooLarge, before reading when Content-Length says so."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > max_bytes:
        raise _too_large(max_bytes)
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes)
        chunks.append(chunk)
    return b"".join(chunks)


def parse_json(body: bytes) -> object:
    """Parse strict JSON (RFC 8259, UTF-8).

    Refused beyond the grammar: NaN and infinities, lone surrogates, more than MAX_DEPTH levels, and
    integers beyond 64 bits, which would come back rounded.   Errors: InvalidPayload.
    """
    try:
        parsed: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidPayload(_diagnose(body) or [_broken_at(body, error)]) from None
    if _LONG_NUMBER in body.translate(_DIGITS_ONLY) and (flaws := _diagnose(body)):
        raise InvalidPayload(flaws)
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _is_deep(parsed):
        raise InvalidPayload([_TOO_DEEP])
    return parsed


def pointer_of(path: Path) -> str:
    """Return the JSON pointer of a path, as a URI fragment: '#/messages/0/role'.

    It ends before the first key that is not a plain name, since a key can be private text like any
    value; it then names the object that holds the flaw.   Source: RFC 6901, section 6.
    """
    pointer = "#"
    for step in path:
        if isinstance(step, str) and not _PLAIN_KEY.fullmatch(step):
            break
        pointer += f"/{step}"
    return pointer


_TOO_DEEP = Flaw("#", f"is nested deeper than {MAX_DEPTH} levels")


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body may have at most {max_bytes} bytes.", max_bytes=max_bytes)


def _is_deep(parsed: object) -> bool:
    level: list[object] = [parsed]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for node in level
            for child in (node.values() if isinstance(node, dict) else _items(node))
            if isinstance(child, (dict, list))
        ]
        if not level:
            return False
    return True


def _items(node: object) -> list[object]:
    return node if isinstance(node, list) else []


def _diagnose(body: bytes) -> list[Flaw]:
    """Say what is wrong with a body as the standard library sees it; nothing if it takes it."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        return [Flaw("#", f"is not UTF-8: byte {error.start} does not fit")]
    if not text.strip():
        return [Flaw("#", "is empty; a JSON object is needed")]
    if text.startswith("\ufeff"):
        return [Flaw("#", "begins with a byte order mark, which JSON does not allow")]
    if _brackets_go_deep(body):
        return [_TOO_DEEP]
    try:
        parsed = json.loads(
            text, parse_constant=_constant, parse_int=_parse_int, parse_float=_parse_float
        )
    except json.JSONDecodeError as error:
        return [_broken_at(body, error)]
    return list(islice(_odd_values(parsed, ()), MAX_FLAWS))


def _broken_at(body: bytes, error: json.JSONDecodeError) -> Flaw:
    text = body.decode("utf-8", "replace")
    rest = text[error.pos :]
    if not rest.strip() or error.msg.startswith("Unterminated string"):
        return Flaw("#", f"is cut off: it ends at byte {len(body)} in the middle of a value")
    return Flaw("#", f"is not valid JSON at byte {len(text[: error.pos].encode())}")


def _brackets_go_deep(body: bytes) -> bool:
    depth = 0
    for byte in _STRING.sub(b"", body):
        if byte in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif byte in b"]}":
            depth -= 1
    return False


class _Odd:
    """Stands for a number that JSON, or 64 bits, cannot hold."""

    def __init__(self, detail: str) -> None:
        self.detail = detail


def _constant(_: str) -> _Odd:
    return _Odd("NaN and Infinity are not JSON")


def _parse_int(digits: str) -> int | _Odd:
    if len(digits) <= _MAX_DIGITS and -(2**63) <= (value := int(digits)) < 2**64:
        return value
    return _Odd("does not fit into 64 bits; send such a number as a string")


def _parse_float(text: str) -> float | _Odd:
    value = float(text)
    return value if abs(value) != float("inf") else _Odd("is larger than a double can hold")


def _odd_values(node: object, path: Path) -> Iterator[Flaw]:
    """Yield a flaw for every number and string that cannot be stored as it is."""
    if isinstance(node, _Odd):
        yield Flaw(pointer_of(path), node.detail)
    elif isinstance(node, str) and _SURROGATE.search(node):
        yield Flaw(pointer_of(path), "holds a lone surrogate, half of a character")
    elif isinstance(node, dict):
        yield from _odd_members(node, path)
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from _odd_values(item, (*path, index))


def _odd_members(node: Mapping[str, object], path: Path) -> Iterator[Flaw]:
    for key, value in node.items():
        if _SURROGATE.search(key):
            yield Flaw(pointer_of(path), "holds a member whose name has a lone surrogate")
        yield from _odd_values(value, (*path, key))
