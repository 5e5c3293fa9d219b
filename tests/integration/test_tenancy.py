"""Tenants are separate worlds, owners separate shelves in one of them."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.integration.callers import bearer, key_entry, path_of, turn
from tests.integration.conftest import MakeClient

pytestmark = pytest.mark.anyio


@pytest.fixture
async def shared(make_client: MakeClient, tenant: str) -> AsyncIterator[httpx.AsyncClient]:
    """The service with two tenants, the first with an admin."""
    entries = [
        key_entry(tenant, "a"),
        key_entry(tenant, "admin", "admin"),
        key_entry(f"{tenant}-b", "b"),
    ]
    async with make_client(api_keys=",".join(entries)) as client:
        yield client


async def texts(client: httpx.AsyncClient, thread_id: str, headers: dict[str, str]) -> list[str]:
    """What a load of the thread gives the caller, the user's words only."""
    response = await client.post(
        "/v1/context", json={"thread_id": thread_id, "marker": "off"}, headers=headers
    )
    assert response.status_code == 200
    return [m["content"] for m in response.json()["messages"] if m["role"] == "user"]


async def listed(client: httpx.AsyncClient, headers: dict[str, str]) -> set[str]:
    """The ids of the threads that the caller sees."""
    response = await client.get("/v1/threads", headers=headers)
    return {item["thread_id"] for item in response.json()["items"]}


async def save(
    client: httpx.AsyncClient, thread_id: str, text: str, headers: dict[str, str], **members: object
) -> httpx.Response:
    return await client.post(
        path_of(thread_id, "/turns"), json=turn(text, **members), headers=headers
    )


async def test_same_id_in_two_tenants(shared: httpx.AsyncClient) -> None:
    """The same thread id in two tenants is two threads, down to the ids of equal messages."""
    first = await save(shared, "t1", "yes", bearer("a"))
    second = await save(shared, "t1", "yes", bearer("b"))
    await save(shared, "t1", "only b", bearer("b"))

    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["checkpoint_id"] != second.json()["checkpoint_id"]
    assert first.json()["messages"][0]["id"] != second.json()["messages"][0]["id"]
    assert await texts(shared, "t1", bearer("a")) == ["yes"]
    assert await texts(shared, "t1", bearer("b")) == ["yes", "only b"]


async def test_another_tenants_thread(shared: httpx.AsyncClient) -> None:
    """Another tenant's thread is unknown on every route, and so are its checkpoints."""
    saved = await save(shared, "t1", "hello", bearer("a"))
    head = saved.json()["checkpoint_id"]

    assert await texts(shared, "t1", bearer("b")) == []
    assert await listed(shared, bearer("b")) == set()
    assert (await shared.get(path_of("t1"), headers=bearer("b"))).status_code == 404
    with_parent = await save(shared, "t1", "more", bearer("b"), parent=head)
    assert (with_parent.status_code, with_parent.json()["type"]) == (
        404,
        "urn:threadkeep:problem:checkpoint-not-found",
    )


@pytest.mark.parametrize("owner", ["bob", None])
async def test_foreign_owner(shared: httpx.AsyncClient, owner: str | None) -> None:
    """A thread of ann's reads as unknown for bob and for nobody, and neither can write to it."""
    await save(shared, "t1", "hello", bearer("a", "ann"))
    foreign = bearer("a", owner)

    assert await texts(shared, "t1", bearer("a", "ann")) == ["hello"]
    assert await texts(shared, "t1", foreign) == []
    assert await listed(shared, foreign) == set()
    for path in (path_of("t1"), path_of("t1", "/messages")):
        assert (await shared.get(path, headers=foreign)).status_code == 404
    for response in (
        await save(shared, "t1", "mine", foreign),
        await shared.post(path_of("t1", "/summary"), headers=foreign),
    ):
        assert (response.status_code, response.json()["type"]) == (
            404,
            "urn:threadkeep:problem:thread-not-found",
        )
    assert await texts(shared, "t1", bearer("a", "ann")) == ["hello"]


async def test_header_narrows(shared: httpx.AsyncClient) -> None:
    """The header narrows every list; only an admin without it sees the whole tenant."""
    for thread_id, owner in (("of-ann", "ann"), ("of-bob", "bob"), ("of-nobody", None)):
        await save(shared, thread_id, "hello", bearer("a", owner))
    everyone = {"of-ann", "of-bob", "of-nobody"}

    assert await listed(shared, bearer("a", "ann")) == {"of-ann"}
    assert await listed(shared, bearer("a")) == {"of-nobody"}
    assert await listed(shared, bearer("admin", "bob")) == {"of-bob"}
    assert await listed(shared, bearer("admin")) == everyone


async def test_identity_comes_from_the_credential(shared: httpx.AsyncClient) -> None:
    """A tenant, owner or user named in the body is ignored, and the answer says so.

    Source: sleep2agi/agent-network#575 (case sec-owner-from-token-not-body).
    """
    claims = {"tenant_id": "someone", "owner": "bob", "user_id": "b"}
    saved = await save(shared, "t1", "hello", bearer("a", "ann"), **claims)

    ignored = {w["field"] for w in saved.json()["warnings"] if w["code"] == "unknown-field"}
    assert ignored == set(claims)
    assert await texts(shared, "t1", bearer("a", "ann")) == ["hello"]
    assert await texts(shared, "t1", bearer("a", "bob")) == []
    assert await texts(shared, "t1", bearer("b")) == []


async def test_sql_in_ids(shared: httpx.AsyncClient) -> None:
    """Text that looks like SQL is an id like any other, or refused; nobody else's data comes back.

    Source: near oceanbase/powercontext#899 (case sec-sql-in-ids).
    """
    await save(shared, "t1", "secret", bearer("a"))

    assert await texts(shared, "t1' OR 'a'='a", bearer("a")) == []
    for query in ({"cursor": "x'; SELECT 1; --"}, {"limit": "1; DROP TABLE messages"}):
        response = await shared.get("/v1/threads", params=query, headers=bearer("a"))
        assert response.status_code == 422
