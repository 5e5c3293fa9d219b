"""Who calls: a bearer key decides the tenant and the scopes, a header the owner."""

import hashlib
import hmac
import re
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers

from app.core.errors import Flaw, InvalidPayload, MissingScope, OwnerRequired, Unauthenticated
from app.core.model import ThreadKey

SCOPES: Final = frozenset({"read", "write", "admin"})
DEFAULT_TENANT: Final = "default"
OWNER_HEADER: Final = "Threadkeep-Owner"

_OWNER = re.compile(r"[\x20-\x7e]{1,255}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One API key as configured. digest: SHA-256 of the key; the key itself is kept nowhere."""

    tenant_id: str
    digest: bytes
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Principal:
    """Who makes a call. owner_id: whom it is made for, None when the call names nobody."""

    tenant_id: str
    scopes: frozenset[str]
    owner_id: str | None = None

    def has_scope(self, scope: str) -> bool:
        """Tell whether the call may do what needs this scope; admin may do everything."""
        return scope in self.scopes or "admin" in self.scopes

    def thread_owner(self) -> str | None:
        """Return whose threads the call sees, as in ThreadKey.

        The named owner's; without a name everyone's (None) for an admin, else nobody's ("").
        """
        if self.owner_id is None:
            return None if "admin" in self.scopes else ""
        return self.owner_id

    def key_of(self, thread_id: str) -> ThreadKey:
        """Return the key of a thread as this call may see it."""
        return ThreadKey(self.tenant_id, thread_id, self.thread_owner())


def authenticate(
    headers: Headers, api_keys: tuple[ApiKey, ...], *, require_owner: bool = False
) -> Principal:
    """Return who makes the call. With no API keys configured it is an admin of the default tenant.

    Errors: Unauthenticated; InvalidPayload for a bad owner header; OwnerRequired.
    """
    key = _find_key(headers, api_keys) if api_keys else ApiKey(DEFAULT_TENANT, b"", SCOPES)
    owner_id = _owner_of(headers)
    if owner_id is None and require_owner:
        raise OwnerRequired(f"Name the owner in the {OWNER_HEADER} header.")
    return Principal(key.tenant_id, key.scopes, owner_id)


def require_scope(principal: Principal, scope: str) -> None:
    """Refuse a call that lacks the scope. Errors: MissingScope, naming it."""
    if not principal.has_scope(scope):
        raise MissingScope(f"This call needs a key with the scope {scope}.", scope=scope)


def _find_key(headers: Headers, api_keys: tuple[ApiKey, ...]) -> ApiKey:
    """Compare with every entry, each in constant time: how long it takes tells nothing."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("Send an API key as Authorization: Bearer <key>.")
    digest = hashlib.sha256(token.strip().encode("latin-1")).digest()
    matching = [key for key in api_keys if hmac.compare_digest(key.digest, digest)]
    if not matching:
        raise Unauthenticated("The API key is not known here.")
    return matching[0]


def _owner_of(headers: Headers) -> str | None:
    """Read the owner; a header that says nothing must not widen the call to more threads."""
    sent = {value.strip(" \t") for value in headers.getlist(OWNER_HEADER)}
    if not sent:
        return None
    owner_id = sent.pop()
    if sent or not _OWNER.fullmatch(owner_id):
        raise InvalidPayload(
            [Flaw(f"#/{OWNER_HEADER}", "must be one header of 1 to 255 printable ASCII characters")]
        )
    return owner_id
