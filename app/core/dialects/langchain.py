"""LangChain's stored messages (`messages_to_dict`: {"type", "data"}) as chat messages.

A message says a call up to three times: in `tool_calls`, as the provider sent it in
`additional_kwargs`, and as a block of its content. Here it is one call.
Source: langchain-core 1.x, `messages_to_dict` and the standard content blocks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from app.core.dialects import roles

ROLES: Mapping[str, str] = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
    "FunctionMessageChunk": "tool",
}
"""The role that each type speaks in; the types of CHAT name it themselves."""

CHAT = frozenset({"chat", "ChatMessageChunk"})
REMOVE = "remove"
TYPES = frozenset({*ROLES, *CHAT, REMOVE})

CALL_LISTS = ("tool_calls", "invalid_tool_calls")
_CALL_BLOCKS = frozenset(
    {
        "tool_use",
        "tool_call",
        "tool_call_chunk",
        "invalid_tool_call",
        "function_call",
        "custom_tool_call",
    }
)
_KEPT = ("name", "tool_call_id", "status")
_PROVIDER_MEMBERS = ("refusal", "audio", "reasoning_content")


def data_of(body: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return a LangChain message's data, None for a body of any other dialect."""
    data = body.get("data")
    if isinstance(data, dict) and body.get("role") is None and body.get("type") in TYPES:
        return data
    return None


def role(kind: object, data: Mapping[str, object]) -> str:
    """Return the role that a message of this type speaks in; a chat message tells it itself."""
    if kind in CHAT:
        return roles.ROLES.get(str(data.get("role")), "")
    return ROLES.get(str(kind), "")


def view(kind: object, data: Mapping[str, object]) -> dict[str, object]:
    """Return the message as a chat message around its own blocks and call entries."""
    extra = _dict(data.get("additional_kwargs"))
    body: dict[str, object] = {"role": role(kind, data), "content": data.get("content")}
    body |= {member: data[member] for member in _KEPT if data.get(member) is not None}
    body |= {member: extra[member] for member in _PROVIDER_MEMBERS if extra.get(member)}
    if calls := list(_calls(data)):
        body["tool_calls"] = calls
    elif isinstance(extra.get("function_call"), dict):
        body["function_call"] = extra["function_call"]
    content = data.get("content")
    if isinstance(content, list) and any(map(_is_call, content)):
        body["content"] = [block for block in content if not _is_call(block)]
    return body


def without_calls(body: Mapping[str, object], stay: Sequence[bool]) -> dict[str, object]:
    """Return the message without some of its calls, wherever it repeats them.

    Shape: stay tells for each call of the view, in its order, whether it stays.
    """
    data = _dict(body.get("data"))
    flags = list(zip(_calls(data), stay, strict=False))
    kept = {_id(call) for call, stays in flags if stays}
    gone = [call for call, stays in flags if not stays]
    lost = {_id(call) for call in gone} - kept

    def remains(entry: object) -> bool:
        if not isinstance(entry, dict):
            return True
        return not any(entry is call for call in gone) and _id(entry) not in lost

    changed = _filtered(data, (*CALL_LISTS, "tool_call_chunks"), remains)
    extra = _filtered(_dict(data.get("additional_kwargs")), ("tool_calls",), remains)
    if not kept:
        extra = {name: value for name, value in extra.items() if name != "function_call"}
    content = data.get("content")
    if isinstance(content, list):
        changed["content"] = [b for b in content if not _is_call(b) or remains(b)]
    if "additional_kwargs" in data:
        changed["additional_kwargs"] = extra
    return {**body, "data": changed}


def _calls(data: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """Yield each call once: repetitions are told by their ids, or by there being calls at all."""
    known: set[str] = set()
    for member in CALL_LISTS:
        for call in _dicts(data.get(member)):
            known.add(_id(call))
            yield call
    others = _dicts(_dict(data.get("additional_kwargs")).get("tool_calls"))
    blocks = [block for block in _dicts(data.get("content")) if _is_call(block)]
    for repeated in (others, blocks):
        said = set(known)
        for call in repeated:
            if _id(call) not in said and (_id(call) or not said):
                known.add(_id(call))
                yield call


def _id(call: Mapping[str, object]) -> str:
    return str(call.get("call_id") or call.get("id") or "")


def _is_call(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") in _CALL_BLOCKS


def _filtered(
    value: Mapping[str, object], members: Sequence[str], remains: Callable[[object], bool]
) -> dict[str, object]:
    return {
        name: [entry for entry in member if remains(entry)]
        if name in members and isinstance(member, list)
        else member
        for name, member in value.items()
    }


def _dict(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _dicts(value: object) -> list[Mapping[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
