"""A load where no summary stands before its window: it condenses, and says what it left."""

import httpx
import pytest

from app.services.gap import MAX_GAP
from tests.integration.conftest import MakeClient

pytestmark = pytest.mark.anyio

TURN = 200
TOTAL = 2_600


async def seed(client: httpx.AsyncClient, thread_id: str) -> None:
    """Store a long thread in a few large turns."""
    for start in range(0, TOTAL, TURN):
        numbers = range(start + 1, start + TURN + 1)
        messages = [
            {"role": "user" if n % 2 else "assistant", "content": f"m{n:04}"} for n in numbers
        ]
        saved = await client.post(
            f"/v1/threads/{thread_id}/turns", json={"key": str(start), "messages": messages}
        )
        assert saved.status_code == httpx.codes.CREATED


@pytest.mark.parametrize("cached", [True, False])
async def test_a_long_gap_is_condensed_from_its_newest_end(
    make_client: MakeClient, tenant: str, cached: bool
) -> None:
    """A window that no build serves is preceded by an extract of at most MAX_GAP messages."""
    async with make_client(**({} if cached else {"redis_url": None})) as client:
        await seed(client, tenant)
        # The builds are through, and none of their summaries ends before the wider window.
        await client.post(f"/v1/threads/{tenant}/summary")
        wanted = {"thread_id": tenant, "window": 100}
        first, second = [(await client.post("/v1/context", json=wanted)).json() for _ in "12"]

    coverage = first["coverage"]
    assert MAX_GAP <= coverage["summarized"] < MAX_GAP + TURN  # whole turns are read
    assert coverage["trimmed"] == TOTAL - coverage["summarized"] - coverage["window"] > 0
    assert coverage["from_position"] == TOTAL - coverage["window"] + 1
    assert first["summary"]["state"] == "fresh"
    assert first["summary"]["method"] == "extractive"
    assert first["summary"]["covers"] == coverage["from_position"] - 1
    assert first["messages"] == second["messages"]
    assert first["coverage"] == second["coverage"]


async def test_a_gap_of_a_left_branch_is_not_continued(
    client: httpx.AsyncClient, tenant: str
) -> None:
    """After a branch from an early turn nothing of the left branch is in the new one's summary."""
    heads: list[str] = []
    for number in range(70):
        name = "old" if number else "root"
        messages = [
            {"role": "user", "content": f"{name} question {number}"},
            {"role": "assistant", "content": f"{name} answer {number}"},
        ]
        path = f"/v1/threads/{tenant}/turns"
        saved = await client.post(path, json={"key": str(number), "messages": messages})
        heads.append(saved.json()["checkpoint_id"])
    await client.post(f"/v1/threads/{tenant}/summary")
    fork = [{"role": ("user", "assistant")[n % 2], "content": f"new {n}"} for n in range(TURN)]
    branch = {"messages": fork, "parent": heads[0], "on_conflict": "branch"}
    assert (await client.post(f"/v1/threads/{tenant}/turns", json=branch)).status_code == 201
    loaded = (await client.post("/v1/context", json={"thread_id": tenant})).json()

    assert loaded["coverage"]["total"] == TURN + 2
    assert loaded["summary"]["state"] == "fresh"
    assert "root question" in loaded["summary"]["text"]
    assert "old" not in loaded["summary"]["text"]
