"""The measurement of the strip rules: what the page says is what the rules do."""

from pathlib import Path

import pytest

from app.core.markup import strip_text
from examples.cleaning import recorded, samples, table

PAGE = Path(__file__).parents[2] / "docs" / "markup.md"


@pytest.mark.parametrize("name", [name for name in samples() if name.startswith("…")])
def test_real_answers_lose_their_marks_and_nothing_else(name: str) -> None:
    """615 recorded answers, marked as providers do, come back exactly as they were."""
    assert [strip_text(text) for text in samples()[name]] == recorded()


def test_recorded_answers_are_left_alone() -> None:
    """Without marks nothing is taken out."""
    assert [strip_text(text) for text in recorded()] == recorded()


def test_the_page_shows_what_is_measured() -> None:
    """The table of docs/markup.md is the one that `python -m examples.cleaning` prints."""
    assert table() in PAGE.read_text()
