"""StagingStore on a real PostgreSQL: what is staged once stays, and only its own save takes it."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from app.adapters.sql.engine import Database
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.staging import SqlStagingStore
from app.core.digest import KeyAnchor, identity
from app.core.model import Appended, History, NewTurn, ThreadKey
from app.core.pending import MAX_STALE_TASKS, StaleTask
from app.core.staging import MAX_STAGED_BYTES, MAX_STAGED_WRITES, StageRequest, Stored, answer
from tests.factories import NOW, clock_at, load, new_turn, saved_turns
from tests.servers import in_schema

pytestmark = pytest.mark.anyio


@pytest.fixture
def staging(database: Database) -> SqlStagingStore:
    return SqlStagingStore(database)


def request(thread: ThreadKey, task_id: str, *values: object, **overrides: object) -> StageRequest:
    """One task's values, each in a channel of its own, of turn `k1` under an empty thread."""
    channels = tuple((f"c{index}", value) for index, value in enumerate(values))
    given = StageRequest(thread, task_id, channels, key="k1", parent_known=True)
    return replace(given, **overrides)  # type: ignore[arg-type]


def turn_of(thread: ThreadKey, turn_key: str, **overrides: object) -> NewTurn:
    """A turn saved with this key."""
    mine = identity(thread, KeyAnchor(turn_key))
    given: Mapping[str, object] = {"key": turn_key, "identity": mine, **overrides}
    return new_turn(f"asked {turn_key}", "said", **given)


def replay(history: History) -> list[tuple[str, str, object]]:
    """What is pending, in the order it is given."""
    return [(write.key, write.task_id, write.value) for write in history.pending]


async def change(database: Database, key: ThreadKey, assignment: str) -> None:
    """Change the thread's registry row behind the store's back."""
    sql = in_schema(f"UPDATE S.threads SET {assignment} WHERE tenant_id = $1 AND thread_id = $2")  # noqa: S608
    await database.fetch(sql, key.tenant_id, key.thread_id)


async def test_a_staged_task_is_pending(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A task staged for a thread's first turn opens the thread and shows as it was sent."""
    values = ({"role": "user", "content": "hi\0 \u2028 é"}, None, [1, 1.0, -0.0, 2**63], "", False)

    stored = await staging.stage(request(key, "ask", *values))
    history = await load(history_store, key)

    assert stored == Stored("created", parent=None, checkpoint_id=None)
    assert [(w.idx, w.channel) for w in history.pending] == [(n, f"c{n}") for n in range(5)]
    assert repr([w.value for w in history.pending]) == repr(list(values))
    assert (history.head, history.position, history.stale) == (None, 0, ())


async def test_the_same_again_is_a_no_op(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """The same channels and values again change nothing, spelled otherwise too."""
    await staging.stage(request(key, "t", {"a": 1, "b": [2.5]}))
    before = (await load(history_store, key)).pending

    again = await staging.stage(request(key, "t", {"a": 1, "b": [2.5]}))
    turned = request(key, "t", {"b": [2.5], "a": 1})
    differs = await staging.stage(turned)

    assert again.outcome == "same"
    assert answer(turned, differs).created is False
    assert (await load(history_store, key)).pending == before


@pytest.mark.parametrize(
    "values", [("y",), ("x", "x"), (), (1,), (["x"],)], ids=["value", "more", "less", "kind", "in"]
)
async def test_other_values_are_not_the_same(
    staging: SqlStagingStore,
    history_store: SqlHistoryStore,
    key: ThreadKey,
    values: tuple[object, ...],
) -> None:
    """Another value, channel, number or order differs: what stands is told and stays."""
    await staging.stage(request(key, "t", "x", "z"))

    other = await staging.stage(request(key, "t", *values, "z"))
    channel = await staging.stage(request(key, "t", values=(("c0", "x"), ("other", "z"))))

    for stored in (other, channel):
        assert (stored.outcome, stored.values) == ("differs", (("c0", "x"), ("c1", "z")))
    assert [w.value for w in (await load(history_store, key)).pending] == ["x", "z"]


async def test_forty_equal_at_once_are_one(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """Concurrent equals store one task; concurrent others of one task leave one whole."""
    equal = await asyncio.gather(*(staging.stage(request(key, "t", 1, 2)) for _ in range(40)))
    others = await asyncio.gather(*(staging.stage(request(key, "u", n, n)) for n in range(20)))

    assert sorted(stored.outcome for stored in equal) == ["created"] + ["same"] * 39
    assert sorted(stored.outcome for stored in others) == ["created"] + ["differs"] * 19
    values = [w.value for w in (await load(history_store, key)).pending]
    assert values[:2] == [1, 2]
    assert values[2] == values[3]


async def test_replay_is_in_the_order_of_staging(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """Tasks of a turn come back as they were first staged, not by their names; keys apart."""
    for task in ("zz", "mm", "aa"):
        await staging.stage(request(key, task, task))
        await staging.stage(request(key, task, f"other {task}", key="k0"))
        await staging.stage(request(key, task, f"bare {task}", key=None))
    await staging.stage(request(key, "zz", "zz"))

    assert replay(await load(history_store, key)) == [
        *(("", task, f"bare {task}") for task in ("zz", "mm", "aa")),
        *(("k0", task, f"other {task}") for task in ("zz", "mm", "aa")),
        *(("k1", task, task) for task in ("zz", "mm", "aa")),
    ]


async def test_a_parent_must_be_a_turn_of_the_thread(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """Unknown parents and a parent in an unknown thread are told apart; neither stores anything."""
    unknown = await staging.stage(request(key, "t", 1, parent="0000000001-" + "a" * 22))
    first, _ = await saved_turns(history_store, key, 2)
    for parent in ("0000000001-" + "a" * 22, "x", "\0"):
        assert (await staging.stage(request(key, "t", 1, parent=parent))).outcome == "no-parent"
    older = await staging.stage(request(key, "t", 1, parent=first.head))

    assert unknown.outcome == "unknown"
    assert older == Stored("created", first.head, None)
    history = await load(history_store, key)
    assert (history.pending, history.stale) == ((), (StaleTask(first.head, "k1", "t"),))


async def test_an_unknown_parent_is_where_the_turn_began(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """Without a parent a task goes under the head, but a key that has staged stays where it is."""
    first, _ = await saved_turns(history_store, key, 2)
    bare = {"parent_known": False}
    await staging.stage(request(key, "t", 1, parent=first.head))

    again = await staging.stage(request(key, "t", 1, **bare))
    more = await staging.stage(request(key, "u", 2, **bare))
    other = await staging.stage(request(key, "t", 3, key="k2", **bare))
    keyless = await staging.stage(request(key, "t", 4, key=None, **bare))

    assert (again.outcome, again.parent) == ("same", first.head)
    assert (more.outcome, more.parent) == ("created", first.head)
    history = await load(history_store, key)
    assert (other.parent, keyless.parent) == (history.head, history.head)
    assert [w.value for w in history.pending] == [4, 3]


async def test_walls_between_owners_and_tenants(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A thread belongs to who staged first; another owner neither stages, sees nor discards."""
    ann, bob = replace(key, owner_id="ann"), replace(key, owner_id="bob")
    elsewhere = replace(key, tenant_id=f"{key.tenant_id}-2")
    await staging.stage(request(ann, "t", "ann's"))

    assert (await staging.stage(request(bob, "t", "bob's"))).outcome == "unknown"
    assert await staging.discard(bob, turn_key=None) == "unknown"
    assert await history_store.recent(bob, window=60, stride=20) is None
    assert (await staging.stage(request(elsewhere, "t", "there"))).outcome == "created"
    assert await staging.discard(elsewhere, turn_key=None) == "done"
    admin = replace(key, owner_id=None)
    assert (await staging.stage(request(admin, "u", "admin's"))).outcome == "created"
    assert [w.value for w in (await load(history_store, ann)).pending] == ["ann's", "admin's"]


async def test_a_deleted_thread_takes_nothing(
    database: Database, staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A tombstone refuses to stage and to discard, as it refuses a save."""
    await staging.stage(request(key, "t", 1))
    await change(database, key, "deleted_at = now()")

    assert (await staging.stage(request(key, "t", 1))).outcome == "deleted"
    assert await staging.discard(key, turn_key=None) == "deleted"


async def test_an_expired_thread_is_staged_anew(
    database: Database, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """What was staged before a thread expired is gone with it."""
    staging = SqlStagingStore(database, now=clock_at(NOW))
    await staging.stage(request(key, "t", "old"))
    await change(database, key, "expires_at = created_at")

    with_parent = request(key, "t", "new", parent="0000000001-" + "a" * 22)
    assert (await staging.stage(with_parent)).outcome == "unknown"
    assert (await staging.stage(request(key, "t", "new"))).outcome == "created"
    assert [w.value for w in (await load(history_store, key)).pending] == ["new"]


async def test_limits_of_one_parent(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """What a load would return stays bounded in number and bytes; a retry is never refused."""
    saved = (await saved_turns(history_store, key, 1))[0]
    for number in range(MAX_STAGED_WRITES // 200):
        await staging.stage(request(key, f"t{number}", *range(200), key=f"k{number % 2}"))
    half = "x" * (MAX_STAGED_BYTES // 2)
    big = {"parent": saved.head}
    await staging.stage(request(key, "b0", half[2:], **big))

    assert (await staging.stage(request(key, "more", 1, key="k9"))).outcome == "too-many"
    assert (await staging.stage(request(key, "t0", *range(200), key="k0"))).outcome == "same"
    assert (await staging.stage(request(key, "b1", half, **big))).outcome == "too-large"
    assert (await staging.stage(request(key, "b1", half[2:], **big))).outcome == "created"
    assert (await staging.stage(request(key, "b2", "", **big))).outcome == "too-large"


async def test_a_saved_key_takes_nothing_more(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A stage sent again after its turn was saved answers with the turn and leaves nothing."""
    await staging.stage(request(key, "t", 1))
    saved = await history_store.append(key, turn_of(key, "k1"))

    for late in (request(key, "t", 1), request(key, "new", 2), request(key, "t", "other")):
        stored = await staging.stage(late)
        assert stored == Stored("folded", parent=None, checkpoint_id=saved.checkpoint_id)
    unknown = await staging.stage(request(key, "t", 1, parent_known=False))
    assert (unknown.outcome, unknown.parent) == ("folded", None)
    history = await load(history_store, key)
    assert (history.pending, history.stale) == ((), ())


async def test_a_save_folds_its_own(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A keyed save takes its key's writes, under whichever parent and also when it is rebased."""
    first, second = await saved_turns(history_store, key, 2)
    await staging.stage(request(key, "t", 1, parent=first.head))
    await staging.stage(request(key, "u", 2, parent=second.head))
    await staging.stage(request(key, "t", 3, parent=first.head, key="k2"))

    saved = await history_store.append(key, turn_of(key, "k1", expected=first.head))

    assert saved.rebased
    history = await load(history_store, key)
    assert history.stale == (StaleTask(first.head, "k2", "t"),)
    assert replay(await load(history_store, key, first.head)) == [("k2", "t", 3)]


async def test_a_save_without_a_key_folds_all_under_its_parent(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """Without a key the parent as sent decides, also when another turn has won."""
    first, _ = await saved_turns(history_store, key, 2)
    for turn_key in (None, "k1"):
        await staging.stage(request(key, "t", 1, parent=first.head, key=turn_key))
    await staging.stage(request(key, "t", 2, key=None))

    await history_store.append(key, new_turn("x", expected=first.head))

    assert (await load(history_store, key)).stale == (StaleTask(None, "", "t"),)


async def test_a_retried_save_folds_what_came_late(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """Staged between a save without a key and its retry: gone with the retry; other keys stay."""
    first = (await saved_turns(history_store, key, 1))[0]
    turn = new_turn("x", expected=first.head)
    await history_store.append(key, turn)
    await staging.stage(request(key, "t", 1, parent=first.head, key=None))
    await staging.stage(request(key, "t", 2, parent=first.head, key="regenerates"))

    again = await history_store.append(key, turn)

    assert again.outcome == "duplicate"
    assert (await load(history_store, key)).stale == (StaleTask(first.head, "regenerates", "t"),)


async def test_a_reused_key_folds_nothing(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A save that stores nothing takes nothing: refused, moved or without its parent."""
    first, second = await saved_turns(history_store, key, 2)
    await staging.stage(request(key, "t", 1, parent=second.head))
    refused: list[Appended] = [
        await history_store.append(key, turn)
        for turn in (
            turn_of(key, "k1", expected=first.head, on_conflict="reject"),
            turn_of(key, "k1", expected="0000000001-" + "a" * 22),
        )
    ]

    assert [saved.outcome for saved in refused] == ["moved", "no-parent"]
    assert replay(await load(history_store, key)) == [("k1", "t", 1)]


async def test_stale_tasks_are_named_up_to_a_limit(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A load of the head names the newest left behind, without values; one of a turn names none."""
    first, second = await saved_turns(history_store, key, 2)
    for number in range(MAX_STALE_TASKS):
        parent = first.head if number % 2 else None
        await staging.stage(request(key, f"{1000 - number}", number, parent=parent, key="k"))
    await staging.stage(request(key, "now", "x", parent=second.head))
    everything = (await load(history_store, key)).stale
    await staging.stage(request(key, "one more", 0, 1, 2, parent=first.head))

    history = await load(history_store, key)

    assert len(history.stale) == len(everything) == MAX_STALE_TASKS
    assert [t.task_id for t in everything[:2]] == ["1000", "998"]
    assert {t.parent for t in everything[:50]} == {None}
    assert history.stale[-1] == StaleTask(first.head, "k1", "one more")
    assert replay(history) == [("k1", "now", "x")]
    assert (await load(history_store, key, second.head)).stale == ()


async def test_discard(
    staging: SqlStagingStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """Discarding takes one key's writes, or all of the thread, and is done when there are none."""
    assert await staging.discard(key, turn_key=None) == "unknown"
    first = (await saved_turns(history_store, key, 1))[0]
    for parent in (None, first.head):
        for turn_key in (None, "k1", "k2"):
            await staging.stage(request(key, "t", 1, parent=parent, key=turn_key))

    assert [await staging.discard(key, turn_key="k1") for _ in range(2)] == ["done", "done"]
    history = await load(history_store, key)
    assert [write.key for write in history.pending] == ["", "k2"]
    assert await staging.discard(key, turn_key=None) == "done"
    history = await load(history_store, key)
    assert (history.pending, history.stale) == ((), ())
    assert (await staging.stage(request(key, "t", "other"))).outcome == "created"
