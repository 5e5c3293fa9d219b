"""What a load tells of turns in flight: what is staged under its head, and what was left behind.

A turn is staged under the parent its caller saw. When another turn wins, what was staged stays
under that parent: it belongs to an older state of the thread and is named, never mixed in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

MAX_STALE_TASKS = 100
"""The most tasks a load names that are staged under another parent than its head."""

_STALE = (
    "Writes are staged under another parent than this head: another turn was saved meanwhile, or"
    " theirs was given up. Save or stage with their key, load with their parent as 'checkpoint_id',"
    " or discard them."
)


@dataclass(frozen=True, slots=True)
class Write:
    """One staged value of a turn in flight. key: "" for a turn without one."""

    key: str
    task_id: str
    idx: int
    channel: str
    value: object


@dataclass(frozen=True, slots=True)
class StaleTask:
    """A task staged under another parent than the head that was read. parent None: no turn yet."""

    parent: str | None
    key: str
    task_id: str


def stale_warnings(tasks: Sequence[StaleTask]) -> tuple[Mapping[str, object], ...]:
    """Return one warning a parent and key. Shape: tasks as the store has them, in that order."""
    return tuple(
        {
            "code": "stale-writes",
            "detail": _STALE,
            "parent": parent,
            "key": key or None,
            "tasks": [task.task_id for task in group],
        }
        for (parent, key), group in groupby(tasks, key=lambda task: (task.parent, task.key))
    )
