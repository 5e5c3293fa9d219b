"""A line to the cache that fails when it is told to."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit, urlunsplit


@dataclass(slots=True)
class Line:
    """The line and its state.

    fault: None, `refuse` (hangs up at once) or `hang` (takes what comes and never answers).
    """

    url: str = ""
    fault: str | None = None
    open: set[asyncio.StreamWriter] = field(default_factory=set)

    def break_down(self, fault: str) -> None:
        """Put the line out of order; who is connected is cut off."""
        self.fault = fault
        for writer in self.open:
            writer.close()


@asynccontextmanager
async def line_to(redis_url: str) -> AsyncIterator[Line]:
    """Open a line to the cache; who connects to its URL is passed on."""
    parts = urlsplit(redis_url)
    line = Line()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line.open.add(writer)
        try:
            if line.fault == "hang":
                await reader.read()
            if line.fault is None:
                up_reader, up_writer = await asyncio.open_connection(parts.hostname, parts.port)
                await asyncio.gather(copy(reader, up_writer), copy(up_reader, writer))
        except ConnectionError:
            pass
        finally:
            line.open.discard(writer)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    line.url = urlunsplit(parts._replace(netloc=f"127.0.0.1:{port}"))
    try:
        yield line
    finally:
        line.break_down("refuse")
        server.close()
