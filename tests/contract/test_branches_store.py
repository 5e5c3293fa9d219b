"""BranchStore on a real PostgreSQL: the tree page by page, one turn, one value, another head."""

import secrets
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.adapters.sql.branches import SqlBranchStore
from app.adapters.sql.cursors import sealed
from app.adapters.sql.engine import Database
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.rows import encode
from app.adapters.sql.summaries import SqlSummaryStore
from app.adapters.sql.threads import SqlThreadIndex
from app.core.branches import Checkpoint, HeadMove
from app.core.errors import (
    ChannelNotFound,
    CheckpointNotFound,
    InvalidPayload,
    ThreadNotFound,
)
from app.core.model import ThreadKey
from tests.contract.trees import Tree, plant, trees
from tests.factories import (
    large_message,
    load,
    new_message,
    new_turn,
    pointer,
    said,
    saved_turns,
    summary,
)
from tests.servers import in_schema

pytestmark = pytest.mark.anyio

TURNS = "~turns"
EACH_ON_ITS_OWN = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def branches(database: Database) -> SqlBranchStore:
    return SqlBranchStore(database)


def fresh(tenant: str) -> ThreadKey:
    """A thread that no other example has."""
    return ThreadKey(tenant, f"thread-{secrets.token_hex(8)}")


async def listed(
    store: SqlBranchStore, key: ThreadKey, limit: int, ns: str = TURNS
) -> list[list[Checkpoint]]:
    """All pages of a tree."""
    pages: list[list[Checkpoint]] = []
    cursor = None
    while True:
        found = await store.page(key, ns, limit=limit, cursor=cursor)
        assert found is not None
        pages.append(list(found[0]))
        cursor = found[1]
        if cursor is None:
            return pages


@EACH_ON_ITS_OWN
@given(tree=trees(), limit=st.integers(1, 4), head=st.integers(0, 9))
async def test_a_tree_is_listed_as_it_is(
    history_store: SqlHistoryStore,
    branches: SqlBranchStore,
    tenant: str,
    tree: Tree,
    limit: int,
    head: int,
) -> None:
    """Every turn of every branch once, in full pages, each with its place and whether it is on the
    branch of the head, wherever the head stands."""
    key = fresh(tenant)
    saved = await plant(history_store, key, tree)
    ids = [str(one.checkpoint_id) for one in saved]
    chosen = head % len(ids)
    await branches.move_head(key, HeadMove(ids[chosen]))
    positions = [sum(tree.sizes[n] for n in tree.branch(turn)) for turn in range(len(ids))]

    pages = await listed(branches, key, limit)

    items = [item for page in pages for item in page]
    assert [item.checkpoint_id for item in items] == sorted(ids, reverse=True)
    assert all(len(page) == limit for page in pages[:-1])
    for item in items:
        turn = ids.index(item.checkpoint_id)
        parent = tree.parents[turn]
        assert item.parent_id == (None if parent is None else ids[parent])
        assert item.current == (turn in tree.branch(chosen))
        assert item.step == len(tree.branch(turn)) - 1
        assert (item.position, item.tokens) == (positions[turn], 5 * positions[turn])
        assert (item.messages, item.source, item.ns) == (tree.sizes[turn], "turn", TURNS)


@EACH_ON_ITS_OWN
@given(tree=trees(), chosen=st.integers(0, 9))
async def test_any_turn_can_be_loaded_and_become_the_head(
    history_store: SqlHistoryStore,
    branches: SqlBranchStore,
    tenant: str,
    tree: Tree,
    chosen: int,
) -> None:
    """A load as of a turn of any branch is a load after it was made the head: counts and text."""
    key = fresh(tenant)
    ids = [str(one.checkpoint_id) for one in await plant(history_store, key, tree)]
    turn = chosen % len(ids)
    texts = [
        f"turn {number}, message {index}"
        for number in reversed(tree.branch(turn))
        for index in range(tree.sizes[number])
    ]

    as_of = await load(history_store, key, ids[turn])
    moved = await branches.move_head(key, HeadMove(ids[turn], ids[-1], expected_known=True))
    now = await load(history_store, key)

    assert said(as_of) == said(now) == texts
    assert as_of.position == now.position == len(texts)
    assert moved.registry is not None
    assert (moved.outcome, moved.registry.head) == ("done", ids[turn])
    counts = (moved.registry.position, moved.registry.turns, moved.registry.tokens)
    assert counts == (len(texts), len(tree.branch(turn)), 5 * len(texts))
    assert await branches.turn(key, ids[turn]) == (now.turns[-1], True)


async def test_a_head_that_moves_leaves_the_pages_of_a_list_alone(
    history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey
) -> None:
    """What is current is told of the branch that was current when the list was begun."""
    saved = await saved_turns(history_store, key, 4)
    first = await branches.page(key, TURNS, limit=2, cursor=None)
    assert first is not None
    await branches.move_head(key, HeadMove(None))

    rest = await branches.page(key, TURNS, limit=2, cursor=first[1])

    assert rest is not None
    found = [(item.checkpoint_id, item.current) for item in (*first[0], *rest[0])]
    assert found == [(one.checkpoint_id, True) for one in reversed(saved)]


async def test_graph_checkpoints_are_listed_by_namespace(
    database: Database, history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey
) -> None:
    """Each namespace lists its own; step and source come from the metadata, counts are none."""
    await saved_turns(history_store, key, 1)
    sql = in_schema(
        "INSERT INTO S.checkpoints (tenant_id, thread_id, ns, checkpoint_id, parent_id,"
        " created_at, checkpoint, metadata) VALUES ($1, $2, $3, $4, $5, now(), '{}', $6)"
    )
    for ns, name, parent, metadata in (
        ("", "1f0-a", None, {"step": -1, "source": "input"}),
        ("", "1f0-b", "1f0-a", {"step": 0, "source": "loop"}),
        ("", "1f0-c", "1f0-a", {"step": "zero", "source": 1}),
        ("child:1", "1f0-d", None, {}),
    ):
        await database.fetch(sql, key.tenant_id, key.thread_id, ns, name, parent, encode(metadata))

    root = [item for page in await listed(branches, key, 1, "") for item in page]
    child = await branches.page(key, "child:1", limit=5, cursor=None)

    assert [(i.checkpoint_id, i.step, i.source, i.current) for i in root] == [
        ("1f0-c", None, None, True),
        ("1f0-b", 0, "loop", False),
        ("1f0-a", -1, "input", True),
    ]
    assert {(i.position, i.messages, i.tokens, i.ns) for i in root} == {(None, None, None, "")}
    assert child is not None
    assert [(i.checkpoint_id, i.metadata, i.current) for i in child[0]] == [("1f0-d", {}, True)]
    assert [len(page) for page in await listed(branches, key, 9)] == [1]


async def test_an_empty_thread_has_an_empty_tree(
    history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey
) -> None:
    """A thread without checkpoints in a namespace lists none; an unknown thread is none."""
    assert await branches.page(key, TURNS, limit=5, cursor=None) is None
    await saved_turns(history_store, key, 1)

    assert await branches.page(key, "other", limit=5, cursor=None) == ((), None)


@pytest.mark.parametrize(
    "cursor",
    ["", "x", "W10", sealed("a"), sealed(1, 2), sealed("a\0", None), sealed("a", "b\0")],
)
async def test_a_cursor_of_another_list_is_refused(
    branches: SqlBranchStore, key: ThreadKey, cursor: str
) -> None:
    """What this list did not give out names no place in it."""
    with pytest.raises(InvalidPayload):
        await branches.page(key, TURNS, limit=5, cursor=cursor)


async def test_a_sibling_is_read_with_its_messages(
    history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey
) -> None:
    """A turn that is not on the current branch is read all the same, and says so."""
    first = await history_store.append(key, new_turn("q", "a"))
    left = await history_store.append(key, new_turn("q2", "a2", expected=first.head))
    await history_store.append(key, new_turn("q2", "a3", expected=first.head, on_conflict="branch"))

    turn, current = await branches.turn(key, str(left.checkpoint_id))

    assert [message.body["content"] for message in turn.messages] == ["q2", "a2"]
    assert not current
    assert (await branches.turn(key, str(first.checkpoint_id)))[1]


async def test_a_large_value_is_read_alone(
    history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey
) -> None:
    """A value of a turn by its channel, as it was stored; no other turn gives it."""
    value = b'"' + b"x" * 9000 + b'\\u0000"'
    message = large_message(value, "msg_0123456789abcdef01234567.content")
    first = await history_store.append(key, new_turn(messages=(new_message("q"), message)))
    second = await history_store.append(key, new_turn("more", expected=first.head))
    channel = message.large[0][0].channel

    found = await branches.value(key, str(first.checkpoint_id), channel)

    assert (found.version, found.type, found.data) == (message.large[0][0].version, "json", value)
    for checkpoint_id, name in ((second, channel), (first, "~summary"), (first, "other")):
        with pytest.raises(ChannelNotFound):
            await branches.value(key, str(checkpoint_id.checkpoint_id), name)
    with pytest.raises(CheckpointNotFound):
        await branches.value(key, "0000000001-" + "ab" * 11, channel)
    with pytest.raises(ThreadNotFound):
        await branches.value(replace(key, thread_id="t2"), str(first.checkpoint_id), channel)


async def test_the_head_is_compared_before_it_is_moved(
    history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey
) -> None:
    """With a head expected that is not the head nothing changes; a retry of a move is a no-op."""
    first, second, third = await saved_turns(history_store, key, 3)
    wish = HeadMove(first.checkpoint_id, third.checkpoint_id, expected_known=True)

    done = await branches.move_head(key, wish)
    again = await branches.move_head(key, wish)
    late = await branches.move_head(key, replace(wish, checkpoint_id=second.checkpoint_id))

    assert done.registry == again.registry
    assert late.outcome == "moved"
    assert late.registry == done.registry
    empty = await branches.move_head(key, HeadMove(None, first.checkpoint_id, expected_known=True))
    assert empty.registry is not None
    counts = (empty.registry.position, empty.registry.turns, empty.registry.tokens)
    assert (empty.registry.head, *counts) == (None, 0, 0, 0)
    unexpected = await branches.move_head(key, HeadMove(second.checkpoint_id, None, True))
    assert unexpected.outcome == "done"


async def test_what_follows_a_moved_head_is_a_branch(
    history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey
) -> None:
    """A save goes on from the chosen head, from the empty start too, and what was left stays."""
    first, second, _ = await saved_turns(history_store, key, 3)
    await branches.move_head(key, HeadMove(first.checkpoint_id))
    await history_store.append(key, new_turn("other", expected=first.checkpoint_id))
    assert said(await load(history_store, key)) == ["question 0", "answer 0", "other"]

    await branches.move_head(key, HeadMove(None))
    await history_store.append(key, new_turn("afresh"))

    assert said(await load(history_store, key)) == ["afresh"]
    left = await load(history_store, key, second.checkpoint_id)
    assert said(left)[-1] == "answer 1"


async def test_only_summaries_of_the_chosen_branch_stand(
    history_store: SqlHistoryStore,
    summary_store: SqlSummaryStore,
    thread_index: SqlThreadIndex,
    branches: SqlBranchStore,
    key: ThreadKey,
) -> None:
    """Pointers past the head or on another branch go, those on the branch stay readable."""
    saved = await saved_turns(history_store, key, 6)
    lease = await summary_store.claim(key, lease_seconds=60)
    assert lease is not None
    for at in (1, 3):
        boundary = pointer(saved[at])
        assert await summary_store.write(key, lease, summary(boundary), needed=boundary.position)
    await history_store.append(
        key, new_turn("x", expected=saved[2].checkpoint_id, on_conflict="branch")
    )
    sibling = await thread_index.get(key)
    await branches.move_head(key, HeadMove(saved[5].checkpoint_id))
    back = await thread_index.get(key)
    await branches.move_head(key, HeadMove(saved[0].checkpoint_id))
    early = await thread_index.get(key)

    assert sibling is not None
    assert back is not None
    assert early is not None
    assert sibling.summaries == back.summaries == (pointer(saved[1]),)
    assert early.summaries == ()
    kept = await summary_store.read(key, pointer(saved[1]), epoch=back.summary_epoch)
    assert kept == summary(pointer(saved[1]))


@pytest.mark.parametrize("other", ["owner", "tenant", "thread"])
async def test_a_foreign_thread_is_unknown(
    history_store: SqlHistoryStore, branches: SqlBranchStore, tenant: str, other: str
) -> None:
    """Another owner's thread and another tenant's are neither read nor moved; an admin may."""
    key = ThreadKey(tenant, "t1", "ann")
    head = str((await saved_turns(history_store, key, 2))[-1].checkpoint_id)
    stranger = {
        "owner": replace(key, owner_id="bob"),
        "tenant": replace(key, tenant_id=f"{tenant}-2"),
        "thread": replace(key, thread_id="t2"),
    }[other]

    assert await branches.page(stranger, TURNS, limit=5, cursor=None) is None
    for read in (branches.turn(stranger, head), branches.value(stranger, head, "c")):
        with pytest.raises(ThreadNotFound):
            await read
    assert (await branches.move_head(stranger, HeadMove(None))).outcome == "unknown"
    assert (await branches.move_head(replace(key, owner_id=None), HeadMove(head))).registry


@pytest.mark.parametrize("checkpoint_id", ["x", "none", "0000000001-zz", "a" * 255, "\0", "\ud800"])
async def test_what_is_no_turns_id_is_not_found(
    history_store: SqlHistoryStore, branches: SqlBranchStore, key: ThreadKey, checkpoint_id: str
) -> None:
    """Any text may be asked for; what the database would not take finds nothing."""
    await saved_turns(history_store, key, 1)

    with pytest.raises(CheckpointNotFound):
        await branches.turn(key, checkpoint_id)
    assert (await branches.move_head(key, HeadMove(checkpoint_id))).outcome == "no-checkpoint"
    assert (await branches.fork(key, checkpoint_id, "t2")).outcome == "no-checkpoint"
