"""OpenAI Responses items without a role (calls, outputs, reasoning, ...) as chat messages.

Sources: the OpenAI Responses API's input items. Calls that the client answers pair by `call_id`;
what the server runs itself (web search, MCP, a program) is one part of the assistant's.
"""

from collections.abc import Mapping

CALLS: Mapping[str, tuple[str, str]] = {
    "function_call": ("call_id", "arguments"),
    "custom_tool_call": ("call_id", "input"),
    "computer_call": ("call_id", "action"),
    "local_shell_call": ("call_id", "action"),
    "shell_call": ("call_id", "action"),
    "apply_patch_call": ("call_id", "operation"),
    "tool_search_call": ("call_id", "arguments"),
    "mcp_approval_request": ("id", "arguments"),
}
"""Calls for the client to answer: the members that name the call and say what is to be done."""

OUTPUTS: Mapping[str, tuple[str, str]] = {
    "function_call_output": ("call_id", "output"),
    "custom_tool_call_output": ("call_id", "output"),
    "computer_call_output": ("call_id", "output"),
    "local_shell_call_output": ("call_id", "output"),
    "shell_call_output": ("call_id", "output"),
    "apply_patch_call_output": ("call_id", "output"),
    "tool_search_output": ("call_id", "tools"),
    "mcp_approval_response": ("approval_request_id", "reason"),
}
"""The client's answers: the members that name the call and say what came of it."""

NAMED = frozenset({"function_call", "custom_tool_call", "mcp_approval_request"})

_MAYBE_SERVER_RUN = frozenset({"tool_search_call", "tool_search_output"})
_KEYED_BY_ID = frozenset({"item_reference", "mcp_approval_request", "local_shell_call_output"})
_SHELL_OUTPUT = "shell_call_output"


def is_call(item: Mapping[str, object]) -> bool:
    """Tell whether the item is a call that the client is to answer."""
    return item.get("type") in CALLS and not _is_server_run(item)


def is_output(item: Mapping[str, object]) -> bool:
    """Tell whether the item is the client's answer to a call."""
    return item.get("type") in OUTPUTS and not _is_server_run(item)


def pair_key(item: Mapping[str, object]) -> str:
    """Return the id by which a call or an output names the call, "" where it names none."""
    member, _ = {**CALLS, **OUTPUTS}[str(item["type"])]
    key = item.get(member)
    if key is None and item["type"] == "local_shell_call_output":
        key = item.get("id")  # the older of its two documented spellings
    return key if isinstance(key, str) else ""


def item_content(item: Mapping[str, object]) -> dict[str, object]:
    """Return what of the item is its content: not its id, but where it names a call or an item."""
    apart = {"status"} if item.get("type") in _KEYED_BY_ID else {"id", "status"}
    return {name: v for name, v in item.items() if name not in apart and v is not None}


def view(item: Mapping[str, object]) -> dict[str, object]:
    """Return the item as a chat message; what has no place in one is its only part, whole."""
    if is_call(item):
        return {"role": "assistant", "content": None, "tool_calls": [_call(item)]}
    if is_output(item):
        return _result(item)
    return {"role": "assistant", "content": [item]}


def _call(item: Mapping[str, object]) -> dict[str, object]:
    kind = str(item["type"])
    name = item.get("name") if kind in NAMED else kind.removesuffix("_call")
    given = item.get(CALLS[kind][1])
    if given is None and kind == "computer_call":
        given = item.get("actions")
    inner = {"name": name, "input" if kind == "custom_tool_call" else "arguments": given}
    return {"id": pair_key(item), "custom" if "input" in inner else "function": inner}


def _result(item: Mapping[str, object]) -> dict[str, object]:
    output = item.get(OUTPUTS[str(item["type"])][1])
    if isinstance(output, dict):
        output = [output]
    if item["type"] == _SHELL_OUTPUT and isinstance(output, list):
        output = [_streams(entry) for entry in output]
    body: dict[str, object] = {"role": "tool", "tool_call_id": pair_key(item), "content": output}
    return body | ({"status": "error"} if item.get("status") == "failed" else {})


def _streams(entry: object) -> object:
    streams = [entry.get(name) for name in ("stdout", "stderr")] if isinstance(entry, dict) else []
    text = "\n".join(stream for stream in streams if isinstance(stream, str) and stream)
    return {"type": "text", "text": text} if streams else entry


def _is_server_run(item: Mapping[str, object]) -> bool:
    return item.get("type") in _MAYBE_SERVER_RUN and item.get("execution") != "client"
