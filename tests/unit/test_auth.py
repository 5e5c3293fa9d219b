"""Who calls: keys, scopes, owners."""

import hashlib

import pytest
from starlette.datastructures import Headers

from app.api.auth import SCOPES, ApiKey, Principal, authenticate, require_scope
from app.core.errors import InvalidPayload, MissingScope, OwnerRequired, Unauthenticated

READ_WRITE = frozenset({"read", "write"})


def api_key(secret: str, tenant_id: str = "acme", scopes: frozenset[str] = READ_WRITE) -> ApiKey:
    return ApiKey(tenant_id, hashlib.sha256(secret.encode()).digest(), scopes)


def headers(secret: str | None = None, owner: str | None = None) -> Headers:
    sent = {"Authorization": f"Bearer {secret}"} if secret is not None else {}
    return Headers(sent | ({"Threadkeep-Owner": owner} if owner is not None else {}))


def test_key_decides_the_tenant() -> None:
    """The tenant and the scopes are those of the key, wherever it stands in the list."""
    keys = (api_key("one", "a"), api_key("two", "b", frozenset({"read"})), api_key("three", "c"))

    assert Principal("b", frozenset({"read"})) == authenticate(headers("two"), keys)


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer ", "Basic b25l", "one", "Bearer One", "Bearer one one"]
)
def test_anything_but_the_key_is_refused(authorization: str) -> None:
    """Without a known bearer key nobody is let in."""
    with pytest.raises(Unauthenticated):
        authenticate(Headers({"Authorization": authorization}), (api_key("one"),))


@pytest.mark.parametrize("authorization", ["Bearer one", "bearer one", "BEARER  one "])
def test_scheme_in_any_case(authorization: str) -> None:
    """The scheme's name has no case (RFC 9110), and white space around the key means nothing."""
    assert (
        authenticate(Headers({"Authorization": authorization}), (api_key("one"),)).tenant_id
        == "acme"
    )


def test_without_keys_everyone_is_admin() -> None:
    """Without configured keys every call is an admin of the default tenant, key sent or not."""
    assert Principal("default", SCOPES) == authenticate(headers("whatever"), ())


@pytest.mark.parametrize(
    ("scopes", "owner", "seen"),
    [
        (READ_WRITE, None, ""),
        (READ_WRITE, "ann", "ann"),
        (frozenset({"admin"}), None, None),
        (frozenset({"admin"}), "ann", "ann"),
    ],
)
def test_owner_narrows(scopes: frozenset[str], owner: str | None, seen: str | None) -> None:
    """A named owner narrows every call; without one only an admin sees all threads."""
    principal = authenticate(headers("k", owner), (api_key("k", scopes=scopes),))

    assert seen == principal.key_of("t1").owner_id


@pytest.mark.parametrize("owner", ["", " ", "\t", "é", "a\x7fb", "x" * 256])
def test_bad_owner(owner: str) -> None:
    """An owner that is no printable ASCII text is refused, not taken for no owner."""
    with pytest.raises(InvalidPayload):
        authenticate(headers(owner=owner), ())


def test_two_owners() -> None:
    """Two owner headers that differ are refused: which one a proxy checked cannot be known."""
    twice = Headers(raw=[(b"threadkeep-owner", b"ann"), (b"threadkeep-owner", b"bob")])

    with pytest.raises(InvalidPayload):
        authenticate(twice, ())


def test_owner_required() -> None:
    """A deployment that wants owners refuses every call without one, an admin's too."""
    with pytest.raises(OwnerRequired):
        authenticate(headers(), (), require_owner=True)
    assert authenticate(headers(owner="ann"), (), require_owner=True).owner_id == "ann"


def test_scopes() -> None:
    """A call needs its scope, which the refusal names; admin has every scope."""
    require_scope(Principal("t", frozenset({"admin"})), "write")
    with pytest.raises(MissingScope, match="write") as caught:
        require_scope(Principal("t", frozenset({"read"})), "write")

    assert caught.value.extensions == {"scope": "write"}
