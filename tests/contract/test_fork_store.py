"""Forks on a real PostgreSQL: a copy that stands alone, made once, whoever asks how often."""

import asyncio
import json
import secrets
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.adapters.sql.branches import SqlBranchStore
from app.adapters.sql.engine import Database
from app.adapters.sql.erasure import SqlErasure
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.staging import SqlStagingStore
from app.adapters.sql.summaries import SqlSummaryStore
from app.adapters.sql.threads import SqlThreadIndex
from app.core.branches import HeadMove
from app.core.digest import message_id
from app.core.model import NewTurn, Registry, ThreadKey
from app.core.origin import ForkedFrom
from app.core.staging import StageRequest
from tests.contract.trees import Tree, plant, trees
from tests.factories import (
    NOW,
    clock_at,
    large_message,
    load,
    new_message,
    new_turn,
    pointer,
    saved_turns,
    summary,
)
from tests.servers import in_schema

pytestmark = pytest.mark.anyio

BIG = json.dumps("long " * 3000 + "\0").encode()
EACH_ON_ITS_OWN = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def branches(database: Database) -> SqlBranchStore:
    return SqlBranchStore(database)


async def registry(index: SqlThreadIndex, key: ThreadKey) -> Registry:
    found = await index.get(key)
    assert found is not None
    return found


def with_blob(turn: NewTurn, value: bytes = BIG) -> NewTurn:
    """The turn with a large message at its end, in the channel that its identity gives."""
    channel = f"{message_id(turn.identity, len(turn.messages))}.content"
    return replace(turn, messages=(*turn.messages, large_message(value, channel)))


async def blobs_of(database: Database, key: ThreadKey) -> list[tuple[str, str, bytes]]:
    """What a thread's blobs are."""
    sql = in_schema(
        "SELECT channel, version, data FROM S.checkpoint_blobs"
        " WHERE tenant_id = $1 AND thread_id = $2 ORDER BY channel, version"
    )
    found = await database.fetch(sql, key.tenant_id, key.thread_id)
    return [(row["channel"], row["version"], row["data"]) for row in found]


@EACH_ON_ITS_OWN
@given(tree=trees(), chosen=st.integers(0, 9))
async def test_a_fork_is_the_branch_up_to_its_turn(
    history_store: SqlHistoryStore,
    thread_index: SqlThreadIndex,
    branches: SqlBranchStore,
    tenant: str,
    tree: Tree,
    chosen: int,
) -> None:
    """Any turn of any branch: the copy holds it and its ancestors, nothing of other branches."""
    name = secrets.token_hex(8)
    key, target = ThreadKey(tenant, name), ThreadKey(tenant, f"{name}-fork")
    ids = [str(one.checkpoint_id) for one in await plant(history_store, key, tree)]
    turn = chosen % len(ids)

    forked = await branches.fork(key, ids[turn], target.thread_id)

    source, copy = await load(history_store, key, ids[turn]), await load(history_store, target)
    page = await branches.page(target, "~turns", limit=100, cursor=None)
    assert forked.outcome == "created"
    assert forked.registry == await registry(thread_index, target)
    assert forked.registry.forked_from == ForkedFrom(name, ids[turn])
    assert (copy.turns, copy.head, copy.tokens) == (source.turns, source.head, source.tokens)
    assert page is not None
    assert [item.checkpoint_id for item in page[0]] == [ids[n] for n in tree.branch(turn)]
    assert all(item.current for item in page[0])


async def test_a_fork_stands_alone(
    database: Database,
    history_store: SqlHistoryStore,
    summary_store: SqlSummaryStore,
    thread_index: SqlThreadIndex,
    branches: SqlBranchStore,
    key: ThreadKey,
) -> None:
    """Blobs of the branch and its summaries come along, those of other branches do not, and all of
    it is there when the source is gone."""
    first = await history_store.append(key, with_blob(new_turn("q", metadata={"n": 1})))
    second = await history_store.append(key, with_blob(new_turn("r", expected=first.head)))
    third = await history_store.append(key, new_turn("s", expected=second.head))
    lease = await summary_store.claim(key, lease_seconds=60)
    assert lease is not None
    for saved in (first, third):
        boundary = pointer(saved)
        assert await summary_store.write(key, lease, summary(boundary), needed=boundary.position)
    other = new_turn("t", expected=second.head, on_conflict="branch")
    await history_store.append(key, with_blob(other, b'"' + b"y" * 9000 + b'"'))
    blobs = await blobs_of(database, key)
    large = [
        item
        for turn in (await load(history_store, key)).turns
        for m in turn.messages
        for item in m.large
    ][:2]
    target = replace(key, thread_id="a copy/of it")

    await branches.fork(key, second.checkpoint_id, target.thread_id)
    source = await load(history_store, key, second.checkpoint_id)
    await SqlErasure(database).erase(key, reuse=True)

    copy, row = await load(history_store, target), await registry(thread_index, target)
    assert copy.turns == source.turns
    assert row.summaries == (pointer(first),)
    kept = await summary_store.read(target, pointer(first), epoch=row.summary_epoch)
    assert kept == summary(pointer(first))
    values = await history_store.values(target, large)
    assert values == {(item.channel, item.version): BIG for item in large}
    mine = [blob for blob in await blobs_of(database, target) if blob[0] != "~summary"]
    assert mine == [blob for blob in blobs if blob[2] == BIG]
    assert (row.position, row.turns, row.tokens) == (4, 2, second.tokens)


async def test_a_fork_weighs_what_it_holds(
    database: Database,
    history_store: SqlHistoryStore,
    thread_index: SqlThreadIndex,
    branches: SqlBranchStore,
    key: ThreadKey,
) -> None:
    """Its bytes are those that saving the same turns would have counted; title and metadata come
    along, the time to live does not."""
    first = await history_store.append(key, with_blob(new_turn("ü", "é")))
    before = (await registry(thread_index, key)).size_bytes
    await history_store.append(key, with_blob(new_turn("more", expected=first.head)))
    sql = in_schema(
        """UPDATE S.threads SET title = 'T', metadata = '{"a": [1]}',
           expires_at = now() + interval '1 hour' WHERE tenant_id = $1 AND thread_id = $2"""
    )
    await database.fetch(sql, key.tenant_id, key.thread_id)

    await branches.fork(key, first.checkpoint_id, "t2")

    row = await registry(thread_index, replace(key, thread_id="t2"))
    assert row.size_bytes == before
    assert (row.title, row.metadata, row.expires_at) == ("T", {"a": [1]}, None)


async def test_a_fork_goes_its_own_way(
    history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey
) -> None:
    """Saves on either side show on that side alone; what is staged stays with the source."""
    saved = await saved_turns(history_store, key, 2)
    target = replace(key, thread_id="t2")
    head = saved[-1].head
    staging = SqlStagingStore(branches._database)
    await staging.stage(StageRequest(key, "task", (("c", 1),), parent=head, parent_known=True))
    await branches.fork(key, None, "t2")
    staged = [await load(history_store, one) for one in (key, target)]

    await history_store.append(key, new_turn("source", expected=head))
    await history_store.append(target, new_turn("fork", expected=head))

    source, copy = await load(history_store, key), await load(history_store, target)
    assert [m.body["content"] for m in source.messages[-1:]] == ["source"]
    assert [m.body["content"] for m in copy.messages[-1:]] == ["fork"]
    assert [len(one.pending) for one in staged] == [1, 0]


async def test_a_fork_is_made_once(
    history_store: SqlHistoryStore,
    thread_index: SqlThreadIndex,
    branches: SqlBranchStore,
    database: Database,
    key: ThreadKey,
) -> None:
    """A retry changes nothing, also when both sides have moved on or the source is gone; another
    turn, another source or a thread that is no fork is refused."""
    first, second = await saved_turns(history_store, key, 2)
    await saved_turns(history_store, replace(key, thread_id="plain"), 1)
    target = replace(key, thread_id="t2")
    assert (await branches.fork(key, None, "t2")).outcome == "created"
    await history_store.append(key, new_turn("x", expected=second.head))
    await history_store.append(target, new_turn("y", expected=second.head))
    row = await registry(thread_index, target)

    for checkpoint_id, name, outcome in (
        (None, "t2", "same"),
        (second.checkpoint_id, "t2", "same"),
        (first.checkpoint_id, "t2", "exists"),
        (None, "plain", "exists"),
        (None, key.thread_id, "exists"),
    ):
        assert (await branches.fork(key, checkpoint_id, name)).outcome == outcome
    other = replace(key, thread_id="plain")
    assert (await branches.fork(other, None, "t2")).outcome == "exists"
    await SqlErasure(database).erase(key, reuse=False)
    assert (await branches.fork(key, None, "t2")).registry == row
    assert (await branches.fork(key, None, "t3")).outcome == "unknown"
    assert await registry(thread_index, target) == row


async def test_many_forks_at_once_make_one(
    history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey
) -> None:
    """Of twenty that ask for one target one makes it; of two sources one gets it."""
    await saved_turns(history_store, key, 20)
    await saved_turns(history_store, replace(key, thread_id="other"), 20)

    equal = await asyncio.gather(*(branches.fork(key, None, "t2") for _ in range(20)))
    sources = [key, replace(key, thread_id="other")] * 10
    crossed = await asyncio.gather(*(branches.fork(one, None, "t3") for one in sources))

    assert sorted(one.outcome for one in equal) == ["created", *["same"] * 19]
    assert len({str(one.registry) for one in equal}) == 1
    outcomes = sorted(one.outcome for one in crossed)
    assert outcomes == ["created", *["exists"] * 10, *["same"] * 9]
    assert (await load(history_store, replace(key, thread_id="t2"))).position == 40


async def test_saves_meanwhile_do_not_tear_a_fork(
    history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey
) -> None:
    """Forks beside saves and moves of the head are whole branches, and nobody waits for ever."""
    head = (await saved_turns(history_store, key, 10))[-1].head

    async def save(number: int) -> None:
        turn = new_turn(f"more {number}", parent_known=False, key=f"k{number}")
        await history_store.append(key, turn)

    async def fork(number: int) -> None:
        assert (await branches.fork(key, None, f"f{number}")).outcome == "created"

    moves = [branches.move_head(key, HeadMove(head)) for _ in range(5)]
    await asyncio.gather(*map(save, range(10)), *map(fork, range(10)), *moves)

    for number in range(10):
        copy = await load(history_store, replace(key, thread_id=f"f{number}"))
        assert copy.position == sum(len(turn.messages) for turn in copy.turns)
        assert copy.turns[0].parent_id is None


async def test_a_fork_is_the_sources_owners(
    history_store: SqlHistoryStore,
    thread_index: SqlThreadIndex,
    branches: SqlBranchStore,
    tenant: str,
) -> None:
    """Nobody forks a thread they do not see, nor onto one; an admin's fork stays its owner's."""
    ann = ThreadKey(tenant, "t1", "ann")
    bob, admin = replace(ann, owner_id="bob"), replace(ann, owner_id=None)
    await saved_turns(history_store, ann, 1)
    await saved_turns(history_store, replace(bob, thread_id="bobs"), 1)

    assert (await branches.fork(bob, None, "t2")).outcome == "unknown"
    assert (
        await branches.fork(replace(ann, tenant_id=f"{tenant}2"), None, "t2")
    ).outcome == "unknown"
    assert (await branches.fork(ann, None, "bobs")).outcome == "foreign"
    assert (await branches.fork(admin, None, "bobs")).outcome == "exists"
    assert (await branches.fork(admin, None, "t2")).outcome == "created"
    assert (await registry(thread_index, replace(ann, thread_id="t2"))).owner_id == "ann"


async def test_a_fork_onto_what_has_ended(
    database: Database, history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey
) -> None:
    """An expired thread's id is free and its rows go; a deleted one's is not, until it is."""
    await saved_turns(history_store, key, 1)
    for name in ("expired", "deleted"):
        old = replace(key, thread_id=name)
        await history_store.append(old, with_blob(new_turn("old")))
    await SqlErasure(database).erase(replace(key, thread_id="deleted"), reuse=False)
    sql = in_schema(
        "UPDATE S.threads SET expires_at = now() WHERE tenant_id = $1 AND thread_id = 'expired'"
    )
    await database.fetch(sql, key.tenant_id)

    assert (await branches.fork(key, None, "expired")).outcome == "created"
    assert (await branches.fork(key, None, "deleted")).outcome == "deleted"

    assert await blobs_of(database, replace(key, thread_id="expired")) == []
    later = SqlBranchStore(database, now=clock_at(NOW + timedelta(days=10**4)))
    assert (await later.fork(key, None, "deleted")).outcome == "created"


async def test_nothing_to_fork(
    history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey
) -> None:
    """An unknown thread, a thread before its first turn and an unknown turn give no fork."""
    assert (await branches.fork(key, None, "t2")).outcome == "unknown"
    await saved_turns(history_store, key, 1)
    missing = "0000000002-" + "ab" * 11
    assert (await branches.fork(key, missing, "t2")).outcome == "no-checkpoint"
    await branches.move_head(key, HeadMove(None))
    assert (await branches.fork(key, None, "t2")).outcome == "no-checkpoint"
    assert await history_store.recent(replace(key, thread_id="t2"), window=60, stride=20) is None


async def test_a_message_of_many_is_found_by_its_place(
    database: Database, history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey
) -> None:
    """Every large message of a turn of two hundred is copied, the last one too."""
    turn = new_turn("q")
    messages = [
        large_message(BIG, f"{message_id(turn.identity, index)}.content")
        if index in {0, 1, 127, 128, 199}
        else new_message("small")
        for index in range(200)
    ]
    await history_store.append(key, replace(turn, messages=tuple(messages)))

    await branches.fork(key, None, "t2")

    copied = await blobs_of(database, replace(key, thread_id="t2"))
    assert copied == await blobs_of(database, key)
    assert len(copied) == 5
