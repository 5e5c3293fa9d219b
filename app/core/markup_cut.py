"""Taking marks out of a text with the white space that belonged to them, and no more.

A mark alone on its line goes with its line break; one within a line takes one space before it, only
when punctuation or the end of the line follows.
"""

import re
from collections.abc import Iterator, Sequence

from app.core.markup_blocks import Span

_PUNCTUATION = frozenset(
    ".,;:!?)]}\u2013\u2014\u2019\u201d\u2026\u00bb"  # dashes, closing quotes, ellipsis
    "\u3001\u3002\uff0c\uff0e\uff1b\uff1a\uff01\uff1f\uff09\uff3d\uff5d"  # full width
    "\u3009\u300b\u300d\u300f\u3011"  # closing CJK brackets
)
_CLOSING_RUN = re.compile(r"[*_~\"']{1,8}(?=[\s.,;:!?)\]}]|$)")
"""Emphasis or straight quotes that close, as what follows them tells."""


def cut(text: str, marks: Sequence[Span]) -> str:
    """Return the text without the marks.

    Shape: marks in any order, may overlap. Cost: linear after sorting them.
    """
    spans = _with_space(text, list(_merge(sorted(marks))))
    spans = list(_merge(sorted([*spans, *_lines(text, spans)])))
    start, end = spans[-1]
    if end == len(text) and text[start - 1 : start] == "\n" and text[-1] != "\n":
        # The last line has its break before it.
        start -= 2 if text[start - 2 : start] == "\r\n" else 1
        spans[-1] = (start, end)
    kept, at = [], 0
    for start, end in spans:
        kept.append(text[at:start])
        at = end
    return "".join(kept) + text[at:]


def _merge(spans: Sequence[Span]) -> Iterator[Span]:
    start, end = spans[0]
    for span in spans:
        if span[0] > end:
            yield start, end
            start = span[0]
        end = max(end, span[1])
    yield start, end


def _with_space(text: str, spans: list[Span]) -> list[Span]:
    """Widen marks by the space before them; from the end, so that a row of marks counts as one."""
    follows = next_start = len(text)
    for index in range(len(spans) - 1, -1, -1):
        start, end = spans[index]
        follows = follows if end == next_start else end
        floor = spans[index - 1][1] if index else 0
        if start > floor and text[start - 1] == " " and _closes(text, follows):
            start -= 1
        spans[index] = (start, end)
        next_start = start
    return spans


def _closes(text: str, at: int) -> bool:
    if at == len(text) or text[at] in "\r\n":
        return True
    if text[at] in _PUNCTUATION:
        return not text.startswith("![", at)
    return _CLOSING_RUN.match(text, at) is not None


def _lines(text: str, spans: Sequence[Span]) -> Iterator[Span]:
    """Yield the lines, break included, on which nothing but marks stood."""
    index = 0
    while index < len(spans):
        first = spans[index]
        start = text.rfind("\n", 0, first[0]) + 1
        lonely = not text[start : first[0]].strip(" \t>")
        end = text.find("\n", first[1])
        while index + 1 < len(spans) and (end < 0 or spans[index + 1][0] <= end):
            index += 1
            lonely = lonely and not text[spans[index - 1][1] : spans[index][0]].strip(" \t")
            if 0 <= end < spans[index][1]:
                end = text.find("\n", spans[index][1])
        stop = len(text) if end < 0 else end + 1
        if lonely and not text[spans[index][1] : stop].strip(" \t\r\n"):
            yield start, stop
        index += 1
