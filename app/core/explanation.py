"""What a load says of itself: what became of each message, and what cleaning cut. Plain values."""

from dataclasses import dataclass
from typing import Literal

Fate = Literal["kept", "summarized", "trimmed", "healed", "shortened", "left-out"]


@dataclass(frozen=True, slots=True)
class Stripped:
    """What cleaning took out of the messages that are sent.

    rules:    version of the strip profile; None when nothing is cleaned.
    messages: how many it changed. Units: tokens as the load's format and encoding count them.
    """

    rules: str | None = None
    messages: int = 0
    characters: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class StrippedMessage:
    """What cleaning took out of one message that is sent. position, id: None if not stored."""

    position: int | None
    id: str | None
    characters: int
    tokens: int


@dataclass(frozen=True, slots=True)
class MessageFate:
    """What became of one message that was read.

    position, checkpoint_id, tokens: None if it is not stored; tokens: the stored count.
    reason: a stable code. sent_tokens: what it costs in this output, 0 when it is not sent.
    """

    position: int | None
    id: str | None
    role: str
    checkpoint_id: str | None
    fate: Fate
    reason: str
    detail: str
    tokens: int | None
    sent_tokens: int


@dataclass(frozen=True, slots=True)
class RangeFate:
    """What became of messages that were not read: positions first to last."""

    first: int
    last: int
    fate: Fate
    reason: str


@dataclass(frozen=True, slots=True)
class WindowExplained:
    """How the window was chosen.

    start: messages before the window, before anything was trimmed.
    window, stride, token_span, token_step: the grid of its start (app.core.window.Grid).
    cap: messages that a request's smaller window allows.
    checkpoint_id, position: where the summary before it ends; None without one.
    why: of the summary's state, one sentence.
    """

    start: int
    window: int
    stride: int
    token_span: int
    token_step: int
    cap: int | None
    checkpoint_id: str | None
    position: int | None
    state: str
    why: str


@dataclass(frozen=True, slots=True)
class Overheads:
    """What of the total belongs to no message, summary or marker.

    reply: what any output costs. pinned: the pinned system message. merged: what is saved since
    messages that the format writes as one cost less than apart.
    """

    reply: int
    pinned: int
    merged: int


@dataclass(frozen=True, slots=True)
class Explanation:
    """What became of every message: those read, oldest first, then ranges of those before them."""

    messages: tuple[MessageFate, ...]
    ranges: tuple[RangeFate, ...]
    stripped: tuple[StrippedMessage, ...]
    window: WindowExplained
    overheads: Overheads
