"""What happens around every request: its id, a line in the access log, the last word on errors.

Nothing logged here can hold what a caller wrote: the route is its template, there is no query
string and no body, and of an unexpected error only its type and where it came from (the text of a
driver's error quotes parameters).
"""

import logging
import re
import time
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app import telemetry
from app.api.problems import internal_problem

ID_HEADER = "X-Request-Id"
CLIENT_GONE = 499
"""Logged when the caller hung up before its request was read; nobody sees it as an answer."""

_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
_access = logging.getLogger("threadkeep.access")
_errors = logging.getLogger("threadkeep.errors")


class RequestFrame:
    """ASGI middleware, the outermost of ours."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, with a problem document whatever goes wrong inside."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        answer = _Answer(send, _request_id(scope))
        scope.setdefault("state", {})["request_id"] = answer.request_id
        token = telemetry.request_id.set(answer.request_id)
        try:
            await self.app(scope, receive, answer.send)
        except ClientDisconnect:
            answer.status = CLIENT_GONE
        except Exception as error:  # noqa: BLE001 - the last word; logged without the error's text
            _errors.error("unexpected error: %s", telemetry.describe_error(error))
            await answer.fail(scope, receive)
        finally:
            _log(scope, answer.status, time.perf_counter() - began)
            telemetry.request_id.reset(token)


class _Answer:
    """Sends the answer with the request's id on it, and remembers its status."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self.request_id = request_id
        self.status = 500
        self._started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            self.status = message["status"]
            MutableHeaders(scope=message)[ID_HEADER] = self.request_id
        await self._send(message)

    async def fail(self, scope: Scope, receive: Receive) -> None:
        """Answer with a 500, unless another answer has begun; that one stays cut off."""
        if not self._started:
            await internal_problem(self.request_id)(scope, receive, self.send)


def _request_id(scope: Scope) -> str:
    sent = Headers(scope=scope).get(ID_HEADER, "")
    return sent if _SANE_ID.fullmatch(sent) else uuid4().hex


def _log(scope: Scope, status: int, seconds: float) -> None:
    route = scope.get("route")
    _access.info(
        "request",
        extra={
            "method": scope["method"],
            "route": getattr(route, "path_format", "unmatched"),
            "status": status,
            "milliseconds": round(seconds * 1000, 2),
        },
    )
