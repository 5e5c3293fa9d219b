"""The contract as it is published, held against what the service does."""

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from fastapi import FastAPI
from pydantic import BaseModel

from app.api import answers
from app.api.problems import Problem
from app.api.schemas import LoadIn, SaveIn, parse_load, parse_save
from app.core.model import ThreadKey
from app.main import create_app
from app.settings import load_settings
from tests.integration.callers import path_of, turn
from tests.integration.conftest import MakeClient
from tests.integration.test_thread_ids import routes_with_an_id

pytestmark = pytest.mark.anyio

OPENAPI = Path(__file__).parents[2] / "openapi.yaml"
PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


@pytest.fixture
def app() -> FastAPI:
    """An application that opens nothing."""
    return create_app(load_settings(database_url="postgresql://nowhere"))


def walk(node: object) -> Iterator[dict[str, object]]:
    """Yield every object of a document."""
    if isinstance(node, dict):
        yield node
    for child in (
        node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    ):
        yield from walk(child)


def test_published(app: FastAPI) -> None:
    """openapi.yaml is what the code says; `./dev openapi` writes it anew."""
    published = yaml.safe_load(OPENAPI.read_text(encoding="utf-8"))

    assert published == app.openapi()


def test_references_resolve(app: FastAPI) -> None:
    """Every reference in the document leads to a schema of the document, and each is used."""
    document = app.openapi()
    references = {node["$ref"] for node in walk(document) if "$ref" in node}

    assert references == {
        f"#/components/schemas/{name}" for name in document["components"]["schemas"]
    }


def test_every_route_is_documented(app: FastAPI) -> None:
    """Every route says what it does, what it answers, how it fails and that it needs a key."""
    for path, operations in app.openapi()["paths"].items():
        for method, operation in operations.items():
            assert operation["description"], (method, path)
            assert any(int(status) < 300 for status in operation["responses"])
            if path.startswith("/v1/"):
                assert operation["security"] == [{"bearer": []}]
                for status in ("400", "401", "403", "422", "503"):
                    assert operation["responses"][status]["content"] == PROBLEM
            if method == "post" and path != "/v1/threads/{thread_id}/summary":
                assert operation["requestBody"]["content"]["application/json"]["schema"]


def test_operation_ids_are_names(app: FastAPI) -> None:
    """Operation ids are short and unique, since generated clients are made of them."""
    ids = [node["operationId"] for node in walk(app.openapi()) if "operationId" in node]

    assert len(ids) == len(set(ids))
    assert all(str(name).replace("_", "").isalpha() for name in ids)


def examples_of(model: type[BaseModel]) -> list[dict[str, object]]:
    """The examples that the contract shows of a schema."""
    schema = create_app(load_settings(database_url="postgresql://nowhere")).openapi()
    examples: list[dict[str, object]] = schema["components"]["schemas"][model.__name__]["examples"]
    return examples


@pytest.mark.parametrize("model", [LoadIn, SaveIn])
def test_examples_are_taken(model: type[BaseModel]) -> None:
    """Every example of a request is a request that the service takes without a warning."""
    for example in examples_of(model):
        if model is LoadIn:
            assert not parse_load(example).warnings
        else:
            assert parse_save(ThreadKey("t", "t1"), example, None).batch.stored


@pytest.mark.parametrize("model", [answers.ContextOut, answers.SavedOut, Problem])
def test_examples_are_given(model: type[BaseModel]) -> None:
    """Every example of an answer fits its own schema."""
    for example in examples_of(model):
        assert_documented(model, example)


def assert_documented(model: type[BaseModel], answer: object) -> None:
    """Fail unless the answer has all that its schema requires and nothing that it does not name."""
    known = model.model_validate(answer).model_dump(mode="json", exclude_unset=True)
    assert known == answer


async def test_answers_are_as_documented(client: httpx.AsyncClient) -> None:
    """What each route really answers is what its schema says, no member more or less."""
    thread = "documented"
    body = {**turn("hello"), "extra": 1, "metadata": {"a": 1}}
    body["messages"] = [{"role": "system", "content": "x"}, *body["messages"]]  # type: ignore[misc]
    saved = await client.post(path_of(thread, "/turns"), json=body)
    loaded = await client.post("/v1/context", json={"thread_id": thread, "message": "more"})
    text = await client.get(path_of(thread, "/context?format=text"))
    explained = await client.get(path_of(thread, "/context?explain=true"))
    page = await client.get(path_of(thread, "/messages?limit=1"))

    assert_documented(answers.SavedOut, saved.json())
    assert_documented(answers.ContextOut, loaded.json())
    assert_documented(answers.ContextOut, text.json())
    assert_documented(answers.ContextOut, explained.json())
    assert_documented(answers.MessagesPage, page.json())
    assert_documented(answers.ThreadOut, (await client.get(path_of(thread))).json())
    assert_documented(answers.ThreadsPage, (await client.get("/v1/threads?limit=1")).json())
    summary = await client.post(path_of(thread, "/summary"))
    assert_documented(answers.BuiltSummaryOut, summary.json())
    assert_documented(answers.ReadyOut, (await client.get("/readyz")).json())
    assert_documented(answers.HealthOut, (await client.get("/healthz")).json())
    assert_documented(Problem, (await client.get("/nowhere")).json())


async def test_summary_as_documented(make_client: MakeClient) -> None:
    """With a summary too the answers are as documented."""
    async with make_client(window=4, stride=2) as client:
        for number in range(8):
            await client.post(path_of("summed", "/turns"), json=turn(f"question {number}"))
        built = await client.post(path_of("summed", "/summary"))
        loaded = await client.get(path_of("summed", "/context?explain=true"))

        assert_documented(answers.BuiltSummaryOut, built.json())
        assert_documented(answers.ContextOut, loaded.json())
        assert_documented(answers.ThreadOut, (await client.get(path_of("summed"))).json())
        assert loaded.json()["summary"]["covers"] > 0


async def test_context_by_path_or_body(client: httpx.AsyncClient) -> None:
    """The options of a load mean the same in a query string as in a body."""
    await client.post(path_of("options", "/turns"), json=turn("hello"))
    options: dict[str, str | int] = {
        "window": 2,
        "token_budget": 500,
        "marker": "off",
        "strip": "off",
        "format": "text",
    }

    by_body = await client.post("/v1/context", json={"thread_id": "options", **options})
    by_path = await client.get(path_of("options", "/context"), params=options)

    assert by_body.status_code == by_path.status_code == 200
    assert by_body.json() == by_path.json()


def test_thread_routes_take_the_id(app: FastAPI) -> None:
    """Every route below a thread documents the id's rules."""
    for method, path in routes_with_an_id(app):
        parameters = app.openapi()["paths"][path][method.lower()]["parameters"]
        assert parameters[0]["name"] == "thread_id"


async def test_docs_need_no_other_host(client: httpx.AsyncClient) -> None:
    """The page at /docs loads its script and style from this service, and both are there."""
    page = (await client.get("/docs")).text
    assets = re.findall(r'(?:src|href)="([^"]+)"', page)

    assert any(asset.endswith(".js") for asset in assets)
    for asset in assets:
        assert (await client.get(asset)).status_code == httpx.codes.OK, asset
