"""Errors as problem details (RFC 9457): the only place that knows a status for them.

Each document has a constant `type` (`urn:threadkeep:problem:<slug>`), `title`, `status`, `detail`
and `instance` (the request's id). Payload errors add `errors: [{pointer, detail}]`. None holds a
value that was sent, or the text of an exception that is not ours.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import orjson
from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from app.core.errors import (
    Conflict,
    Gone,
    InvalidPayload,
    MissingScope,
    NotFound,
    OwnerRequired,
    PayloadTooLarge,
    ThreadkeepError,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_SECONDS = 1

STATUS: dict[type[ThreadkeepError], int] = {
    OwnerRequired: 400,
    Unauthenticated: 401,
    MissingScope: 403,
    NotFound: 404,
    Conflict: 409,
    Gone: 410,
    PayloadTooLarge: 413,
    UnsupportedMediaType: 415,
    InvalidPayload: 422,
    Unavailable: 503,
}
"""A class stands for those below it as well."""

HEADERS: dict[int, dict[str, str]] = {
    401: {"WWW-Authenticate": 'Bearer realm="threadkeep"'},
    503: {"Retry-After": str(RETRY_AFTER_SECONDS)},
}

_DETAILS = {
    404: "There is no such path.",
    405: "The path does not take this method.",
}


class PayloadFlaw(BaseModel):
    """pointer: a JSON pointer into what was sent."""

    pointer: str
    detail: str


class Problem(BaseModel):
    """An error (RFC 9457). type is constant; some types add members of their own."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:threadkeep:problem:invalid-payload",
                    "title": "The payload is malformed.",
                    "status": 422,
                    "detail": "#/messages/0/role: must be one of user, assistant, tool",
                    "instance": "3f0c5c0a4d7b4f0e9a55d2b1c6a7e8f9",
                    "errors": [
                        {
                            "pointer": "#/messages/0/role",
                            "detail": "must be one of user, assistant, tool",
                        }
                    ],
                }
            ]
        },
    )

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[PayloadFlaw] | None = None


def install_problems(app: FastAPI) -> None:
    """Register the handlers; any other error is answered by the outermost middleware."""
    # Starlette types a handler as taking any Exception, though it calls it with its own kind only.
    app.add_exception_handler(ThreadkeepError, _on_error)  # type: ignore[arg-type]
    app.add_exception_handler(HTTPException, _on_http_exception)  # type: ignore[arg-type]


def status_of(error: type[ThreadkeepError]) -> int:
    """Return the status of an error class, from STATUS or the nearest class above in it."""
    return next((STATUS[kind] for kind in error.__mro__ if kind in STATUS), 500)


def problem_of(error: ThreadkeepError, request_id: str) -> Response:
    """Render one of our errors."""
    status = status_of(type(error))
    members = dict(error.extensions)
    if isinstance(error, InvalidPayload):
        members["errors"] = error.flaws
    problem = _Problem(error.slug, error.title, status, error.detail or error.title)
    return problem.render(request_id, members, HEADERS.get(status))


def internal_problem(request_id: str) -> Response:
    """Render what nobody foresaw, without a word about it."""
    return _Problem("internal-error", "Internal error", 500, "Internal error").render(request_id)


def request_id_of(request: Request) -> str:
    """Return the id that the middleware gave the request."""
    return str(getattr(request.state, "request_id", ""))


@dataclass(frozen=True, slots=True)
class _Problem:
    slug: str
    title: str
    status: int
    detail: str

    def render(
        self,
        request_id: str,
        members: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Write the document; what every problem has wins over members of the same name."""
        document = {
            **(members or {}),
            "type": f"urn:threadkeep:problem:{self.slug}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "instance": request_id,
        }
        return Response(_encode(document), self.status, headers, MEDIA_TYPE)


async def _on_error(request: Request, error: ThreadkeepError) -> Response:
    return problem_of(error, request_id_of(request))


async def _on_http_exception(request: Request, error: HTTPException) -> Response:
    phrase = HTTPStatus(error.status_code).phrase
    slug = phrase.lower().replace(" ", "-")
    detail = _DETAILS.get(error.status_code, phrase)
    problem = _Problem(slug, phrase, error.status_code, detail)
    return problem.render(request_id_of(request), headers=error.headers)


def _encode(document: Mapping[str, object]) -> bytes:
    """Encode as valid UTF-8 JSON whatever the members hold: an error's error helps nobody."""
    try:
        return orjson.dumps(document)
    except TypeError:
        return json.dumps(document, ensure_ascii=False, default=str).encode("utf-8", "replace")
