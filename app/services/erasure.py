"""Delete a thread: from the store, then from the cache."""

from app.core.branches import Erasure
from app.core.errors import ThreadNotFound
from app.core.model import ThreadKey
from app.core.ports import SummaryCache


async def delete_thread(
    erasure: Erasure, cache: SummaryCache, key: ThreadKey, *, reuse: bool
) -> None:
    """Delete a thread and what is cached of it; a deleted one again is a no-op.

    Errors: ThreadNotFound, StoreUnavailable.
    """
    erased = await erasure.erase(key, reuse=reuse)
    if erased.outcome == "unknown":
        raise ThreadNotFound
    # Also for one deleted before: the call that deleted it may have got no further than the store.
    await cache.forget(key, epoch=erased.epoch)
