"""A line to a server that behaves as it is told to: it passes, refuses, hangs, or loses answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Literal, TypeAlias
from urllib.parse import parse_qs, urlsplit, urlunsplit

Mode = Literal["pass", "refuse", "hang", "cut"]
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Line:
    """A TCP proxy on a loopback port that stays the same.

    pass:   everything goes through.
    refuse: nobody listens, and the connections that stood are gone.
    hang:   connections are accepted, and nothing goes through until another mode is told.
    cut:    what is asked goes through; the connection breaks when the answer comes.
    accepted: connections since the mode was told.
    """

    def __init__(self, connect: Callable[[], Awaitable[Streams]]) -> None:
        self.port = 0
        self.accepted = 0
        self._connect = connect
        self._mode: Mode = "pass"
        self._flows = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def tell(self, mode: Mode) -> None:
        """Behave so from now on."""
        self._mode, self.accepted = mode, 0
        if mode == "hang":
            self._flows.clear()
        else:
            self._flows.set()
        if mode == "refuse":
            await self.close()
        elif self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.create_task(self._join(reader, writer))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._flows.wait()
            up_reader, up_writer = await self._connect()
            try:
                await self._pump_both((reader, up_writer), (up_reader, writer))
            finally:
                up_writer.transport.abort()
        except ConnectionError:
            return
        finally:
            writer.transport.abort()

    async def _pump_both(self, asked: Streams, answered: Streams) -> None:
        pumps = [
            asyncio.create_task(self._pump(*asked, loses=False)),
            asyncio.create_task(self._pump(*answered, loses=True)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, loses: bool
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                await self._flows.wait()
                if loses and self._mode == "cut":
                    return
                sink.write(data)
                await sink.drain()


@asynccontextmanager
async def postgres_line(database_url: str) -> AsyncIterator[tuple[Line, str]]:
    """Open a line to PostgreSQL, which listens on a socket; give the URL that goes through it."""
    folder = parse_qs(urlsplit(database_url).query)["host"][0]
    line = Line(lambda: asyncio.open_unix_connection(f"{folder}/.s.PGSQL.5432"))
    await line.tell("pass")
    try:
        yield line, f"postgresql://postgres@127.0.0.1:{line.port}/postgres?sslmode=disable"
    finally:
        await line.close()


@asynccontextmanager
async def redis_line(redis_url: str) -> AsyncIterator[tuple[Line, str]]:
    """Open a line to Redis; give the URL that goes through it."""
    target = urlsplit(redis_url)
    line = Line(lambda: asyncio.open_connection(target.hostname, target.port))
    await line.tell("pass")
    try:
        user = target.netloc.rpartition("@")[0]
        host = f"{user}@127.0.0.1:{line.port}" if user else f"127.0.0.1:{line.port}"
        yield line, urlunsplit(target._replace(netloc=host))
    finally:
        await line.close()
