"""Explanations as a caller asks for them, over HTTP."""

import secrets
from collections import Counter
from typing import Any, TypeAlias

import httpx
import pytest

from tests.integration.callers import ANSWER, QUESTION, path_of
from tests.integration.conftest import MakeClient

pytestmark = pytest.mark.anyio

Json: TypeAlias = dict[str, Any]
IN_WINDOW = {"kept", "healed", "shortened", "left-out"}


@pytest.fixture(name="thread")
def _thread() -> str:
    return f"explained-{secrets.token_hex(8)}"


async def save(client: httpx.AsyncClient, thread: str, *messages: Json) -> Json:
    saved = await client.post(path_of(thread, "/turns"), json={"messages": messages})
    assert saved.status_code == 201, saved.text
    return dict(saved.json())


async def grow(client: httpx.AsyncClient, thread: str, turns: int) -> None:
    for number in range(turns):
        asked = {"role": "user", "content": f"Question {number}: how long is river {number}?"}
        messages = [asked, {"role": "assistant", "content": f"River {number} is long."}]
        body = {"key": f"turn-{number}", "messages": messages}
        await client.post(path_of(thread, "/turns"), json=body)


async def load(client: httpx.AsyncClient, thread: str, **members: object) -> Json:
    body = {"thread_id": thread, "explain": True, **members}
    answer = await client.post("/v1/context", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def assert_adds_up(loaded: Json) -> None:
    """Fail unless each position stands once, and fates and tokens are those of the answer."""
    explain, coverage, tokens = loaded["explain"], loaded["coverage"], loaded["tokens"]
    stored = [one for one in explain["messages"] if one["position"] is not None]
    before = [n for part in explain["ranges"] for n in range(part["from"], part["to"] + 1)]
    assert before + [one["position"] for one in stored] == list(range(1, coverage["total"] + 1))

    fates = Counter(one["fate"] for one in stored)
    for part in explain["ranges"]:
        fates[part["fate"]] += part["to"] - part["from"] + 1
    assert fates["summarized"] == coverage["summarized"]
    assert fates["trimmed"] == coverage["trimmed"]
    assert sum(fates[fate] for fate in IN_WINDOW) == coverage["window"]

    sent = sum(one["sent_tokens"] for one in explain["messages"])
    beside = explain["tokens"]["reply"] + explain["tokens"]["pinned"] - explain["tokens"]["merged"]
    assert sent + tokens["summary"] + tokens["marker"] + beside == tokens["total"]


async def test_every_way_to_ask(client: httpx.AsyncClient, thread: str) -> None:
    """Asked in the body, beside it, or with a bare thread: the explanation is the same."""
    await save(client, thread, QUESTION, ANSWER)
    body = {"thread_id": thread}
    ways = [
        await client.post("/v1/context", json={**body, "explain": True}),
        await client.post("/v1/context?explain=true", json=body),
        await client.get(path_of(thread, "/context?explain=true")),
    ]
    plain = await client.post("/v1/context?explain=false", json=body)
    refused = await client.post("/v1/context?explain=true", json={**body, "explain": False})

    assert [way.json()["explain"] for way in ways] == [ways[0].json()["explain"]] * 3
    assert plain.json() == refused.json()
    assert plain.json() == {k: v for k, v in ways[0].json().items() if k != "explain"}


@pytest.mark.parametrize("value", ["maybe", "1", ""])
async def test_asked_badly(client: httpx.AsyncClient, thread: str, value: str) -> None:
    """Anything but true and false is refused, by its name."""
    body = {"thread_id": thread}
    by_query = await client.post(f"/v1/context?explain={value}", json=body)
    by_path = await client.get(path_of(thread, f"/context?explain={value}"))

    for answer in (by_query, by_path):
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == "#/explain"


async def test_what_was_stored_is_named(client: httpx.AsyncClient, thread: str) -> None:
    """Messages are named as the save named them; what is not stored has no name."""
    saved = await save(client, thread, QUESTION, ANSWER)
    loaded = await load(client, thread, message="And the Amazon?")
    entries = loaded["explain"]["messages"]

    assert [(one["id"], one["position"]) for one in entries[:2]] == [
        (one["id"], one["position"]) for one in saved["messages"]
    ]
    assert {one["checkpoint_id"] for one in entries[:2]} == {saved["checkpoint_id"]}
    assert entries[2] == {
        **dict.fromkeys(("position", "id", "checkpoint_id", "tokens")),
        "role": "user",
        "fate": "kept",
        "reason": "final-turn",
        "detail": "sent: it is part of what the model is to answer",
        "sent_tokens": loaded["tokens"]["message"],
    }
    assert_adds_up(loaded)


@pytest.mark.parametrize("form", ["openai", "anthropic", "responses", "langchain", "text"])
async def test_long_threads(make_client: MakeClient, thread: str, form: str) -> None:
    """In every format all of a long thread is accounted for, before its summary and with it."""
    async with make_client(window=6, stride=2, token_budget=2000) as client:
        await grow(client, thread, 20)
        options: Json = {"format": form, "message": "Which is the longest?"}
        filled = await load(client, thread, **options)
        built = (await client.post(path_of(thread, "/summary"))).json()
        fresh = await load(client, thread, **options)
        tight = await load(client, thread, **options, token_budget=150)

    for loaded in (filled, fresh, tight):
        assert_adds_up(loaded)
    assert fresh["explain"]["window"]["start"] == 34
    assert fresh["explain"]["window"]["grid"]["window"] == 6
    assert fresh["explain"]["ranges"][0]["reason"] == "covered-by-summary"
    assert fresh["explain"]["window"]["pointer"] == fresh["summary"]["boundary"]
    assert "over-budget" in {one["reason"] for one in tight["explain"]["messages"]}
    assert built["prompt"] == fresh["summary"]["prompt"] == "extractive-1"


async def test_why_the_summary_is_as_it_is(make_client: MakeClient, thread: str) -> None:
    """Each state of the summary says how it came about."""
    async with make_client(window=4, stride=4) as client:
        begun = await load(client, thread)
        await grow(client, thread, 6)
        await client.post(path_of(thread, "/summary"))
        loads = {
            "fresh": await load(client, thread),
            "filled": await load(client, thread, window=8, stride=1),
            "trimmed": await load(client, thread, token_budget=40),
        }
    why = {name: one["explain"]["window"]["summary"]["why"] for name, one in loads.items()}

    assert begun["explain"]["window"]["summary"]["why"].startswith("the window begins with the")
    assert why == {
        "fresh": "a stored summary stands at the window's start",
        "filled": "no stored summary stands at the window's start: one was condensed while loading",
        "trimmed": "the summary did not fit the token budget",
    }
    for loaded in (begun, *loads.values()):
        assert loaded["explain"]["window"]["summary"]["state"] == loaded["summary"]["state"]
        assert_adds_up(loaded)


async def test_what_cleaning_buys(client: httpx.AsyncClient, thread: str) -> None:
    """Always in the answer, as the difference to a load that cleans nothing."""
    marked = {"role": "assistant", "content": "About 6,650 km【4†source】.<!-- ui:7 -->"}
    await save(client, thread, QUESTION, marked)
    cleaned = (await client.get(path_of(thread, "/context"))).json()
    raw = (await client.get(path_of(thread, "/context?strip=off"))).json()
    [told] = (await load(client, thread))["explain"]["strip"]["messages"]

    assert cleaned["strip"]["rules"] == "strip-1"
    assert cleaned["strip"]["messages"] == 1
    assert cleaned["strip"]["characters"] == len("【4†source】<!-- ui:7 -->")
    assert cleaned["strip"]["tokens"] == raw["tokens"]["total"] - cleaned["tokens"]["total"] > 0
    assert raw["strip"] == {"rules": None, "messages": 0, "characters": 0, "tokens": 0}
    assert (told["position"], told["tokens"]) == (2, cleaned["strip"]["tokens"])


async def test_a_callers_own_history(client: httpx.AsyncClient) -> None:
    """Histories that are not stored are explained too."""
    system = {"role": "system", "content": "Be brief."}
    for source in ({"conversation": [system, QUESTION, ANSWER]}, {"history": "User: Hi\n"}):
        answer = await client.post("/v1/context?explain=true", json={**source, "message": "And?"})

        assert_adds_up(answer.json())
        assert answer.json()["explain"]["messages"][-1]["reason"] == "final-turn"
