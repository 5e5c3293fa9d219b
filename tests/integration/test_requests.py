"""What the members of a request mean, one beside another."""

import secrets

import httpx
import pytest

from tests.integration.callers import path_of, turn

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}


@pytest.fixture
def thread_id() -> str:
    """A thread nobody has written to yet."""
    return f"thread-{secrets.token_hex(8)}"


async def count(client: httpx.AsyncClient, thread_id: str) -> int:
    """How many messages are stored in the thread."""
    context = await client.get(path_of(thread_id, "/context"))
    return int(context.json()["coverage"]["total"])


async def test_null_is_left_out(client: httpx.AsyncClient, thread_id: str) -> None:
    """A member that is null counts as left out, so that typed clients may send every member."""
    await client.post(path_of(thread_id, "/turns"), json=turn("hello"))
    nulls = dict.fromkeys(["history", "conversation", "message", "window", "format", "marker"])

    response = await client.post("/v1/context", json={**nulls, "thread_id": thread_id})

    assert (response.status_code, response.json()["shape"]) == (200, 1)
    assert response.json()["coverage"]["total"] == 2


async def test_newest_generation_wins(client: httpx.AsyncClient, thread_id: str) -> None:
    """Of several histories in one request the newest kind is taken and none is joined to it.

    Source: spring-projects/spring-ai#6228 (case shapes-thread-and-array-both).
    """
    saved = await client.post(path_of(thread_id, "/turns"), json=turn("stored"))
    both = {"thread_id": thread_id, "history": "User: opaque"}
    mine = [{"role": "user", "content": "mine"}]

    second = (await client.post("/v1/context", json=both)).json()
    third = (await client.post("/v1/context", json={**both, "conversation": mine})).json()

    assert (second["shape"], third["shape"]) == (2, 3)
    assert [m for m in third["messages"] if m["role"] != "system"] == mine
    assert second["head"] == third["head"] == saved.json()["checkpoint_id"]


@pytest.mark.parametrize("given", [{"conversation": []}, {"history": " \n\t"}])
async def test_empty_histories(
    client: httpx.AsyncClient, thread_id: str, given: dict[str, object]
) -> None:
    """An empty array or a blank string is an empty history, not a request for the stored one.

    Sources: near danny-avila/LibreChat#10408 (case shapes-empty-array), near
    huggingface/chat-ui#1263 (case shapes-history-string-empty).
    """
    await client.post(path_of(thread_id, "/turns"), json=turn("stored"))

    response = await client.post("/v1/context", json={"thread_id": thread_id, **given})

    assert (response.status_code, response.json()["messages"]) == (200, [])
    assert await count(client, thread_id) == 2


async def test_last_of_equal_keys_counts(client: httpx.AsyncClient, thread_id: str) -> None:
    """Of two equal keys the last counts in every check and in the store.

    Source: PostgreSQL documentation, JSON Types (case enc-duplicate-json-keys).
    """
    body = (
        b'{"messages":1,"messages":[{"role":"wizard","role":"user","content":"a","content":"b"}]}'
    )
    await client.post(path_of(thread_id, "/turns"), content=body, headers=JSON)

    raw = (await client.get(path_of(thread_id, "/messages"))).json()["items"]
    assert [(m["role"], m["content"]) for m in raw] == [("user", "b")]


async def test_unknown_fields_are_named(client: httpx.AsyncClient, thread_id: str) -> None:
    """Fields that the contract does not know are ignored and named, in a body and in a query."""
    body = {**turn("hello"), "colour": True, "x" * 100: 1}
    saved = await client.post(path_of(thread_id, "/turns"), json=body)
    loaded = await client.post("/v1/context", json={"thread_id": thread_id, "colour": True})
    queried = await client.get(path_of(thread_id, "/context?message=hello&window=4"))

    for response, names in (
        (saved, ["colour", "x" * 64]),
        (loaded, ["colour"]),
        (queried, ["message"]),
    ):
        warnings = response.json()["warnings"]
        assert [w["field"] for w in warnings if w["code"] == "unknown-field"] == names


async def test_key_in_header_and_body(client: httpx.AsyncClient, thread_id: str) -> None:
    """The key may come as a header; the same in both is one key, two different ones are refused."""
    path = path_of(thread_id, "/turns")
    body = {"messages": [{"role": "user", "content": "hello"}]}
    header = {b"Idempotency-Key": "sch\u00f6n".encode()}

    first = await client.post(path, json=body, headers=header)
    again = await client.post(path, json={**body, "key": "sch\u00f6n"}, headers=header)
    differs = await client.post(path, json={**body, "key": "other"}, headers=header)

    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["checkpoint_id"] == again.json()["checkpoint_id"]
    assert differs.status_code == 422
    assert differs.json()["errors"][0]["pointer"] == "#/key"
