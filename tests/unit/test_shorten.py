"""Shortened texts: within the limit, visibly, and cut where a reader would cut."""

import itertools
import time

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from app.core.ports import Count
from app.core.shorten import cluster_end, shorten
from tests.unit.strategies import counters, o200k, texts, thirds, unhurried, words

CASE = "ab👩‍👩‍👧‍👦cd🏴󠁧󠁢󠁳󠁣󠁴󠁿éf🇵🇹g" * 2


def clusters(text: str) -> list[str]:
    return regex.findall(r"\X", text)


def kept_of(short: str) -> str:
    """The part of a shortened text that stands before the notice."""
    return short.rpartition("\n[... ")[0] if short.endswith("]") else short.removesuffix("…")


def test_short_enough_is_left_alone() -> None:
    """A text that fits comes back as it is."""
    assert shorten("one two three", 3, words) == "one two three"


def test_notice_says_how_much_is_gone() -> None:
    """A reader sees that something is missing and how much."""
    short = shorten("word " * 500, 40, words)

    assert short.startswith("word word ")
    assert short.endswith("characters left out by threadkeep ...]")
    assert f" {2500 - len(kept_of(short))} " in short


def test_trim_grapheme_boundary() -> None:
    """trim-grapheme-boundary: for every limit a prefix and a notice, no cluster cut."""
    ends = set(itertools.accumulate(len(cluster) for cluster in clusters(CASE)))
    for limit in range(1, 61):
        short = shorten(CASE, limit, o200k)
        kept = CASE if short == CASE else kept_of(short)

        assert CASE.startswith(kept)
        assert len(kept) in ends | {0}
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
    if short != text:
        kept = kept_of(short)
        assert clusters(text)[: len(clusters(kept))] == clusters(kept)


def test_counter_with_a_cliff() -> None:
    """Where no guess comes near the limit the best one found is taken, and it fits."""
    short = shorten("x" * 10**6, 500, lambda text: 1000 if len(text) > 87 else 1)

    assert len(short) <= 87


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
    "text", ["a" * 10**6, " " * 500_000, "\u4e00" * 300_000, "x y\n" * 250_000]
)
def test_long_texts_are_quick(text: str) -> None:
    """trim-pathological-run: a long run without a break is shortened within the limit of time."""
    began = time.perf_counter()
    short = shorten(text, 8000, thirds)

    assert thirds(short) <= 8000
    assert time.perf_counter() - began < 1.0
