"""How far back a load reads: the message grid, and the summary pointers before it."""

import pytest

from app.adapters.sql.engine import Database
from app.adapters.sql.history import SqlHistoryStore
from app.core.model import Appended, ThreadKey
from tests.factories import new_turn, saved_turns
from tests.servers import in_schema

pytestmark = pytest.mark.anyio

WINDOW, STRIDE = 12, 4
"""The grid's start for 20 turns of two messages: 4 * ceil((40 - 12) / 4) = 28."""


async def first_position(
    store: SqlHistoryStore, key: ThreadKey, checkpoint_id: str | None = None
) -> int:
    history = await store.recent(key, window=WINDOW, stride=STRIDE, checkpoint_id=checkpoint_id)
    assert history is not None
    return history.messages[0].position


async def point(database: Database, key: ThreadKey, saved: list[Appended], *ends: int) -> None:
    """Point the registry at summaries that end at these positions."""
    pointers = ", ".join(
        f'{{"checkpoint_id": "{saved[(end - 1) // 2].checkpoint_id}",'
        f' "position": {end}, "tokens": {end * 5}}}'
        for end in ends
    )
    await database.fetch(
        in_schema("UPDATE S.threads SET summaries = $3 WHERE tenant_id = $1 AND thread_id = $2"),
        key.tenant_id,
        key.thread_id,
        f"[{pointers}]",
    )


@pytest.mark.parametrize(
    ("ends", "first"),
    [
        ((), 29),  # none, and the start is too far away
        ((28,), 29),  # at the grid's start
        ((30,), 29),  # in the grid's own stride
        ((20, 30), 29),  # the newer one decides
        ((26,), 27),  # one stride stale
        ((20,), 21),  # two strides stale: the furthest
        ((18,), 29),  # further back: a gap, which is filled otherwise
        ((18, 26), 27),
        ((27,), 27),  # ends inside a turn, which comes whole
        ((36,), 29),  # beyond the window's start: of no use to it
    ],
)
async def test_a_load_reaches_back_to_the_grid_or_its_pointer(
    database: Database,
    history_store: SqlHistoryStore,
    key: ThreadKey,
    ends: tuple[int, ...],
    first: int,
) -> None:
    """The grid's start, or a summary's end at most two strides before it."""
    saved = await saved_turns(history_store, key, 20)
    await point(database, key, saved, *ends)

    assert await first_position(history_store, key) == first


@pytest.mark.parametrize(("turns", "first"), [(6, 1), (7, 1), (10, 1), (11, 13)])
async def test_a_short_thread_without_summary_is_read_whole(
    history_store: SqlHistoryStore, key: ThreadKey, turns: int, first: int
) -> None:
    """Up to two strides before the grid no summary is needed yet, so nothing may be missing."""
    await saved_turns(history_store, key, turns)

    assert await first_position(history_store, key) == first


async def test_the_turn_that_holds_the_first_message_comes_whole(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A turn across the grid's start is read too."""
    long = [str(n) for n in range(30)]
    first = await history_store.append(key, new_turn(*long))
    await history_store.append(key, new_turn(*long[:9], expected=first.head))

    assert await first_position(history_store, key) == 1


async def test_an_older_checkpoint_has_its_own_grid(
    database: Database, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """As of an older turn, the grid counts its messages, and later summaries do not count."""
    saved = await saved_turns(history_store, key, 30)
    await point(database, key, saved, 26, 44)

    assert await first_position(history_store, key) == 45
    assert await first_position(history_store, key, saved[19].head) == 27
    assert await first_position(history_store, key, saved[5].head) == 1


async def test_a_branch_point_far_back_does_not_drag_in_what_it_left(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A load never reads past the head, so the abandoned turns after it cost nothing."""
    saved = await saved_turns(history_store, key, 20)
    await history_store.append(key, new_turn("x", expected=saved[9].head, on_conflict="branch"))

    history = await history_store.recent(key, window=WINDOW, stride=STRIDE)

    assert history is not None
    assert history.position == 21
    assert [turn.position for turn in history.turns] == [14, 16, 18, 20, 21]


async def test_a_branch_keeps_only_the_summaries_it_shares(
    database: Database, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """Pointers beyond the parent go, and those of turns that are not its ancestors."""
    saved = await saved_turns(history_store, key, 6)
    await point(database, key, saved, 4, 8)
    kept = await history_store.append(
        key, new_turn("x", expected=saved[2].head, on_conflict="branch")
    )
    aside = await history_store.append(
        key, new_turn("y", "z", "y", "z", expected=saved[0].head, on_conflict="branch")
    )
    history = await history_store.recent(key, window=WINDOW, stride=STRIDE)

    assert [pointer.position for pointer in kept.summaries] == [4]
    assert aside.position == 6
    assert aside.summaries == ()
    assert history is not None
    assert history.registry.summaries == ()


async def test_a_summary_of_another_branch_is_dropped_by_parentage(
    database: Database, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A branch from an abandoned turn drops a nearer summary that is not of its past."""
    saved = await saved_turns(history_store, key, 6)
    aside = await history_store.append(
        key, new_turn(*"abcdefgh", expected=saved[0].head, on_conflict="branch")
    )
    await history_store.append(key, new_turn("back", expected=saved[5].head, on_conflict="branch"))
    await point(database, key, saved, 2, 6)

    branch = await history_store.append(
        key, new_turn("again", expected=aside.head, on_conflict="branch")
    )

    assert [pointer.position for pointer in branch.summaries] == [2]
