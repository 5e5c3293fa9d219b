"""Requests and answers as bytes, the same for both clients. No I/O here."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict
from urllib.parse import quote

import httpx

from threadkeep_client.errors import BadAnswer, problem_of
from threadkeep_client.retry import retry_after_of

OWNER_HEADER = "Threadkeep-Owner"


def segment(text: str) -> str:
    """Percent-encode a text as one segment of a path.

    A segment of dots alone means another path to everything on the way, unless it is encoded.
    """
    if text in {".", ".."}:
        return text.replace(".", "%2E")
    return quote(text, safe="")


class Sent(TypedDict):
    """A request as httpx takes it, but for its method and timeout."""

    url: str
    params: Mapping[str, Any] | None
    headers: dict[str, str]
    content: bytes | None


@dataclass(frozen=True, slots=True)
class Service:
    """Where the service is, and who calls it. Errors: ValueError for what no header can carry."""

    base_url: str
    api_key: str | None = field(repr=False)
    owner: str | None

    def __post_init__(self) -> None:
        for name, value in self.headers().items():
            if not (value.isascii() and value.isprintable()):
                raise ValueError(f"{name} takes printable ASCII characters only")

    def headers(self) -> dict[str, str]:
        """Return the headers of every request."""
        headers = {"Accept": "application/json"}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        if self.owner is not None:
            headers[OWNER_HEADER] = self.owner
        return headers

    def request(
        self,
        path: str,
        json: object,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> Sent:
        """Return what all tries of a request send. Errors: ValueError, TypeError of encode_body."""
        sent: Sent = {
            "url": self.base_url.rstrip("/") + path,
            "params": params,
            "headers": {**self.headers(), **(headers or {})},
            "content": None,
        }
        if json is not None:
            sent["content"] = encode_body(json)
            sent["headers"]["Content-Type"] = "application/json"
        return sent


def encode_body(body: object) -> bytes:
    """Encode a request's body. Errors: ValueError, TypeError for what is not JSON."""
    text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Its own error would carry the whole text.
        raise ValueError("a text with half a surrogate pair is not UTF-8") from None


def read_answer(response: httpx.Response) -> Any:
    """Return the parsed answer, None for 204. Errors: Problem, BadAnswer."""
    if response.is_success:
        return _success(response)
    raise problem_of(_document(response), response.status_code, retry_after_of(response))


def _success(response: httpx.Response) -> object:
    if response.status_code == httpx.codes.NO_CONTENT:
        return None
    try:
        return response.json()
    except ValueError:
        raise BadAnswer(f"an answer of status {response.status_code} that is not JSON") from None


def _document(response: httpx.Response) -> Mapping[str, object]:
    """Return the problem document; an empty one for the page of a proxy on the way."""
    try:
        document = response.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
