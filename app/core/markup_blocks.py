"""What of a Markdown text is words: everything but code, line by line.

Fences, indented code, <pre> blocks and display maths are left out, as are lines that are markers
(artifact directives, comments). The rest comes as stretches that inline constructs cannot cross.
Sources: CommonMark 0.31.2 (indented code 4.4, fences 4.5, HTML blocks 4.6, containers 5);
remark-directive, where a closer has at least as many colons as its opener.
"""

import re
from dataclasses import dataclass, field
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]

_MAX_DEPTH = 32
"""Deeper containers are read as text: each line costs at most this many steps."""

_CODE_INDENT = 4
_LEAF_SIGNS = frozenset("`~:<$\\#|-*_=")
_MATHS_OPENERS = {"$$": "$$", "\\[": "\\]"}
_BLANKS = re.compile(r"[ \t]*+")
_ITEM = re.compile(r"(?:[-+*]|(\d{1,9})[.)])(?=[ \t\r\n]|$)")
_BREAK = re.compile(r"(?:(?:-[ \t]*+){3,}+|(?:\*[ \t]*+){3,}+|(?:_[ \t]*+){3,}+)\r?\n?$")
_UNDERLINE = re.compile(r"(?:-++|=++)[ \t]*+\r?\n?$")
_FENCE = re.compile(r"(`{3,}+)(?=[^`]*+$)|(~{3,}+)")
_DIRECTIVE = re.compile(r"(:{3,}+)[ \t]*+(?:([A-Za-z][\w-]*+)([^\r\n]*+))?\r?\n?$")
_ATTRIBUTES = re.compile(r"[ \t]*+(?:\[[^\]]*+\])?\{.*\}[ \t]*")
_SINGLE = re.compile(r"#{1,6}(?:[ \t\r\n]|$)|\|")
_STARTS_BLOCK = re.compile(
    r"[ ]{0,3}(?:>|[-+*][ \t]|\d{1,9}[.)][ \t]|```|~~~|#{1,6}[ \t]|:::|---|\*\*\*|___|<!--|<pre|\|)"
    r"|[ \t]*\r?\n?$"
)
_EMPTY_LINE = re.compile(r"\n[ \t]*+\r?\n")
_EMPTY_LINES = re.compile(r"(?:[ \t]*+\r?\n)++")


_BEFORE_ANSWER = re.compile(r"(?:[ \t]*+\r?\n)++|[ \t]*+")


def answer_at(text: str, at: int) -> int:
    """Pass what separates a leading block from the answer; the answer's own indent is its own."""
    found = _BEFORE_ANSWER.match(text, at)
    return found.end() if found else at


@dataclass(slots=True)
class Finder:
    """Finds the next occurrence of fixed strings; linear over all calls, as positions only grow."""

    text: str
    known: dict[str, int] = field(default_factory=dict)

    def next(self, wanted: str, at: int, end: int) -> int:
        """Return where `wanted` next stands between `at` and `end`, -1 for nowhere."""
        known = self.known.get(wanted, -2)
        if known != -1 and known < at:
            known = self.known[wanted] = self.text.find(wanted, at)
        return known if at <= known <= end - len(wanted) else -1


@dataclass(frozen=True, slots=True)
class _Directive:
    colons: int
    span: Span
    is_marker: bool


class _Blocks:
    """State of one reading. A container is 0 (blockquote) or the indent a list item needs."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.texts: list[Span] = []
        self.marks: list[Span] = []
        self.containers: list[int] = []
        self.directives: list[_Directive] = []
        self.fence = ""
        self.line = 0
        self.start = -1
        self.end = -1
        self.finder = Finder(text)

    def read(self) -> None:
        at = 0
        while at < len(self.text):
            at = self._line(at, self._line_end(at))
        self._flush()

    def _line_end(self, at: int) -> int:
        return self.text.find("\n", at) + 1 or len(self.text)

    def _line(self, start: int, end: int) -> int:
        if empty := _EMPTY_LINES.match(self.text, start):
            return self._gap(empty.end())
        self.line = start
        at, matched = self._continue(start, end)
        inside = matched == len(self.containers)
        if self.fence and inside:
            if self._closes_fence(at, end):
                self.fence = ""
            return end
        self.fence = ""
        if not inside:
            if self.start >= 0 and not _STARTS_BLOCK.match(self.text, at, end):
                return self._extend(at, end)  # a lazy continuation line
            self._flush()
            del self.containers[matched:]
        return self._leaf(self._enter(at, end), end)

    def _gap(self, end: int) -> int:
        """Pass empty lines: they end paragraphs and blockquotes, but no list item and no fence."""
        if 0 in self.containers:
            self.fence = ""
            del self.containers[self.containers.index(0) :]
        return self._flush(end)

    def _continue(self, at: int, end: int) -> tuple[int, int]:
        """Pass the prefixes of the open containers; return where they end and how many."""
        for depth, need in enumerate(self.containers):
            rest, width = self._indent(at, end)
            if need == 0:
                if width >= _CODE_INDENT or not self.text.startswith(">", rest):
                    return at, depth
                at = self._past_quote(rest)
            elif not self._is_blank(rest, end):
                if width < need:
                    return at, depth
                at = self._past_columns(at, need)
        return at, len(self.containers)

    def _enter(self, at: int, end: int) -> int:
        """Open the containers that begin here; return where the line's content begins."""
        while len(self.containers) < _MAX_DEPTH:
            rest, width = self._indent(at, end)
            if width >= _CODE_INDENT:
                break
            if self.text.startswith(">", rest):
                self._flush()
                self.containers.append(0)
                at = self._past_quote(rest)
                continue
            item = self._item(rest, end)
            if not item:
                break
            self._flush()
            self.containers.append(width + item[0])
            at = item[1]
        return at

    def _item(self, at: int, end: int) -> tuple[int, int] | None:
        """Return the indent a list item's content needs and where it begins, if it is one."""
        found = _ITEM.match(self.text, at, end)
        if not found or _BREAK.match(self.text, at, end):
            return None
        marker = found.end() - at
        rest, width = self._indent(found.end(), end)
        blank = self._is_blank(rest, end)
        if self.start >= 0 and (blank or found[1] not in (None, "1")):
            return None  # cannot interrupt a paragraph: "it was\n1984. Then"
        if blank or width > _CODE_INDENT:
            return marker + 1, min(found.end() + 1, end)
        return marker + width, rest

    def _leaf(self, at: int, end: int) -> int:
        """Read the line's content; return where to read on."""
        rest, width = self._indent(at, end)
        if self._is_blank(rest, end):
            return self._flush(end)
        if width >= _CODE_INDENT:
            return end if self.start < 0 else self._extend(rest, end)
        if self.text[rest] not in _LEAF_SIGNS:
            return self._extend(rest, end)
        if fence := _FENCE.match(self.text, rest, end):
            self.fence = fence[0]
        if fence or self._rules_off(rest, end):
            return self._flush(end)
        after = self._marker(rest, end) or self._raw(rest, end) or self._single(rest, end)
        return after or self._extend(rest, end)

    def _single(self, at: int, end: int) -> int:
        """Read a heading or a table row, which no construct leaves; 0 when it is none."""
        if not _SINGLE.match(self.text, at, end):
            return 0
        self._flush()
        self.texts.append((at, end))
        return end

    def _rules_off(self, at: int, end: int) -> bool:
        """Tell whether the line is a thematic break or underlines a heading."""
        if self.start >= 0 and _UNDERLINE.match(self.text, at, end):
            return True
        return _BREAK.match(self.text, at, end) is not None

    def _marker(self, at: int, end: int) -> int:
        """Read a directive's line; 0 when it is none."""
        found = _DIRECTIVE.match(self.text, at, end)
        if not found:
            return 0
        colons, span = len(found[1]), (at, at + len(self.text[at:end].rstrip()))
        if found[2]:
            is_marker = found[2].lower() == "artifact" and bool(_ATTRIBUTES.fullmatch(found[3]))
            # One of another kind matters only inside an artifact, where it takes a closer.
            if is_marker or self.directives:
                self.directives.append(_Directive(colons, span, is_marker))
            return self._flush(end) if is_marker else 0
        if not self.directives or colons < self.directives[-1].colons:
            return 0
        opener = self.directives.pop()
        if opener.is_marker:
            self.marks += (opener.span, span)
        return self._flush(end)

    def _raw(self, at: int, end: int) -> int:
        """Pass a comment, <pre> block or display maths that begins the line; 0 for none."""
        if self.text.startswith("<!--", at) and not self.containers:
            return self._comment(at)
        if self.text.startswith(("<pre>", "<pre "), at):
            close = self.finder.next("</pre>", end - 1, len(self.text))
            return self._flush(self._line_end(close)) if close >= 0 else 0
        closer = _MATHS_OPENERS.get(self.text[at : at + 2])
        if closer and self._is_blank(self._indent(at + 2, end)[0], end):
            close = self.finder.next(closer, end, len(self.text))
            if close >= 0 and not _EMPTY_LINE.search(self.text, end - 1, close):
                return self._flush(self._line_end(close))
        return 0

    def _comment(self, at: int) -> int:
        # From at + 2, so that <!--> and <!---> are comments of their own, as HTML has it.
        close = self.finder.next("-->", at + 2, len(self.text))
        if close < 0:
            return 0
        self._flush()
        self.marks.append((at, close + 3))
        end = self._line_end(close + 3)
        rest, _ = self._indent(close + 3, end)
        return end if self._is_blank(rest, end) else self._extend(close + 3, end)

    def _closes_fence(self, at: int, end: int) -> bool:
        rest, width = self._indent(at, end)
        run = self.text[rest:end].rstrip(" \t\r\n")
        return width < _CODE_INDENT and len(run) >= len(self.fence) and not run.strip(self.fence[0])

    def _extend(self, start: int, end: int) -> int:
        if self.start < 0:
            self.start = start
        self.end = end
        return end

    def _flush(self, at: int = 0) -> int:
        if self.start >= 0:
            self.texts.append((self.start, self.end))
            self.start = -1
        return at

    def _indent(self, at: int, end: int) -> tuple[int, int]:
        """Return where the white space that begins at `at` ends, and its width in columns."""
        if not self.text.startswith((" ", "\t"), at, end):
            return at, 0
        found = _BLANKS.match(self.text, at, end)
        rest = found.end() if found else at
        if self.text.find("\t", at, rest) < 0:
            return rest, rest - at
        column = (at - self.line) % 4  # exact where no tab stands before
        return rest, len((" " * column + self.text[at:rest]).expandtabs(4)) - column

    def _past_columns(self, at: int, need: int) -> int:
        start = column = (at - self.line) % 4
        while column - start < need:
            column += 4 - column % 4 if self.text[at] == "\t" else 1
            at += 1
        return at

    def _past_quote(self, at: int) -> int:
        return at + 2 if self.text.startswith((" ", "\t"), at + 1) else at + 1

    def _is_blank(self, at: int, end: int) -> bool:
        return at >= end or self.text[at] in "\r\n"


def read_blocks(text: str) -> tuple[list[Span], list[Span]]:
    """Return the stretches of words, in order, and the spans of markers that take whole lines.

    Cost: linear; each line costs at most 32 steps beside its own length.
    """
    blocks = _Blocks(text)
    blocks.read()
    return blocks.texts, blocks.marks
