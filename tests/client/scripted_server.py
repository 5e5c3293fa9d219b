"""A real HTTP server that answers what it is told to, one answer after another."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Scripted:
    """One answer. missing: bytes of its end that are never sent."""

    status: int = 200
    content: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    missing: int = 0


@dataclass(slots=True)
class ScriptedServer:
    """answers: the last one is given again and again. asked: what came in, a line each."""

    url: str
    answers: Sequence[Scripted]
    asked: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0


@contextmanager
def scripted_server(*answers: Scripted) -> Iterator[ScriptedServer]:
    """Serve on a free loopback port for as long as the block lasts."""

    class Handler(_Handler):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Handler.script = ScriptedServer(f"http://127.0.0.1:{server.server_address[1]}", answers)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Handler.script
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    script: ScriptedServer
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        self.script.connections += 1
        super().setup()

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            return  # the client did not wait

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.script.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self.script.asked.append(f"{self.command} {self.path}")
        number = min(len(self.script.asked), len(self.script.answers)) - 1
        scripted = self.script.answers[number]
        self.send_response(scripted.status)
        for name, value in scripted.headers.items():
            self.send_header(name, value)
        if scripted.status != 204:
            self.send_header("Content-Length", str(len(scripted.content)))
        self.end_headers()
        self.wfile.write(scripted.content[: len(scripted.content) - scripted.missing])
        self.close_connection = scripted.missing > 0

    def log_message(self, *_: object) -> None:
        return
