"""A deployment's own strip rules: what they take out, and that totals stay exact with them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from app.core.tokens import REPLY_OVERHEAD, message_tokens
from tests.integration.callers import bearer, key_entry, path_of
from tests.integration.conftest import MakeClient, StartService
from tests.model_server import ModelServer, model_server
from tests.service import ROOT
from tests.unit.strategies import o200k

pytestmark = pytest.mark.anyio

RAW = '<ui-card kind="fare">SFO to JFK【1†source】</ui-card>Booked.<aside data-hint>Tap it.</aside>'
BUILT_IN = '<ui-card kind="fare">SFO to JFK</ui-card>Booked.<aside data-hint>Tap it.</aside>'
OWN = "SFO to JFKBooked."
RULES = {"strip_unwrap": "ui-card", "strip_drop": "aside[data-hint],[data-a=b,c]"}
LONG = "<ui-card>row of a table, 12 EUR</ui-card>\n" * 400


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as model:
        yield model


@pytest.fixture
def api_keys(tenant: str) -> str:
    return key_entry(tenant, "key")


def turn(number: int, answer: str) -> Mapping[str, object]:
    question = {"role": "user", "content": f"<ui-card>question {number}</ui-card>"}
    messages = [question, {"role": "assistant", "content": answer}]
    return {"key": f"turn-{number}", "messages": messages}


async def save(client: httpx.AsyncClient, *answers: str) -> None:
    for number, answer in enumerate(answers, start=1):
        body = turn(number, answer)
        saved = await client.post(path_of("t1", "/turns"), json=body, headers=bearer("key"))
        assert saved.status_code == 201, saved.text


async def load(client: httpx.AsyncClient, **options: object) -> dict[str, Any]:
    """Load the thread, and check that the total is what its messages cost, counted anew."""
    body = {"thread_id": "t1", "message": "And now?", **options}
    loaded = await client.post("/v1/context", json=body, headers=bearer("key"))
    assert loaded.status_code == 200, loaded.text
    context: dict[str, Any] = loaded.json()
    cost = sum(message_tokens(message, o200k) for message in context["messages"])
    assert context["tokens"]["total"] == cost + REPLY_OVERHEAD
    return context


def answers(context: Mapping[str, Any]) -> list[str]:
    return [m["content"] for m in context["messages"] if m["role"] == "assistant"]


async def test_own_rules_beside_the_built_in(make_client: MakeClient, api_keys: str) -> None:
    """Own tags go as told, built-in marks still go, user text stays; the counts differ exactly."""
    async with make_client(api_keys=api_keys) as built_in:
        await save(built_in, RAW)
        plain = await load(built_in)
    async with make_client(api_keys=api_keys, **RULES) as own:
        stripped = await load(own)
        off = await load(own, strip="off")

    assert [answers(context) for context in (plain, stripped, off)] == [[BUILT_IN], [OWN], [RAW]]
    assert stripped["messages"][0]["content"] == "<ui-card>question 1</ui-card>"
    saved = plain["tokens"]["total"] - stripped["tokens"]["total"]
    assert saved == o200k(BUILT_IN) - o200k(OWN) > 0


@pytest.mark.parametrize(("saved_under", "loaded_under"), [({}, RULES), (RULES, {})])
async def test_saved_under_one_profile_loaded_under_another(
    make_client: MakeClient,
    api_keys: str,
    saved_under: Mapping[str, object],
    loaded_under: Mapping[str, object],
) -> None:
    """Counts stored under other rules are not believed: totals are exact, large messages too."""
    async with make_client(api_keys=api_keys, **saved_under) as client:
        await save(client, RAW, LONG, RAW)
        before = await load(client)
    async with make_client(api_keys=api_keys, **loaded_under) as client:
        after = await load(client)
    async with make_client(api_keys=api_keys, **saved_under) as client:
        again = await load(client)

    assert before == again
    assert before["tokens"]["total"] != after["tokens"]["total"]
    by_rules = after if loaded_under else before
    assert not [text for text in answers(by_rules) if "ui-card" in text]


async def test_a_transcript_comes_back_as_it_was_cleaned(
    make_client: MakeClient, api_keys: str
) -> None:
    """What a load cleaned by own rules is known again when the client sends it whole."""
    async with make_client(api_keys=api_keys, **RULES) as client:
        await save(client, RAW, RAW)
        loaded = await load(client)
        messages = [m for m in loaded["messages"][:-1] if m["role"] != "system"]
        new = {"messages": [*messages, *turn(3, "Done.")["messages"]]}  # type: ignore[misc]
        saved = await client.post(path_of("t1", "/turns"), json=new, headers=bearer("key"))

    assert saved.status_code == 201, saved.text
    assert [message["new"] for message in saved.json()["messages"]] == [False] * 4 + [True] * 2


async def test_the_summariser_reads_by_the_same_rules(
    make_client: MakeClient, api_keys: str, model: ModelServer
) -> None:
    """What is taken out of a context does not come back through its summary."""
    settings = {"api_keys": api_keys, "summarizer_url": model.url, **RULES}
    async with make_client(**settings) as client:
        await save(client, *[RAW] * 40)
        built = await client.post(path_of("t1", "/summary"), headers=bearer("key"))

    assert built.json()["covers"] > 0
    assert model.prompts
    assert not [prompt for prompt in model.prompts if "Tap it" in prompt or "</aside>" in prompt]
    assert [prompt for prompt in model.prompts if OWN in prompt]


async def test_rules_of_the_environment(start_service: StartService, api_keys: str) -> None:
    """A service process takes its rules from the two variables."""
    variables = {f"THREADKEEP_{name.upper()}": rule for name, rule in RULES.items()}
    with start_service(THREADKEEP_API_KEYS=api_keys, **variables) as service:
        async with httpx.AsyncClient(base_url=service.url) as client:
            await save(client, RAW)
            assert answers(await load(client)) == [OWN]


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ({"UNWRAP": "ui-card, <b>"}, ("STRIP_UNWRAP", "'<b>'")),
        ({"DROP": "div[data-x"}, ("STRIP_DROP", "'div[data-x'")),
        ({"UNWRAP": "p[class=a,b]", "DROP": "P[class=a,b]"}, ("STRIP_DROP", "'p[class=a,b]'")),
    ],
)
def test_a_bad_rule_stops_the_start(
    database_url: str, variables: Mapping[str, str], named: tuple[str, str]
) -> None:
    """`python -m app serve` ends at once, with one sentence that names variable and rule."""
    given = {f"THREADKEEP_STRIP_{name}": rule for name, rule in variables.items()}
    command = [sys.executable, "-m", "app", "serve"]
    environment = {**os.environ, "DATABASE_URL": database_url, **given}
    ended = subprocess.run(  # noqa: S603 - our own module
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith(f"threadkeep: THREADKEEP_{named[0]} ")
    assert named[1] in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.endswith(".\n")
