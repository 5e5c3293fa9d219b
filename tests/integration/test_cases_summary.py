"""Summaries as they went wrong elsewhere, over HTTP: the model is a real server on loopback."""

import asyncio
import json
from collections.abc import Iterator, Mapping

import httpx
import pytest

from tests.integration.callers import bearer
from tests.integration.cases import Sent, numbered, playing, texts
from tests.integration.conftest import MakeClient, StartService
from tests.model_server import ModelServer, model_server

pytestmark = pytest.mark.anyio

CHECKS: Mapping[str, object] = {}
BY_HAND = [
    "summary-input-is-stripped",
    "summary-invalidated-by-edit",
    "summary-not-summarised-again-as-message",
    "summary-survives-restart",
    "summary-watermark-is-position",
]


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as model:
        yield model


def lines(prompt: str) -> list[Sent]:
    """The JSON lines of a prompt."""
    return [json.loads(line) for line in prompt.splitlines() if line.startswith("{")]


def told(model: ModelServer) -> list[list[int]]:
    """The numbers of the seeded messages that each call of the model was given."""
    return [
        [int(line["text"].split()[1]) for line in lines(prompt) if "role" in line]
        for prompt in model.prompts
    ]


def summaries(response: httpx.Response) -> list[str]:
    """The summaries among the messages of a load."""
    messages = response.json()["messages"]
    return [m["content"] for m in messages if m.get("name") == "threadkeep_summary"]


async def test_input_is_stripped(make_client: MakeClient, tenant: str, model: ModelServer) -> None:
    """The model is sent no picture and no reasoning, and no more at once than it takes.

    Source: omnigent-ai/omnigent#3113 (summary-input-is-stripped).
    """
    picture = {"url": "data:image/png;base64," + "iVBORw0KGgo" * 280_000}
    image = [{"type": "text", "text": "msg 010"}, {"type": "image_url", "image_url": picture}]
    settings = {"summarizer_url": model.url, "max_body_bytes": 4_000_000}
    async with playing("summary-input-is-stripped", make_client, tenant, **settings) as run:
        thoughts = f"<think>{'SECRET-THOUGHT ' * 3500}</think>\nmsg 012"
        await run.seed(100, m010=image, m012=thoughts)
        report = await run.build_summary()
        await run.load()

    assert report["state"] == "fresh"
    assert not [p for p in model.prompts if "iVBORw0KGgo" in p or "SECRET-THOUGHT" in p]
    assert max(map(len, model.prompts)) < 12_000
    assert [number for call in told(model) for number in call] == list(
        range(1, report["covers"] + 1)
    )


async def test_invalidated_by_edit(
    make_client: MakeClient, tenant: str, model: ModelServer
) -> None:
    """After an edit before its end the old summary is not sent; the old branch stays readable.

    Source: hackerai-tech/hackerai#654 (summary-invalidated-by-edit).
    """
    model.answer = lambda _, number: f"OLD-TALE-{number}"
    async with playing(
        "summary-invalidated-by-edit", make_client, tenant, summarizer_url=model.url
    ) as run:
        await run.seed(120)
        assert (await run.build_summary())["covers"] >= 60
        before = (await run.load()).json()
        model.answer = lambda _, number: f"NEW-TALE-{number}"
        edited = [{"role": "user", "content": "new text"}]
        parent = run.saved[23].json()["checkpoint_id"]  # of m048, before the exchange of m049
        answer = (
            await run.save(
                {"thread": "t1", "messages": edited}, parent=parent, on_conflict="branch"
            )
        ).json()
        after = await run.load()
        old = await run.load(checkpoint_id=before["head"])

    assert [message["position"] for message in answer["messages"]] == [49]
    assert "OLD-TALE" not in after.text
    assert texts(after)[-1:] == ["new text"]
    assert texts(after) == [*numbered(range(1, 49)), "new text"]
    assert texts(old)[-60:] == numbered(range(61, 121))
    assert before["summary"]["text"].startswith("OLD-TALE")


async def test_not_summarised_again_as_message(
    make_client: MakeClient, tenant: str, model: ModelServer
) -> None:
    """The next run is given the summary once, as what it is; it is no message anywhere.

    Source: nearai/ironclaw#7905 (summary-not-summarised-again-as-message).
    """
    model.answer = lambda _, number: f"FACT-{number}."
    async with playing(
        "summary-not-summarised-again-as-message", make_client, tenant, summarizer_url=model.url
    ) as run:
        await run.seed(100)
        await run.build_summary()
        first = len(model.prompts)
        await run.seed(200, first=101)
        await run.build_summary()
        loaded = await run.load()
        stored = await run.raw()

    for number, prompt in enumerate(model.prompts[1:], start=1):
        assert [line for line in lines(prompt) if "role" not in line] == [
            {"previous_summary": f"FACT-{number}."}
        ]
        assert prompt.count("FACT-") == 1
    assert 0 < first < len(model.prompts)
    assert len(summaries(loaded)) == 1
    assert not [message for message in stored if "FACT-" in message["content"]]


async def test_survives_restart(
    make_client: MakeClient, start_service: StartService, tenant: str, model: ModelServer
) -> None:
    """Summary and coverage are the same after a restart, without a cache, and in another process.

    Source: agentscope-ai/agentscope#1624 (summary-survives-restart).
    """
    async with playing(
        "summary-survives-restart", make_client, tenant, summarizer_url=model.url
    ) as run:
        await run.seed(150)
        await run.build_summary()
        first = (await run.load()).json()
        calls = len(model.prompts)
        await run.start(redis_url=None)
        second = (await run.load()).json()
        with start_service(THREADKEEP_API_KEYS=run.keys) as other:
            async with httpx.AsyncClient(base_url=other.url, headers=bearer("key")) as elsewhere:
                third = (await elsewhere.post("/v1/context", json={"thread_id": "t1"})).json()

    assert first["summary"]["state"] == "fresh"
    assert first["coverage"]["summarized"] == first["summary"]["covers"] == 100
    assert first == second == third
    assert len(model.prompts) == calls


async def test_watermark_is_position(
    make_client: MakeClient, tenant: str, model: ModelServer
) -> None:
    """What is saved while the model writes is the next run's; nothing is skipped or told twice.

    Source: canvasxai/sketch#289 (summary-watermark-is-position).
    """
    async with playing(
        "summary-watermark-is-position", make_client, tenant, summarizer_url=model.url
    ) as run:
        model.mode = "hang"
        await run.seed(100)
        building = asyncio.ensure_future(run.build_summary())
        assert await asyncio.to_thread(model.arrived.acquire, timeout=10)
        await run.seed(130, first=101)
        model.mode = "answer"
        model.release.set()
        await building
        report = await run.build_summary()
        numbers = [number for call in told(model) for number in call]
        loaded = (await run.load()).json()

    assert numbers == list(range(1, report["covers"] + 1))
    assert told(model)[1][0] == told(model)[0][-1] + 1
    assert loaded["coverage"]["summarized"] + loaded["coverage"]["window"] == 130
