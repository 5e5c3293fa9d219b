"""A message as plain words, for whoever condenses it: no payloads, no reasoning, calls by name.

Read through the neutral form (app.core.dialects), so every dialect says the same.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from app.core.dialects.neutral import Call, Media, Other, Refusal, Result, Segment, Text
from app.core.dialects.reading import read_message
from app.core.messages import role_of
from app.core.model import Body

_DATA_URI = re.compile(r"data:[\w.+/-]*(?:;[\w=.+-]*)*;base64,[A-Za-z0-9+/=_-]*")
# Looking back keeps it linear: a run is tried from its beginning alone.
_PAYLOAD = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{128,}")


def plain_message(message: Mapping[str, object]) -> Body:
    """Return the message as role, content (a string) and, where it calls tools, tool_calls.

    Shape: a fixed point; ids and every other member are left out.
    """
    body: Body = {"role": role_of(message), "content": plain_text(message)}
    calls = plain_calls(message)
    if calls:
        body["tool_calls"] = [
            {"function": {"name": name, "arguments": arguments}} for name, arguments in calls
        ]
    return body


def plain_text(message: Mapping[str, object]) -> str:
    """Return what the message says, payloads as `[image]` and their like, reasoning left out."""
    texts = _texts(read_message(message).segments)
    return without_payloads("\n".join(text for text in texts if text.strip()))


def plain_calls(message: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the tool calls the message makes as (name, arguments as text), in order."""
    return [
        (without_payloads(segment.name or "tool"), without_payloads(segment.arguments))
        for segment in read_message(message).segments
        if isinstance(segment, Call)
    ]


def without_payloads(text: str) -> str:
    """Replace base64 by `[data]`: data URIs, and unbroken runs of 128 or more of its characters.

    Cost: linear.
    """
    return _PAYLOAD.sub("[data]", _DATA_URI.sub("[data]", mend(text)))


def mend(text: str) -> str:
    """Replace each lone surrogate, which no UTF-8 can carry, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _texts(segments: Iterable[Segment]) -> Iterator[str]:
    for segment in segments:
        match segment:
            case Text() | Refusal():
                yield segment.text
            case Result():
                yield from _texts(segment.segments)
            case Media():
                yield segment.text or f"[{_kind(segment)}]"
            case Other(raw=dict()):
                yield "[data]"


def _kind(media: Media) -> str:
    raw = media.raw
    return "document" if isinstance(raw, dict) and raw.get("type") == "document" else media.kind
