"""The service as a process, and clients of it; every test has a tenant of its own."""

import hashlib
import secrets
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.service import Service, running_service
from threadkeep_client import AsyncThreadkeep, Threadkeep

# Keys are fixed when the service starts; one a test, and more than there will be tests.
KEYS = 500


@pytest.fixture(scope="session")
def api_keys() -> list[str]:
    """The keys of the run's service, each of a tenant of its own; tests take theirs off."""
    return [secrets.token_hex(16) for _ in range(KEYS)]


@pytest.fixture(scope="session")
def service_environment(database_url: str, redis_url: str, api_keys: list[str]) -> dict[str, str]:
    """What the service is started with; for tests that start one of their own too."""
    entries = (
        f"t{number}:{hashlib.sha256(key.encode()).hexdigest()}:read+write"
        for number, key in enumerate(api_keys)
    )
    return {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "THREADKEEP_MIGRATE": "false",
        "THREADKEEP_API_KEYS": ",".join(entries),
    }


@pytest.fixture(scope="session")
def service(
    service_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One running service for the whole run."""
    with running_service(service_environment, tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def api_key(api_keys: list[str]) -> str:
    """A key of a tenant that no other test has."""
    return api_keys.pop()


@pytest.fixture
async def memory(service: Service, api_key: str) -> AsyncIterator[AsyncThreadkeep]:
    """A client of a fresh tenant."""
    async with AsyncThreadkeep(service.url, api_key=api_key) as memory:
        yield memory


@pytest.fixture
def sync_memory(service: Service, api_key: str) -> Iterator[Threadkeep]:
    """A client of the same fresh tenant, without asyncio."""
    with Threadkeep(service.url, api_key=api_key) as memory:
        yield memory
