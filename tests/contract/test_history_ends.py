"""HistoryStore where something ends: expired and deleted threads, turns in flight."""

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from app.adapters.sql.engine import Database
from app.adapters.sql.history import SqlHistoryStore
from app.core.model import ThreadKey
from tests.factories import NOW, clock_at, load, new_turn, said, saved_turns
from tests.servers import in_schema

pytestmark = pytest.mark.anyio


async def test_an_expired_thread_is_unknown_and_begins_anew(
    database: Database, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """From the instant it expires a thread is gone: for loads, for parents, and for its owner."""
    owned = replace(key, owner_id="ann")
    saved = (await saved_turns(history_store, owned, 2))[-1]
    epoch = (await load(history_store, owned)).registry.summary_epoch
    await set_column(database, key, "expires_at", NOW)
    later = SqlHistoryStore(database, now=clock_at(NOW))
    other = replace(key, owner_id="bob")

    assert await later.recent(owned, window=60, stride=20) is None
    gone = await later.append(owned, new_turn("on", expected=saved.head))
    assert gone.outcome == "unknown"
    assert (await later.append(other, new_turn("anew"))).position == 1
    history = await load(later, other)
    assert said(history) == ["anew"]
    assert history.registry.expires_at is None
    assert history.registry.summary_epoch > epoch
    assert said(await load(later, other, history.head)) == ["anew"]


async def test_a_thread_that_expires_later_is_there(
    database: Database, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """An expiry in the future changes nothing yet."""
    await saved_turns(history_store, key, 1)
    await set_column(database, key, "expires_at", NOW)

    earlier = SqlHistoryStore(database, now=clock_at(NOW - timedelta(microseconds=1)))

    assert (await load(earlier, key)).registry.expires_at == NOW


async def test_a_tombstone_takes_no_turn(
    database: Database, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A deleted thread reads as unknown and refuses saves until its tombstone ends."""
    await saved_turns(history_store, key, 1)
    await set_column(database, key, "deleted_at", NOW)

    assert await history_store.recent(key, window=60, stride=20) is None
    assert (await history_store.append(key, new_turn("on"))).outcome == "deleted"
    await set_column(database, key, "expires_at", NOW)
    ended = SqlHistoryStore(database, now=clock_at(NOW))
    assert (await ended.append(key, new_turn("anew"))).outcome == "created"


async def test_a_save_folds_the_writes_of_its_key(
    database: Database, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """With a key only that key's staged writes go; without, all under the parent as sent."""
    first, second = await saved_turns(history_store, key, 2)
    await stage(database, key, first.head, "k1", "one")
    await stage(database, key, second.head, "k1", "two")
    await stage(database, key, second.head, "k2", "three")

    pending = (await load(history_store, key)).pending
    assert [(write.key, write.task_id, write.idx, write.channel) for write in pending] == [
        ("k1", "task", 0, "messages"),
        ("k2", "task", 0, "messages"),
    ]
    assert [write.value for write in pending] == ["two", "three"]
    keyed = await history_store.append(key, new_turn("x", expected=first.head, key="k1"))
    assert keyed.rebased
    assert (await load(history_store, key, first.head)).pending == ()
    assert [w.value for w in (await load(history_store, key, second.head)).pending] == ["three"]
    await history_store.append(key, new_turn("y", expected=second.head))
    assert (await load(history_store, key, second.head)).pending == ()


async def set_column(database: Database, key: ThreadKey, column: str, value: object) -> None:
    sql = "UPDATE S.threads SET COLUMN = $3 WHERE tenant_id = $1 AND thread_id = $2"
    sql = in_schema(sql.replace("COLUMN", column))
    await database.fetch(sql, key.tenant_id, key.thread_id, value)


async def stage(
    database: Database, key: ThreadKey, parent: str | None, turn_key: str, value: str
) -> None:
    await database.fetch(
        in_schema(
            "INSERT INTO S.checkpoint_writes"
            " VALUES ($1, $2, '~turns', $3, $4, 'task', 0, '', 'messages', 'json', $5, $6)"
        ),
        key.tenant_id,
        key.thread_id,
        parent or "",
        turn_key,
        json.dumps(value).encode(),
        NOW,
    )
