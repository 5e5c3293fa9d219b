"""What a message costs in the `openai` format. Counted is what is sent.

Changing a figure or a rule here needs a new VERSION: stored counts carry it and are counted again.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.dialects.neutral import Reasoning
from app.core.dialects.parts import read_part
from app.core.dialects.view import chat_view
from app.core.messages import part_text
from app.core.ports import Count

VERSION = "2"

MESSAGE_OVERHEAD = 3
NAME_OVERHEAD = 1
REPLY_OVERHEAD = 3
"""Source of all three: OpenAI cookbook, "How to count tokens with tiktoken"; design 3.1."""

IMAGE_TOKENS = 1000
"""Flat cost of an image, a sound or a file, in tokens. Source: providers charge 85 to 1,600."""

SENT_MEMBERS = (
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "refusal",
    "audio",
    "function_call",
    "reasoning_content",
    "reasoning_details",
)
"""The members of a message that are sent, hence counted.

Source: OpenAI's chat completions schema, which refuses members it does not know (a client's `id`,
`metadata`, `created_at`), and the two in which DeepSeek, Kimi and OpenRouter want reasoning back.
"""

_PLAIN_MEMBERS = ("refusal", "reasoning_content", "reasoning_details")
_CALL_BODIES = ("function", "custom")
_CALL_TEXTS = ("name", "arguments", "input", "args")
_MEDIA_PARTS = frozenset(
    {"image", "image_url", "input_image", "input_audio", "audio", "video", "file", "input_file"}
)
_THOUGHTS = frozenset({"thinking", "reasoning"})
# In JSON text: a string that is a data address, or long and of base64's letters only.
_PAYLOAD = re.compile(r'"data:[^"]*"|"[A-Za-z0-9+/=_-]{1024,}"')


def rules_id(profile_version: str, image_tokens: int) -> str:
    """Name the rules of a stored count: how messages are cleaned, and what they cost."""
    return f"{profile_version}/{VERSION}/{image_tokens}"


def message_tokens(
    body: Mapping[str, object], count: Count, *, image_tokens: int = IMAGE_TOKENS
) -> int:
    """Return what the message costs in the `openai` format, its overhead included.

    Shape: a message of another dialect at about what it comes to there: its words, calls, media.
    Units: tokens of count's encoding; image_tokens for each image, sound, file or base64 payload.
    Source: 3 a message, a name's own tokens and 1; role and ids are not counted (design 3.1).
    """
    body = chat_view(body)
    meter = _Meter(count, image_tokens)
    total = MESSAGE_OVERHEAD + meter.content(body.get("content"))
    if body.get("name") is not None:
        total += meter.value(body["name"]) + NAME_OVERHEAD
    for call in _calls(body):
        total += meter.call(call)
    if body.get("audio"):
        total += image_tokens
    for member in _PLAIN_MEMBERS:
        if body.get(member):
            total += meter.value(body[member])
    return total


@dataclass(frozen=True, slots=True)
class _Meter:
    count: Count
    image_tokens: int

    def content(self, content: object) -> int:
        if isinstance(content, str):
            return self.count(content)
        return sum(map(self._part, content)) if isinstance(content, list) else self.value(content)

    def call(self, call: object) -> int:
        """Count a call's name and arguments, in whichever of its dialects it is."""
        if not isinstance(call, dict):
            return self.value(call)
        inner = next((call[m] for m in _CALL_BODIES if isinstance(call.get(m), dict)), call)
        return sum(self.value(inner.get(member)) for member in _CALL_TEXTS)

    def value(self, value: object) -> int:
        """Count a text as it is, anything else as its JSON; base64 in it costs a flat sum."""
        if value is None:
            return 0
        if isinstance(value, str):
            return self.count(value)
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        text, payloads = _PAYLOAD.subn('""', text)
        return self.count(text) + payloads * self.image_tokens

    def _part(self, part: object) -> int:
        text = part_text(part)
        if text is not None:
            return self.count(text)
        if not isinstance(part, dict):
            return self.value(part)
        kind = part.get("type")
        if kind == "tool_use":
            return self.call(part)
        if kind == "tool_result":
            return self.content(part.get("content"))
        if kind in _THOUGHTS:
            thought = read_part(part)
            return self.count(thought.text) if isinstance(thought, Reasoning) else 0
        return self.image_tokens if kind in _MEDIA_PARTS else self.value(part)


def _calls(body: Mapping[str, object]) -> list[object]:
    tool_calls = body.get("tool_calls")
    calls = tool_calls if isinstance(tool_calls, list) else []
    return [*calls, body["function_call"]] if body.get("function_call") else calls
