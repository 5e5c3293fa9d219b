"""What a load says of itself, as documentation; see app.api.answers."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from app.core.explanation import Fate
from app.core.model import SummaryState


class StripOut(BaseModel):
    """What cleaning took out of the messages that were sent. rules: null when it was off."""

    rules: str | None
    messages: int
    characters: int
    tokens: int


class MessageFateOut(BaseModel):
    """What became of one message. sent_tokens: its cost in this answer, 0 when it is not sent.

    position, checkpoint_id and tokens (the stored count) are null for what is not stored. reason:
    stable, for programs; detail: for people.
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


class RangeFateOut(BaseModel):
    """What became of messages that were not read, from one position to another, both included."""

    model_config = ConfigDict(populate_by_name=True, serialize_by_alias=True)

    first: int = Field(alias="from")
    to: int
    fate: Literal["summarized", "trimmed"]
    reason: str


class StrippedMessageOut(BaseModel):
    """What cleaning took out of one message that was sent."""

    position: int | None
    id: str | None
    characters: int
    tokens: int


class ExplainedStripOut(BaseModel):
    """What cleaning took out, message by message."""

    rules: str | None
    messages: list[StrippedMessageOut]


class GridOut(BaseModel):
    """The lines a window may begin at, in messages and in tokens."""

    window: int
    stride: int
    token_span: int
    token_step: int


class PointerOut(BaseModel):
    """The last message of the summary before the window."""

    checkpoint_id: str
    position: int


class WhyOut(BaseModel):
    """The summary's state, and why it is in it."""

    state: SummaryState
    why: str


class WindowExplainedOut(BaseModel):
    """How the window was chosen. start: messages before it, before anything was trimmed.

    cap: the most messages a smaller window of the request allows. pointer: where the summary
    before the window ends, null without one.
    """

    start: int
    grid: GridOut
    cap: int | None
    pointer: PointerOut | None
    summary: WhyOut


class OverheadsOut(BaseModel):
    """What of `tokens.total` belongs to no message.

    The sum of all sent_tokens, tokens.summary, tokens.marker, reply and pinned, less merged, is
    tokens.total. merged: what messages cost less together than each alone.
    """

    reply: int
    pinned: int
    merged: int


class ExplainOut(BaseModel):
    """What became of every message: each position from 1 to coverage.total stands once.

    messages: what was read, oldest first, then the current message; ranges: what is older.
    """

    messages: list[MessageFateOut]
    ranges: list[RangeFateOut]
    strip: ExplainedStripOut
    window: WindowExplainedOut
    tokens: OverheadsOut
