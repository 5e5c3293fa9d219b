import asyncio
import json
import uuid

import pytest

from tests.client.agent_items import TURN, items
from threadkeep_client import AsyncThreadkeep
from threadkeep_client.openai_agents import ThreadkeepSession

pytestmark = pytest.mark.anyio


@pytest.fixture
def session(memory: AsyncThreadkeep) -> ThreadkeepSession:
    return ThreadkeepSession(f"agents/{uuid.uuid4()}", memory)


async def test_pops_are_the_items_from_the_end(session: ThreadkeepSession) -> None:
    """Whatever the batches were, one pop after the other empties the session."""
    batches = [TURN, items("yes"), items("yes", "no")]
    for batch in batches:
        await session.add_items(batch)

    expected = [item for batch in batches for item in batch]
    while expected:
        assert await session.pop_item() == expected.pop()
        assert await session.get_items() == expected
    assert await session.pop_item() is None


async def test_session_goes_on_after_pops(session: ThreadkeepSession) -> None:
    """What is added after a pop stands where the popped item stood, the same words too."""
    await session.add_items(items("a", "b"))
    await session.pop_item()
    await session.add_items(items("b"))
    await session.pop_item()
    await session.pop_item()
    await session.add_items(items("a", "b"))
    await session.pop_item()

    assert await session.get_items() == items("a")


async def test_popped_item_leaves_what_a_model_reads(
    memory: AsyncThreadkeep, session: ThreadkeepSession
) -> None:
    """A load of the thread holds what the session holds."""
    await session.add_items(items("a", "b"))
    await session.pop_item()

    context = await memory.load(session.session_id, format="responses")

    assert [item["content"] for item in context["messages"]] == ["a"]


@pytest.mark.parametrize("batch", [1, 3, 8])
async def test_concurrent_pops_never_take_the_same_item(
    memory: AsyncThreadkeep, batch: int
) -> None:
    """Of many pops at once, by sessions of their own, each takes another one of the newest."""
    sessions = [ThreadkeepSession("pops", memory) for _ in range(5)]
    texts = [str(n) for n in range(8)]
    for start in range(0, 8, batch):
        await sessions[0].add_items(items(*texts[start : start + batch]))

    popped = await asyncio.gather(*(session.pop_item() for session in sessions))

    assert await sessions[0].get_items() == items(*texts[:3])
    assert sorted(popped, key=json.dumps) == items(*texts[3:])


async def test_concurrent_changes_of_one_session_lose_nothing(session: ThreadkeepSession) -> None:
    """Pops and adds at once come to what they would have come to one after the other."""
    await session.add_items(items("a", "b", "c"))

    changes = [
        change for n in "def" for change in (session.pop_item(), session.add_items(items(n)))
    ]
    popped = [item for item in await asyncio.gather(*changes) if item is not None]

    got = [*await session.get_items(), *popped]
    assert sorted(got, key=json.dumps) == items(*"abcdef")


async def test_pop_after_the_head_went_back(
    memory: AsyncThreadkeep, session: ThreadkeepSession
) -> None:
    """A turn that was popped once, and became the head again, pops again like any other."""
    await session.add_items(items("a", "b", "c"))
    head = (await memory.thread(session.session_id))["head"]
    await session.pop_item()
    await memory.set_head(session.session_id, head)

    assert await session.pop_item() == items("c")[0]
    assert await session.get_items() == items("a", "b")


class CutShort(ThreadkeepSession):
    """A session whose process dies before it moves the head."""

    async def _put_head(self, checkpoint_id: str | None, *, expected: str | None) -> None:
        raise ConnectionError(checkpoint_id, expected)


async def test_pop_that_was_cut_short_is_made_good(memory: AsyncThreadkeep) -> None:
    """The item is gone for every session, whether items or another pop come next."""
    session = ThreadkeepSession("cut", memory)
    for batch in (items("a", "b"), items("c"), items("d")):
        await session.add_items(batch)
    with pytest.raises(ConnectionError):
        await CutShort("cut", memory).pop_item()

    assert await session.get_items() == items("a", "b", "c")
    assert await session.get_items(1) == items("c")
    assert await session.pop_item() == items("c")[0]
    await session.add_items(items("e"))
    with pytest.raises(ConnectionError):
        await CutShort("cut", memory).pop_item()
    await session.add_items(items("f"))
    assert await session.get_items() == items("a", "b", "f")
    assert await session.get_items(2) == items("b", "f")
    assert [await session.pop_item() for _ in range(4)] == [*items("f", "b", "a"), None]
