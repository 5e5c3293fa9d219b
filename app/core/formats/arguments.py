"""A call's id and arguments, in the spelling that a format takes."""

import json
import re
from collections.abc import Mapping
from hashlib import sha256

from app.core.dialects.neutral import Call
from app.core.model import Body

RAW_ARGUMENTS = "threadkeep_arguments"
"""The one member of the object that stands for arguments which are no JSON object."""

_MAX_DEPTH = 64
_MAX_INTEGER = 2**63
_UNSENDABLE = re.compile("[\ud800-\udfff]")
_HASH_LENGTH = 16


def fit_id(call_id: str, *, allowed: re.Pattern[str], longest: int | None = None) -> str:
    """Return the id, or where a provider would refuse it one made from it, always the same.

    Shape: allowed letters of the id, then 16 hex of its SHA-256.
    """
    if allowed.fullmatch(call_id) and (longest is None or len(call_id) <= longest):
        return call_id
    room = (longest or 64) - _HASH_LENGTH - 1
    letters = re.sub(r"[^a-zA-Z0-9_-]", "_", call_id)[:room] or "call"
    return f"{letters}_{sha256(call_id.encode()).hexdigest()[:_HASH_LENGTH]}"


def as_object(call: Call) -> tuple[Body, bool]:
    """Return the arguments as an object, and whether they had to be wrapped in one.

    Shape: no arguments at all are an empty object. Wrapped is a custom tool's text, and what is no
        JSON object: broken JSON, or values that could not be written again.
    """
    if not call.custom:
        if not call.arguments.strip():
            return {}, False
        parsed = _parse(call.arguments)
        if parsed is not None:
            return parsed, False
    return {RAW_ARGUMENTS: call.arguments}, True


def as_text(call: Call) -> str:
    """Return the arguments as text, unwrapped if they had been wrapped."""
    if not call.custom and RAW_ARGUMENTS in call.arguments:
        parsed = _parse(call.arguments)
        if parsed is not None and parsed.keys() == {RAW_ARGUMENTS}:
            return str(parsed[RAW_ARGUMENTS])
    return call.arguments


def _parse(text: str) -> Body | None:
    try:
        value = json.loads(text, parse_int=_integer, parse_float=_fraction, parse_constant=_refuse)
        if isinstance(value, dict) and _depth(value) <= _MAX_DEPTH:
            return None if _UNSENDABLE.search(json.dumps(value, ensure_ascii=False)) else value
    except (ValueError, RecursionError):
        pass
    return None


def _integer(digits: str) -> int:
    value = int(digits)
    if not -_MAX_INTEGER <= value < _MAX_INTEGER:
        raise ValueError("would come back rounded")
    return value


def _fraction(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError("is too large")
    return value


def _refuse(name: str) -> object:
    raise ValueError(f"{name} is no JSON")


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [inner for outer in level for inner in _children(outer)]
    return depth


def _children(value: object) -> list[object]:
    if isinstance(value, Mapping):
        return list(value.values())
    return value if isinstance(value, list) else []
