"""One shape to look at: any body as a chat message around its own, untouched parts.

What has a role (OpenAI chat, Anthropic, a Responses message) is such a message already.
"""

from collections.abc import Mapping

from app.core.dialects import items, langchain

_NO_ITEMS = frozenset(
    {"message", "tool_result", "tool_use", "text", "input_text", "output_text", "thinking"}
)
"""Types that stand without a role only by mistake: a message, and parts of one."""


def chat_view(body: Mapping[str, object]) -> Mapping[str, object]:
    """Return role, content, tool_calls, tool_call_id, name of a message of any dialect.

    Shape: the body itself where it has a role, or is no message at all.
    """
    if body.get("role") is not None:
        return body
    data = langchain.data_of(body)
    if data is not None:
        return langchain.view(body.get("type"), data)
    return items.view(body) if is_item(body) else body


def role_elsewhere(body: Mapping[str, object]) -> str:
    """Return the role of a body without a member `role`, "" where nothing tells it."""
    data = langchain.data_of(body)
    if data is not None:
        return langchain.role(body.get("type"), data)
    if not is_item(body):
        return ""
    return "tool" if items.is_output(body) else "assistant"


def is_item(body: Mapping[str, object]) -> bool:
    """Tell whether the body is a Responses item that is no message: it has a type and no role."""
    kind = body.get("type")
    if body.get("role") is not None or not isinstance(kind, str) or kind in _NO_ITEMS:
        return False
    return langchain.data_of(body) is None


def client_id(body: Mapping[str, object]) -> str:
    """Return the client's own id of the message, "" without one."""
    found = (langchain.data_of(body) or body).get("id")
    return found if isinstance(found, str) else ""


def content_of(body: Mapping[str, object]) -> object:
    """Return the content where the dialect keeps it; None for an item that is no message."""
    data = langchain.data_of(body)
    if data is not None:
        return data.get("content")
    return None if is_item(body) else body.get("content")


def with_content(body: Mapping[str, object], content: object) -> dict[str, object]:
    """Return the message with another content, put where the dialect keeps it."""
    data = langchain.data_of(body)
    if data is None:
        return {**body, "content": content}
    return {**body, "data": {**data, "content": content}}
