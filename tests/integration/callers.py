"""Callers of the API: their keys as configured, and the headers they send."""

import hashlib
from collections.abc import Mapping
from urllib.parse import quote

QUESTION = {"role": "user", "content": "How long is the Nile?"}
ANSWER = {"role": "assistant", "content": "About 6,650 km."}


def key_entry(tenant: str, secret: str, scopes: str = "") -> str:
    """One entry of THREADKEEP_API_KEYS."""
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return ":".join([tenant, digest, *([scopes] if scopes else [])])


def bearer(secret: str, owner: str | None = None) -> dict[str, str]:
    """The headers of a call with this key, made for this owner."""
    owned = {"Threadkeep-Owner": owner} if owner is not None else {}
    return {"Authorization": f"Bearer {secret}", **owned}


def path_of(thread_id: str, rest: str = "") -> str:
    """The path of a thread: its id is one escaped segment."""
    return f"/v1/threads/{quote(thread_id, safe='')}{rest}"


def turn(text: str, **members: object) -> Mapping[str, object]:
    """A save of one exchange that says this text, under a key made of it."""
    messages = [{"role": "user", "content": text}, ANSWER]
    return {"key": f"key-{len(text)}-{text[:100]!r}"[:255], "messages": messages, **members}
