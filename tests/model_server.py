"""A real HTTP server that stands in for a model's provider, and behaves as it is told to."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

Mode = Literal[
    "answer",
    "hang",
    "error",
    "rate-limit",
    "redirect",
    "empty",
    "blank",
    "null",
    "refusal",
    "length",
    "content_filter",
    "cut-body",
    "cut-json",
    "html",
    "no-choices",
    "newer-limit",
]


@dataclass(slots=True)
class ModelServer:
    """What the server does, and what it was asked.

    answer: makes the text from the prompt's last message and the number of the call, from 1.
    release: set it to let hanging calls go. arrived: one release for each call that has come in.
    """

    url: str = ""
    mode: Mode = "answer"
    answer: Callable[[str, int], str] = lambda _, number: f"Summary number {number}."
    bodies: list[Mapping[str, object]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    @property
    def prompts(self) -> list[str]:
        """The last message of each call."""
        return [_last_message(body) for body in self.bodies]


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Serve on a free loopback port for as long as the block lasts."""
    state = ModelServer()

    class Handler(_Handler):
        model = state

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        state.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            state.release.set()
            server.shutdown()
            thread.join()


def _last_message(body: Mapping[str, object]) -> str:
    messages = body["messages"]
    assert isinstance(messages, list)
    return str(messages[-1]["content"])


class _Handler(BaseHTTPRequestHandler):
    model: ModelServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.model.bodies.append(body)
        self.model.headers.append(dict(self.headers))
        number, mode = len(self.model.bodies), self.model.mode
        self.model.arrived.release()
        if self.path != "/v1/chat/completions":
            self._send(404, b"{}")
        elif mode == "hang":
            self.model.release.wait()
            self._complete(self.model.answer(_last_message(body), number))
        elif mode == "answer":
            self._complete(self.model.answer(_last_message(body), number))
        else:
            self._misbehave(mode, body)

    def _misbehave(self, mode: str, body: Mapping[str, object]) -> None:
        texts = {"empty": "", "blank": " \n\t ", "null": None}
        errors = {"error": 500, "rate-limit": 429, "redirect": 302}
        raw = {"html": b"<html>ok</html>", "no-choices": b'{"choices": []}', "cut-json": b'{"cho'}
        if mode in texts:
            self._complete(texts[mode])
        elif mode in errors:
            self._send(errors[mode], b'{"error": {"message": "SECRET-ECHO"}}')
        elif mode in raw:
            self._send(200, raw[mode])
        elif mode in {"length", "content_filter"}:
            self._complete("Twenty words and then", reason=mode)
        elif mode == "refusal":
            self._complete(None, refusal="I cannot.")
        elif mode == "cut-body":
            self._send(200, _completion("whole"), missing=20)
        elif "max_tokens" in body:
            self._send(400, b'{"error": {"message": "use another", "param": "max_tokens"}}')
        else:
            self._complete("By the newer limit.")

    def _complete(
        self, text: str | None, *, reason: str = "stop", refusal: str | None = None
    ) -> None:
        self._send(200, _completion(text, reason=reason, refusal=refusal))

    def _send(self, status: int, content: bytes, *, missing: int = 0) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
        self.end_headers()
        self.wfile.write(content[: len(content) - missing])
        self.close_connection = True

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            return  # the client did not wait

    def log_message(self, *_: object) -> None:
        return


def _completion(text: str | None, *, reason: str = "stop", refusal: str | None = None) -> bytes:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    return json.dumps({"choices": [{"message": message, "finish_reason": reason}]}).encode()
