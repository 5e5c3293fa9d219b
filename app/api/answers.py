"""The answers of the contract, as documentation: these models never run.

What is sent is written by the routes as plain dicts of the same members; a test holds the two
together.
"""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict

from app.api.explanations import ExplainOut, StripOut
from app.core.model import SummaryState

# FastAPI leaves nulls out of the document, examples included, so these have none.
_HEAD = "0000000006-5f0c1b7e9a3d4c6f8e2b1a"
_BEFORE = "0000000004-b27c94d01e6f8a35c2d7e1"
_CONTEXT: JsonDict = {
    "thread_id": "t1",
    "head": _HEAD,
    "shape": 1,
    "format": "openai",
    "messages": [
        {"role": "system", "name": "threadkeep_summary", "content": "Asked about long rivers."},
        {"role": "user", "content": "How long is the Nile?"},
        {"role": "assistant", "content": "About 6,650 km."},
        {"role": "system", "name": "threadkeep_marker", "content": "The current request follows."},
        {"role": "user", "content": "And the Amazon?"},
    ],
    "summary": {
        "text": "Asked about long rivers.",
        "state": "fresh",
        "covers": 4,
        "boundary": {"checkpoint_id": _BEFORE, "position": 4},
        "method": "model",
        "model": "gpt-4o-mini",
        "prompt": "summary-1",
        "created_at": "2030-01-02T03:04:05Z",
    },
    "coverage": {"total": 6, "summarized": 4, "window": 2, "trimmed": 0, "from_position": 5},
    "tokens": {
        "budget": 16000,
        "total": 65,
        "summary": 15,
        "window": 22,
        "marker": 15,
        "message": 10,
        "encoding": "o200k_base",
        "over_budget": False,
    },
    "strip": {"rules": "strip-1", "messages": 0, "characters": 0, "tokens": 0},
    "pending": [],
    "warnings": [],
}
_SAVED: JsonDict = {
    "thread_id": "t1",
    "checkpoint_id": _HEAD,
    "parent_checkpoint_id": _BEFORE,
    "digest": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "messages": [
        {"id": "msg_0a1b2c3d4e5f60718293a4b5", "role": "user", "position": 5, "new": True},
        {"id": "msg_5f60718293a4b50a1b2c3d4e", "role": "assistant", "position": 6, "new": True},
    ],
    "created": True,
    "rebased": False,
    "ignored": [],
    "warnings": [],
}


class Message(BaseModel):
    """One message, or a Responses item (by type); members beyond these are kept as they are."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"examples": [{"role": "user", "content": "Hello"}]}
    )

    role: str | None = None
    content: str | list[object] | None = None
    type: str | None = None
    data: dict[str, object] | None = None
    name: str | None = None
    tool_calls: list[object] | None = None
    tool_call_id: str | None = None


class Warned(BaseModel):
    """Something was ignored or healed. code: stable, for programs; detail: for people."""

    model_config = ConfigDict(extra="allow")

    code: str
    detail: str


class Boundary(BaseModel):
    """The last message a summary covers."""

    checkpoint_id: str
    position: int


class SummaryOut(BaseModel):
    """What stands for the messages before the window. covers: how many messages that are.

    prompt: the version of what made it: a model's prompt, or the extractive rules.
    """

    state: SummaryState
    covers: int
    boundary: Boundary | None
    method: Literal["model", "extractive"] | None
    model: str | None
    prompt: str | None
    created_at: datetime | None


class ContextSummaryOut(SummaryOut):
    """The summary as it was sent."""

    text: str | None


class BuiltSummaryOut(SummaryOut):
    """The summary after a build. built: summaries made by this call."""

    built: int


class CoverageOut(BaseModel):
    """summarized + window + trimmed = total. from_position: first message of the window, from 1."""

    total: int
    summarized: int
    window: int
    trimmed: int
    from_position: int | None


class TokensOut(BaseModel):
    """Tokens of what was sent, by section; total is exact for the encoding."""

    budget: int
    total: int
    summary: int
    window: int
    marker: int
    message: int
    encoding: str
    over_budget: bool


class PendingOut(BaseModel):
    """What is staged for one turn in flight: `{task_id, channel, value}` each, as staged."""

    key: str | None
    writes: list[dict[str, object]]


class ContextOut(BaseModel):
    """What the model should read.

    `messages` in the format that was asked for, or `text` in the format `text`; `anthropic` adds
    `system`, blocks to send as the request's own `system` (none: an empty list).
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_CONTEXT]})

    thread_id: str | None
    head: str | None
    shape: Literal[1, 2, 3]
    format: str
    messages: list[Message] | None = None
    system: list[dict[str, object]] | None = None
    text: str | None = None
    summary: ContextSummaryOut
    coverage: CoverageOut
    tokens: TokensOut
    strip: StripOut
    pending: list[PendingOut]
    warnings: list[Warned]
    explain: ExplainOut | None = None


class SavedMessageOut(BaseModel):
    """One message of a saved turn. new: false if the thread held it before."""

    id: str
    role: str
    position: int
    new: bool


class IgnoredOut(BaseModel):
    """A message that is never stored. index: in the request's `messages`."""

    model_config = ConfigDict(extra="allow")

    index: int
    role: str
    reason: str


class SavedOut(BaseModel):
    """A stored turn. created: false for a retry, which answers with the first save's ids."""

    model_config = ConfigDict(json_schema_extra={"examples": [_SAVED]})

    thread_id: str
    checkpoint_id: str | None
    parent_checkpoint_id: str | None
    digest: str
    messages: list[SavedMessageOut]
    created: bool
    rebased: bool
    ignored: list[IgnoredOut]
    warnings: list[Warned]


class ThreadSummaryOut(BaseModel):
    """Where the newest summary of a thread ends."""

    state: SummaryState
    covers: int
    boundary: Boundary | None


class ForkedFromOut(BaseModel):
    """The thread and the turn in it that a thread was copied from; either may be gone since."""

    thread_id: str
    checkpoint_id: str


class ThreadOut(BaseModel):
    """One thread. messages, turns, tokens: of its current branch; bytes: of all it stores."""

    thread_id: str
    owner: str | None
    title: str | None
    metadata: dict[str, object]
    head: str | None
    messages: int
    turns: int
    tokens: int
    bytes: int
    summary: ThreadSummaryOut
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    forked_from: ForkedFromOut | None


class ThreadsPage(BaseModel):
    """Threads, newest first by creation."""

    items: list[ThreadOut]
    next_cursor: str | None
    has_more: bool


class StoredMessageOut(Message):
    """A message as it was stored, with its place. client_id: the `id` that its sender gave it."""

    id: str
    position: int
    checkpoint_id: str
    client_id: str | None = None


class MessagesPage(BaseModel):
    """Messages of the current branch."""

    items: list[StoredMessageOut]
    next_cursor: str | None
    has_more: bool


class HealthOut(BaseModel):
    """The process answers."""

    status: Literal["ok"]


class ReadyOut(BaseModel):
    """Whether requests can be served. cache: not required; null where none is configured."""

    status: Literal["ready", "unavailable"]
    database: bool
    migrated: bool
    cache: bool | None
