"""Shortened texts: within the limit, visibly, and cut where a reader would cut."""

import itertools
import time

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from app.core.ports import Count
from app.core.shorten import NOTICE, cluster_end, shorten
from tests.unit.strategies import counters, o200k, texts, thirds, unhurried, words

NOTICE_FORM = regex.compile(regex.escape(NOTICE).replace(r"\{left_out\}", r"(?<left_out>\d+)"))
CASE = "ab👩‍👩‍👧‍👦cd🏴󠁧󠁢󠁳󠁣󠁴󠁿éf🇵🇹g" * 2


def clusters(text: str) -> list[str]:
    return regex.findall(r"\X", text)


def kept_of(text: str, short: str) -> tuple[str, str]:
    """The beginning and the end of the text that a shortened one shows."""
    if short == text:
        return text, ""
    notice = NOTICE_FORM.search(short)
    if not notice:
        assert short == "…"
        return "", ""
    head, tail = short[: notice.start()], short[notice.end() :]
    assert int(notice["left_out"]) == len(text) - len(head) - len(tail)
    return head, tail


def test_short_enough_is_left_alone() -> None:
    """A text that fits comes back as it is."""
    assert shorten("one two three", 3, words) == "one two three"


def test_notice_says_how_much_is_gone() -> None:
    """A reader sees that something is missing, how much, and where it is."""
    text = "first " + "word " * 500 + "last"
    short = shorten(text, 60, words)
    head, tail = kept_of(text, short)

    assert head.startswith("first word ")
    assert tail.endswith(" word last")
    assert "characters left out by threadkeep" in short
    assert "one request away" in short


def test_two_thirds_beginning_one_third_end() -> None:
    """What is kept is the beginning and the end, about two to one."""
    text = "".join(f"line {number}\n" for number in range(5000))
    head, tail = kept_of(text, shorten(text, 1000, o200k))

    assert text.startswith(head)
    assert text.endswith(tail)
    assert 1.9 < len(head) / len(tail) < 2.1


def test_trim_grapheme_boundary() -> None:
    """trim-grapheme-boundary: for every limit a prefix, the notice, a suffix; no cluster cut.

    The case speaks of a prefix and the notice; the contract decides, which shortens to head and
    tail. Where only a few tokens are left the tail is empty.
    """
    ends = set(itertools.accumulate(map(len, clusters(CASE)), initial=0))
    for limit in range(1, 61):
        short = shorten(CASE, limit, o200k)
        head, tail = kept_of(CASE, short)

        assert CASE.startswith(head)
        assert CASE.endswith(tail)
        assert {len(head), len(CASE) - len(tail)} <= ends
        assert o200k(short) <= limit
        assert "\ufffd" not in short


def test_limit_below_the_notice() -> None:
    """Too little room for the sentence still leaves a sign that something is missing."""
    assert shorten("word " * 500, 2, words) == "…"


@unhurried
@given(texts, st.integers(1, 200), counters)
def test_never_over_the_limit(text: str, limit: int, count: Count) -> None:
    """Whatever the text and the counter, the limit holds, and no cluster is cut."""
    short = shorten(text, limit, count)

    assert count(short) <= limit
    head, tail = kept_of(text, short)
    shown = len(clusters(head))
    assert clusters(text)[:shown] == clusters(head)
    assert clusters(text)[len(clusters(text)) - len(clusters(tail)) :] == clusters(tail)


@unhurried
@given(texts, st.lists(st.integers(1, 200), min_size=2, max_size=6), counters)
def test_more_room_never_shows_less(text: str, limits: list[int], count: Count) -> None:
    """What a limit shows every higher one shows too, at both ends."""
    long = text * 5
    shown = [kept_of(long, shorten(long, limit, count)) for limit in sorted(limits)]

    for (head, tail), (more_head, more_tail) in itertools.pairwise(shown):
        assert more_head.startswith(head)
        assert more_tail.endswith(tail) or more_head == long


def test_counter_with_a_cliff() -> None:
    """Where no guess comes near the limit the best one found is taken, and it fits."""
    short = shorten("x" * 10**6, 500, lambda text: 1000 if len(text) > 100 else 1)

    assert len(short) <= 100


@unhurried
@given(st.integers(100, 3000))
def test_most_of_the_room_is_used(limit: int) -> None:
    """Little of what would fit is given away, be the text even or not."""
    uneven = "数据" * 4000 + " " * 20_000 + "word " * 4000

    assert o200k(shorten(uneven, limit, o200k)) >= 0.9 * limit - 5


@unhurried
@given(st.text(alphabet="ab é\u0301👩\u200d👧🇵🇹\r\n한각क्ष🏽", max_size=700), st.integers(0, 700))
def test_cluster_end_is_the_nearest_one(text: str, index: int) -> None:
    """Found from a nearby safe place, the end is the one that reading from the start finds."""
    ends = [0, *itertools.accumulate(len(cluster) for cluster in clusters(text))]

    assert cluster_end(text, min(index, len(text))) == max(
        end for end in ends if end <= min(index, len(text))
    )


@pytest.mark.parametrize(
    "text",
    [
        "a" * 10**6,
        " " * 10**6,
        "\u4e00" * 10**6,
        "x y\n" * 250_000,
        "\r\n" * 500_000,
        "👩\u200d" * 500_000,
        "👩‍👩‍👧‍👦" * 140_000,
        "🇵🇹" * 500_000,
        "e\u0301" * 500_000,
    ],
    ids=["a", "space", "han", "lines", "crlf", "one-emoji", "families", "flags", "accents"],
)
def test_long_texts_are_quick(text: str) -> None:
    """trim-pathological-run: a long run without a break is shortened within the limit of time."""
    began = time.perf_counter()
    short = shorten(text, 8000, thirds)

    assert thirds(short) <= 8000
    assert time.perf_counter() - began < 1.0
