"""Who may do what, over HTTP."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.integration.callers import bearer, key_entry, path_of, turn
from tests.integration.conftest import MakeClient

pytestmark = pytest.mark.anyio

READS = [
    ("POST", "/v1/context", {"thread_id": "t1"}, 200),
    ("GET", path_of("t1", "/context"), None, 200),
    ("GET", "/v1/threads", None, 200),
    ("GET", path_of("t1"), None, 404),
    ("GET", path_of("t1", "/messages"), None, 404),
]
WRITES = [
    ("POST", path_of("t1", "/turns"), turn("hello"), 201),
    ("POST", path_of("t1", "/summary"), None, 404),
]
ALL = [*READS, *WRITES]


@pytest.fixture
async def guarded(make_client: MakeClient, tenant: str) -> AsyncIterator[httpx.AsyncClient]:
    """The service with one key for each scope."""
    scopes = {
        "reader": "read",
        "writer": "write",
        "admin": "admin",
        "both": "",
        "three": "read+admin",
    }
    entries = [key_entry(tenant, secret, scope) for secret, scope in scopes.items()]
    async with make_client(api_keys=",".join(entries)) as client:
        yield client


@pytest.mark.parametrize("headers", [{}, bearer("wrong"), {"Authorization": "Basic d3Jvbmc6"}])
@pytest.mark.parametrize(("method", "path", "body", "_"), ALL)
async def test_no_key_no_answer(
    guarded: httpx.AsyncClient,
    method: str,
    path: str,
    body: object,
    _: int,
    headers: dict[str, str],
) -> None:
    """Where keys are configured no route answers without one, and each says how to send it."""
    response = await guarded.request(method, path, json=body, headers=headers)

    assert (response.status_code, response.json()["type"]) == (
        401,
        "urn:threadkeep:problem:unauthenticated",
    )
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("routes", "allowed", "scope"),
    [
        (READS, ("reader", "both", "admin", "three"), "read"),
        (WRITES, ("writer", "both", "admin", "three"), "write"),
    ],
)
async def test_scopes(
    guarded: httpx.AsyncClient,
    routes: list[tuple[str, str, object, int]],
    allowed: tuple[str, ...],
    scope: str,
) -> None:
    """Reading needs `read`, writing `write`; admin has both; a refusal names what is missing."""
    for secret in ("reader", "writer", "admin", "both", "three"):
        for method, path, body, _ in routes:
            response = await guarded.request(method, path, json=body, headers=bearer(secret))
            if secret in allowed:
                assert response.status_code not in {401, 403}
            else:
                assert (response.status_code, response.json()["scope"]) == (403, scope)


@pytest.mark.parametrize(("method", "path", "body", "status"), ALL)
async def test_right_key(
    guarded: httpx.AsyncClient, method: str, path: str, body: object, status: int
) -> None:
    """A key with the default scopes reads and writes."""
    response = await guarded.request(method, path, json=body, headers=bearer("both"))

    assert response.status_code == status


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/docs", "/openapi.json"])
async def test_operators_need_no_key(guarded: httpx.AsyncClient, path: str) -> None:
    """Health, readiness and the contract are open: they tell nothing of a thread."""
    assert (await guarded.get(path)).status_code == 200


async def test_owner_required(make_client: MakeClient) -> None:
    """A deployment that requires owners refuses every call without one and says why."""
    async with make_client(require_owner=True) as client:
        for method, path, body, _ in ALL:
            response = await client.request(method, path, json=body)
            assert (response.status_code, response.json()["type"]) == (
                400,
                "urn:threadkeep:problem:owner-required",
            )
        named = await client.get("/v1/threads", headers={"Threadkeep-Owner": "ann"})

    assert named.status_code == 200


@pytest.mark.parametrize("owner", ["", " ", "x" * 256, "caf\u00e9"])
async def test_bad_owner(client: httpx.AsyncClient, owner: str) -> None:
    """An owner that cannot be one is refused, never taken for nobody or for everybody."""
    response = await client.get("/v1/threads", headers={b"Threadkeep-Owner": owner.encode()})

    assert response.status_code == 422
