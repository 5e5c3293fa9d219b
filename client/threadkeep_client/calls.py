"""Every call as a value: what is sent and what comes back. No I/O: both clients share it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, Literal, TypeAlias, TypedDict, TypeVar

from threadkeep_client.answers import (
    Channel,
    Checkpoint,
    Context,
    Message,
    Page,
    Saved,
    Staged,
    Thread,
)
from threadkeep_client.wire import segment

_T = TypeVar("_T")
_LOAD: Final = "/v1/context"
_THREADS: Final = "/v1/threads"

Conflicts = Literal["append", "reject", "branch"]


class Unknown:
    """The type of UNKNOWN."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = Unknown()
"""A head that the caller does not know; None is the head of an empty thread."""

Head: TypeAlias = str | Unknown | None


class LoadOptions(TypedDict, total=False):
    """What a load may ask for; the service's defaults where it is left out.

    checkpoint_id: history as of that turn. token_budget, window, stride: in tokens, in messages.
    history, conversation: the caller's own history, instead of the stored thread.
    A newer service's options may be given as well; one that the service does not know is named in
    the answer's `warnings`.
    """

    checkpoint_id: str | None
    token_budget: int
    window: int
    stride: int
    encoding: str
    format: Literal["openai", "anthropic", "responses", "langchain", "text"]
    marker: Literal["on", "off"]
    strip: str
    large_values: Literal["inline", "stub"]
    explain: bool
    history: str
    conversation: Sequence[Message]


class SaveOptions(TypedDict, total=False):
    """What a save may say besides.

    on_conflict: what happens if parent is not the head: `append` stores after the head, `reject`
    raises ParentMoved, `branch` stores a sibling that becomes the head.
    metadata: kept beside the turn. format: the messages' dialect, if it is not to be recognised.
    """

    on_conflict: Conflicts
    metadata: Mapping[str, Any]
    format: Literal["openai", "anthropic", "responses", "langchain"]


@dataclass(frozen=True, slots=True)
class Call(Generic[_T]):
    """One call; _T is what its answer is."""

    method: str
    path: str
    json: Mapping[str, object] | None = field(default=None, repr=False)
    params: Mapping[str, Any] | None = None


def load(
    thread_id: str | None, message: str | Message | None, options: LoadOptions
) -> Call[Context]:
    """Return a load. Shape: members that are None are left out."""
    body = {"thread_id": thread_id, "message": message, **options}
    return Call("POST", _LOAD, _without_none(body))


def save(
    thread_id: str,
    messages: Sequence[Message],
    parent: Head,
    key: str | None,
    options: SaveOptions,
) -> Call[Saved]:
    """Return a save."""
    body = {"messages": list(messages), "key": key, **options}
    return Call("POST", _thread(thread_id, "turns"), {**_parent(parent), **_without_none(body)})


def stage(
    thread_id: str,
    task_id: str,
    writes: Mapping[str, object],
    parent: Head,
    key: str | None,
) -> Call[Staged]:
    """Return the staging of a task's values. Shape: writes, channel -> value, in their order."""
    listed = [{"channel": channel, "value": value} for channel, value in writes.items()]
    body = {**_parent(parent), **_without_none({"key": key}), "writes": listed}
    return Call("PUT", _thread(thread_id, "writes", task_id), body)


def discard(thread_id: str, key: str | None) -> Call[None]:
    """Return the discarding of what is staged."""
    return Call("DELETE", _thread(thread_id, "writes"), params=_without_none({"key": key}))


def threads(page_size: int) -> Call[Page[Thread]]:
    """Return the first page of the threads."""
    return Call("GET", _THREADS, params={"limit": page_size})


def thread(thread_id: str) -> Call[Thread]:
    """Return the reading of one thread."""
    return Call("GET", _thread(thread_id))


def messages(thread_id: str, order: Literal["asc", "desc"], page_size: int) -> Call[Page[Message]]:
    """Return the first page of a thread's messages."""
    return Call("GET", _thread(thread_id, "messages"), params={"order": order, "limit": page_size})


def delete_thread(thread_id: str, *, reuse: bool) -> Call[None]:
    """Return a deletion."""
    return Call("DELETE", _thread(thread_id), params={"reuse": "true"} if reuse else None)


def checkpoints(thread_id: str, ns: str | None, page_size: int) -> Call[Page[Checkpoint]]:
    """Return the first page of a thread's checkpoints."""
    params = _without_none({"ns": ns, "limit": page_size})
    return Call("GET", _thread(thread_id, "checkpoints"), params=params)


def checkpoint(thread_id: str, checkpoint_id: str) -> Call[Checkpoint]:
    """Return the reading of one checkpoint."""
    return Call("GET", _thread(thread_id, "checkpoints", checkpoint_id))


def channel(thread_id: str, checkpoint_id: str, name: str) -> Call[Channel]:
    """Return the reading of one channel alone."""
    return Call("GET", _thread(thread_id, "checkpoints", checkpoint_id, "channels", name))


def set_head(thread_id: str, checkpoint_id: str | None, expected: Head) -> Call[Thread]:
    """Return the choice of a head."""
    known = {} if isinstance(expected, Unknown) else {"expected": expected}
    return Call("PUT", _thread(thread_id, "head"), {"checkpoint_id": checkpoint_id, **known})


def fork(thread_id: str, new_thread_id: str, checkpoint_id: str | None) -> Call[Thread]:
    """Return a fork."""
    body = {"thread_id": new_thread_id, **_without_none({"checkpoint_id": checkpoint_id})}
    return Call("POST", _thread(thread_id, "fork"), body)


def next_page(call: Call[Page[_T]], page: Page[_T]) -> Call[Page[_T]] | None:
    """Return the call for the page after this one; None after the last."""
    cursor = page["next_cursor"]
    if cursor is None:
        return None
    return replace(call, params={**(call.params or {}), "cursor": cursor})


def _thread(thread_id: str, *rest: str) -> str:
    return "/".join((_THREADS, *map(segment, (thread_id, *rest))))


def _parent(parent: Head) -> dict[str, object]:
    return {} if isinstance(parent, Unknown) else {"parent": parent}


def _without_none(members: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}
