"""The lightest HTTP client that will do: what it costs is not measured as the server's."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import orjson


@dataclass(frozen=True, slots=True)
class Call:
    """A request, as bytes ready to be sent."""

    wire: bytes


def call(method: str, path: str, body: object = None) -> Call:
    """Write a request with a JSON body, or with none."""
    payload = b"" if body is None else orjson.dumps(body)
    head = f"{method} {path} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(payload)}\r\n"
    kind = "Content-Type: application/json\r\n" if payload else ""
    return Call(f"{head}{kind}\r\n".encode() + payload)


class Connection:
    """One keep-alive connection; one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, wanted: Call) -> bytes:
        """Send one request and return the body of its answer.

        Errors: RuntimeError for an answer that is no success: a benchmark of errors says nothing.
        """
        self._writer.write(wanted.wire)
        head = await self._reader.readuntil(b"\r\n\r\n")
        status = int(head[9:12])
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        body = await self._reader.readexactly(int(length or 0))
        if status >= 300:
            raise RuntimeError(f"{status}: {body[:300]!r}")
        return body

    async def timed(self, wanted: Call) -> float:
        """Send one request and return the seconds it took."""
        began = time.perf_counter()
        await self.send(wanted)
        return time.perf_counter() - began

    async def close(self) -> None:
        """Close the connection."""
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def connections(url: str, number: int) -> AsyncIterator[Sequence[Connection]]:
    """Open so many connections to the server of a URL."""
    parts = urlsplit(url)
    opened = [
        Connection(*await asyncio.open_connection(parts.hostname, parts.port, limit=1 << 24))
        for _ in range(number)
    ]
    try:
        yield opened
    finally:
        for connection in opened:
            await connection.close()
