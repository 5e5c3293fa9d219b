"""The application over ASGI, with real servers behind it; as a process where that matters."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import httpx
import pytest

from app.main import create_app
from app.settings import load_settings
from tests.service import Service, running_service

MakeClient: TypeAlias = Callable[..., AbstractAsyncContextManager[httpx.AsyncClient]]
StartService: TypeAlias = Callable[..., AbstractContextManager[Service]]


@pytest.fixture
def make_client(database_url: str, redis_url: str) -> MakeClient:
    """Return a context manager: a client of an application with these settings."""

    @asynccontextmanager
    async def make(**given: object) -> AsyncIterator[httpx.AsyncClient]:
        servers = {"database_url": database_url, "redis_url": redis_url, "migrate": False}
        app = create_app(load_settings(**{**servers, **given}))
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://threadkeep.test") as client,
        ):
            yield client

    return make


@pytest.fixture
async def client(make_client: MakeClient) -> AsyncIterator[httpx.AsyncClient]:
    """A client without API keys: every call is an admin of tenant `default`."""
    async with make_client() as client:
        yield client


@pytest.fixture
def start_service(database_url: str, redis_url: str, tmp_path: Path) -> StartService:
    """Return a context manager: the service as a process with these variables added."""
    servers = {"DATABASE_URL": database_url, "REDIS_URL": redis_url, "THREADKEEP_MIGRATE": "false"}

    def start(**environment: str) -> AbstractContextManager[Service]:
        return running_service({**servers, **environment}, tmp_path)

    return start
