"""In which dialect a batch was written, told from the batch as a whole.

Most messages are plain strings, which every dialect writes alike; one sign settles it for all.
"""

from collections.abc import Iterator, Mapping, Sequence

from app.core.dialects.langchain import data_of
from app.core.dialects.neutral import Dialect
from app.core.dialects.view import is_item

_RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})
_ANTHROPIC_PARTS = frozenset(
    {
        "container_upload",
        "document",
        "mcp_tool_use",
        "redacted_thinking",
        "search_result",
        "server_tool_use",
        "thinking",
        "tool_use",
    }
)
_OPENAI_PARTS = frozenset({"image_url", "input_audio"})
_OPENAI_MEMBERS = ("tool_calls", "function_call", "tool_call_id")
# Chat messages take blocks of others along (thinking of DeepSeek, Mistral), never the other way.
_PRECEDENCE: tuple[Dialect, ...] = ("langchain", "responses", "openai", "anthropic")


def recognise(bodies: Sequence[Mapping[str, object]]) -> Dialect:
    """Return the dialect of a batch; openai where nothing tells, which is right for all.

    Shape: LangChain by its `type` and `data`; Responses by items without a role, its own parts or
        a message's type; OpenAI chat by calls and results in members; Anthropic by its blocks.
    """
    found = {sign_of(body) for body in bodies}
    return next((dialect for dialect in _PRECEDENCE if dialect in found), "openai")


def sign_of(body: Mapping[str, object]) -> Dialect | None:
    """Return the one dialect that writes such a message, None where several do."""
    if data_of(body) is not None:
        return "langchain"
    if is_item(body) or body.get("type") == "message":
        return "responses"
    if any(body.get(member) for member in _OPENAI_MEMBERS) or body.get("role") == "tool":
        return "openai"
    return next(_part_signs(body.get("content")), None)


def _part_signs(content: object) -> Iterator[Dialect]:
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(kind, str):
            continue
        sourced = kind == "image" and isinstance(part.get("source"), dict)
        if kind in _RESPONSES_PARTS:
            yield "responses"
        elif kind in _ANTHROPIC_PARTS or sourced or kind.endswith("tool_result"):
            yield "anthropic"
        elif kind in _OPENAI_PARTS:
            yield "openai"
