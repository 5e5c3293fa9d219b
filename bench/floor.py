"""The floor: the least that any service over HTTP and PostgreSQL could do, in the same server.

An ASGI application without a framework. `GET /load/<thread>` runs one query over asyncpg and
returns the rows' bytes; `POST /save/<thread>` inserts the body as one row. No check, no count, no
summary, no idempotence. Run by `uvicorn bench.floor:app` with DATABASE_URL set.
"""

import os
from collections.abc import Awaitable, Callable, MutableMapping
from datetime import UTC, datetime
from itertools import count
from typing import Any

import asyncpg

from app.adapters.sql.engine import driver_dsn

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LOAD = """
SELECT checkpoint FROM threadkeep.checkpoints
 WHERE tenant_id = 'default' AND thread_id = $1 AND ns = '~turns'
 ORDER BY checkpoint_id DESC LIMIT 30"""
SAVE = """
INSERT INTO threadkeep.checkpoints (tenant_id, thread_id, ns, checkpoint_id, step, tokens, created_at, checkpoint)
VALUES ('floor', $1, '~turns', $2, 0, 0, $3, $4)"""  # noqa: E501

_numbers = count()
_started = datetime.now(UTC).isoformat()


async def _codec(connection: asyncpg.Connection) -> None:
    await connection.set_type_codec(
        "json", schema="pg_catalog", format="binary", encoder=bytes, decoder=bytes
    )


class Floor:
    """The application. The pool is the driver's own, with as many connections as the service's."""

    def __init__(self) -> None:
        self.pool: asyncpg.Pool | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or open and close the pool."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        _, verb, thread_id = scope["path"].split("/", 2)
        body = await (self._load(thread_id) if verb == "load" else self._save(thread_id, receive))
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _load(self, thread_id: str) -> bytes:
        assert self.pool is not None
        rows = await self.pool.fetch(LOAD, thread_id)
        return b"[" + b",".join(row["checkpoint"] for row in reversed(rows)) + b"]"

    async def _save(self, thread_id: str, receive: Receive) -> bytes:
        assert self.pool is not None
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        checkpoint_id = f"{_started}-{next(_numbers)}"
        await self.pool.execute(SAVE, thread_id, checkpoint_id, datetime.now(UTC), body)
        return b'{"created":true}'

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                dsn = driver_dsn(os.environ["DATABASE_URL"])
                self.pool = await asyncpg.create_pool(dsn, min_size=1, max_size=10, init=_codec)
                await send({"type": "lifespan.startup.complete"})
            else:
                if self.pool is not None:
                    await self.pool.close()
                await send({"type": "lifespan.shutdown.complete"})
                return


app = Floor()
