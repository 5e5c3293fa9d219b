"""What is staged for a turn in flight: the request, what the store says to it, and the answer."""

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from app.core.digest import KeyAnchor, canonical, identity
from app.core.errors import (
    CheckpointNotFound,
    Flaw,
    InvalidPayload,
    ThreadDeleted,
    ThreadNotFound,
    WriteDiffers,
)
from app.core.model import ThreadKey

MAX_WRITES = 200
"""The most values of one task."""

MAX_STAGED_WRITES = 1_000
"""The most values staged under one parent, since a load returns them all."""

MAX_STAGED_BYTES = 16 * 1024 * 1024
"""The most bytes of JSON staged under one parent, for the same reason."""

Value: TypeAlias = tuple[str, object]
"""A channel and its JSON value."""

StageOutcome = Literal[
    "created",
    "same",
    "differs",
    "folded",
    "too-many",
    "too-large",
    "no-parent",
    "unknown",
    "deleted",
]
DiscardOutcome = Literal["done", "unknown", "deleted"]


@dataclass(frozen=True, slots=True)
class StageRequest:
    """One task's values. parent_known: `parent` was sent, null included."""

    thread: ThreadKey
    task_id: str
    values: tuple[Value, ...]
    key: str | None = None
    parent: str | None = None
    parent_known: bool = False

    @property
    def identity(self) -> bytes | None:
        """The identity of the turn that a save with this key stores; None without a key."""
        return None if self.key is None else identity(self.thread, KeyAnchor(self.key))


@dataclass(frozen=True, slots=True)
class Stored:
    """What the store did. parent: under which the task stands. checkpoint_id: of the saved turn.

    values: as they are stored, where they are not spelled as the request's.
    """

    outcome: StageOutcome
    parent: str | None
    checkpoint_id: str | None
    values: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True)
class Staged:
    """A stage's answer. staged: how many values of the task stand staged now.

    created: false for the same again. folded: the key's turn is saved already; nothing was staged.
    """

    thread_id: str
    task_id: str
    parent: str | None
    key: str | None
    staged: int
    created: bool
    folded: bool
    checkpoint_id: str | None


class StagingStore(Protocol):
    """Writes of turns in flight."""

    async def stage(self, request: StageRequest) -> Stored:
        """Store one task's values whole, once, in one trip.

        Shape: values of a task keep their order; the tasks of one key and parent the order in which
            they were first staged. A parent that is not known is where the key has staged before,
            else the head.
        """
        ...

    async def discard(self, thread: ThreadKey, *, turn_key: str | None) -> DiscardOutcome:
        """Remove what is staged, of one key or (None) all of the thread."""
        ...


def answer(request: StageRequest, stored: Stored) -> Staged:
    """Turn what the store did into the answer.

    Errors: ThreadNotFound, ThreadDeleted, CheckpointNotFound, WriteDiffers, InvalidPayload (the
        limits of one parent).
    """
    _check(request, stored)
    folded = stored.outcome == "folded"
    return Staged(
        thread_id=request.thread.thread_id,
        task_id=request.task_id,
        parent=stored.parent,
        key=request.key,
        staged=0 if folded else len(request.values),
        created=stored.outcome == "created",
        folded=folded,
        checkpoint_id=stored.checkpoint_id,
    )


def check_discarded(outcome: DiscardOutcome) -> None:
    """Accept that nothing is staged any more. Errors: ThreadNotFound, ThreadDeleted."""
    if outcome == "unknown":
        raise ThreadNotFound
    if outcome == "deleted":
        raise ThreadDeleted


def _check(request: StageRequest, stored: Stored) -> None:
    match stored.outcome:
        case "unknown":
            raise ThreadNotFound
        case "deleted":
            raise ThreadDeleted
        case "no-parent":
            raise CheckpointNotFound
        case "differs" if not _equal(request.values, stored.values):
            raise WriteDiffers(task_id=request.task_id, key=request.key, parent=stored.parent)
        case "too-many":
            raise _full(f"{MAX_STAGED_WRITES} values")
        case "too-large":
            raise _full(f"{MAX_STAGED_BYTES} bytes")


def _equal(sent: tuple[Value, ...], stored: tuple[Value, ...]) -> bool:
    """Compare as JSON: members in another order, or a number spelled otherwise, are the same."""
    return canonical(sent) == canonical(stored)


def _full(limit: str) -> InvalidPayload:
    detail = f"would stage more than {limit} under one parent, the most that a load returns"
    return InvalidPayload([Flaw("#/writes", detail)])
