"""What staging puts on the line: one round trip each, with what a load then has to carry."""

from collections.abc import AsyncIterator

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.engine import Database, PoolOptions, create_engine
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.staging import SqlStagingStore
from app.core.model import ThreadKey
from app.core.staging import StageRequest
from tests.factories import saved_turns
from tests.servers import SCHEMA
from tests.wire import Wire, counted

pytestmark = pytest.mark.anyio


@pytest.fixture
async def wire(database_url: str) -> AsyncIterator[Wire]:
    async with counted(database_url) as wire:
        yield wire


@pytest.fixture(params=[False, True], ids=["unnamed", "named"])
async def line(wire: Wire, request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    """A database behind one counted connection."""
    engine: AsyncEngine = create_engine(wire.url, PoolOptions(size=1))
    yield Database(engine, SCHEMA, named_statements=request.param)
    await engine.dispose()


async def test_each_call_is_one_round_trip(line: Database, wire: Wire, key: ThreadKey) -> None:
    """Staging, a retry, a difference, a load with what is staged and a discard are one trip."""
    history, staging = SqlHistoryStore(line), SqlStagingStore(line)
    first, second = await saved_turns(history, key, 2)
    await history.recent(key, window=60, stride=20)
    await staging.stage(StageRequest(key, "first", (("c", 0),)))
    await staging.discard(key, turn_key="none")
    requests = [
        StageRequest(key, "t", (("c", 1),), key="k", parent=second.head, parent_known=True),
        StageRequest(key, "t", (("c", 1),), key="k", parent=second.head, parent_known=True),
        StageRequest(key, "t", (("c", 2),), key="k", parent=second.head, parent_known=True),
        StageRequest(key, "old", (("c", 1),), key="k", parent=first.head, parent_known=True),
        StageRequest(key, "bare", (("c", 1),), key="k"),
    ]

    outcomes = []
    for one in requests:
        wire.clear()
        outcomes.append((await staging.stage(one)).outcome)
        assert wire.trips == 1
    wire.clear()
    found = await history.recent(key, window=60, stride=20)
    assert wire.trips == 1
    wire.clear()
    await staging.discard(key, turn_key=None)
    assert wire.trips == 1

    assert outcomes == ["created", "same", "differs", "created", "created"]
    assert found is not None
    assert [write.task_id for write in found.pending] == ["first", "t", "bare"]
    assert [task.task_id for task in found.stale] == ["old"]
    assert not any("pg_type" in text for text in wire.parsed)


async def test_a_line_that_breaks_stages_once(line: Database, wire: Wire, key: ThreadKey) -> None:
    """A connection lost under a stage is replaced, and the task stands once."""
    staging = SqlStagingStore(line)
    await staging.stage(StageRequest(key, "t", (("c", 1),)))

    wire.cut_next = True
    stored = await staging.stage(StageRequest(key, "u", (("c", 2),)))

    assert stored.outcome == "created"
    found = await SqlHistoryStore(line).recent(key, window=60, stride=20)
    assert found is not None
    assert [write.value for write in found.pending] == [1, 2]
