"""A caller's own conversation, in any dialect: what is pinned, what was put in, what was said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.core.dialects.neutral import Dialect
from app.core.dialects.recognise import recognise
from app.core.dialects.view import chat_view, content_of, with_content
from app.core.injected import injected_name
from app.core.marker import unwrap
from app.core.messages import MARKER_NAME, is_empty, part_text, parts_of, role_of, text_of
from app.core.model import Body

_SYSTEM_ROLES = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True)
class Given:
    """A conversation taken apart.

    spoken: all but system messages, in order.
    pinned: the caller's system messages merged into one: strict templates take one, first
        (suitenumerique #197).
    recap:  what an earlier load put in for what came before, the newest if there are several.
    """

    dialect: Dialect
    spoken: tuple[Body, ...]
    pinned: Body | None
    recap: Body | None
    warnings: tuple[Mapping[str, object], ...]


def take_conversation(conversation: Sequence[Body]) -> Given:
    """Take a caller's messages apart. The marker is left out, wherever a format had put it."""
    system = [body for body in conversation if role_of(body) in _SYSTEM_ROLES]
    pieces = [piece for body in system for piece in _pieces(body)]
    injected = [piece for piece in pieces if injected_name(piece)]
    own = [piece for piece in pieces if not injected_name(piece) and not is_empty(piece)]
    recaps = [body for body in injected if injected_name(body) != MARKER_NAME]
    spoken = [_without_marker(body) for body in conversation if role_of(body) not in _SYSTEM_ROLES]
    marked = sum(found for _, found in spoken)
    return Given(
        dialect=recognise(conversation),
        spoken=tuple(body for body, _ in spoken if body is not None),
        pinned={"role": "system", "content": _merge(own)} if own else None,
        recap=_recap(recaps[-1]) if recaps else None,
        warnings=(
            *(_left_out(injected_name(body)) for body in injected if body not in recaps[-1:]),
            *(_left_out(MARKER_NAME) for _ in range(marked)),
        ),
    )


def _pieces(body: Body) -> list[Body]:
    """Return a system message as chat messages; what was put in as a part of it stands alone."""
    view = dict(chat_view(body))
    content = view.get("content")
    parts = content if isinstance(content, list) and len(content) > 1 else []
    wrapped = [part for part in parts if unwrap(part_text(part) or "")]
    if not wrapped:
        return [view]
    own = [part for part in parts if part not in wrapped]
    return [
        *([{**view, "content": own}] if own else []),
        *({**view, "content": [p]} for p in wrapped),
    ]


def _recap(body: Body) -> Body:
    text = text_of(body)
    named: Body = {"role": "system", "name": injected_name(body), "content": text}
    return unwrap(text) or named


def _merge(bodies: Sequence[Body]) -> object:
    contents = [_as_chat(body.get("content")) for body in bodies]
    if len(contents) == 1:
        return contents[0]
    if all(isinstance(content, str) for content in contents):
        return "\n\n".join(str(content) for content in contents)
    return [
        {"type": "text", "text": part} if isinstance(part, str) else part
        for content in contents
        for part in parts_of({"role": "system", "content": content})
    ]


def _as_chat(content: object) -> object:
    """Return a content with the text parts of other dialects in chat's spelling."""
    if not isinstance(content, list):
        return content
    return [
        {"type": "text", "text": part["text"]}
        if isinstance(part, dict) and part.get("type") == "input_text"
        else part
        for part in content
    ]


def _without_marker(body: Body) -> tuple[Body | None, bool]:
    """Take the marker out of a user's parts, where a format without names had put it."""
    content = content_of(body)
    if role_of(body) != "user" or not isinstance(content, list):
        return body, False
    left = [part for part in content if not _is_marker(part)]
    if len(left) == len(content):
        return body, False
    return (with_content(body, left) if left else None), True


def _is_marker(part: object) -> bool:
    found = unwrap(part_text(part) or "") if isinstance(part, dict) else None
    return found is not None and found["name"] == MARKER_NAME


def _left_out(name: str) -> Mapping[str, object]:
    detail = "a message that an earlier load had put in was left out"
    return {"code": "injected-left-out", "detail": detail, "name": name}
