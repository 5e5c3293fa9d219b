"""Deletion on a real PostgreSQL: nothing stays, and nothing that comes late brings it back."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from app.adapters.sql.branches import SqlBranchStore
from app.adapters.sql.engine import Database
from app.adapters.sql.erasure import SqlErasure
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.staging import SqlStagingStore
from app.adapters.sql.summaries import SqlSummaryStore
from app.adapters.sql.threads import SqlThreadIndex
from app.core.branches import HeadMove
from app.core.model import Appended, ThreadKey
from app.core.staging import StageRequest
from tests.factories import large_message, load, new_turn, pointer, said, saved_turns, summary
from tests.servers import in_schema

pytestmark = pytest.mark.anyio

TABLES = ("threads", "checkpoints", "checkpoint_blobs", "checkpoint_writes")


@pytest.fixture
def erasure(database: Database) -> SqlErasure:
    return SqlErasure(database)


async def rows_of(database: Database, key: ThreadKey) -> dict[str, int]:
    """How many rows of each table a thread has."""
    return {
        table: len(
            await database.fetch(
                in_schema(f"SELECT FROM S.{table} WHERE tenant_id = $1 AND thread_id = $2"),
                key.tenant_id,
                key.thread_id,
            )
        )
        for table in TABLES
    }


async def full_thread(database: Database, key: ThreadKey) -> list[Appended]:
    """A thread with something in every table: turns, a blob, a summary, writes, graph rows."""
    history, summaries = SqlHistoryStore(database), SqlSummaryStore(database)
    saved = await saved_turns(history, key, 3)
    large = large_message(b'"' + b"x" * 9000 + b'"', "msg_0123456789abcdef01234567.content")
    saved.append(
        await history.append(key, new_turn("q", messages=(large,), expected=saved[-1].head))
    )
    lease = await summaries.claim(key, lease_seconds=60)
    assert lease is not None
    assert await summaries.write(key, lease, summary(pointer(saved[0])), needed=2)
    staged = StageRequest(key, "t", (("c", 1),), parent=saved[-1].head, parent_known=True)
    await SqlStagingStore(database).stage(staged)
    for sql in (
        """INSERT INTO S.checkpoints (tenant_id, thread_id, ns, checkpoint_id, created_at,
             checkpoint, metadata) VALUES ($1, $2, '', '1f0-a', now(), '{}', '{}')""",
        """INSERT INTO S.checkpoint_blobs (tenant_id, thread_id, ns, channel, version, type,
             data, created_at) VALUES ($1, $2, '', 'c', '1', 'msgpack', 'x', now())""",
        """UPDATE S.threads SET title = 'T', metadata = '{"a": 1}', forked_from = 'x y'
            WHERE tenant_id = $1 AND thread_id = $2""",
    ):
        await database.fetch(in_schema(sql), key.tenant_id, key.thread_id)
    return saved


async def test_a_tombstone_holds_nothing(
    database: Database, erasure: SqlErasure, thread_index: SqlThreadIndex, key: ThreadKey
) -> None:
    """All rows go but the registry's, which keeps ids, owner and times alone; reads find none."""
    owned = replace(key, owner_id="ann")
    await full_thread(database, owned)
    before = datetime.now(UTC)

    erased = await erasure.erase(owned, reuse=False)

    assert erased.outcome == "erased"
    assert list((await rows_of(database, key)).values()) == [1, 0, 0, 0]
    sql = "SELECT * FROM S.threads WHERE tenant_id = $1 AND thread_id = $2"
    row = dict((await database.fetch(in_schema(sql), key.tenant_id, key.thread_id))[0])
    times = {
        name: row.pop(name) for name in ("created_at", "updated_at", "deleted_at", "expires_at")
    }
    assert row == {
        "tenant_id": key.tenant_id,
        "thread_id": key.thread_id,
        "owner_id": "ann",
        "head": None,
        "position": 0,
        "turns": 0,
        "tokens": 0,
        "bytes": 0,
        "title": None,
        "metadata": {},
        "forked_from": None,
        "summaries": [],
        "summary_epoch": erased.epoch + 1,
        "lease_token": None,
        "lease_until": None,
    }
    assert times["deleted_at"] >= before
    assert times["expires_at"] - times["deleted_at"] == timedelta(days=1)
    assert await thread_index.get(owned) is None
    assert await thread_index.page(key.tenant_id, None, limit=9, cursor=None) == ((), None)
    assert await SqlHistoryStore(database).recent(owned, window=60, stride=20) is None
    assert await SqlBranchStore(database).page(owned, "", limit=9, cursor=None) is None


async def test_nothing_late_brings_it_back(
    database: Database, erasure: SqlErasure, key: ThreadKey
) -> None:
    """A retried save, a new one, a stage, a moved head and a fork onto it are told of it."""
    saved = await full_thread(database, key)
    history, branches = SqlHistoryStore(database), SqlBranchStore(database)
    await erasure.erase(key, reuse=False)
    head = saved[-1].head
    late: list[object] = [
        await history.append(key, new_turn("question 0", "answer 0")),
        await history.append(key, new_turn("new", expected=head)),
        await history.append(key, new_turn("new", expected=head, on_conflict="branch")),
        await history.append(key, new_turn("new", parent_known=False, key="k")),
        (await history.append_locked(key, back=5, decide=lambda _: new_turn("locked")))[1],
        await SqlStagingStore(database).stage(StageRequest(key, "t", (("c", 1),))),
        await branches.move_head(key, HeadMove(None)),
    ]
    await saved_turns(history, replace(key, thread_id="t2"), 1)
    late.append(await branches.fork(replace(key, thread_id="t2"), None, key.thread_id))

    assert [getattr(one, "outcome", None) for one in late] == ["deleted"] * len(late)
    assert list((await rows_of(database, key)).values()) == [1, 0, 0, 0]


@pytest.mark.parametrize("reuse", [False, True])
async def test_a_summary_under_way_is_not_written(
    database: Database,
    summary_store: SqlSummaryStore,
    erasure: SqlErasure,
    key: ThreadKey,
    reuse: bool,
) -> None:
    """A build that began before the deletion writes nothing after it, nor into a new life."""
    saved = await saved_turns(SqlHistoryStore(database), key, 3)
    lease = await summary_store.claim(key, lease_seconds=60)
    assert lease is not None
    await erasure.erase(key, reuse=reuse)
    late = summary(pointer(saved[0]))

    assert not await summary_store.write(key, lease, late, needed=2)
    await summary_store.release(key, lease)
    assert (await summary_store.claim(key, lease_seconds=60)) is None
    assert (
        await summary_store.read(key, pointer(saved[0]), epoch=lease.registry.summary_epoch) is None
    )
    if reuse:
        await saved_turns(SqlHistoryStore(database), key, 3)
        assert not await summary_store.write(key, lease, late, needed=2)
    assert (await rows_of(database, key))["checkpoint_blobs"] == 0


async def test_again_is_no_more(database: Database, erasure: SqlErasure, key: ThreadKey) -> None:
    """A deleted thread can be deleted again and keeps its end; an unknown one cannot."""
    assert (await erasure.erase(key, reuse=False)).outcome == "unknown"
    await full_thread(database, key)
    await erasure.erase(key, reuse=False)
    sql = in_schema("SELECT expires_at FROM S.threads WHERE tenant_id = $1 AND thread_id = $2")
    end = await database.fetch(sql, key.tenant_id, key.thread_id)

    assert (await erasure.erase(key, reuse=False)).outcome == "erased"

    assert await database.fetch(sql, key.tenant_id, key.thread_id) == end


@pytest.mark.parametrize("twice", [False, True])
async def test_reuse_frees_the_id(
    database: Database,
    history_store: SqlHistoryStore,
    erasure: SqlErasure,
    key: ThreadKey,
    twice: bool,
) -> None:
    """With reuse no row stays, of a tombstone neither, and the next save begins anew."""
    await full_thread(database, key)
    if twice:
        await erasure.erase(key, reuse=False)

    assert (await erasure.erase(key, reuse=True)).outcome == "erased"

    assert set((await rows_of(database, key)).values()) == {0}
    await history_store.append(key, new_turn("anew"))
    assert said(await load(history_store, key)) == ["anew"]


async def test_a_tombstone_ends(
    database: Database, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """When its time is up the id is free; with no time at all it is free at once."""
    await full_thread(database, key)
    await SqlErasure(database, tombstone_seconds=0).erase(key, reuse=False)

    assert (await history_store.append(key, new_turn("anew"))).outcome == "created"

    assert said(await load(history_store, key)) == ["anew"]


@pytest.mark.parametrize("change", [{"owner_id": "bob"}, {"tenant_id": "x"}, {"thread_id": "t2"}])
async def test_a_foreign_thread_is_not_deleted(
    database: Database, erasure: SqlErasure, key: ThreadKey, change: dict[str, str]
) -> None:
    """Another owner, tenant or id finds nothing to delete, a tombstone neither; an admin does."""
    owned = replace(key, owner_id="ann")
    await full_thread(database, owned)
    before = await rows_of(database, key)
    stranger = replace(owned, **change)

    assert (await erasure.erase(stranger, reuse=True)).outcome == "unknown"
    assert await rows_of(database, key) == before
    await erasure.erase(replace(owned, owner_id=None), reuse=False)
    assert (await erasure.erase(stranger, reuse=True)).outcome == "unknown"
    assert (await rows_of(database, key))["threads"] == 1


async def test_neighbours_stay(database: Database, erasure: SqlErasure, key: ThreadKey) -> None:
    """A thread of the same id in another tenant, and another of the same one, keep their rows."""
    others = [replace(key, tenant_id=f"{key.tenant_id}-2"), replace(key, thread_id="thread-10")]
    for one in (key, *others):
        await full_thread(database, one)
    before = [await rows_of(database, one) for one in others]

    await erasure.erase(key, reuse=True)

    assert [await rows_of(database, one) for one in others] == before


async def test_a_deletion_among_saves(
    database: Database, history_store: SqlHistoryStore, erasure: SqlErasure, key: ThreadKey
) -> None:
    """Whatever runs beside it, in the end there is a tombstone and nothing else."""
    await full_thread(database, key)
    branches, staging = SqlBranchStore(database), SqlStagingStore(database)

    def late(number: int) -> list[Callable[[], Awaitable[object]]]:
        turn = new_turn(f"m{number}", parent_known=False, key=f"k{number}")
        return [
            lambda: history_store.append(key, turn),
            lambda: staging.stage(StageRequest(key, f"t{number}", (("c", 1),))),
            lambda: branches.fork(key, None, f"f{number}"),
        ]

    calls = [call for number in range(8) for call in late(number)]
    calls.insert(10, lambda: erasure.erase(key, reuse=False))
    await asyncio.gather(*(call() for call in calls))

    assert list((await rows_of(database, key)).values()) == [1, 0, 0, 0]
