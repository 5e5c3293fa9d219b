"""Batches of every dialect over HTTP: stored verbatim, known again, resent without doubling."""

import copy
import secrets
from typing import Any, TypeAlias

import httpx
import pytest

from app.core.marker import marker_message, wrapped_text
from app.core.model import Body
from tests.integration.callers import path_of
from tests.unit.dialects import DIALECTS, langchain

pytestmark = pytest.mark.anyio

Json: TypeAlias = dict[str, Any]

BIG = "word " * 4000
RESPONSES_ONLY: list[Body] = [
    {"role": "user", "content": "Look it up and draw it."},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}},
    {"type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "SELECT 1"},
    {
        "type": "custom_tool_call_output",
        "call_id": "c1",
        "output": [{"type": "input_text", "text": "1"}],
    },
    {"type": "item_reference", "id": "msg_9"},
    {"type": "of_next_year", "deep": [{"x": 1.5, "y": None}]},
    {"type": "message", "role": "assistant", "content": [], "status": "incomplete"},
]
NEXT: dict[str, list[Body]] = {
    "openai": [{"role": "user", "content": "And now?"}, {"role": "assistant", "content": "Fine."}],
    "responses": [
        {"role": "user", "content": "And now?"},
        {
            "type": "message",
            "id": "msg_2",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Fine.", "annotations": []}],
        },
    ],
    "anthropic": [
        {"role": "user", "content": "And now?"},
        {"role": "assistant", "content": [{"type": "text", "text": "Fine."}]},
    ],
    "langchain": [langchain("human", "And now?"), langchain("ai", "Fine.")],
}


def a_thread() -> str:
    return f"dialect-{secrets.token_hex(6)}"


async def save(client: httpx.AsyncClient, thread_id: str, messages: object, **more: object) -> Json:
    body = {"messages": messages, **more}
    answer = await client.post(path_of(thread_id, "/turns"), json=body)
    assert answer.status_code in (200, 201), answer.text
    saved: Json = answer.json()
    assert saved["created"] is (answer.status_code == 201)
    return saved


async def raw(client: httpx.AsyncClient, thread_id: str) -> list[Json]:
    """The stored messages as they were sent: their place taken off, their own ids put back."""
    answer = await client.get(path_of(thread_id, "/messages"), params={"limit": 100})
    return [_as_sent(item) for item in answer.json()["items"]]


def _as_sent(item: Json) -> Json:
    body = copy.deepcopy(item)
    for name in ("id", "position", "checkpoint_id"):
        del body[name]
    if "client_id" in body:
        body["id"] = body.pop("client_id")
    return body


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_dialect_is_kept_verbatim(client: httpx.AsyncClient, name: str) -> None:
    """What was saved reads back as it was, recognised or named, and costs something."""
    thread_id = a_thread()
    saved = await save(client, thread_id, DIALECTS[name], format=name)
    other = a_thread()
    await save(client, other, DIALECTS[name])

    assert saved["warnings"] == []
    assert await raw(client, thread_id) == await raw(client, other) == DIALECTS[name]
    thread = (await client.get(path_of(thread_id))).json()
    assert thread["tokens"] > 1000


async def test_items_of_every_kind_are_kept_verbatim(client: httpx.AsyncClient) -> None:
    """Items that no other dialect knows, and those nobody knows yet, read back as they were."""
    thread_id = a_thread()
    saved = await save(client, thread_id, RESPONSES_ONLY)

    assert [line["role"] for line in saved["messages"]] == [
        "user", "assistant", "assistant", "tool", "assistant", "assistant", "assistant",
    ]  # fmt: skip
    assert await raw(client, thread_id) == RESPONSES_ONLY


@pytest.mark.parametrize("name", DIALECTS)
@pytest.mark.parametrize("anchor", [{}, {"parent": None}, {"key": "k1"}], ids=str)
async def test_a_retry_stores_nothing(client: httpx.AsyncClient, name: str, anchor: Json) -> None:
    """The same save again, by content, parent or key, answers with the ids of the first."""
    thread_id = a_thread()
    first = await save(client, thread_id, DIALECTS[name], **anchor)
    second = await save(client, thread_id, DIALECTS[name], **anchor)

    assert (first["created"], second["created"]) == (True, False)
    assert second["digest"] == first["digest"]
    assert [line["id"] for line in second["messages"]] == [line["id"] for line in first["messages"]]
    assert await raw(client, thread_id) == DIALECTS[name]


@pytest.mark.parametrize("name", DIALECTS)
async def test_a_transcript_stores_only_its_rest(client: httpx.AsyncClient, name: str) -> None:
    """A list sent whole, with a new exchange at its end, adds that exchange."""
    thread_id = a_thread()
    await save(client, thread_id, DIALECTS[name])
    saved = await save(client, thread_id, [*DIALECTS[name], *NEXT[name]])

    assert [line["new"] for line in saved["messages"]] == [False] * len(DIALECTS[name]) + [True] * 2
    assert await raw(client, thread_id) == [*DIALECTS[name], *NEXT[name]]


async def test_items_with_the_ids_of_the_api_are_the_items_sent(client: httpx.AsyncClient) -> None:
    """A transcript whose items came back with ids and status is still the same transcript."""
    thread_id = a_thread()
    sent = [
        {k: v for k, v in body.items() if k not in ("id", "status")}
        for body in DIALECTS["responses"]
    ]
    await save(client, thread_id, sent)
    saved = await save(client, thread_id, [*DIALECTS["responses"], *NEXT["responses"]])

    assert sum(line["new"] for line in saved["messages"]) == 2
    assert await raw(client, thread_id) == [*sent, *NEXT["responses"]]


async def test_an_anthropic_list_with_a_marker_part(client: httpx.AsyncClient) -> None:
    """Everything up to the marker's part is history, and the part itself is never stored."""
    thread_id = a_thread()
    marker = {"type": "text", "text": wrapped_text(marker_message())}
    asked = {"type": "text", "text": "And now?"}
    history = DIALECTS["anthropic"]
    await save(client, thread_id, history)
    loaded = [*history, {"role": "user", "content": [marker, asked]}, NEXT["anthropic"][1]]
    saved = await save(client, thread_id, loaded)

    assert [one["reason"] for one in saved["ignored"]] == ["history"] * len(history)
    assert (await raw(client, thread_id))[len(history) :] == [
        {"role": "user", "content": [asked]},
        NEXT["anthropic"][1],
    ]


@pytest.mark.parametrize(
    "messages",
    [
        [
            langchain("human", "go"),
            langchain("ai", "", tool_calls=[{"name": "f", "args": {"a": BIG}, "id": "c1"}]),
            langchain("tool", BIG, tool_call_id="c1", artifact={"rows": [BIG]}),
        ],
        [
            {"role": "user", "content": "go"},
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": BIG},
            {"type": "function_call_output", "call_id": "c1", "output": BIG},
        ],
        [
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": BIG}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c1", "content": BIG}],
            },
        ],
    ],
    ids=["langchain", "responses", "anthropic"],
)
async def test_large_members_come_back(client: httpx.AsyncClient, messages: list[Body]) -> None:
    """Large values leave the row and come back verbatim; a retry knows them, a load sends them."""
    thread_id = a_thread()
    saved = await save(client, thread_id, messages)
    again = await save(client, thread_id, messages)
    loaded = await client.post(
        "/v1/context", json={"thread_id": thread_id, "token_budget": 100_000}
    )

    assert (saved["created"], again["created"]) == (True, False)
    assert await raw(client, thread_id) == messages
    assert loaded.status_code == 200
    assert loaded.json()["warnings"] == []
    assert loaded.text.count(BIG.strip()) == 2


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"messages": DIALECTS["responses"], "format": "anthropic"}, "#/messages/0"),
        ({"messages": DIALECTS["openai"], "format": "langchain"}, "#/messages/0"),
        ({"messages": DIALECTS["langchain"], "format": "openai"}, "#/messages/0"),
        ({"messages": DIALECTS["openai"], "format": "text"}, "#/format"),
        (
            {"messages": [{"type": "function_call", "name": "f", "arguments": "{}"}]},
            "#/messages/0/call_id",
        ),
        ({"messages": [langchain("tool", "x")]}, "#/messages/0/data/tool_call_id"),
        ({"messages": [langchain("remove", "", id="m1")]}, "#/messages/0/type"),
        ({"messages": [langchain("human", "x"), {"role": "user", "content": "x"}]}, "#/messages/1"),
    ],
    ids=range(8),
)
async def test_what_cannot_be_one_dialect_is_refused(
    client: httpx.AsyncClient, body: Json, pointer: str
) -> None:
    """A batch that contradicts its name, or has no way to pair, is a 422 at the place."""
    refused = await client.post(path_of(a_thread(), "/turns"), json=body)

    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == pointer
