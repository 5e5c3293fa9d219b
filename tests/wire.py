"""A proxy that counts what a client asks PostgreSQL, and can cut the line in the middle."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

_WAITS_FOR_AN_ANSWER = frozenset("SQH")
"""Sync, Query, Flush: after each of them a client waits, so each is a round trip."""


@dataclass
class Wire:
    """What went over the line since the last `clear`, and the URL to go through it."""

    url: str = ""
    messages: list[tuple[str, bytes]] = field(default_factory=list)
    cut_next: bool = False

    @property
    def trips(self) -> int:
        return len([kind for kind, _ in self.messages if kind in _WAITS_FOR_AN_ANSWER])

    @property
    def parsed(self) -> list[str]:
        """The texts of statements sent to be parsed."""
        return [body.split(b"\0")[1].decode() for kind, body in self.messages if kind == "P"]

    def clear(self) -> None:
        self.messages.clear()


@asynccontextmanager
async def counted(database_url: str) -> AsyncIterator[Wire]:
    """Open a line to the database that counts."""
    wire = Wire()
    folder = parse_qs(urlsplit(database_url).query)["host"][0]
    lines: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        lines.add(task)
        up_reader, up_writer = await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.5432")
        down = asyncio.create_task(_copy(up_reader, writer))
        try:
            await _forward(wire, reader, up_writer)
        finally:
            up_writer.close()
            writer.close()
            await down
            lines.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    wire.url = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
    try:
        yield wire
    finally:
        server.close()
        await asyncio.gather(*lines)


async def _forward(wire: Wire, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        size = await reader.readexactly(4)  # the first message has no kind
        writer.write(size + await reader.readexactly(int.from_bytes(size) - 4))
        while True:
            head = await reader.readexactly(5)
            body = await reader.readexactly(int.from_bytes(head[1:]) - 4)
            if wire.cut_next:
                wire.cut_next = False
                return
            wire.messages.append((chr(head[0]), body))
            writer.write(head + body)
    except (asyncio.IncompleteReadError, ConnectionError):
        return


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
    except ConnectionError:
        return
    finally:
        writer.close()
