"""What a message must have so that it can be stored, told apart and sent again, in any dialect.

A flaw's text never repeats what was sent: it ends up in answers and logs.
"""

from collections.abc import Iterable, Iterator, Mapping

from app.core.dialects import items, langchain
from app.core.dialects.roles import ROLES
from app.core.dialects.view import is_item
from app.core.errors import Flaw

STUB_TYPE = "threadkeep_ref"
_STUB_FLAW = "is a stub that a load wrote for a large value; send the new messages alone"
_ROLE_FLAW = "must be one of user, assistant, tool, system, developer, human, ai, function"
_CONTENT_ELSEWHERE = ("tool_calls", "function_call", "refusal", "audio")
_PART_STRINGS = {
    **dict.fromkeys(("text", "input_text", "output_text"), ("text",)),
    "tool_use": ("id", "name"),
    "tool_result": ("tool_use_id",),
}
_ITEM_STRINGS = {
    "function_call": ("name", "arguments"),
    "custom_tool_call": ("name", "input"),
    "mcp_approval_request": ("name",),
    "item_reference": ("id",),
}
_TEXT_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})


def message_flaws(body: Mapping[str, object], pointer: str) -> Iterator[Flaw]:
    """Find what is wrong with a message, each flaw at its place below pointer."""
    if body.get("role") is None and isinstance(body.get("type"), str):
        if body["type"] in langchain.TYPES:
            yield from _langchain_flaws(body, pointer)
            return
        if is_item(body) and body["type"] not in ROLES:
            yield from _item_flaws(body, pointer)
            return
    yield from _chat_flaws(body, pointer)


def _chat_flaws(body: Mapping[str, object], pointer: str) -> Iterator[Flaw]:
    spelling = body.get("role")
    role = ROLES.get(spelling) if isinstance(spelling, str) else None
    if role is None:
        yield Flaw(f"{pointer}/role", _ROLE_FLAW)
        return
    yield from _content_flaws(body, role, f"{pointer}/content")
    yield from _string_flaws(body, ("name", "tool_call_id", "refusal"), pointer, optional=True)
    yield from _call_flaws(body, role, pointer)
    if role == "tool" and body.get("tool_call_id") is None and body.get("name") is None:
        yield Flaw(f"{pointer}/tool_call_id", "must name the call that this result answers")


def _langchain_flaws(body: Mapping[str, object], pointer: str) -> Iterator[Flaw]:
    if body["type"] == langchain.REMOVE:
        yield Flaw(f"{pointer}/type", "must be a message: a save removes nothing")
        return
    data = body.get("data")
    pointer = f"{pointer}/data"
    if not isinstance(data, dict):
        yield Flaw(pointer, "must be an object, as LangChain's messages_to_dict writes it")
        return
    if body["type"] in langchain.CHAT and ROLES.get(str(data.get("role"))) is None:
        yield Flaw(f"{pointer}/role", _ROLE_FLAW)
    yield from _block_flaws(data.get("content"), f"{pointer}/content")
    yield from _string_flaws(data, ("name", "id"), pointer, optional=True)
    if body["type"] in ("tool", "ToolMessageChunk"):
        yield from _string_flaws(data, ("tool_call_id",), pointer)
    for member in langchain.CALL_LISTS:
        yield from _entry_flaws(data.get(member), f"{pointer}/{member}", member)


def _block_flaws(content: object, pointer: str) -> Iterator[Flaw]:
    if isinstance(content, list):
        for index, block in enumerate(content):
            if not isinstance(block, str | dict):
                yield Flaw(f"{pointer}/{index}", "must be a string or an object")
            elif isinstance(block, dict) and block.get("type") == STUB_TYPE:
                yield Flaw(f"{pointer}/{index}", _STUB_FLAW)
    elif not isinstance(content, str):
        yield Flaw(pointer, "must be a string or an array of strings and blocks")


def _entry_flaws(entries: object, pointer: str, member: str) -> Iterator[Flaw]:
    if entries is None:
        return
    if not isinstance(entries, list):
        yield Flaw(pointer, "must be an array of calls")
        return
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            yield Flaw(f"{pointer}/{index}", "must be an object")
            continue
        yield from _string_flaws(entry, ("id",), f"{pointer}/{index}", optional=True)
        if member == "tool_calls":
            yield from _string_flaws(entry, ("name",), f"{pointer}/{index}")


def _item_flaws(item: Mapping[str, object], pointer: str) -> Iterator[Flaw]:
    kind = str(item["type"])
    if (items.is_call(item) or items.is_output(item)) and not items.pair_key(item):
        member, _ = {**items.CALLS, **items.OUTPUTS}[kind]
        yield Flaw(f"{pointer}/{member}", "must be a string that names the call")
    yield from _string_flaws(item, _ITEM_STRINGS.get(kind, ()), pointer)
    if kind in _TEXT_OUTPUTS:
        yield from _output_flaws(item.get("output"), f"{pointer}/output")


def _output_flaws(output: object, pointer: str) -> Iterator[Flaw]:
    if isinstance(output, list):
        for index, part in enumerate(output):
            yield from _part_flaws(part, f"{pointer}/{index}")
    elif not isinstance(output, str):
        yield Flaw(pointer, "must be a string or an array of parts")


def _content_flaws(body: Mapping[str, object], role: str, pointer: str) -> Iterator[Flaw]:
    content = body.get("content")
    kind = body.get("type")
    if isinstance(content, str):
        return
    if content is None:
        elsewhere = role == "assistant" and any(body.get(name) for name in _CONTENT_ELSEWHERE)
        # Of Responses items that are no messages only this one has a role.
        if not elsewhere and kind != "additional_tools":
            yield Flaw(pointer, "must be there, but for an assistant message that calls tools")
    elif isinstance(content, dict) and content.get("type") == STUB_TYPE:
        yield Flaw(pointer, _STUB_FLAW)
    elif not isinstance(content, list) or not (content or kind == "message"):
        yield Flaw(pointer, "must be a string or a non-empty array of parts")
    else:
        for index, part in enumerate(content):
            yield from _part_flaws(part, f"{pointer}/{index}")


def _part_flaws(part: object, pointer: str) -> Iterator[Flaw]:
    if isinstance(part, str):
        return
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        yield Flaw(pointer, "must be a string or an object with a string 'type'")
        return
    if part["type"] == STUB_TYPE:
        yield Flaw(pointer, _STUB_FLAW)
    yield from _string_flaws(part, _PART_STRINGS.get(part["type"], ()), pointer)


def _call_flaws(body: Mapping[str, object], role: str, pointer: str) -> Iterator[Flaw]:
    legacy = body.get("function_call")
    if legacy is not None:
        yield from _named_flaws(legacy, "arguments", f"{pointer}/function_call")
    calls = body.get("tool_calls")
    pointer = f"{pointer}/tool_calls"
    if calls is None:
        return
    if not isinstance(calls, list):
        yield Flaw(pointer, "must be an array of calls")
    elif calls and role != "assistant":
        yield Flaw(pointer, "must be left out: only an assistant message calls tools")
    else:
        for index, call in enumerate(calls):
            yield from _one_call_flaws(call, f"{pointer}/{index}")


def _one_call_flaws(call: object, pointer: str) -> Iterator[Flaw]:
    if not isinstance(call, dict):
        yield Flaw(pointer, "must be an object")
        return
    yield from _string_flaws(call, ("id",), pointer, optional=True)
    if call.get("function") is not None:
        yield from _named_flaws(call["function"], "arguments", f"{pointer}/function")
    elif call.get("custom") is not None:
        yield from _named_flaws(call["custom"], "input", f"{pointer}/custom")
    elif not isinstance(call.get("name"), str) or not isinstance(call.get("args"), dict):
        yield Flaw(pointer, "must have 'function' or 'custom' (or LangChain's 'name' and 'args')")


def _named_flaws(value: object, text: str, pointer: str) -> Iterator[Flaw]:
    if isinstance(value, dict):
        yield from _string_flaws(value, ("name", text), pointer)
    else:
        yield Flaw(pointer, "must be an object")


def _string_flaws(
    value: Mapping[str, object], members: Iterable[str], pointer: str, *, optional: bool = False
) -> Iterator[Flaw]:
    for member in members:
        found = value.get(member)
        if not isinstance(found, str) and not (optional and found is None):
            yield Flaw(f"{pointer}/{member}", "must be a string")
