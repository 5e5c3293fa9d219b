"""Request bodies: what is strict JSON, and what is said of what is not."""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeAlias

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.types import Message

from app.api.body import MAX_DEPTH, parse_json, parse_object, pointer_of, read_body, require_json
from app.core.errors import InvalidPayload, PayloadTooLarge, UnsupportedMediaType

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JSON: st.SearchStrategy[Json] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda below: st.lists(below) | st.dictionaries(st.text("abc\x00é😀"), below),
)

FLAWED = [
    (b'{"a":{"s":NaN}}', "#/a/s", "NaN"),
    (b'{"a":[1,-Infinity]}', "#/a/1", "NaN"),
    (b'{"budget":1e999}', "#/budget", "double"),
    (b'{"messages":[{"content":"hi \\ud83d"}]}', "#/messages/0/content", "surrogate"),
    (b'{"messages":[{"content":"\\ude00 x"}]}', "#/messages/0/content", "surrogate"),
    (b'{"a":{"\\udfff":1}}', "#/a", "surrogate"),
    (b'{"n":18446744073709551616}', "#/n", "64 bits"),
    (b'{"n":[0,-9223372036854775809]}', "#/n/1", "64 bits"),
    (b'{"n":' + b"9" * 5000 + b"}", "#/n", "64 bits"),
    (b'{"a":"\xff"}', "#", "UTF-8"),
    ('{"a":"é"}'.encode("utf-16"), "#", "UTF-8"),
    (b'{"a":"\xed\xa0\x80"}', "#", "UTF-8"),
    (b'\xef\xbb\xbf{"a":1}', "#", "byte order mark"),
    (b"", "#", "empty"),
    (b" \n", "#", "empty"),
    (b'{"a":"b', "#", "cut off: it ends at byte 7"),
    (b'{"a":[1,', "#", "cut off: it ends at byte 8"),
    ('{"é":1,}'.encode(), "#", "byte 8"),
    (b'{"a":1}}', "#", "byte 7"),
    (b'{"a":"\x01"}', "#", "byte 6"),
    (b"[" * 100_000, "#", "nested"),
    (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), "#", "nested"),
]


@given(JSON)
def test_all_json_is_read(value: Json) -> None:
    """Whatever JSON can say within 64 bits comes back as it was said."""
    assert value == parse_json(json.dumps(value).encode())


@given(st.binary())
def test_never_anything_but_a_flaw(body: bytes) -> None:
    """Any bytes are read or refused as a payload; what is read can be written again."""
    with suppress(InvalidPayload):
        orjson.dumps(parse_json(body))


@pytest.mark.parametrize(("body", "pointer", "said"), FLAWED)
def test_flaw_is_named(body: bytes, pointer: str, said: str) -> None:
    """A refused body's flaw says where it is and what it is."""
    with pytest.raises(InvalidPayload) as caught:
        parse_json(body)

    [flaw] = caught.value.flaws
    assert pointer == flaw.pointer
    assert said in flaw.detail


def test_flaws_are_bounded() -> None:
    """A body with a thousand flaws is answered with the first twenty."""
    with pytest.raises(InvalidPayload) as caught:
        parse_json(b"[" + b",".join([b"NaN"] * 1000) + b"]")

    assert len(caught.value.flaws) == 20


def test_deepest_allowed() -> None:
    """A body of the deepest nesting allowed is read, brackets inside strings not counted."""
    body = b"[" * MAX_DEPTH + b'"[[[["' + b"]" * MAX_DEPTH

    assert body == orjson.dumps(parse_json(body))


def test_wide_but_flat() -> None:
    """Any number of objects side by side is no nesting."""
    assert len(parse_json(b"[" + b",".join([b'{"a":[{}]}'] * 500) + b"]")) == 500  # type: ignore[arg-type]


def test_surrogate_pair_is_one_character() -> None:
    """Two escapes that form a pair are one character, not two broken ones."""
    assert parse_json(b'{"content":"cheers \\ud83c\\udf78"}') == {"content": "cheers 🍸"}


def test_long_digits_in_strings() -> None:
    """Digits in a string are text however many they are, and a long fraction is a number."""
    body = (
        b'{"id":"12345678901234567890123","x":0.12345678901234567890123,"n":18446744073709551615}'
    )

    assert orjson.loads(body) == parse_json(body)


@pytest.mark.parametrize("extra", [b"", b',"n":"9999999999999999999999"'])
def test_last_of_equal_keys_counts(extra: bytes) -> None:
    """The last of two equal keys counts, whichever parser has looked at the body."""
    assert parse_json(b'{"thread_id":"t1","thread_id":"t2"' + extra + b"}")["thread_id"] == "t2"  # type: ignore[index]


def test_pointer_stops_at_private_keys() -> None:
    """A pointer never repeats a key that is not a plain name: it could be what somebody wrote."""
    assert pointer_of(("messages", 0, "metadata", "my code: 77", "x")) == "#/messages/0/metadata"


pytestmark = pytest.mark.anyio


def request_with(*chunks: bytes, **headers: str) -> Request:
    """A request whose body arrives in these chunks."""
    messages: Iterator[Message] = iter(
        {"type": "http.request", "body": chunk, "more_body": index < len(chunks) - 1}
        for index, chunk in enumerate(chunks)
    )

    async def receive() -> Message:
        return next(messages)

    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "path": "/", "headers": sent}, receive)


async def test_body_in_chunks() -> None:
    """A body is the same in one chunk or in many, up to the limit itself."""
    assert await read_body(request_with(b"a", b"", b"bc"), max_bytes=3) == b"abc"


@pytest.mark.parametrize(
    "request_", [request_with(b"ab", b"cd"), request_with(content_length="4")], ids=["read", "told"]
)
async def test_body_over_the_limit(request_: Request) -> None:
    """A body over the limit is refused as it grows, or unread when its length is announced."""
    with pytest.raises(PayloadTooLarge) as caught:
        await read_body(request_, max_bytes=3)

    assert "3 bytes" in caught.value.detail


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content_type": "application/json"},
        {"content_type": "Application/JSON; charset=utf-8", "origin": "http://localhost"},
        {"content_type": "application/vnd.api+json"},
    ],
)
def test_json_is_taken(headers: dict[str, str]) -> None:
    """JSON is taken under any JSON type, and without a type."""
    require_json(request_with(b'{"a":1}', **headers))


@pytest.mark.parametrize(
    "headers",
    [
        {"content_type": "text/plain"},
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "application/json", "content_encoding": "gzip"},
        {"origin": "http://evil.example"},
    ],
)
def test_what_a_browser_sends_unasked_is_refused(headers: dict[str, str]) -> None:
    """A body that is not declared as JSON is refused: a foreign web page could have sent it."""
    with pytest.raises(UnsupportedMediaType):
        require_json(request_with(b'{"a":1}', **headers))


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"null", b"1"])
def test_only_objects(body: bytes) -> None:
    """A request's JSON is an object."""
    with pytest.raises(InvalidPayload, match="object"):
        parse_object(body)
