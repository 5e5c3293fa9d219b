"""What the service answers: plain dicts, typed by the members that are documented.

They are not checked and not copied, so members of a newer service are there to be read, and a
member that an older one lacks fails only where it is read.
"""

from typing import Any, Generic, Literal, NotRequired, TypeAlias, TypedDict, TypeVar

_T = TypeVar("_T")

Message: TypeAlias = dict[str, Any]
"""One message in one of the service's dialects, as it is sent and stored."""


class Page(TypedDict, Generic[_T]):
    """One page of a list."""

    items: list[_T]
    next_cursor: str | None
    has_more: bool


class Warned(TypedDict):
    """Something was ignored or healed. code: stable, for programs; detail: for people."""

    code: str
    detail: str


class Boundary(TypedDict):
    """The last message that a summary covers."""

    checkpoint_id: str
    position: int


class Summary(TypedDict):
    """What stands for the messages before the window. covers: how many messages that are."""

    text: str | None
    state: Literal["none", "fresh", "stale"]
    covers: int
    boundary: Boundary | None
    method: Literal["model", "extractive"] | None
    model: str | None
    created_at: str | None


class Coverage(TypedDict):
    """summarized + window + trimmed = total. from_position: first of the window, from 1."""

    total: int
    summarized: int
    window: int
    trimmed: int
    from_position: int | None


class Tokens(TypedDict):
    """Tokens of what was answered, by section."""

    budget: int
    total: int
    summary: int
    window: int
    marker: int
    message: int
    encoding: str
    over_budget: bool


class StagedWrite(TypedDict):
    """One value that a task of a turn in flight has staged."""

    task_id: str
    channel: str
    value: Any


class Pending(TypedDict):
    """What is staged for one turn in flight, in the order it was staged. key: None without one."""

    key: str | None
    writes: list[StagedWrite]


class Context(TypedDict):
    """What the model should read. head: hand it back as `parent` when the turn is saved."""

    thread_id: str | None
    head: str | None
    shape: int
    format: str
    messages: NotRequired[list[Message]]
    """In every format but `text`."""
    system: NotRequired[list[dict[str, Any]]]
    """In the format `anthropic`."""
    text: NotRequired[str]
    """In the format `text`."""
    summary: Summary
    coverage: Coverage
    tokens: Tokens
    pending: list[Pending]
    warnings: list[Warned]
    explain: NotRequired[dict[str, Any]]


class SavedMessage(TypedDict):
    """One message of a saved turn. new: false if the thread held it before."""

    id: str
    role: str
    position: int
    new: bool


class Saved(TypedDict):
    """A stored turn. created: false for a repeat, which answers with the first save's ids."""

    thread_id: str
    checkpoint_id: str | None
    parent_checkpoint_id: str | None
    digest: str
    messages: list[SavedMessage]
    created: bool
    rebased: bool
    ignored: list[dict[str, Any]]
    warnings: list[Warned]


class Staged(TypedDict):
    """What was staged. created: false for a repeat.

    folded: the turn of this key is saved already, as checkpoint_id, and nothing was staged.
    """

    thread_id: str
    task_id: str
    parent: str | None
    key: str | None
    staged: int
    created: bool
    folded: bool
    checkpoint_id: str | None
    warnings: list[Warned]


class Thread(TypedDict):
    """What is known of a thread. messages, turns, tokens, bytes: of its current branch."""

    thread_id: str
    owner: str | None
    title: str | None
    metadata: dict[str, Any] | None
    head: str | None
    messages: int
    turns: int
    tokens: int
    bytes: int
    summary: dict[str, Any]
    created_at: str
    updated_at: str
    expires_at: str | None
    forked_from: NotRequired[dict[str, Any] | None]


class Checkpoint(TypedDict):
    """One point of a thread. current: on the branch that ends in the head."""

    checkpoint_id: str
    parent_checkpoint_id: str | None
    ns: str
    step: int | None
    source: str | None
    position: int | None
    messages: Any
    """In a list how many; of one checkpoint alone the messages themselves."""
    tokens: int | None
    created_at: str
    metadata: dict[str, Any] | None
    current: bool
    channels: NotRequired[list[dict[str, Any]]]
    """Of one checkpoint alone: its large values, without the values."""


class Channel(TypedDict):
    """One value of one checkpoint."""

    checkpoint_id: str
    channel: str
    version: str
    type: str
    bytes: int
    value: Any
