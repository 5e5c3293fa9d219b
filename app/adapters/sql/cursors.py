"""Opaque cursors of lists: the values that a page ended at, sealed as one URL-safe text."""

import base64
from collections.abc import Callable
from typing import TypeVar

import orjson

from app.core.errors import Flaw, InvalidPayload

T = TypeVar("T")


def sealed(*values: object) -> str:
    """Return the cursor that holds these values."""
    return base64.urlsafe_b64encode(orjson.dumps(values)).decode().rstrip("=")


def opened(cursor: str, read: Callable[..., T]) -> T:
    """Return what `read` makes of a cursor's values. Errors: InvalidPayload.

    read: raises ValueError or TypeError for values that no cursor of this list holds.
    """
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return read(*orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True)))
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidPayload([Flaw("#/cursor", "is not a cursor of this list")]) from error


def storable(text: str) -> str:
    """Return the text. Errors: ValueError where PostgreSQL would not take it."""
    if "\0" in text:
        raise ValueError(text)
    text.encode()
    return text
