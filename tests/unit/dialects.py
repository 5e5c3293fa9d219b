"""One conversation as each dialect writes it, with everything its provider documents in it.

A user asks with a picture, the model thinks, calls a tool, gets its result, and answers.
"""

import json
from collections.abc import Mapping

from app.core.model import Body

PNG = "iVBORw0KGgo="
ARGUMENTS = '{"city": "Lima"}'

OPENAI: list[Body] = [
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Where is this?"},
            {
                "type": "image_url",
                "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"},
            },
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "Looks like Peru.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "weather", "arguments": ARGUMENTS},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees"},
    {"role": "assistant", "content": "Lima, 18 degrees.", "refusal": None, "annotations": []},
]

RESPONSES: list[Body] = [
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "Where is this?"},
            {
                "type": "input_image",
                "image_url": f"data:image/png;base64,{PNG}",
                "file_id": None,
                "detail": "low",
            },
        ],
    },
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Looks like Peru."}],
        "encrypted_content": "gAAAAABo",
        "status": None,
    },
    {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "weather",
        "arguments": ARGUMENTS,
        "status": "completed",
    },
    {"type": "function_call_output", "call_id": "call_1", "output": "18 degrees"},
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [
            {
                "type": "output_text",
                "text": "Lima, 18 degrees.",
                "annotations": [],
                "logprobs": [],
            }
        ],
    },
]

ANTHROPIC: list[Body] = [
    {
        "role": "user",
        "content": [
            {
                "type": "text",
                "text": "Where is this?",
                "cache_control": {"type": "ephemeral"},
            },
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": PNG},
            },
        ],
    },
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Looks like Peru.", "signature": "EqQBCgIYAg=="},
            {
                "type": "tool_use",
                "id": "call_1",
                "name": "weather",
                "input": json.loads(ARGUMENTS),
            },
        ],
    },
    {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "18 degrees"}],
    },
    {"role": "assistant", "content": [{"type": "text", "text": "Lima, 18 degrees."}]},
]


def langchain(kind: str, content: object, **members: object) -> Body:
    """A message as `messages_to_dict` of langchain-core 1.x writes it."""
    data: Body = {
        "content": content,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": kind,
        "name": None,
        "id": None,
    }
    return {"type": kind, "data": data | members}


LANGCHAIN: list[Body] = [
    langchain(
        "human",
        [
            {"type": "text", "text": "Where is this?"},
            {"type": "image", "base64": PNG, "mime_type": "image/png", "extras": {"detail": "low"}},
        ],
    ),
    langchain(
        "ai",
        [
            {"type": "reasoning", "reasoning": "Looks like Peru."},
            {"type": "tool_use", "id": "call_1", "name": "weather", "input": {}},
        ],
        id="run-1",
        additional_kwargs={"tool_calls": [OPENAI[1]["tool_calls"][0]]},  # type: ignore[index]
        tool_calls=[
            {
                "name": "weather",
                "args": json.loads(ARGUMENTS),
                "id": "call_1",
                "type": "tool_call",
            }
        ],
        invalid_tool_calls=[],
        usage_metadata={"input_tokens": 9, "output_tokens": 9, "total_tokens": 18},
    ),
    langchain(
        "tool", "18 degrees", tool_call_id="call_1", status="success", artifact={"raw": [18]}
    ),
    langchain("AIMessageChunk", "Lima, 18 degrees.", tool_call_chunks=[], chunk_position="last"),
]

DIALECTS: Mapping[str, list[Body]] = {
    "openai": OPENAI,
    "responses": RESPONSES,
    "anthropic": ANTHROPIC,
    "langchain": LANGCHAIN,
}
