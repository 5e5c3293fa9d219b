"""Recognising what a load put in, in every format it writes; only whole, structural forms count.

OpenAI chat and LangChain name such a message. Responses has no names, so there the whole text of a
system message tells (app.core.marker); Anthropic has no system message in a list, so there it is a
text part of its own inside a user's message. A string that merely contains such a text never is.
"""

from collections.abc import Mapping, Sequence

from app.core.dialects.view import chat_view, content_of, with_content
from app.core.marker import MARKER_TEXT, unwrap
from app.core.messages import INJECTED_NAMES, MARKER_NAME, text_of


def injected_name(body: Mapping[str, object]) -> str:
    """Return the name of what a load put in as this message, "" for any other message."""
    view = chat_view(body)
    if view.get("role") != "system":
        return ""
    name = view.get("name")
    if name is None:
        return _name_of_text(text_of(view))
    return name if isinstance(name, str) and name in INJECTED_NAMES else ""


def take_out(body: Mapping[str, object]) -> tuple[dict[str, object] | None, bool]:
    """Return a user's message without the parts that a load put in, and whether the marker was one.

    Shape: parts before the marker are history, like the messages before it; None when nothing is
        left; the same object when nothing was put in.
    """
    whole = body if isinstance(body, dict) else dict(body)
    content = content_of(body)
    if not isinstance(content, list) or chat_view(body).get("role") != "user":
        return whole, False
    names = [_name_of_part(part) for part in content]
    if not any(names):
        return whole, False
    first = len(names) - names[::-1].index(MARKER_NAME) if MARKER_NAME in names else 0
    left = _without(content[first:], names[first:])
    return (with_content(body, left) if left else None), first > 0


def _without(parts: Sequence[object], names: Sequence[str]) -> list[object]:
    return [part for part, name in zip(parts, names, strict=True) if not name]


def _name_of_part(part: object) -> str:
    if not isinstance(part, dict) or part.get("type") != "text":
        return ""
    text = part.get("text")
    # The marker's sentence bare is a user's own: a load writes it wrapped where it is a part.
    wrapped = unwrap(text) if isinstance(text, str) else None
    return str(wrapped["name"]) if wrapped else ""


def _name_of_text(text: str) -> str:
    if text == MARKER_TEXT:
        return MARKER_NAME
    wrapped = unwrap(text)
    return str(wrapped["name"]) if wrapped else ""
