"""A pooler in transaction mode, as PgBouncer is: a client has a connection for one transaction.

Nothing is reset in between, so whatever a client leaves in a session meets the next one.
"""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

_READY, _TERMINATE = b"Z", b"X"
_WELCOME = b"R" + struct.pack("!ii", 8, 0)
_IDLE = b"Z" + struct.pack("!ic", 5, b"I")


@dataclass(slots=True)
class _Backend:
    """One connection to the server; settings: what it told of itself at the start."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    settings: bytes


@asynccontextmanager
async def pooler(database_url: str, *, backends: int) -> AsyncIterator[str]:
    """Open a pooler before the database's server, and give the URL to go through it."""
    folder = parse_qs(urlsplit(database_url).query)["host"][0]
    opened = [await _connect(f"{folder}/.s.PGSQL.5432") for _ in range(backends)]
    free: asyncio.Queue[_Backend] = asyncio.Queue()
    for backend in opened:
        free.put_nowait(backend)
    clients: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        clients.add(task)
        try:
            await _read_startup(reader)
            writer.write(_WELCOME + opened[0].settings + _IDLE)
            await _serve_transactions(reader, writer, free)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        finally:
            writer.close()
            clients.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
    finally:
        server.close()
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)
        for backend in opened:
            backend.writer.close()


async def _serve_transactions(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, free: asyncio.Queue[_Backend]
) -> None:
    """Lend the client a connection from its first message to the end of its transaction."""
    reading = asyncio.create_task(_read_message(reader))
    while (message := await reading)[:1] != _TERMINATE:
        backend = await free.get()
        over = asyncio.create_task(_relay_until_idle(backend, writer))
        while not over.done():
            backend.writer.write(message)
            reading = asyncio.create_task(_read_message(reader))
            await asyncio.wait({over, reading}, return_when=asyncio.FIRST_COMPLETED)
            message = b"" if over.done() else reading.result()
        free.put_nowait(backend)


async def _relay_until_idle(backend: _Backend, writer: asyncio.StreamWriter) -> None:
    while True:
        message = await _read_message(backend.reader)
        writer.write(message)
        if message[:1] == _READY and message[-1:] == b"I":
            return


async def _connect(socket: str) -> _Backend:
    reader, writer = await asyncio.open_unix_connection(socket)
    words = b"user\0postgres\0database\0postgres\0\0"
    writer.write(struct.pack("!ii", 8 + len(words), 196608) + words)
    settings = b""
    while (message := await _read_message(reader))[:1] != _READY:
        settings += message if message[:1] == b"S" else b""
    return _Backend(reader, writer, settings)


async def _read_startup(reader: asyncio.StreamReader) -> None:
    (size,) = struct.unpack("!i", await reader.readexactly(4))
    await reader.readexactly(size - 4)


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(5)
    (size,) = struct.unpack("!i", head[1:])
    return head + await reader.readexactly(size - 4)
