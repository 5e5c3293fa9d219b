"""The tree of a thread's turns: its checkpoints, its head, forks; and the store's roles for it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from app.core.model import Registry, ThreadKey, Turn

MoveOutcome = Literal["done", "moved", "no-checkpoint", "unknown", "deleted"]
ForkOutcome = Literal["created", "same", "exists", "unknown", "no-checkpoint", "foreign", "deleted"]
EraseOutcome = Literal["erased", "unknown"]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One point of a tree. current: on the branch that ends in the head.

    position, messages, tokens: of turns alone; cumulative, the turn's own number, cumulative.
    """

    checkpoint_id: str
    parent_id: str | None
    ns: str
    step: int | None
    source: str | None
    position: int | None
    messages: int | None
    tokens: int | None
    created_at: datetime
    metadata: Mapping[str, object]
    current: bool


CheckpointPage: TypeAlias = tuple[tuple[Checkpoint, ...], str | None]


@dataclass(frozen=True, slots=True)
class Value:
    """A large value of a turn. data: its JSON text as it was stored."""

    channel: str
    version: str
    type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class HeadMove:
    """A wish for another head. checkpoint_id None: before the first turn.

    expected: the head it was made on, if expected_known.
    """

    checkpoint_id: str | None
    expected: str | None = None
    expected_known: bool = False


@dataclass(frozen=True, slots=True)
class HeadMoved:
    """What the store did. registry: as it then is (`done`, `moved`)."""

    outcome: MoveOutcome
    registry: Registry | None


@dataclass(frozen=True, slots=True)
class Forked:
    """What the store did. registry: the new thread's (`created`, `same`)."""

    outcome: ForkOutcome
    registry: Registry | None


@dataclass(frozen=True, slots=True)
class Erased:
    """What the store did. epoch: under which the thread's summaries were cached until now."""

    outcome: EraseOutcome
    epoch: int


class BranchStore(Protocol):
    """Turns as a tree. Every method is one trip."""

    async def page(
        self, key: ThreadKey, ns: str, *, limit: int, cursor: str | None
    ) -> CheckpointPage | None:
        """List the checkpoints of one namespace, of every branch, greatest id first.

        `current` is of the branch that was current on the first page; among graph checkpoints that
        is the latest's. None: an unknown thread. Errors: InvalidPayload for a bad cursor.
        """
        ...

    async def turn(self, key: ThreadKey, checkpoint_id: str) -> tuple[Turn, bool]:
        """Read one turn and whether it is on the current branch.

        Errors: ThreadNotFound, CheckpointNotFound.
        """
        ...

    async def value(self, key: ThreadKey, checkpoint_id: str, channel: str) -> Value:
        """Read one large value of one turn.

        Errors: ThreadNotFound, CheckpointNotFound, ChannelNotFound.
        """
        ...

    async def move_head(self, key: ThreadKey, move: HeadMove) -> HeadMoved:
        """Choose another head by compare-and-set; summaries of what it lacks lose their pointers.

        The same head again is `done`, whatever is expected.
        """
        ...

    async def fork(self, key: ThreadKey, checkpoint_id: str | None, target: str) -> Forked:
        """Copy a turn (None: the head) and its ancestors to a thread of their own, ids kept.

        `same`: the target is that fork already, moved on or not; the source is then not asked.
        """
        ...


class Erasure(Protocol):
    """Deletes threads."""

    async def erase(self, key: ThreadKey, *, reuse: bool) -> Erased:
        """Remove all that a thread holds, leaving a tombstone (reuse: nothing); again is `erased`.

        What was begun before, a save or a summary's build, then stores nothing.
        """
        ...


def mark_current(
    points: Iterable[tuple[str, str | None]], wanted: str | None
) -> tuple[tuple[bool, ...], str | None]:
    """Follow parents through a page of a tree.

    Shape: points are (id, parent's id), greatest id first, so that parents come after children;
        wanted is the next id of the branch -> for each whether it is on the branch, and what is
        wanted on the next page (None: the branch begins here).
    """
    marks: list[bool] = []
    for point, parent in points:
        marks.append(point == wanted)
        wanted = parent if point == wanted else wanted
    return tuple(marks), wanted
