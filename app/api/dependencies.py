"""What the routes work with: the resources that main.py builds once, and who calls.

Routes take the request and hand back bytes: FastAPI's parameter solving and response models would
cost as much as the query of a load. What it is used for is the documented contract.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TypeVar

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

from app.api.auth import ApiKey, Principal, authenticate, require_scope
from app.api.body import parse_object, read_body, require_json
from app.core.branches import BranchStore, Erasure
from app.core.graphs import GraphStore
from app.core.model import ThreadKey
from app.core.ports import Health, ThreadIndex
from app.core.staging import StagingStore
from app.services.ports import HistoryPorts, run_aside
from app.services.summary_report import SummaryReport

_T = TypeVar("_T")
Endpoint = Callable[[Request], Coroutine[object, object, Response]]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may ask for. max_body_bytes: of the body as sent.

    max_checkpoint_bytes: of a body on the checkpoint routes, whose blobs hold whole graph states.
    """

    max_body_bytes: int = 1024 * 1024
    max_checkpoint_bytes: int = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Resources:
    """Everything a request may need, built in the lifespan and the same for every request.

    build_summary: makes the summaries that are due now; raises ThreadNotFound.
    schema: whether the database is migrated. cache: None where none is configured.
    api_keys: empty when every call is an admin of the default tenant.
    """

    history: HistoryPorts
    index: ThreadIndex
    staging: StagingStore
    branches: BranchStore
    erasure: Erasure
    graphs: GraphStore
    build_summary: Callable[[ThreadKey], Awaitable[SummaryReport]]
    database: Health
    schema: Health
    cache: Health | None = None
    limits: Limits = Limits()
    api_keys: tuple[ApiKey, ...] = ()
    require_owner: bool = False


class DirectRoute(APIRoute):
    """Gives the request to the endpoint as it is; refuses `Depends`, which would not run."""

    def get_route_handler(self) -> Endpoint:
        """Return the endpoint itself."""
        if self.dependant.dependencies or self.dependencies:
            raise TypeError(f"{self.path}: dependencies do not run on a DirectRoute")
        endpoint: Endpoint = self.endpoint
        return endpoint


def api_router(tag: str, *, prefix: str = "") -> APIRouter:
    """Return a router of direct routes; an operation's id is its function's name."""
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        route_class=DirectRoute,
        generate_unique_id_function=lambda route: route.name,
    )


def resources_of(request: Request) -> Resources:
    """Return the resources of the running application."""
    resources: Resources = request.app.state.resources
    return resources


def authorize(request: Request, scope: str) -> Principal:
    """Return who calls, if they may.

    Errors: Unauthenticated, MissingScope, OwnerRequired, InvalidPayload.
    """
    resources = resources_of(request)
    principal = authenticate(
        request.headers, resources.api_keys, require_owner=resources.require_owner
    )
    require_scope(principal, scope)
    return principal


async def read_request(
    request: Request,
    parse: Callable[[dict[str, object]], _T],
    *,
    max_bytes: int | None = None,
) -> _T:
    """Read the request's JSON object and make of it what the route works with.

    max_bytes: of the body, where the route has a limit of its own.
    A megabyte of tiny messages takes a tenth of a second to check: others are served meanwhile.
    Errors: PayloadTooLarge, UnsupportedMediaType, InvalidPayload.
    """
    require_json(request)
    limit = max_bytes or resources_of(request).limits.max_body_bytes
    body = await read_body(request, max_bytes=limit)
    return await run_aside(len(body), lambda: parse(parse_object(body)))


def answer(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Render an answer as JSON. Times come out in RFC 3339."""
    return Response(
        orjson.dumps(content, option=orjson.OPT_UTC_Z), status, headers, "application/json"
    )
