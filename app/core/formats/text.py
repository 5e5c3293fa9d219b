"""Plain text, for prompts that are one string: a block for each message, then a blank line."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.core.dialects.neutral import (
    Call,
    Dialect,
    Media,
    Reasoning,
    Refusal,
    Result,
    Segment,
    Text,
)
from app.core.dialects.reading import read_message
from app.core.formats.format import Sections, Translated
from app.core.messages import (
    HISTORY_NAME,
    MARKER_NAME,
    SUMMARY_NAME,
    is_empty,
    is_injected,
    part_text,
    parts_of,
    role_of,
)
from app.core.model import Body
from app.core.ports import Count

_ROLE_LABELS = {"user": "User", "assistant": "Assistant", "tool": "Tool", "system": "System"}
_INJECTED_LABELS = {SUMMARY_NAME: "Summary", MARKER_NAME: "Note"}
# A block stands before a letter or at the end. Some encodings (r50k, p50k) merge a blank line at
# the end of a text, but not before a letter: this one, taken off again, lets a block cost its most.
_NEXT_BLOCK = "A"
# A message may not pass for several: what looks like a block's beginning inside one is indented.
_LOOK_ALIKE = re.compile(r"\n(?=(?:User|Assistant|Tool|System|Summary|Note|Call)\b[^\n:]*:)")


@dataclass(frozen=True, slots=True)
class TextFormat:
    """The `text` format: `User: ...`, `Assistant: ...`, `Tool (name): ...`.

    Tool calls are lines of their own; images, files and unknown parts are named in brackets.
    """

    name: str = "text"
    reply_overhead: int = 0
    opens_with_user: bool = False
    pairs_meet: bool = False

    def translate(self, body: Body, dialect: Dialect) -> Translated:  # noqa: ARG002
        """Leave out reasoning; what no chat message is becomes one, its parts as they were."""
        message = read_message(body)
        thoughts = [one for one in message.segments if isinstance(one, Reasoning)]
        if "role" in body:
            if not thoughts:
                return Translated((body,))
            raw = [thought.raw for thought in thoughts]
            parts = [part for part in parts_of(body) if not any(part is one for one in raw)]
            said: Body = {**body, "content": parts}
            bodies = () if is_empty(said) else (said,)
        else:
            spoken = [one for one in message.segments if not isinstance(one, Reasoning)]
            bodies = (_chat_message(message.role, message.name, spoken),) if spoken else ()
        return Translated(bodies, tuple("reasoning" for _ in thoughts))

    def frame(self, body: Body) -> Body:
        """Return the system message as it is; its block is labelled by its name."""
        return body

    def cost(self, body: Mapping[str, object], count: Count) -> int:
        """Return what the message's block costs before another block."""
        return count(_block(body) + _NEXT_BLOCK) - count(_NEXT_BLOCK)

    def saved(self, sections: Sections) -> int:  # noqa: ARG002
        """Return 0: blocks stay apart."""
        return 0

    def render(self, sections: Sections) -> Mapping[str, object]:
        """Return `text`: the blocks, one after the other."""
        return {"text": "".join(_block(body) for body in sections.bodies())}

    def total(self, output: Mapping[str, object], added: int, count: Count) -> int:  # noqa: ARG002
        """Count the whole text: in some encodings the last block costs a little less."""
        return count(str(output["text"]))


def _chat_message(role: str, name: str | None, spoken: Sequence[Segment]) -> Body:
    first = spoken[0]
    if isinstance(first, Result):
        parts = [_shown(inner) for inner in first.segments]
        whose = {"name": name} if name else {"tool_call_id": first.call_id}
        return {"role": "tool", **whose, "content": parts}
    calls = [
        {"id": one.id, "name": one.name, "arguments": one.arguments}
        for one in spoken
        if isinstance(one, Call)
    ]
    said = [_shown(one) for one in spoken if not isinstance(one, Call)]
    named = {"name": name} if name else {}
    return {"role": role, **named, "content": said, "tool_calls": calls}


def _shown(segment: Segment) -> object:
    """Return a part that is written as the segment's words, or as its kind in brackets."""
    if isinstance(segment, Media) and segment.text is None:
        return {"type": segment.kind}
    return segment.text if isinstance(segment, Text | Refusal | Media) else segment.raw


def _block(body: Mapping[str, object]) -> str:
    if is_injected(body) and body["name"] == HISTORY_NAME:
        return f"{body['content']}\n\n"
    return "\n".join(_LOOK_ALIKE.sub("\n ", line) for line in _lines(body)) + "\n\n"


def _lines(body: Mapping[str, object]) -> Iterator[str]:
    spoken = [part for part in parts_of(body) if not _is_tool_part(part)]
    said = "\n".join(_part_words(part) for part in spoken) or _elsewhere(body)
    results = [part for part in parts_of(body) if _is_part(part, "tool_result")]
    if said or not (results or _calls(body)):
        yield f"{_label(body)}: {said}"
    yield from (_call_line(call) for call in _calls(body))
    yield from (_result_line(part) for part in results if isinstance(part, dict))


def _label(body: Mapping[str, object]) -> str:
    if is_injected(body):
        return _INJECTED_LABELS[str(body["name"])]
    role = _ROLE_LABELS.get(role_of(body), "System")
    whose = body.get("name") or body.get("tool_call_id")
    return f"{role} ({' '.join(str(whose).split())})" if whose else role


def _elsewhere(body: Mapping[str, object]) -> str:
    return str(body.get("refusal") or "") or ("[audio]" if body.get("audio") else "")


def _part_words(part: object) -> str:
    text = part_text(part)
    if text is not None:
        return text
    kind = part.get("type") if isinstance(part, dict) else None
    return f"[{kind}]" if isinstance(kind, str) else "[part]"


def _calls(body: Mapping[str, object]) -> list[Mapping[str, object]]:
    tool_calls = body.get("tool_calls")
    calls = [*(tool_calls if isinstance(tool_calls, list) else []), body.get("function_call")]
    parts = [part for part in parts_of(body) if _is_part(part, "tool_use")]
    return [call for call in [*calls, *parts] if isinstance(call, dict)]


def _call_line(call: Mapping[str, object]) -> str:
    inner: Mapping[str, object] = call
    for member in ("function", "custom"):
        nested = call.get(member)
        if isinstance(nested, dict):
            inner = nested
    given = next((inner[m] for m in ("arguments", "input", "args") if inner.get(m) is not None), "")
    arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    whose = f" ({call['id']})" if call.get("id") else ""
    return f"Call{whose}: {inner.get('name') or ''} {arguments}"


def _result_line(part: Mapping[str, object]) -> str:
    words = "\n".join(_part_words(inner) for inner in parts_of(part))
    return f"Tool ({part.get('tool_use_id')}): {words}"


def _is_tool_part(part: object) -> bool:
    return _is_part(part, "tool_use") or _is_part(part, "tool_result")


def _is_part(part: object, kind: str) -> bool:
    return isinstance(part, dict) and part.get("type") == kind
