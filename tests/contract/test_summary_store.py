"""SummaryStore on a real PostgreSQL: one builder at a time, forward only, never of a dead past."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.adapters.sql.engine import Database
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.summaries import SqlLease, SqlSummaryStore
from app.adapters.sql.threads import SqlThreadIndex
from app.core.model import Pointer, Registry, ThreadKey
from tests.factories import new_turn, pointer, saved_turns, summary
from tests.servers import in_schema

pytestmark = pytest.mark.anyio


async def claimed(store: SqlSummaryStore, key: ThreadKey) -> SqlLease:
    lease = await store.claim(key, lease_seconds=60)
    assert lease is not None
    return lease


async def registry(index: SqlThreadIndex, key: ThreadKey) -> Registry:
    found = await index.get(key)
    assert found is not None
    return found


async def update(database: Database, key: ThreadKey, change: str) -> None:
    await database.fetch(
        in_schema("UPDATE S.threads SET CHANGE WHERE tenant_id = $1 AND thread_id = $2").replace(
            "CHANGE", change
        ),
        key.tenant_id,
        key.thread_id,
    )


async def test_a_summary_is_read_as_it_was_written(
    history_store: SqlHistoryStore,
    summary_store: SqlSummaryStore,
    thread_index: SqlThreadIndex,
    key: ThreadKey,
) -> None:
    """The registry points at what was written, and the text comes back with its coverage."""
    saved = await saved_turns(history_store, key, 4)
    boundary = pointer(saved[1], position=3)
    lease = await claimed(summary_store, key)
    epoch = lease.registry.summary_epoch

    written = await summary_store.write(key, lease, summary(boundary, "Ünï \0"), needed=3)

    assert written
    assert (await registry(thread_index, key)).summaries == (boundary,)
    assert await summary_store.read(key, boundary, epoch=epoch) == summary(boundary, "Ünï \0")
    assert await summary_store.read(key, boundary, epoch=epoch + 1) is None
    assert await summary_store.read(key, replace(boundary, position=4), epoch=epoch) is None
    assert await summary_store.read(replace(key, owner_id="bob"), boundary, epoch=epoch) is None


async def test_one_of_many_gets_the_lease(
    history_store: SqlHistoryStore, summary_store: SqlSummaryStore, key: ThreadKey
) -> None:
    """Single flight: of twenty at once one builds."""
    await saved_turns(history_store, key, 1)

    leases = await asyncio.gather(*(summary_store.claim(key, lease_seconds=60) for _ in range(20)))

    assert len([lease for lease in leases if lease]) == 1


async def test_a_lease_ends_by_release_or_by_time(
    database: Database,
    history_store: SqlHistoryStore,
    summary_store: SqlSummaryStore,
    key: ThreadKey,
) -> None:
    """A builder that died is replaced; a late release does not take the lease from the next."""
    await saved_turns(history_store, key, 1)
    first = await claimed(summary_store, key)
    await summary_store.release(key, first)
    second = await claimed(summary_store, key)
    assert await summary_store.claim(key, lease_seconds=60) is None

    later = SqlSummaryStore(database, now=lambda: datetime.now(UTC) + timedelta(seconds=61))
    third = await claimed(later, key)
    await summary_store.release(key, second)

    assert len({first.token, second.token, third.token}) == 3
    assert await later.claim(key, lease_seconds=60) is None


async def test_a_lease_needs_a_thread_of_ones_own(
    history_store: SqlHistoryStore, summary_store: SqlSummaryStore, key: ThreadKey
) -> None:
    """An unknown thread and a foreign owner's give no lease."""
    assert await summary_store.claim(key, lease_seconds=60) is None
    await saved_turns(history_store, key, 1)
    assert await summary_store.claim(replace(key, owner_id="bob"), lease_seconds=60) is None


async def test_summaries_only_move_forward(
    history_store: SqlHistoryStore,
    summary_store: SqlSummaryStore,
    thread_index: SqlThreadIndex,
    key: ThreadKey,
) -> None:
    """What covers no more than what stands is not written; the first of equals wins."""
    saved = await saved_turns(history_store, key, 6)
    lease = await claimed(summary_store, key)
    boundary = pointer(saved[3])
    assert await summary_store.write(key, lease, summary(boundary, "first"), needed=8)

    for late in (boundary, pointer(saved[2])):
        assert not await summary_store.write(key, lease, summary(late, "late"), needed=8)

    assert (await registry(thread_index, key)).summaries == (boundary,)
    read = await summary_store.read(key, boundary, epoch=lease.registry.summary_epoch)
    assert read is not None
    assert read.text == "first"


async def test_two_summaries_stay_the_one_needed_and_the_newest(
    database: Database,
    history_store: SqlHistoryStore,
    summary_store: SqlSummaryStore,
    thread_index: SqlThreadIndex,
    key: ThreadKey,
) -> None:
    """One is built ahead, so the newest the window can use now stays beside it; others go."""
    saved = await saved_turns(history_store, key, 12)
    lease = await claimed(summary_store, key)
    epoch = lease.registry.summary_epoch
    boundaries = [pointer(saved[index]) for index in (1, 3, 5, 8)]
    for boundary in boundaries[:3]:
        assert await summary_store.write(key, lease, summary(boundary), needed=12)

    assert await summary_store.write(key, lease, summary(boundaries[3]), needed=13)

    assert (await registry(thread_index, key)).summaries == (boundaries[2], boundaries[3])
    kept = [await summary_store.read(key, boundary, epoch=epoch) for boundary in boundaries]
    assert [found is not None for found in kept] == [False, False, True, True]


async def test_older_pointers_beyond_the_need_make_room(
    history_store: SqlHistoryStore,
    summary_store: SqlSummaryStore,
    thread_index: SqlThreadIndex,
    key: ThreadKey,
) -> None:
    """Of the older ones the one at or before the need stays, not the newest by itself."""
    saved = await saved_turns(history_store, key, 12)
    lease = await claimed(summary_store, key)
    boundaries = [pointer(saved[index]) for index in (1, 5, 8)]
    for boundary in boundaries:
        assert await summary_store.write(key, lease, summary(boundary), needed=5)

    assert (await registry(thread_index, key)).summaries == (boundaries[0], boundaries[2])


@pytest.mark.parametrize(
    "change",
    [
        "summary_epoch = summary_epoch + 1",
        "lease_token = 'somebody else'",
        "deleted_at = now()",
        "expires_at = now()",
        "owner_id = 'bob'",
    ],
)
async def test_a_summary_of_what_has_changed_is_not_written(
    database: Database,
    history_store: SqlHistoryStore,
    summary_store: SqlSummaryStore,
    key: ThreadKey,
    change: str,
) -> None:
    """A redaction, another builder, a deletion: the summary read before it leaves no trace."""
    saved = await saved_turns(history_store, key, 4)
    lease = await claimed(summary_store, key)
    await update(database, key, change)

    assert not await summary_store.write(key, lease, summary(pointer(saved[1])), needed=4)

    blobs = in_schema("SELECT FROM S.checkpoint_blobs WHERE tenant_id = $1")
    assert await database.fetch(blobs, key.tenant_id) == []


async def test_a_summary_of_an_abandoned_branch_is_not_written(
    history_store: SqlHistoryStore, summary_store: SqlSummaryStore, key: ThreadKey
) -> None:
    """A branch made while the summary was built leaves its boundary behind."""
    saved = await saved_turns(history_store, key, 6)
    lease = await claimed(summary_store, key)
    await history_store.append(
        key, new_turn(*"abcdefgh", expected=saved[1].head, on_conflict="branch")
    )

    assert not await summary_store.write(key, lease, summary(pointer(saved[3])), needed=8)
    assert await summary_store.write(key, lease, summary(pointer(saved[1])), needed=8)


async def test_a_summary_left_over_is_written_over(
    database: Database,
    history_store: SqlHistoryStore,
    summary_store: SqlSummaryStore,
    key: ThreadKey,
) -> None:
    """A boundary that lost its pointer can be summarised again."""
    saved = await saved_turns(history_store, key, 4)
    lease = await claimed(summary_store, key)
    boundary: Pointer = pointer(saved[1])
    assert await summary_store.write(key, lease, summary(boundary, "old"), needed=4)
    await update(database, key, "summaries = '[]'")

    assert await summary_store.write(key, lease, summary(boundary, "new"), needed=4)

    read = await summary_store.read(key, boundary, epoch=lease.registry.summary_epoch)
    assert read is not None
    assert read.text == "new"
