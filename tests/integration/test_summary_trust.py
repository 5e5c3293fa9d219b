"""Summaries that can be trusted, over HTTP: what a model is asked, and what is believed of it."""

from collections.abc import Iterator
from typing import Any, get_args

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from app.core.prompt import PROMPT
from tests.integration.callers import bearer, key_entry, path_of
from tests.integration.cases import numbered
from tests.integration.conftest import MakeClient
from tests.integration.summary_thread import lines
from tests.model_server import Mode, ModelServer, model_server
from tests.servers import SCHEMA
from tests.unit.strategies import o200k

pytestmark = pytest.mark.anyio

BAD = [mode for mode in get_args(Mode) if mode not in {"answer", "newer-limit"}]


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as model:
        yield model


@pytest.fixture
def settings(tenant: str, model: ModelServer) -> dict[str, object]:
    """A deployment with a model, all else by default but for patience."""
    keys = key_entry(tenant, "key")
    return {
        "api_keys": keys,
        "summarizer_url": model.url,
        "summarizer_model": "small-1",
        "redis_timeout_seconds": 10,
    }


async def grow(client: httpx.AsyncClient, first: int, last: int, words: str = "") -> None:
    """Save `msg NNN` from first to last, an exchange a turn."""
    for number in range(first, last, 2):
        messages = [
            {"role": role, "content": f"msg {at:03}{words}"}
            for role, at in (("user", number), ("assistant", number + 1))
        ]
        body = {"key": f"turn-{number}", "messages": messages}
        saved = await client.post(path_of("t1", "/turns"), json=body, headers=bearer("key"))
        assert saved.status_code == 201, saved.text


async def build(client: httpx.AsyncClient) -> dict[str, Any]:
    """Have the summaries built that are due, and wait for them."""
    built = await client.post(path_of("t1", "/summary"), headers=bearer("key"))
    assert built.status_code == 200, built.text
    report: dict[str, Any] = built.json()
    return report


async def load(client: httpx.AsyncClient) -> dict[str, Any]:
    loaded = await client.post("/v1/context", json={"thread_id": "t1"}, headers=bearer("key"))
    assert loaded.status_code == 200, loaded.text
    context: dict[str, Any] = loaded.json()
    coverage = context["coverage"]
    parts = coverage["summarized"] + coverage["window"] + coverage["trimmed"]
    assert (parts, coverage["trimmed"]) == (coverage["total"], 0)
    return context


def told(prompt: str) -> list[str]:
    """The messages that one call of the model was given."""
    return [line["text"][:7] for line in lines(prompt) if "role" in line]


def prompt_tokens(messages: object) -> int:
    assert isinstance(messages, list)
    return sum(3 + o200k(message["content"]) for message in messages) + 3


async def test_the_ceiling_is_a_thousand_tokens(
    make_client: MakeClient, model: ModelServer, settings: dict[str, object]
) -> None:
    """Asked for by default, said in the prompt, and held: a longer text is no summary."""
    model.answer = lambda _, number: "fact " * (999 if number == 1 else 1500)
    async with make_client(**settings) as client:
        await grow(client, 1, 52)
        first = await build(client)
        await grow(client, 53, 72)
        second = await build(client)
        loaded = await load(client)

    assert {body["max_tokens"] for body in model.bodies} == {1000}
    assert "at most 500 words" in model.prompts[0]
    assert first["covers"] == second["covers"] == loaded["summary"]["covers"] == 20
    assert loaded["summary"]["text"] == ("fact " * 999).strip()
    assert loaded["tokens"]["summary"] <= 1000 + 30


async def test_each_call_reads_within_its_budget(
    make_client: MakeClient, model: ModelServer, settings: dict[str, object]
) -> None:
    """An import of long and of large messages goes to the model in steps, each message once."""
    model.answer = lambda _, number: f"TALE-{number}. " + "fact " * 900
    async with make_client(**settings) as client:
        await grow(client, 1, 40, words=" word" * 1500)
        await grow(client, 41, 60, words=" word" * 5000)
        await grow(client, 61, 80, words=f" <think>SECRET</think> {'iVBORw0KGgo' * 300}")
        report = await build(client)

    prompts = [prompt_tokens(body["messages"]) for body in model.bodies]
    assert len(prompts) > 5
    assert max(prompts) <= 12_000
    read = [name for prompt in model.prompts for name in told(prompt)]
    assert read == numbered(range(1, report["covers"] + 1))
    for number, prompt in enumerate(model.prompts):
        previous = [line for line in lines(prompt) if "role" not in line]
        assert len(previous) == min(number, 1)
        assert prompt.count("TALE-") == min(number, 1)


async def test_no_failure_moves_the_coverage(
    make_client: MakeClient, model: ModelServer, settings: dict[str, object]
) -> None:
    """Through every way a provider can fail, text and coverage stay, then go on together."""
    given: list[str] = []

    def answer(_: str, number: int) -> str:
        given.append(f"Whole summary {number}.")
        return given[-1]

    model.answer = answer
    async with make_client(**settings, summarizer_timeout_seconds=0.5) as client:
        await grow(client, 1, 52)
        covered = (await build(client))["covers"]
        await grow(client, 53, 72)
        for mode in BAD:
            model.mode = mode
            report, loaded = await build(client), await load(client)
            assert (report["built"], report["covers"]) == (0, covered), mode
            assert (loaded["summary"]["text"], loaded["summary"]["covers"]) == (given[0], covered)
        model.mode = "answer"
        model.release.set()
        report, loaded = await build(client), await load(client)

    assert covered == 20
    assert report["covers"] == 40
    assert told(model.prompts[-1]) == numbered(range(21, 41))
    assert loaded["summary"]["text"] in given


async def test_another_model_takes_over(
    make_client: MakeClient, model: ModelServer, settings: dict[str, object]
) -> None:
    """After a change of model the old text is sent, named as it was made, and gone on from."""
    model.answer = lambda _, number: f"TALE-{number}."
    async with make_client(**settings) as client:
        await grow(client, 1, 72)
        await build(client)
        before = await load(client)
    calls = len(model.bodies)
    async with make_client(**{**settings, "summarizer_model": "large-2"}) as client:
        swapped = await load(client)
        await build(client)
        assert len(model.bodies) == calls
        await grow(client, 73, 92)
        await build(client)
        after = await load(client)

    assert before == swapped
    assert (before["summary"]["method"], before["summary"]["model"]) == ("model", "small-1")
    assert (after["summary"]["method"], after["summary"]["model"]) == ("model", "small-1")
    assert model.bodies[calls]["model"] == "large-2"
    assert told(model.prompts[calls]) == numbered(range(41, 61))
    assert next(iter(lines(model.prompts[calls]))) == {"previous_summary": f"TALE-{calls}."}


async def test_without_its_model_a_deployment_goes_on(
    make_client: MakeClient, model: ModelServer, settings: dict[str, object]
) -> None:
    """Where the model is taken away its text is condensed by the extractive one, which says so."""
    model.answer = lambda *_: "The user's cat is called Ada."
    async with make_client(**settings) as client:
        await grow(client, 1, 52)
        await build(client)
    async with make_client(**{**settings, "summarizer_url": None}) as client:
        await grow(client, 53, 92)
        report = await build(client)
        loaded = await load(client)

    assert (report["method"], report["model"]) == ("extractive", None)
    assert "The user's cat is called Ada." in loaded["summary"]["text"]
    assert loaded["summary"]["method"] == "extractive"


async def test_another_prompt_goes_on_from_the_old_text(
    make_client: MakeClient,
    model: ModelServer,
    settings: dict[str, object],
    engine: AsyncEngine,
    tenant: str,
) -> None:
    """A summary made by the words of an older prompt is worth as much as before."""
    model.answer = lambda _, number: f"TALE-{number}."
    async with make_client(**settings, redis_url=None) as client:
        await grow(client, 1, 72)
        await build(client)
        before = await load(client)
        renamed = text(
            f"UPDATE {SCHEMA}.checkpoint_blobs SET data = convert_to(replace("  # noqa: S608
            "convert_from(data, 'UTF8'), :now, 'summary-0'), 'UTF8')"
            " WHERE tenant_id = :tenant AND channel = '~summary'"
        )
        async with engine.begin() as connection:
            changed = await connection.execute(renamed, {"now": PROMPT, "tenant": tenant})
        assert changed.rowcount == 2
        same = await load(client)
        calls = len(model.bodies)
        await grow(client, 73, 92)
        await build(client)

    assert same["messages"] == before["messages"]
    assert (before["summary"]["prompt"], same["summary"]["prompt"]) == (PROMPT, "summary-0")
    assert told(model.prompts[calls]) == numbered(range(41, 61))
    assert next(iter(lines(model.prompts[calls]))) == {"previous_summary": f"TALE-{calls}."}
