"""What providers demand of each format and what an output costs, written anew from the rules."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anthropic.types import MessageParam, TextBlockParam
from langchain_core.messages import AIMessage, ToolMessage, messages_from_dict, messages_to_dict
from openai.types.chat import ChatCompletionMessageParam
from openai.types.responses import ResponseInputItemParam
from pydantic import BaseModel, TypeAdapter

from app.core.messages import part_text
from app.core.ports import Count
from app.core.tokens import IMAGE_TOKENS
from tests.unit.strategies import Sent, count_openai, pair_faults

_CHAT: TypeAdapter[Any] = TypeAdapter(ChatCompletionMessageParam)
_ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
_MESSAGE: TypeAdapter[Any] = TypeAdapter(MessageParam)
_SYSTEM: TypeAdapter[Any] = TypeAdapter(TextBlockParam)
_MEDIA = {"image", "image_url", "input_image", "input_file", "file"}
# Members that servers want back beside the types that OpenAI's own library knows.
_BESIDE = ("reasoning_content",)


def faults_of(form: str, output: Mapping[str, Any]) -> list[str]:
    """Say what the provider of this format would refuse."""
    match form:
        case "text":
            return [] if isinstance(output["text"], str) else ["no text"]
        case "anthropic":
            return [*_system_faults(output["system"]), *_turn_faults(output["messages"])]
        case "responses":
            return list(_item_faults(output["messages"]))
        case "langchain":
            return list(_langchain_faults(output["messages"]))
        case _:
            return [*_chat_faults(output["messages"]), *pair_faults(output["messages"])]


def _chat_faults(messages: Sequence[Sent]) -> Iterator[str]:
    for message in messages:
        yield from _type_faults(_CHAT, {k: v for k, v in message.items() if k not in _BESIDE})
        yield from ("no id" for call in message.get("tool_calls", []) if not call["id"])


def _system_faults(blocks: Sequence[Sent]) -> Iterator[str]:
    for block in blocks:
        yield from _type_faults(_SYSTEM, block)
    yield from _blank_faults(blocks) if blocks else ()


def _turn_faults(messages: Sequence[Sent]) -> Iterator[str]:
    roles = [message["role"] for message in messages]
    if roles != [("user", "assistant")[n % 2] for n in range(len(roles))]:
        yield f"roles {roles}"
    called: list[str] = []
    used: list[str] = []
    for message in messages:
        blocks = anthropic_blocks(message)
        yield from _type_faults(_MESSAGE, message)
        yield from _blank_faults(blocks)
        if message["role"] == "user":
            yield from _answer_faults(blocks, called)
        called = [block["id"] for block in blocks if block["type"] == "tool_use"]
        used += called
        if [block["type"] for block in blocks[len(blocks) - len(called) :]].count("tool_use") < len(
            called
        ):
            yield "words behind calls"
    yield from (f"id {one!r}" for one in used if not re.fullmatch(r"[a-zA-Z0-9_-]+", one))
    yield from [] if len(set(used)) == len(used) else ["an id twice"]
    yield from ["calls without results at the end"] if called else []


def _answer_faults(blocks: Sequence[Sent], called: Sequence[str]) -> Iterator[str]:
    answers = [block.get("tool_use_id") for block in blocks if block["type"] == "tool_result"]
    if sorted(map(str, answers)) != sorted(called):
        yield f"results {answers} for calls {called}"
    if any(block["type"] != "tool_result" for block in blocks[: len(answers)]):
        yield "results not first"


def _item_faults(items: Sequence[Sent]) -> Iterator[str]:
    open_calls: list[str] = []
    for index, item in enumerate(items):
        yield from _type_faults(_ITEM, item)
        kind = item.get("type", "message")
        if kind == "reasoning":
            follower = items[index + 1] if index + 1 < len(items) else {}
            if follower.get("role") != "assistant" and "call_id" not in follower:
                yield "reasoning without follower"
            elif str(follower.get("type")).endswith("_output"):
                yield "reasoning before an output"
        elif kind in {"function_call", "custom_tool_call"}:
            open_calls.append(item["call_id"])
        elif kind.endswith("_output"):
            yield from [] if item["call_id"] in open_calls else ["output without call"]
            open_calls = [one for one in open_calls if one != item["call_id"]]
    yield from (f"call {one} without output" for one in open_calls)


def _langchain_faults(messages: Sequence[Sent]) -> Iterator[str]:
    dumped = json.loads(json.dumps(messages))
    read = messages_from_dict(dumped)
    if messages_to_dict(read) != dumped:
        yield "is not what messages_to_dict writes"
    called: list[str | None] = []
    for message in read:
        if isinstance(message, ToolMessage):
            yield from [] if message.tool_call_id in called else ["result without call"]
            called.remove(message.tool_call_id)
            continue
        yield from (f"call {one} without result" for one in called)
        called = (
            [call["id"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
        )
    yield from (f"call {one} without result" for one in called)


def count_output(form: str, output: Mapping[str, Any], count: Count) -> int:
    """Count an output by the rule in docs/formats.md, without the code under test."""
    match form:
        case "text":
            return count(output["text"])
        case "anthropic":
            system = 3 + _blocks(output["system"], count) if output["system"] else 0
            turns = [3 + _blocks(anthropic_blocks(m), count) for m in output["messages"]]
            return 3 + system + sum(turns)
        case "responses":
            return 3 + sum(3 + _item(item, count) for item in output["messages"])
        case "langchain":
            return 3 + sum(3 + _data(message["data"], count) for message in output["messages"])
        case _:
            thoughts = [m.get("reasoning_content", "") for m in output["messages"]]
            return count_openai(output["messages"], count) + sum(map(count, thoughts))


def anthropic_blocks(message: Mapping[str, Any]) -> list[Sent]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _blocks(blocks: Sequence[Any], count: Count) -> int:
    return sum(_block(block, count) for block in blocks)


def _block(block: Any, count: Count) -> int:
    text = part_text(block)
    if text is not None:
        return count(text)
    if block["type"] in _MEDIA or block.get("source", {}).get("type") in {"base64", "url", "file"}:
        return IMAGE_TOKENS
    match block["type"]:
        case "thinking" | "reasoning":
            return count(block[block["type"]])
        case "tool_use":
            return count(block["name"]) + _json(block["input"], count)
        case "tool_result":
            content = block["content"]
            return _blocks([content] if isinstance(content, str) else content, count)
        case _:
            return _json(block, count)


def _item(item: Mapping[str, Any], count: Count) -> int:
    content = item.get("content", item.get("output"))
    if "role" in item or item["type"] == "function_call_output":
        return _blocks([content] if isinstance(content, str) else content or [], count)
    if item["type"] == "reasoning":
        return count("\n\n".join(part["text"] for part in item["summary"]))
    if item["type"] == "function_call":
        return count(item["name"]) + count(item["arguments"])
    return _json({k: v for k, v in item.items() if k not in {"id", "status"}}, count)


def _data(data: Mapping[str, Any], count: Count) -> int:
    content = data["content"]
    total = _blocks([content] if isinstance(content, str) else content, count)
    total += count(data["name"]) + 1 if data["name"] else 0
    for call in data.get("tool_calls", []):
        total += count(call["name"]) + _json(call["args"], count)
    return total


def _json(value: object, count: Count) -> int:
    return count(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _type_faults(adapter: TypeAdapter[Any], value: object) -> list[str]:
    """Validate, lists to their ends; a member that the types do not know is a fault as well."""
    try:
        read = _drain(adapter.validate_python(value))
    except ValueError as error:
        return [f"{value}: {error}"]
    return [] if read == value else [f"{value} was read as {read}"]


def _drain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, Mapping):
        return {name: _drain(inner) for name, inner in value.items()}
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        return value
    return [_drain(inner) for inner in value]


def _blank_faults(blocks: Sequence[Sent]) -> Iterator[str]:
    if not blocks:
        yield "no content"
    for block in blocks:
        inner = block.get("content")
        for part in [block, *(inner if isinstance(inner, list) else [])]:
            if part["type"] == "text" and not part["text"].strip():
                yield "blank text"
