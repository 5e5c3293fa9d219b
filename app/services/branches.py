"""Choose a thread's head, and fork a thread: what the store did becomes the answer or an error."""

from app.core.branches import BranchStore, HeadMove
from app.core.errors import (
    CheckpointNotFound,
    ParentMoved,
    ThreadDeleted,
    ThreadExists,
    ThreadNotFound,
)
from app.core.model import Registry, ThreadKey


async def move_head(store: BranchStore, key: ThreadKey, move: HeadMove) -> Registry:
    """Choose another head; the thread as it then is.

    Errors: ThreadNotFound, ThreadDeleted, CheckpointNotFound, ParentMoved (with the head as it is),
        StoreUnavailable.
    """
    moved = await store.move_head(key, move)
    if moved.outcome == "deleted":
        raise ThreadDeleted
    if moved.outcome == "no-checkpoint":
        raise CheckpointNotFound
    if moved.registry is None:
        raise ThreadNotFound
    if moved.outcome == "moved":
        raise ParentMoved(head=moved.registry.head)
    return moved.registry


async def fork_thread(
    store: BranchStore, key: ThreadKey, checkpoint_id: str | None, target: str
) -> tuple[Registry, bool]:
    """Copy a branch to a new thread; that thread, and whether it is new.

    Errors: ThreadNotFound, CheckpointNotFound, ThreadExists, ThreadDeleted (the target),
        StoreUnavailable.
    """
    forked = await store.fork(key, checkpoint_id, target)
    match forked.outcome:
        case "no-checkpoint":
            raise CheckpointNotFound
        case "exists":
            raise ThreadExists
        case "deleted":
            raise ThreadDeleted
        case "foreign":
            raise ThreadNotFound
    if forked.registry is None:
        raise ThreadNotFound
    return forked.registry, forked.outcome == "created"
