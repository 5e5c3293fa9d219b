"""For operators and load balancers: no key is asked for, and nothing of a thread is told."""

from typing import Final

from fastapi import Request, Response

from app.api.answers import HealthOut, ReadyOut
from app.api.dependencies import answer, api_router, resources_of

UNAVAILABLE: Final = 503

router = api_router("operations")


@router.get("/healthz", responses={200: {"model": HealthOut}})
async def get_health(_: Request) -> Response:
    """Tell that the process answers."""
    return answer({"status": "ok"})


@router.get(
    "/readyz",
    responses={
        200: {"model": ReadyOut},
        UNAVAILABLE: {"model": ReadyOut, "description": "Not yet."},
    },
)
async def get_readiness(request: Request) -> Response:
    """Tell whether the database is there and migrated; the cache is reported, not required."""
    resources = resources_of(request)
    migrated = await resources.schema.check()
    told = {
        "status": "ready" if migrated else "unavailable",
        "database": migrated or await resources.database.check(),
        "migrated": migrated,
        "cache": None if resources.cache is None else await resources.cache.check(),
    }
    return answer(told, status=200 if migrated else UNAVAILABLE)
