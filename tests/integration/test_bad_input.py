"""Whatever is wrong with a request is named, changes nothing, and is never said back."""

import json
import logging
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from app.telemetry import JsonFormatter
from tests.integration.callers import path_of, turn
from tests.integration.conftest import MakeClient

pytestmark = pytest.mark.anyio

with (Path(__file__).parents[1] / "data" / "cases.jsonl").open(encoding="utf-8") as lines:
    CASES = {case["id"]: case["input"] for case in map(json.loads, lines)}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def thread_id() -> str:
    """A thread nobody has written to yet."""
    return f"thread-{secrets.token_hex(8)}"


async def count(client: httpx.AsyncClient, thread_id: str) -> int:
    """How many messages are stored in the thread."""
    context = await client.get(path_of(thread_id, "/context"))
    return int(context.json()["coverage"]["total"])


def flaws(response: httpx.Response) -> dict[str, str]:
    """The flaws of a 422: what is wrong by where it is wrong."""
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return {flaw["pointer"]: flaw["detail"] for flaw in response.json()["errors"]}


@pytest.mark.parametrize(
    "body",
    [
        *CASES["shapes-nan-in-body"]["raw_bodies"],
        *CASES["enc-lone-surrogate"]["raw_bodies"],
        '{"messages":[{"role":"user","content":"x","n":12345678901234567890123}]}',
        '{"messages":[{"role":"user","content":"x"}],"key":"k',
        '{"messages":[{"role":"user","content":"x"}]' + "}" * 9,
        '{"messages":' + "[" * 5000,
        "",
        "[]",
        "null",
        "\ufeff{}",
    ],
)
async def test_bad_json(client: httpx.AsyncClient, thread_id: str, body: str) -> None:
    """JSON that is not strict is 422 on save and load, answered in strict JSON; nothing is stored.

    Sources: agentscope-ai/QwenPaw#7677 (case shapes-nan-in-body), THU-MAIC/OpenMAIC#1493 (case
    enc-lone-surrogate).
    """
    for path in (path_of(thread_id, "/turns"), "/v1/context"):
        response = await client.post(path, content=body.encode(), headers=JSON)
        assert flaws(response)
        assert json.loads(response.content.decode("utf-8"))["status"] == 422
    assert await count(client, thread_id) == 0


async def test_not_utf8(client: httpx.AsyncClient, thread_id: str) -> None:
    """Bytes that are not UTF-8 are refused with the place of the first one."""
    response = await client.post(
        path_of(thread_id, "/turns"), content=b'{"messages":"\xff"}', headers=JSON
    )

    assert flaws(response) == {"#": "is not UTF-8: byte 13 does not fit"}


@pytest.mark.parametrize("message", CASES["shapes-content-types"]["each"], ids=json.dumps)
@pytest.mark.parametrize("field", ["messages", "conversation"])
async def test_bad_content(
    client: httpx.AsyncClient, thread_id: str, field: str, message: object
) -> None:
    """A message whose content cannot be one is refused by its index, on save and on load.

    Source: SpringCare/VERA-MH#70 (case shapes-content-types).
    """
    path = path_of(thread_id, "/turns") if field == "messages" else "/v1/context"
    body = {field: [{"role": "user", "content": "fine"}, message]}

    found = flaws(await client.post(path, json=body))

    assert all(pointer.startswith(f"#/{field}/1") for pointer in found)
    assert await count(client, thread_id) == 0


@pytest.mark.parametrize("role", [each["role"] for each in CASES["shapes-role-aliases"]["each"]])
async def test_roles(client: httpx.AsyncClient, thread_id: str, role: str) -> None:
    """Known spellings of a role are mapped, developer is the preamble, all others are refused.

    Source: near FlowiseAI/Flowise#2410 (case shapes-role-aliases).
    """
    message = {"role": role, "content": "x", "name": "lookup"}
    response = await client.post(path_of(thread_id, "/turns"), json={"messages": [message]})

    if role in {"human", "ai", "function"}:
        assert response.status_code == 201
        assert response.json()["messages"][0]["role"] in {"user", "assistant", "tool"}
    elif role == "developer":
        assert await count(client, thread_id) == 0
    else:
        assert set(flaws(response)) == {"#/messages/0/role"}


OPTIONS = [
    ("window", 0),
    ("window", -1),
    ("window", 1001),
    ("window", 1.5),
    ("window", True),
    ("window", "60"),
    ("stride", 0),
    ("token_budget", 0),
    ("token_budget", "many"),
    ("marker", "maybe"),
    ("strip", "all"),
    ("large_values", 1),
    ("format", "xml"),
    ("encoding", 7),
    ("encoding", "no-such-encoding"),
    ("checkpoint_id", 7),
    ("checkpoint_id", "a\0b"),
    ("history", 7),
    ("conversation", {"role": "user"}),
    ("conversation", "hello"),
    ("message", 7),
    ("message", {"role": "user"}),
]


@pytest.mark.parametrize(("option", "value"), OPTIONS)
async def test_bad_option(client: httpx.AsyncClient, option: str, value: object) -> None:
    """An option of the wrong type or out of its range is 422 and named, never taken for near."""
    response = await client.post("/v1/context", json={"thread_id": "t1", option: value})

    assert all(pointer.startswith(f"#/{option}") for pointer in flaws(response))


@pytest.mark.parametrize(
    "query", ["window=0", "window=abc", "window=", "window=6_0", "stride=true", "format=xml"]
)
async def test_bad_query(client: httpx.AsyncClient, query: str) -> None:
    """The same options in a query string are held to the same rules."""
    response = await client.get(f"/v1/threads/t1/context?{query}")

    assert set(flaws(response)) == {f"#/{query.partition('=')[0]}"}


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=101",
        "limit=x",
        "cursor=!",
        "cursor=%00",
        "cursor=WzFd",
        "cursor=",
        "order=up",
    ],
)
async def test_bad_page(client: httpx.AsyncClient, thread_id: str, query: str) -> None:
    """A page that cannot be is refused: its size, its cursor, its order."""
    await client.post(path_of(thread_id, "/turns"), json=turn("hello"))
    response = await client.get(path_of(thread_id, f"/messages?{query}"))

    assert flaws(response)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "#/messages"),
        ({"messages": []}, "#/messages"),
        ({"messages": None}, "#/messages"),
        ({"messages": {"role": "user", "content": "x"}}, "#/messages"),
        ({"parent": 7}, "#/parent"),
        ({"parent": ""}, "#/parent"),
        ({"parent": "a\0b"}, "#/parent"),
        ({"key": 7}, "#/key"),
        ({"key": ""}, "#/key"),
        ({"key": "a\nb"}, "#/key"),
        ({"key": "k" * 256}, "#/key"),
        ({"on_conflict": "merge"}, "#/on_conflict"),
        ({"metadata": "x"}, "#/metadata"),
        ({"metadata": {"note": "z\0"}}, "#/metadata/note"),
    ],
)
async def test_bad_save(
    client: httpx.AsyncClient, thread_id: str, body: dict[str, object], pointer: str
) -> None:
    """A save that cannot be understood is refused by the place of the flaw, and stores nothing."""
    whole = body if "messages" in body or not body else {**turn("hello"), **body}
    response = await client.post(path_of(thread_id, "/turns"), json=whole)

    assert set(flaws(response)) == {pointer}
    assert await count(client, thread_id) == 0


async def test_no_source(client: httpx.AsyncClient) -> None:
    """A load that names no history at all is refused, with the three ways to name one."""
    detail = flaws(await client.post("/v1/context", json={"message": "hello"}))["#"]

    assert all(name in detail for name in ("thread_id", "history", "conversation"))


async def test_body_too_large(make_client: MakeClient, thread_id: str) -> None:
    """A body over the limit is 413 and names the limit, whether its length is told or found."""
    async with make_client(max_body_bytes=2048) as client:
        path, body = path_of(thread_id, "/turns"), json.dumps(turn("x" * 2048)).encode()

        async def chunks() -> AsyncIterator[bytes]:
            for start in range(0, len(body), 100):
                yield body[start : start + 100]

        for content in (body, chunks()):
            response = await client.post(path, content=content, headers=JSON)
            assert (response.status_code, response.json()["max_bytes"]) == (413, 2048)
        assert await count(client, thread_id) == 0


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded"])
async def test_not_declared_as_json(client: httpx.AsyncClient, thread_id: str, kind: str) -> None:
    """A body of another type is 415: any web page could have a browser send it here."""
    response = await client.post(
        path_of(thread_id, "/turns"), json=turn("hello"), headers={"Content-Type": kind}
    )

    assert (response.status_code, await count(client, thread_id)) == (415, 0)


PRIVATE = {
    "role": '{"messages":[{"role":"wizard","content":"ZEBRA-77"}]}',
    "part": '{"messages":[{"role":"user","content":[{"type":"ZEBRA-77"},5]}]}',
    "key": '{"messages":[{"role":"user","content":"x"}],"key":["ZEBRA-77"]}',
    "choice": '{"messages":[],"on_conflict":"ZEBRA-77"}',
    "member": '{"messages":[{"role":"user","content":"x","ZEBRA 77":NaN}]}',
    "cut off": '{"messages":[{"role":"user","content":"ZEBRA-77',
    "rest": '{"messages":[{"role":"user","content":"ZEBRA-77"}]} ZEBRA-77',
    "surrogate": '{"ZEBRA 77":"\\ud800"}',
}


@pytest.mark.parametrize("body", PRIVATE.values(), ids=PRIVATE)
async def test_private_text_is_not_said_back(
    client: httpx.AsyncClient, thread_id: str, caplog: pytest.LogCaptureFixture, body: str
) -> None:
    """What was sent stands in no error and in no log line.

    Source: near liberusoftware/ecommerce-laravel#720 (case sec-log-and-error-privacy).
    """
    caplog.set_level(logging.INFO)
    response = await client.post(
        path_of(thread_id, "/turns?note=ZEBRA-77"), content=body.encode(), headers=JSON
    )

    assert response.status_code == 422
    assert "ZEBRA" not in response.text
    ours = [r for r in caplog.records if not r.name.startswith(("httpx", "httpcore"))]
    assert ours
    assert not any("ZEBRA" in JsonFormatter().format(record) for record in ours)
