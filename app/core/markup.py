"""Stripping presentation markup from what a model is to read again. The stored text keeps it.

Parsed, not guessed: code, maths and links survive; only known forms go (docs/markup.md lists them).
The result is a fixed point, a subsequence of the text, and comes in linear time.
"""

from collections.abc import Mapping

from app.core.dialects.view import content_of, with_content
from app.core.markup_blocks import read_blocks
from app.core.markup_cut import cut
from app.core.markup_inline import read_inline
from app.core.markup_reasoning import answer_start
from app.core.markup_rules import DEFAULT, VERSION, Profile, make_profile
from app.core.messages import role_of
from app.core.model import Body

__all__ = ["DEFAULT", "VERSION", "Profile", "make_profile", "strip_message", "strip_text"]

_CLEANED_PARTS = frozenset({"text", "output_text"})

_SIGNS = ("oaicite", "\\ue202", "citeturn", ":::")
_BRACKET_SIGNS = (":antCitation[", "]](", "[cite")
_FOREIGN_SIGNS = ("\u2020", "\ue200", "\ue202")
"""A text with none of these and no tag of a rule is returned as it is, unread: most texts."""

_SCANS = 3
_SCANNED_CHARACTERS = 200_000


def strip_text(text: str, profile: Profile = DEFAULT) -> str:
    """Return an assistant's text without presentation markup.

    Shape: a subsequence of `text`; strip_text(strip_text(x)) == strip_text(x).
    Cost:  linear. Taking a mark out may join others, so the text is read until nothing changes,
           but only three times (short texts more often): one that is still not settled was made
           to break this and is left whole.
    Source: the strip policy of docs/markup.md.
    """
    current, left = text, _SCANS * len(text) + _SCANNED_CHARACTERS
    while _may_change(current, profile):
        left -= len(current)
        if left < 0:
            return text
        after = _scan(current, profile)
        if after == current:
            break
        current = after
    return current


def strip_message(body: Mapping[str, object], profile: Profile = DEFAULT) -> Body:
    """Return an assistant's message with its text parts cleaned, in any dialect; others as is.

    Shape: the same object when nothing changes; parts keep their number, order and other members.
    """
    whole = body if isinstance(body, dict) else dict(body)
    if role_of(body) != "assistant":
        return whole
    content = content_of(body)
    cleaned = _content(content, profile)
    return whole if cleaned is content else with_content(body, cleaned)


def _content(content: object, profile: Profile) -> object:
    if isinstance(content, str):
        cleaned = strip_text(content, profile)
        return content if cleaned == content else cleaned
    if not isinstance(content, list):
        return content
    parts = [_part(part, profile) for part in content]
    same = all(new is old for new, old in zip(parts, content, strict=True))
    return content if same else parts


def _part(part: object, profile: Profile) -> object:
    if isinstance(part, str):
        return _content(part, profile)
    if not isinstance(part, dict) or part.get("type") not in _CLEANED_PARTS:
        return part
    text = part.get("text")
    cleaned = _content(text, profile) if isinstance(text, str) else text
    return part if cleaned is text else {**part, "text": cleaned}


def _may_change(text: str, profile: Profile) -> bool:
    if "<" in text and ("<!--" in text or profile.mention.search(text)):
        return True
    if "[" in text and any(sign in text for sign in _BRACKET_SIGNS):
        return True
    if not text.isascii() and any(sign in text for sign in _FOREIGN_SIGNS):
        return True
    return any(sign in text for sign in _SIGNS)


def _scan(text: str, profile: Profile) -> str:
    stretches, lines = read_blocks(text)
    marks, reasoning = read_inline(text, stretches, profile)
    start = answer_start(text, reasoning)
    if start:
        return text[start:]
    marks += lines
    return cut(text, marks) if marks else text
