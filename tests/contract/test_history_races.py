"""HistoryStore when the thread moves: lost races, branches, decisions under the lock."""

import asyncio
from functools import partial

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.engine import Database, create_engine
from app.adapters.sql.history import SqlHistoryStore
from app.core.errors import InvalidPayload
from app.core.model import Appended, History, NewTurn, ThreadKey
from tests.factories import (
    load,
    new_turn,
    said,
    saved_turns,
)
from tests.servers import SCHEMA

pytestmark = pytest.mark.anyio


async def test_a_lost_race_appends_after_the_winner(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """With `append`, the loser's turn follows the winner's and says that it was rebased."""
    first, winner = await saved_turns(history_store, key, 2)

    loser = await history_store.append(key, new_turn("me too", expected=first.head))
    late = await history_store.append(key, new_turn("and me"))

    assert (loser.outcome, loser.rebased, loser.parent_id) == ("created", True, winner.head)
    assert (late.outcome, late.rebased, late.parent_id) == ("created", True, loser.head)
    assert said(await load(history_store, key))[-2:] == ["me too", "and me"]


@pytest.mark.parametrize("on_conflict", ["reject", "decided"])
async def test_a_lost_race_may_store_nothing(
    history_store: SqlHistoryStore, key: ThreadKey, on_conflict: str
) -> None:
    """With `reject`, and for a decision made on a head, the answer is the head there is now."""
    first, winner = await saved_turns(history_store, key, 2)

    lost = await history_store.append(
        key, new_turn("me too", expected=first.head, on_conflict=on_conflict)
    )

    assert (lost.outcome, lost.checkpoint_id, lost.head) == ("moved", None, winner.head)
    assert (await load(history_store, key)).head == winner.head


async def test_a_branch_becomes_the_head(history_store: SqlHistoryStore, key: ThreadKey) -> None:
    """A branch stands beside what followed its parent; a load sees it and not its siblings."""
    first, second, _ = await saved_turns(history_store, key, 3)

    branch = await history_store.append(
        key, new_turn("instead", expected=first.head, on_conflict="branch")
    )
    history = await load(history_store, key)

    assert (branch.outcome, branch.parent_id, branch.position) == ("created", first.head, 3)
    assert said(history) == ["question 0", "answer 0", "instead"]
    assert (history.tokens, history.registry.tokens, history.registry.turns) == (15, 15, 2)
    assert said(await load(history_store, key, second.head))[-1] == "answer 1"


async def test_a_branch_may_replace_the_first_turn(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A branch from null begins anew."""
    await saved_turns(history_store, key, 2)

    branch = await history_store.append(key, new_turn("anew", on_conflict="branch"))

    assert (branch.outcome, branch.parent_id, branch.position) == ("created", None, 1)
    assert said(await load(history_store, key)) == ["anew"]


@pytest.mark.parametrize("parent", ["0000000002-" + "0" * 22, "nonsense", "\0", "\ud800"])
@pytest.mark.parametrize("on_conflict", ["append", "reject", "branch"])
async def test_a_parent_must_be_of_the_thread(
    history_store: SqlHistoryStore, key: ThreadKey, parent: str, on_conflict: str
) -> None:
    """A parent the thread does not hold stores nothing; nor does it open a thread."""
    turn = new_turn("hello", expected=parent, on_conflict=on_conflict, identity=b"i" * 32)

    assert (await history_store.append(key, turn)).outcome == "unknown"
    await saved_turns(history_store, key, 1)
    assert (await history_store.append(key, turn)).outcome == "no-parent"


async def test_a_locked_decision_sees_the_end_of_the_thread(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """`decide` gets the last messages; None stores nothing, an error stores nothing and passes."""
    assert await history_store.append_locked(key, back=4, decide=lambda _: None) == (None, None)
    assert await history_store.recent(key, window=60, stride=20) is None
    await saved_turns(history_store, key, 5)

    history, appended = await history_store.append_locked(key, back=4, decide=lambda _: None)

    assert history is not None
    assert appended is None
    assert said(history)[-4:] == ["question 3", "answer 3", "question 4", "answer 4"]
    assert len(history.messages) < 10

    def refuse(_: History | None) -> NewTurn:
        raise InvalidPayload([])

    with pytest.raises(InvalidPayload):
        await history_store.append_locked(key, back=4, decide=refuse)
    assert (await load(history_store, key)).registry.turns == 5


async def test_forty_equal_saves_store_one_turn(
    engine: AsyncEngine, database_url: str, key: ThreadKey
) -> None:
    """Equal saves at once, over two processes' pools, store one turn and get one answer."""
    saved = await at_once(engine, database_url, key, [new_turn("hello", "hi")] * 40)

    assert sorted(s.outcome for s in saved) == ["created"] + ["duplicate"] * 39
    assert len({(s.checkpoint_id, s.position, s.head) for s in saved}) == 1


async def test_forty_different_saves_store_forty(
    engine: AsyncEngine, database_url: str, key: ThreadKey, history_store: SqlHistoryStore
) -> None:
    """Different saves at once are all stored, each whole, in one chain."""
    turns = [new_turn(f"q{n}", f"a{n}") for n in range(40)]

    saved = await at_once(engine, database_url, key, turns)
    history = await history_store.recent(key, window=1000, stride=2)

    assert history is not None
    assert {s.outcome for s in saved} == {"created"}
    assert sorted(s.position for s in saved) == list(range(2, 82, 2))
    assert len(history.turns) == history.registry.turns == 40
    contents = said(history)
    assert all(a == f"a{str(q)[1:]}" for q, a in zip(contents[::2], contents[1::2], strict=True))


async def test_forty_decisions_under_the_lock_store_forty(
    engine: AsyncEngine, database_url: str, key: ThreadKey, history_store: SqlHistoryStore
) -> None:
    """A decision made under the row lock is never overtaken, on a thread that did not exist too."""

    def decided(number: int, history: History | None) -> NewTurn:
        head = history.head if history else None
        return new_turn(f"q{number}", f"a{number}", expected=head, on_conflict="decided")

    second = create_engine(database_url)
    stores = [SqlHistoryStore(Database(e, SCHEMA)) for e in (engine, second)]
    results = await asyncio.gather(
        *(stores[n % 2].append_locked(key, back=4, decide=partial(decided, n)) for n in range(40))
    )
    await second.dispose()

    outcomes = [appended.outcome for _, appended in results if appended]
    assert outcomes == ["created"] * 40
    assert (await load(history_store, key)).registry.turns == 40


async def at_once(
    engine: AsyncEngine, database_url: str, key: ThreadKey, turns: list[NewTurn]
) -> list[Appended]:
    second = create_engine(database_url)
    stores = [SqlHistoryStore(Database(e, SCHEMA)) for e in (engine, second)]
    saved = await asyncio.gather(*(stores[n % 2].append(key, turn) for n, turn in enumerate(turns)))
    await second.dispose()
    return saved
