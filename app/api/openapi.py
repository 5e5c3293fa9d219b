"""The contract as OpenAPI: what each route documents, and what they share."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.api.answers import Message
from app.api.auth import OWNER_HEADER
from app.api.branches_schemas import ForkIn, HeadIn
from app.api.graphs_schemas import GRAPH_REQUESTS
from app.api.problems import MEDIA_TYPE, Problem, status_of
from app.api.schemas import LoadIn, SaveIn
from app.api.writes_schemas import WritesIn
from app.core.errors import (
    InvalidPayload,
    MissingScope,
    OwnerRequired,
    StoreUnavailable,
    ThreadkeepError,
    Unauthenticated,
)

_REF = "#/components/schemas/{model}"
_SCHEME = "bearer"
_BY_EVERY_CALL = (
    OwnerRequired,
    Unauthenticated,
    MissingScope,
    InvalidPayload,
    StoreUnavailable,
)
_OWNER = {
    "name": OWNER_HEADER,
    "in": "header",
    "required": False,
    "description": "For whom the call is made: it then sees that owner's threads only.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[ -~]+$"},
}
_THREAD = {
    "name": "thread_id",
    "in": "path",
    "required": True,
    "description": "1 to 255 characters, no control characters; one percent-encoded segment "
    "(`a/b` is sent as `a%2Fb`).",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}


class Documented(TypedDict):
    """What a route decorator takes."""

    responses: dict[int | str, dict[str, object]]
    openapi_extra: dict[str, object]


def documented(
    answers: Mapping[int, type[BaseModel]],
    *,
    thread: bool = True,
    query: type[BaseModel] | None = None,
    headers: Sequence[Mapping[str, object]] = (),
    body: type[BaseModel] | None = None,
    errors: Sequence[type[ThreadkeepError]] = (),
) -> Documented:
    """Describe a route: its parameters, body, answers and problems, and the bearer key."""
    extra: dict[str, object] = {
        "security": [{_SCHEME: []}],
        "parameters": [
            *([_THREAD] if thread else []),
            *(_query_parameters(query) if query else []),
            _OWNER,
            *headers,
        ],
    }
    if body:
        extra["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(body)}},
        }
    return {
        "responses": {
            **{
                status: {"model": model, "description": _title(model)}
                for status, model in answers.items()
            },
            **_problems([*_BY_EVERY_CALL, *errors]),
        },
        "openapi_extra": extra,
    }


def complete_openapi(app: FastAPI) -> None:
    """Add to the app's document what no route owns: shared schemas and the security scheme."""
    by_routes = app.openapi

    def openapi() -> dict[str, object]:
        if app.openapi_schema is None:
            components = by_routes().setdefault("components", {})
            shared = [
                (LoadIn, "validation"),
                (SaveIn, "validation"),
                (WritesIn, "validation"),
                (HeadIn, "validation"),
                (ForkIn, "validation"),
                *((model, "validation") for model in GRAPH_REQUESTS),
                (Message, "validation"),
                (Problem, "validation"),
            ]
            _, definitions = models_json_schema(shared, ref_template=_REF)  # type: ignore[arg-type]
            components.setdefault("schemas", {}).update(definitions["$defs"])
            components["securitySchemes"] = {_SCHEME: {"type": "http", "scheme": "bearer"}}
        schema: dict[str, object] = by_routes()
        return schema

    app.openapi = openapi  # type: ignore[method-assign]


def _query_parameters(model: type[BaseModel]) -> list[Mapping[str, object]]:
    properties = model.model_json_schema(ref_template=_REF)["properties"]
    return [
        {
            "name": name,
            "in": "query",
            "required": False,
            "schema": {
                member: value for member, value in schema.items() if member != "description"
            },
            **({"description": schema["description"]} if "description" in schema else {}),
        }
        for name, schema in properties.items()
    ]


def _problems(
    errors: Sequence[type[ThreadkeepError]],
) -> dict[int | str, dict[str, object]]:
    slugs: dict[int, list[str]] = {}
    for error in errors:
        slugs.setdefault(status_of(error), []).append(error.slug)
    return {
        status: {
            "description": ", ".join(f"`{slug}`" for slug in found),
            "content": {MEDIA_TYPE: {"schema": _ref(Problem)}},
        }
        for status, found in sorted(slugs.items())
    }


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}


def _title(model: type[BaseModel]) -> str:
    return (model.__doc__ or model.__name__).splitlines()[0]
