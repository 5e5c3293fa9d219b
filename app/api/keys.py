"""A turn's key, which comes in the body or as a header."""

from starlette.requests import Request

from app.api.validation import checked_name
from app.core.errors import Flaw, InvalidPayload

KEY_HEADER = "Idempotency-Key"

KEY_PARAMETER = {
    "name": KEY_HEADER,
    "in": "header",
    "required": False,
    "description": "The turn's `key`, as a header; both and different is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}


def key_header(request: Request) -> str | None:
    """Return the key as sent; clients put UTF-8 into headers, which arrive decoded as Latin-1."""
    sent = request.headers.get(KEY_HEADER)
    if sent is None:
        return None
    try:
        return sent.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return sent


def agreed_key(in_body: str | None, in_header: str | None) -> str | None:
    """Return the one key that was sent. Errors: InvalidPayload when there are two."""
    keys = {key for key in (in_body, in_header) if key is not None}
    if len(keys) > 1:
        raise InvalidPayload(
            [Flaw("#/key", f"must equal the {KEY_HEADER} header, if both are sent")]
        )
    return checked_name(keys.pop() if keys else None, "#/key")
