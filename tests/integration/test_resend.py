"""A list that a load wrote, sent back as it is or with new messages, in every format."""

from typing import Any

import httpx
import pytest

from tests.integration.conftest import MakeClient

pytestmark = pytest.mark.anyio

FORMATS = ["openai", "responses", "anthropic", "langchain"]
MORE: dict[str, list[dict[str, Any]]] = {
    "openai": [
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": "That is all."},
    ],
    "responses": [
        {"role": "user", "content": "and?"},
        {"type": "message", "role": "assistant", "content": "That is all."},
    ],
    "anthropic": [
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": [{"type": "text", "text": "That is all."}]},
    ],
    "langchain": [
        {"type": "human", "data": {"content": "and?", "type": "human"}},
        {"type": "ai", "data": {"content": "That is all.", "type": "ai"}},
    ],
}


def call(name: str, arguments: str) -> dict[str, Any]:
    return {"id": name, "type": "function", "function": {"name": "find", "arguments": arguments}}


TOOLS: list[dict[str, Any]] = [
    {"role": "user", "content": "do it"},
    {
        "role": "assistant",
        "content": "Looking.",
        "tool_calls": [call("c1", '{"q": "x",  "n": 1}'), call("c2", "{}")],
    },
    {"role": "tool", "tool_call_id": "c1", "name": "find", "content": "found x"},
    {"role": "tool", "tool_call_id": "c2", "content": "found all"},
    {"role": "assistant", "content": "done【1†source】"},
]


async def save(client: httpx.AsyncClient, thread: str, **body: Any) -> dict[str, Any]:
    saved = await client.post(f"/v1/threads/{thread}/turns", json=body)
    assert saved.status_code in (200, 201), saved.text
    return dict(saved.json())


async def seed(client: httpx.AsyncClient, thread: str) -> int:
    hello = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
    await save(client, thread, key="a", messages=hello)
    await save(client, thread, key="b", messages=TOOLS)
    return len(hello) + len(TOOLS)


@pytest.mark.parametrize("marker", ["on", "off"])
@pytest.mark.parametrize("form", FORMATS)
async def test_a_loaded_list_adds_nothing(
    client: httpx.AsyncClient, tenant: str, form: str, marker: str
) -> None:
    """Sent back unchanged it is a retry, in whatever dialect the turns were saved."""
    total = await seed(client, tenant)
    wanted = {"thread_id": tenant, "format": form, "marker": marker}
    loaded = (await client.post("/v1/context", json=wanted)).json()
    again = await save(client, tenant, messages=loaded["messages"], format=form)
    after = (await client.get(f"/v1/threads/{tenant}")).json()

    assert again["created"] is False
    assert after["messages"] == total


@pytest.mark.parametrize("marker", ["on", "off"])
@pytest.mark.parametrize("form", FORMATS)
async def test_only_the_rest_of_a_loaded_list_is_stored(
    client: httpx.AsyncClient, tenant: str, form: str, marker: str
) -> None:
    """With a new exchange behind it, that exchange is stored and nothing else."""
    total = await seed(client, tenant)
    wanted = {"thread_id": tenant, "format": form, "marker": marker}
    loaded = (await client.post("/v1/context", json=wanted)).json()
    saved = await save(client, tenant, messages=[*loaded["messages"], *MORE[form]], format=form)
    after = (await client.get(f"/v1/threads/{tenant}")).json()

    assert [line["position"] for line in saved["messages"] if line["new"]] == [total + 1, total + 2]
    assert after["messages"] == total + 2


@pytest.mark.parametrize("form", FORMATS)
async def test_a_stub_is_not_stored(make_client: MakeClient, tenant: str, form: str) -> None:
    """A load's stand-in for a large value is refused with its place: nobody said it."""
    async with make_client() as client:
        large = [
            {"role": "user", "content": "word " * 3_000},
            {"role": "assistant", "content": "ok"},
        ]
        await save(client, tenant, key="a", messages=large)
        wanted = {"thread_id": tenant, "format": form, "large_values": "stub", "marker": "off"}
        loaded = (await client.post("/v1/context", json=wanted)).json()
        path = f"/v1/threads/{tenant}/turns"
        refused = await client.post(path, json={"messages": loaded["messages"], "format": form})

    assert refused.status_code == 422
    assert "stub" in refused.json()["errors"][0]["detail"]


async def test_the_markers_sentence_is_a_users_own(client: httpx.AsyncClient, tenant: str) -> None:
    """A user may write the marker's sentence, in a part of its own too: it is stored."""
    sentence = "The current turn begins here. Everything above is earlier conversation."
    part = {"role": "user", "content": [{"type": "text", "text": sentence}]}
    await save(client, tenant, key="k", messages=[part, {"role": "assistant", "content": "Noted."}])
    listed = (await client.get(f"/v1/threads/{tenant}/messages")).json()["items"]

    assert [item["role"] for item in listed] == ["user", "assistant"]


async def test_a_cursor_of_another_list_is_refused(client: httpx.AsyncClient, tenant: str) -> None:
    """A cursor of another thread is a bad cursor, not a missing thread."""
    await seed(client, tenant)
    other = f"{tenant}-2"
    await save(client, other, key="a", messages=[{"role": "user", "content": "hi"}])
    page = (await client.get(f"/v1/threads/{tenant}/messages?limit=2")).json()
    path = f"/v1/threads/{other}/messages?cursor={page['next_cursor']}"

    assert (await client.get(path)).status_code == 422
