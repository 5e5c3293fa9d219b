"""Stage what a turn in flight has done so far, or discard it."""

from app.core.model import ThreadKey
from app.core.staging import Staged, StageRequest, StagingStore, answer, check_discarded


async def stage_writes(store: StagingStore, request: StageRequest) -> Staged:
    """Stage one task's values, once.

    Errors: ThreadNotFound, ThreadDeleted, CheckpointNotFound, WriteDiffers, InvalidPayload,
        StoreUnavailable.
    """
    return answer(request, await store.stage(request))


async def discard_writes(store: StagingStore, thread: ThreadKey, turn_key: str | None) -> None:
    """Discard what is staged, of one key or (None) all of the thread.

    Errors: ThreadNotFound, ThreadDeleted, StoreUnavailable.
    """
    check_discarded(await store.discard(thread, turn_key=turn_key))
