import asyncio
import json
import uuid
from pathlib import Path
from typing import Any, cast

import pytest
from agents import SessionSettings, TResponseInputItem
from agents.memory import Session, SQLiteSession

from tests.client.agent_items import TURN, items
from tests.service import running_service
from threadkeep_client import AsyncThreadkeep
from threadkeep_client.errors import InvalidPayload
from threadkeep_client.openai_agents import ThreadkeepSession

pytestmark = pytest.mark.anyio


@pytest.fixture
def session(memory: AsyncThreadkeep) -> ThreadkeepSession:
    return ThreadkeepSession(f"agents/{uuid.uuid4()}", memory)


async def test_it_is_a_session(memory: AsyncThreadkeep) -> None:
    """It has what the SDK's protocol asks for, to the type checker and at run time."""
    session: Session = ThreadkeepSession("s", memory)

    assert isinstance(session, Session)
    assert session.session_id == "s"
    assert session.session_settings == SessionSettings()


async def test_items_come_back_exactly_as_added(session: ThreadkeepSession) -> None:
    """Order, ids, the lack of ids, and members that nobody here knows survive."""
    await session.add_items(TURN)
    await session.add_items(TURN[:1])

    assert await session.get_items() == [*TURN, TURN[0]]


async def test_limit_takes_the_newest_oldest_first(session: ThreadkeepSession) -> None:
    """A limit counts from the end, over turns and pages; more than there is gives all."""
    texts = [str(n) for n in range(230)]
    for start in range(0, 230, 23):
        await session.add_items(items(*texts[start : start + 23]))

    for limit in (1, 22, 24, 100, 101, 205, 230, 1000):
        assert await session.get_items(limit) == items(*texts[-limit:])
    assert await session.get_items() == items(*texts)


async def test_explicit_limit_beats_the_settings(memory: AsyncThreadkeep) -> None:
    """The settings' limit holds for reads that name none."""
    session = ThreadkeepSession("limits", memory, session_settings=SessionSettings(limit=2))
    await session.add_items(items("a", "b", "c"))

    assert await session.get_items() == items("b", "c")
    assert await session.get_items(1) == items("c")
    assert await session.get_items(3) == items("a", "b", "c")
    assert await ThreadkeepSession("limits", memory, session_settings={"limit": 1}).get_items(
        None
    ) == items("c")


async def test_nothing_asked_for_asks_nothing() -> None:
    """A limit of 0 and an empty list of items make no request: nobody listens here."""
    session = ThreadkeepSession("s", AsyncThreadkeep("http://127.0.0.1:9", retries=0))

    assert await session.get_items(0) == []
    await session.add_items([])


async def test_unknown_session_is_empty(session: ThreadkeepSession) -> None:
    """What was never written reads as empty, and takes a pop and a clear."""
    assert await session.get_items() == []
    assert await session.get_items(3) == []
    assert await session.pop_item() is None
    await session.clear_session()


async def test_batch_is_stored_whole_or_not_at_all(session: ThreadkeepSession) -> None:
    """One item that cannot be stored refuses the batch."""
    bad = cast("TResponseInputItem", {"type": "function_call", "name": "f", "arguments": "{}"})

    with pytest.raises(InvalidPayload, match="names the call") as refused:
        await session.add_items([*TURN, bad])

    assert refused.value.errors[0]["pointer"] == "#/messages/6/call_id"
    assert await session.get_items() == []


async def test_concurrent_batches_stay_whole(session: ThreadkeepSession) -> None:
    """Batches that are added at once are all there, none inside another."""
    await asyncio.gather(*(session.add_items(items(f"{n}a", f"{n}b", f"{n}c")) for n in range(10)))

    texts = [str(item["content"]) for item in cast("list[Any]", await session.get_items())]
    assert len(texts) == 30
    assert all([text[0] for text in texts[i : i + 3]] == [texts[i][0]] * 3 for i in range(0, 30, 3))


async def test_system_item_is_left_out_with_a_warning(session: ThreadkeepSession) -> None:
    """What changes per deploy is not stored, and the caller hears of it."""
    system = cast("TResponseInputItem", {"role": "developer", "content": "Be brief."})

    with pytest.warns(UserWarning, match=r"never stored.*developer"):
        await session.add_items([system, *TURN])

    assert await session.get_items() == TURN


async def test_clear_erases_and_the_session_goes_on(
    memory: AsyncThreadkeep, session: ThreadkeepSession
) -> None:
    """After a clear nothing is left, and the same id takes items at once."""
    await session.add_items(items("a"))
    await session.clear_session()

    assert await session.get_items() == []
    assert [thread async for thread in memory.threads()] == []
    await session.add_items(items("b"))
    assert await session.get_items() == items("b")


async def test_change_settles_before_a_cancellation_is_passed_on(
    session: ThreadkeepSession,
) -> None:
    """A caller that is cancelled in an add comes back only when the items are stored."""
    adding = asyncio.create_task(session.add_items(items("a")))
    await asyncio.sleep(0)  # it has begun
    adding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await adding

    assert await session.get_items() == items("a")


async def test_sessions_are_the_owners(memory: AsyncThreadkeep) -> None:
    """The same id is another session for another owner: it can neither read nor write it."""
    ada = ThreadkeepSession("mine", memory.for_owner("ada"))
    bob = ThreadkeepSession("mine", memory.for_owner("bob"))
    await ada.add_items(items("secret"))

    assert await bob.get_items() == []
    assert await bob.pop_item() is None
    await bob.clear_session()
    assert await ada.get_items() == items("secret")


async def test_items_survive_a_restart(
    service_environment: dict[str, str], api_key: str, tmp_path: Path
) -> None:
    """What was added before the service was killed is there after that."""
    for expected in ([], TURN):
        with running_service(service_environment, tmp_path) as service:
            async with AsyncThreadkeep(service.url, api_key=api_key) as memory:
                session = ThreadkeepSession("s", memory)
                assert await session.get_items() == expected
                await session.add_items(TURN)
            service.kill()


async def test_it_does_what_the_sdks_own_session_does(session: ThreadkeepSession) -> None:
    """Step by step the same answers as the SDK's SQLite session gives."""
    own: Session = SQLiteSession("own")
    answers: list[list[object]] = []
    for one in cast("list[Session]", [own, session]):
        seen: list[object] = [await one.pop_item(), await one.get_items()]
        await one.add_items(TURN)
        await one.add_items([])
        seen += [await one.get_items(2), await one.pop_item(), await one.get_items()]
        await one.add_items(items("x", "y"))
        seen += [await one.pop_item(), await one.pop_item(), await one.get_items(1)]
        await one.clear_session()
        seen += [await one.get_items(), await one.pop_item()]
        answers.append(seen)

    assert json.dumps(answers[1], sort_keys=True) == json.dumps(answers[0], sort_keys=True)
