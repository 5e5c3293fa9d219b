"""Where presentation markup stands in the words of a text.

Read once, from left to right. Code spans, maths, escapes, link destinations and autolinks are
passed over; whatever begins first wins. Elements are paired over the whole text, all else within
one stretch.
Sources: CommonMark 0.31.2, 6.1 (code spans), 6.3 (links), 6.6 (tags); the forms that ChatGPT, the
Assistants API, LibreChat, Claude exports, Gemini and Onyx leave in their texts.
"""

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.core.markup_blocks import Finder, Span, answer_at
from app.core.markup_rules import REASONING, Action, Profile

_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "wbr"}
)
_MAX_OPEN = 10_000
"""Open brackets remembered; deeper nesting is resolved by the next pass."""

_TURN = r"turn\d{1,6}+[a-z]{3,16}+\d{1,6}+"
_LINES = r"(?:L\d++(?:-L?\d++)?+)?+"
_SEPARATOR = r"(?:\ue202|\\ue202)"
_URL = r"[^\s()<>]*+(?:\([^\s()<>]*+\)[^\s()<>]*+)*+"
_TITLE = r"(?:\s++(?:\"(?:\\.|[^\"\\])*+\"|'(?:\\.|[^'\\])*+'|\((?:\\.|[^()\\])*+\)))?+"
_ATTRIBUTES = (
    r"(?:\s++[A-Za-z_:@][\w:.@-]*+"
    r"(?:\s*+=\s*+(?:\"[^\"]*+\"|'[^']*+'|[^\s\"'=<>`]++))?+)*+"
)
_PLAIN = (
    rf"{_SEPARATOR}{_TURN}",
    rf"\\ue200(?:cite)?(?:\\ue202{_TURN})++\\ue201",
    rf"(?<![/=&?%#@_-])(?<!file)(?:(?:file)?+cite(?:{_TURN}{_LINES})++)++(?![a-z_=/])",
    r"(?<!:):{1,2}(?:contentReference|citation)\[oaicite:[^\[\]\n]{1,80}+\](?:\{[^{}\n]{0,80}+\})?+",
    r"\[cite_start\]|\[cite:\s?\d[\d,\s-]{0,80}+\](?!\()",
)
_FORMS = {
    "ticks": r"`++",
    "comment": r"<!--",
    "tag": (
        r"<(?P<slash>/)?+(?P<name>[A-Za-z][\w:.-]*+)"
        rf"(?P<attributes>{_ATTRIBUTES})\s*+(?P<void>/)?+>"
    ),
    "run": r"\ue200(?P<kind>[a-z_]{0,32}+)\ue202(?P<payload>[^\ue200\ue201]*+)\ue201",
    "plain": "|".join(_PLAIN),
    "words": r":antCitation\[(?P<cited>[^\[\]\n]*+)\]\{citations=[^{}\n]*+\}",
    "chip": (
        r"(?<!\[)(?P<opened>\[{2,}+)\d{1,4}+(?:\s?[,-]\s?\d{1,4}+){0,20}+\]"
        rf"(?P<links>(?:\]\(\s*+<?+(?:(?:https?://|[/#]){_URL})?+>?+{_TITLE}\s*+\))++)"
    ),
    "skip": (
        rf"\]\(\s*+(?:<[^<>\n]*+>|(?:\\.|[^\s()\\<]|\((?:\\.|[^\s()\\])*+\))*+){_TITLE}\s*+\)"
        r"|<[A-Za-z][A-Za-z0-9+.-]{1,31}+:[^\s<>]*+>"
    ),
    "maths": r"\\[(\[]|\$\$",
    "escape": r"\\[!-/:-@\[-`{-~]",
    "dollar": r"\$",
    "open": "\u3010",
    "close": "\u3011",
    "highlight": r"\ue203",
    "highlighted": r"\ue204(?=[ ]?(?:\ue200|\ue202turn))",
}
_TOKEN = re.compile("|".join(f"(?P<{name}>{form})" for name, form in _FORMS.items()))
_FIRST = re.compile(r"[`<\[\]\\:$\u3010\u3011\ue200\ue202-\ue204]|(?:file)?citeturn")
"""How every form begins: looked for first, many times faster than trying each everywhere."""
_TICKS = re.compile(r"`+")
_DOLLARS = re.compile(r"\$(?=[^\s$])(?:\\.|[^\\$\n`\u3010\ue200])*+(?<!\s)\$(?!\d)")
_LINK = re.compile(r"\]\(")
_CLOSERS = {r"\(": r"\)", r"\[": r"\]", "$$": "$$"}
_DAGGER = re.compile(
    rf"[ \t]*+(?:(?:\d[\d:,. -]{{0,24}}+|{_TURN})[ \t]*+\u2020[^\n]*+|\u2020source|oaicite:\d++)"
)
_MAX_LABEL = 400
_ENTITY = re.compile(r"\s*\[\s*\"[^\"\\]*+\"\s*,\s*\"(?P<shown>[^\"\\]++)\"")
_URL_RUN = re.compile(r"(?P<shown>[^\ue202]++)\ue202")
_SHOWN = {"entity": _ENTITY, "url": _URL_RUN}


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag of a reasoning element, outside code."""

    name: str
    span: Span
    is_closer: bool
    is_void: bool


@dataclass(slots=True)
class _Bracket:
    """An open lenticular bracket: what stands in it up to `last`, removed marks left out."""

    start: int
    last: int
    label: str = ""


class _Inline:
    """State of one reading."""

    def __init__(self, text: str, profile: Profile) -> None:
        self.text = text
        self.profile = profile
        self.marks: list[Span] = []
        self.reasoning: list[Tag] = []
        self.elements: dict[str, list[tuple[Span, Action]]] = {}
        self.brackets: deque[_Bracket] = deque(maxlen=_MAX_OPEN)
        self.finder = Finder(text)
        self.ticks: dict[int, list[int]] | None = None
        self.highlight = -1
        self.end = 0
        self.lead = len(text) - len(text.lstrip())
        self.handlers: dict[str, Callable[[re.Match[str]], int]] = {
            name: getattr(self, f"_{name}") for name in _FORMS
        }

    def read(self, start: int, end: int) -> None:
        """Read one stretch."""
        self.brackets.clear()
        self.ticks, self.highlight, self.end = None, -1, end
        while found := _FIRST.search(self.text, start, end):
            form = _TOKEN.match(self.text, found.start(), end)
            start = self.handlers[str(form.lastgroup)](form) if form else found.end()

    def _protect(self, end: int) -> int:
        self.brackets.clear()
        return end

    def _ticks(self, found: re.Match[str]) -> int:
        if self.ticks is None:
            self.ticks = {}
            for run in _TICKS.finditer(self.text, found.start(), self.end):
                self.ticks.setdefault(run.end() - run.start(), []).append(run.start())
        length = found.end() - found.start()
        runs = self.ticks.get(length, [])
        after = bisect_left(runs, found.end())
        return self._protect(runs[after] + length) if after < len(runs) else found.end()

    def _comment(self, found: re.Match[str]) -> int:
        close = self.finder.next("-->", found.start() + 2, self.end)
        if close < 0:
            return found.end()
        self.marks.append((found.start(), close + 3))
        return close + 3

    def _tag(self, found: re.Match[str]) -> int:
        name = found["name"].lower()
        is_closer, is_void = found["slash"] is not None, found["void"] is not None or name in _VOID
        if name in REASONING:
            self.reasoning.append(Tag(name, found.span(), is_closer, is_void))
        if is_closer:
            self._close_element(name, found.span())
            return found.end()
        action = self.profile.action(name, found["attributes"])
        if action == "keep" and name in ("code", "pre"):
            close = self.finder.next(f"</{name}>", found.end(), self.end)
            return self._protect(close) if close >= 0 else found.end()
        if is_void:
            if action != "keep":
                self.marks.append(found.span())
        elif action != "keep" or self.elements.get(name):
            # One that is kept matters only inside one that is not, where it takes a closer.
            self.elements.setdefault(name, []).append((found.span(), action))
        return found.end()

    def _close_element(self, name: str, closer: Span) -> None:
        opened = self.elements.get(name)
        if not opened:
            return
        opener, action = opened.pop()
        if action == "unwrap":
            self.marks += (opener, closer)
        elif action == "drop" and opener[0] == self.lead:
            self.lead = answer_at(self.text, closer[1])
            self.marks.append((0, self.lead))
        elif action == "drop":
            self.marks.append((opener[0], closer[1]))

    def _run(self, found: re.Match[str]) -> int:
        form = _SHOWN.get(found["kind"])
        shown = form.match(found["payload"]) if form else None
        if shown:
            base = found.start("payload")
            self._unwrap(found.span(), (base + shown.start("shown"), base + shown.end("shown")))
        else:
            self.marks.append(found.span())
        return found.end()

    def _words(self, found: re.Match[str]) -> int:
        return self._unwrap(found.span(), found.span("cited"))

    def _unwrap(self, outer: Span, inner: Span) -> int:
        self.marks += ((outer[0], inner[0]), (inner[1], outer[1]))
        return outer[1]

    def _plain(self, found: re.Match[str]) -> int:
        self.marks.append(found.span())
        return found.end()

    def _chip(self, found: re.Match[str]) -> int:
        before = self.text[found.start() - 1] if found.start() else ""
        if (before.isalnum() or before in ("_", ")")) and "://" not in found["links"]:
            return found.end("opened")  # an index: items[[3]](0)
        links = _LINK.finditer(self.text, found.start("links"), found.end())
        ends = [*(link.start() for link in links), found.end()]
        depth = min(len(found["opened"]) - 1, len(ends) - 1)
        self.marks.append((found.end("opened") - depth - 1, ends[depth]))
        return ends[depth]

    def _skip(self, found: re.Match[str]) -> int:
        return self._protect(found.end())

    def _escape(self, found: re.Match[str]) -> int:
        return found.end()

    def _maths(self, found: re.Match[str]) -> int:
        closer = _CLOSERS[found[0]]
        close = self.finder.next(closer, found.end(), self.end)
        return self._protect(close + 2) if close > found.end() else found.end()

    def _dollar(self, found: re.Match[str]) -> int:
        maths = _DOLLARS.match(self.text, found.start(), self.end)
        return self._protect(maths.end()) if maths else found.end()

    def _open(self, found: re.Match[str]) -> int:
        self.brackets.append(_Bracket(found.start(), found.end()))
        return found.end()

    def _close(self, found: re.Match[str]) -> int:
        if not self.brackets:
            return found.end()
        bracket = self.brackets.pop()
        tail = self.text[bracket.last : found.start()][: _MAX_LABEL + 1]
        label = bracket.label + tail
        if len(label) > _MAX_LABEL or not _DAGGER.fullmatch(label):
            self.brackets.clear()  # what encloses plain brackets is no citation either
            return found.end()
        self.marks.append((bracket.start, found.end()))
        if self.brackets:
            outer = self.brackets[-1]
            outer.label += self.text[outer.last : bracket.start][: _MAX_LABEL + 1]
            outer.last = found.end()
        return found.end()

    def _highlight(self, found: re.Match[str]) -> int:
        self.highlight = found.start()
        return found.end()

    def _highlighted(self, found: re.Match[str]) -> int:
        if self.highlight >= 0:
            self.marks += ((self.highlight, self.highlight + 1), found.span())
            self.highlight = -1
        return found.end()


def read_inline(
    text: str, stretches: Sequence[Span], profile: Profile
) -> tuple[list[Span], list[Tag]]:
    """Return the spans that are presentation, unordered, and reasoning elements' tags, in order.

    Cost: linear; no form is tried twice over the same characters.
    """
    reader = _Inline(text, profile)
    for start, end in stretches:
        reader.read(start, end)
    return reader.marks, reader.reasoning
