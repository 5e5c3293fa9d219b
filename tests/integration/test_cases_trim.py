"""The budget over HTTP: it writes nothing, a picture has a flat price, hostile runs are quick."""

import asyncio
import random
import string
import time
from collections.abc import Mapping

import pytest

from tests.integration.cases import CASES, Check, Run, numbered, playing, run_case, source_of, texts
from tests.integration.conftest import MakeClient

pytestmark = pytest.mark.anyio

LETTERS = "".join(random.Random(1).choices(string.ascii_lowercase, k=500_000))  # noqa: S311
RUNS = {
    "'a'*1000000": "a" * 1_000_000,
    "'^'*1000000": "^" * 1_000_000,
    "'_'*500000": "_" * 500_000,
    "' '*500000": " " * 500_000,
    "'\\u4e00'*300000": "\u4e00" * 300_000,
    "500000 random lower-case letters without a space": LETTERS,
}


async def never_writes(run: Run) -> None:
    """The second load, with room enough, returns all 50."""
    assert texts(run.loaded[0]) == numbered([49, 50])
    assert texts(run.loaded[1]) == numbered(range(1, 51))


CHECKS: Mapping[str, Check] = {"trim-never-writes": never_writes}
BY_HAND = ["trim-image-flat-cost", "trim-pathological-run"]


@pytest.mark.parametrize("name", CHECKS, ids=source_of)
async def test_case(name: str, make_client: MakeClient, tenant: str) -> None:
    """A case's steps are answered as it expects, and its properties hold."""
    await run_case(name, CHECKS[name], make_client, tenant)


async def test_image_flat_cost(make_client: MakeClient, tenant: str) -> None:
    """A picture of three megabytes costs a fixed price, and so wipes out nothing.

    Source: open-webui/open-webui#29761 (trim-image-flat-cost).
    """
    messages = CASES["trim-image-flat-cost"]["input"]["messages_text"]
    picture = messages[2]["content"][1]["image_url"]
    picture["url"] = "data:image/png;base64," + "A" * 3_000_000
    async with playing(
        "trim-image-flat-cost", make_client, tenant, max_body_bytes=4_000_000
    ) as run:
        await run.save({"thread": "t1", "messages": messages})
        stored = await run.load(token_budget=4000)
        given = await run.context({"conversation": messages, "token_budget": 4000})

    for response in (stored, given):
        assert texts(response) == [message["content"] for message in messages]
        assert 1000 <= response.json()["tokens"]["total"] <= 2000


@pytest.mark.parametrize("run_of", CASES["trim-pathological-run"]["input"]["messages_gen"])
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "given"])
async def test_pathological_run(
    make_client: MakeClient, tenant: str, run_of: str, stored: bool
) -> None:
    """A long run without a break is answered in time, and holds up nobody else meanwhile.

    Source: openai/tiktoken#195 (trim-pathological-run).
    """
    case = CASES["trim-pathological-run"]["input"]
    messages = [{"role": "user", "content": RUNS[run_of]}, {"role": "assistant", "content": "ok"}]
    async with playing("trim-pathological-run", make_client, tenant) as run:
        await run.save({"thread": "other", "messages": [{"role": "user", "content": "hi"}]})
        answered = asyncio.Event()
        others = asyncio.ensure_future(serve_others(run, answered))
        began = time.monotonic()
        if stored:
            saved = await run.save({"thread": "t1", "messages": messages})
            assert saved.status_code == 201
            response = await run.load(message="go on", token_budget=8000)
        else:
            response = await run.context(
                {"conversation": messages, "message": "go on", "token_budget": 8000}
            )
        took = time.monotonic() - began
        answered.set()
        waits = sorted(await others)

    assert texts(response)[-1] == "go on"
    assert response.json()["tokens"]["total"] <= 8000
    assert took < case["limit_s"] * (2 if stored else 1)  # a save and a load
    assert waits[int(len(waits) * 0.95)] < 0.5


async def serve_others(run: Run, answered: asyncio.Event) -> list[float]:
    """Load a small thread again and again, as other callers do; return how long each load took."""
    waits = []
    while not answered.is_set():
        began = time.monotonic()
        response = await run.client.post("/v1/context", json={"thread_id": "other"})
        waits.append(time.monotonic() - began)
        assert texts(response) == ["hi"]
    return waits
