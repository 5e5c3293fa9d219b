"""Bad calls about turns in flight: each is refused, names the field and stores nothing."""

import secrets
from typing import Any

import httpx
import pytest

from tests.integration.callers import path_of, turn

pytestmark = pytest.mark.anyio

WRITE = {"channel": "c", "value": 1}
BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "#/writes"),
    ({"writes": None}, "#/writes"),
    ({"writes": []}, "#/writes"),
    ({"writes": {"c": 1}}, "#/writes"),
    ({"writes": "c"}, "#/writes"),
    ({"writes": [WRITE] * 201}, "#/writes"),
    ({"writes": [WRITE, None]}, "#/writes/1"),
    ({"writes": ["c"]}, "#/writes/0"),
    ({"writes": [{"channel": "c"}]}, "#/writes/0/value"),
    ({"writes": [{"value": 1}]}, "#/writes/0/channel"),
    ({"writes": [{"channel": None, "value": 1}]}, "#/writes/0/channel"),
    ({"writes": [{"channel": 7, "value": 1}]}, "#/writes/0/channel"),
    ({"writes": [WRITE, {"channel": "", "value": 1}]}, "#/writes/1/channel"),
    ({"writes": [WRITE, {"channel": "x" * 256, "value": 1}]}, "#/writes/1/channel"),
    ({"writes": [WRITE, {"channel": "a\0b", "value": 1}]}, "#/writes/1/channel"),
    ({"writes": [WRITE], "parent": 7}, "#/parent"),
    ({"writes": [WRITE], "parent": ""}, "#/parent"),
    ({"writes": [WRITE], "parent": "a\nb"}, "#/parent"),
    ({"writes": [WRITE], "key": ["k"]}, "#/key"),
    ({"writes": [WRITE], "key": ""}, "#/key"),
    ({"writes": [WRITE], "key": "x" * 256}, "#/key"),
    ({"writes": [WRITE], "key": "a\0b"}, "#/key"),
]
RAW = [
    (b"", "#"),
    (b"[]", "#"),
    (b"null", "#"),
    (b'{"writes":[{"channel":"c","value":NaN}]}', "#/writes/0/value"),
    (b'{"writes":[{"channel":"c","value":123456789012345678901234}]}', "#/writes/0/value"),
    (b'{"writes":[{"channel":"c","value":"\\ud800"}]}', "#/writes/0/value"),
    (b'{"writes":[{"channel":"c","value":"\xff"}]}', "#"),
    (b'{"writes":[{"channel":"c","value":' + b"[" * 200 + b"]" * 200 + b"}]}", "#"),
]


@pytest.fixture
def thread_id() -> str:
    """A thread nobody has written to yet."""
    return f"thread-{secrets.token_hex(8)}"


async def assert_refused(
    client: httpx.AsyncClient, thread_id: str, response: httpx.Response, pointer: str
) -> None:
    """Fail unless the answer names the place and nothing was made."""
    assert response.status_code == 422, response.text
    assert response.json()["errors"][0]["pointer"] == pointer
    assert (await client.get(path_of(thread_id))).status_code == 404


@pytest.mark.parametrize(("body", "pointer"), BAD, ids=range(len(BAD)))
async def test_bad_members(
    client: httpx.AsyncClient, thread_id: str, body: dict[str, Any], pointer: str
) -> None:
    """A wrong member is 422 and named."""
    response = await client.put(path_of(thread_id, "/writes/t"), json=body)

    await assert_refused(client, thread_id, response, pointer)


@pytest.mark.parametrize(("body", "pointer"), RAW, ids=range(len(RAW)))
async def test_bad_bytes(
    client: httpx.AsyncClient, thread_id: str, body: bytes, pointer: str
) -> None:
    """A body that is no strict JSON object is 422."""
    headers = {"Content-Type": "application/json"}
    path = path_of(thread_id, "/writes/t")
    response = await client.put(path, content=body, headers=headers)

    await assert_refused(client, thread_id, response, pointer)


@pytest.mark.parametrize("task", ["", "x" * 256, "a%00b", "%FF", "a%2", "%2E", "%2e%2e", "%C2%85"])
async def test_bad_task_ids(client: httpx.AsyncClient, thread_id: str, task: str) -> None:
    """What cannot be a task's id is 422, never a 404 of the router."""
    url = client.base_url.copy_with(raw_path=path_of(thread_id, f"/writes/{task}").encode())
    response = await client.put(url, json={"writes": [WRITE]})

    await assert_refused(client, thread_id, response, "#/task_id")


async def test_keys_that_disagree(client: httpx.AsyncClient, thread_id: str) -> None:
    """The key may come as a header; two different keys are refused."""
    path = path_of(thread_id, "/writes/t")
    header = {"Idempotency-Key": "k1"}

    differs = await client.put(path, json={"writes": [WRITE], "key": "k2"}, headers=header)
    await assert_refused(client, thread_id, differs, "#/key")
    for body in ({"writes": [WRITE]}, {"writes": [WRITE], "key": "k1"}):
        staged = await client.put(path, json=body, headers=header)
        assert staged.json()["key"] == "k1"


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb"])
async def test_bad_keys_to_discard(client: httpx.AsyncClient, thread_id: str, key: str) -> None:
    """A key that no turn can have is 422."""
    response = await client.delete(path_of(thread_id, "/writes"), params={"key": key})

    await assert_refused(client, thread_id, response, "#/key")


async def test_parents_that_are_not_there(client: httpx.AsyncClient, thread_id: str) -> None:
    """An unknown thread and an unknown parent are told apart."""
    path = path_of(thread_id, "/writes/t")
    for parent in ("x", "0000000002-" + "0" * 22):
        unknown = await client.put(path, json={"writes": [WRITE], "parent": parent})
        assert (unknown.status_code, unknown.json()["type"][-16:]) == (404, "thread-not-found")
    await client.post(path_of(thread_id, "/turns"), json=turn("hello"))
    for parent in ("x", "0000000002-" + "0" * 22):
        response = await client.put(path, json={"writes": [WRITE], "parent": parent})
        assert response.status_code == 404
        assert response.json()["type"] == "urn:threadkeep:problem:checkpoint-not-found"


async def test_too_much(client: httpx.AsyncClient, thread_id: str) -> None:
    """A body over the limit is 413; what would stage too much under one parent is 422."""
    path = path_of(thread_id, "/writes")
    large = {"writes": [{"channel": "c", "value": "x" * 1024 * 1024}]}
    assert (await client.put(f"{path}/t", json=large)).status_code == 413
    for number in range(5):
        response = await client.put(f"{path}/t{number}", json={"writes": [WRITE] * 200})
        assert response.status_code == 200
    full = await client.put(f"{path}/more", json={"writes": [WRITE]})

    assert full.status_code == 422
    assert full.json()["errors"][0]["pointer"] == "#/writes"
    assert "1000 values" in full.json()["errors"][0]["detail"]


async def test_unknown_fields_are_named(client: httpx.AsyncClient, thread_id: str) -> None:
    """Fields that the contract does not know are ignored and named, inside the values too."""
    body = {"writes": [{**WRITE, "type": "json"}, {**WRITE, "type": 1}], "colour": 1}
    staged = await client.put(path_of(thread_id, "/writes/t"), json=body)

    assert [warned["field"] for warned in staged.json()["warnings"]] == ["colour", "type"]
    assert staged.json()["staged"] == 2
