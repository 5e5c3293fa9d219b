"""Thread ids in paths: one percent-encoded segment, decoded exactly once.

ASGI servers hand over a path that is decoded already, in which the id `a/b` (sent as `a%2Fb`) looks
like two segments. So routing works on the path as sent, and the id is decoded and checked after it.
"""

import re
import unicodedata
from urllib.parse import quote, unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.core.errors import Flaw, InvalidPayload

MAX_ID_LENGTH = 255
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_UNRESERVED = {
    f"%{ord(char):02X}": char
    for char in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
}
_DOT_SEGMENTS = frozenset({".", ".."})


class SegmentConvertor(Convertor[str]):
    """One path segment, maybe empty: an empty id is a bad id (422), not an unknown path (404)."""

    regex = "[^/]*"

    def convert(self, value: str) -> str:
        """Return the segment as sent."""
        return value

    def to_string(self, value: str) -> str:
        """Return the segment for a path."""
        return quote(value, safe="")


register_url_convertor("segment", SegmentConvertor())


class RawPath:
    """ASGI middleware that makes the router match the path as it was sent.

    Escapes of unreserved characters are undone first (they never change what a path means), so that
    `/v1/%74hreads` is still `/v1/threads`.   Source: RFC 3986, section 6.2.2.2.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Replace the decoded path in place: the access log reads the route from this scope."""
        if scope["type"] == "http":
            scope["path"] = raw_path(scope)
        await self.app(scope, receive, send)


def raw_path(scope: Scope) -> str:
    """Return the path of the request as sent, escapes kept but for unreserved characters."""
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if raw is not None else quote(scope["path"])
    if "%" not in path:
        return path
    return _ESCAPE.sub(lambda escape: _UNRESERVED.get(escape[0].upper(), escape[0]), path)


def path_thread_id(request: Request) -> str:
    """Return the thread id of the request's path. Errors: InvalidPayload."""
    return check_thread_id(decode_segment(request.path_params["thread_id"]))


def path_name(request: Request, name: str) -> str:
    """Return another name of the request's path; the rule of thread ids. Errors: InvalidPayload."""
    pointer = f"#/{name}"
    return check_thread_id(decode_segment(request.path_params[name], pointer), pointer)


def decode_segment(raw: str, pointer: str = "#/thread_id") -> str:
    """Decode one path segment, once. Errors: InvalidPayload: a broken escape, not UTF-8."""
    if _BROKEN_ESCAPE.search(raw):
        raise _bad_id(pointer, "holds a % that does not begin an escape such as %2F")
    try:
        return unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise _bad_id(pointer, "is not UTF-8 once its escapes are decoded") from None


def check_thread_id(thread_id: str, pointer: str = "#/thread_id") -> str:
    """Return the id if it may name a thread.

    Units:   1 to 255 characters (code points), no control characters, no lone surrogates. Not `.`
             or `..`: URL libraries fold such a segment away, escaped or not, so no route could
             reach the thread.
    Errors:  InvalidPayload.
    """
    return check_name(thread_id, pointer, unusable=_DOT_SEGMENTS)


def check_name(name: str, pointer: str, *, unusable: frozenset[str] = frozenset()) -> str:
    """Return a name that can be stored and compared, as check_thread_id does for ids."""
    if not 1 <= len(name) <= MAX_ID_LENGTH:
        raise _bad_id(pointer, f"must have 1 to {MAX_ID_LENGTH} characters")
    if not name.isprintable() and any(unicodedata.category(char) in {"Cc", "Cs"} for char in name):
        raise _bad_id(pointer, "must not hold control characters or lone surrogates")
    if name in unusable:
        raise _bad_id(pointer, "must not be . or .., which URLs cannot carry as a segment")
    return name


def _bad_id(pointer: str, detail: str) -> InvalidPayload:
    return InvalidPayload([Flaw(pointer, detail)])
