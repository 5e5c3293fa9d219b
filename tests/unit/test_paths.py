"""Thread ids in paths: decoded once, checked the same way everywhere."""

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.paths import SegmentConvertor, check_thread_id, decode_segment, raw_path
from app.core.errors import InvalidPayload

ALLOWED = [
    "a/b",
    "a%2Fb",
    "../x",
    "a?b#c",
    "a b",
    "\u00e9",
    "e\u0301",
    "日本/東京",
    "😀",
    "con",
    "null",
    "0",
    "-1",
    "\u202etxt",
    "\u2028",
    "x" * 255,
    "😀" * 255,
]
REFUSED = ["", "x" * 256, "a\nb", "a\0b", "\x7f", "\x85", "\ud800", ".", ".."]
THREAD_IDS = st.text(
    st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=255
).filter(lambda thread_id: thread_id not in {".", ".."})


@given(THREAD_IDS)
def test_round_trip(thread_id: str) -> None:
    """An id sent as one escaped segment comes back as itself, through routing and one decoding."""
    sent = f"/v1/threads/{quote(thread_id, safe='')}/turns"

    path = raw_path({"path": "unused", "raw_path": sent.encode()})
    match = re.fullmatch(f"/v1/threads/({SegmentConvertor.regex})/turns", path)

    assert match is not None
    assert thread_id == check_thread_id(decode_segment(match[1]))


@pytest.mark.parametrize("thread_id", ALLOWED)
def test_allowed(thread_id: str) -> None:
    """Any 1 to 255 characters name a thread, slashes and direction marks included."""
    assert thread_id == check_thread_id(thread_id)


@pytest.mark.parametrize("thread_id", REFUSED, ids=ascii)
def test_refused(thread_id: str) -> None:
    """Empty and long ids, control characters, surrogates and dot segments are flaws of the id."""
    with pytest.raises(InvalidPayload) as caught:
        check_thread_id(thread_id)

    assert [flaw.pointer for flaw in caught.value.flaws] == ["#/thread_id"]


@pytest.mark.parametrize("segment", ["%", "a%2", "%zz", "%ff", "%ED%A0%80", "%C3"])
def test_broken_segment(segment: str) -> None:
    """A broken escape and bytes that are not UTF-8 are refused, never read as some other id."""
    with pytest.raises(InvalidPayload):
        decode_segment(segment)


def test_decoded_once() -> None:
    """`a%252Fb` is the thread `a%2Fb`, not `a/b`."""
    assert decode_segment("a%252Fb") == "a%2Fb"


def test_static_words_are_compared_decoded() -> None:
    """Escapes of unreserved characters mean the character; all others stay until the id is read."""
    scope = {"path": "unused", "raw_path": b"/v1/%74hreads/%7e%2fb%252F%e9"}

    assert raw_path(scope) == "/v1/threads/~%2fb%252F%e9"


def test_server_without_raw_path() -> None:
    """A server that hands over the decoded path only is served from that."""
    assert raw_path({"path": "/v1/threads/a%b/é"}) == "/v1/threads/a%25b/%C3%A9"
