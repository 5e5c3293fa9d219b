"""One thread and all that its summaries are built with: stores, cache, a provider on loopback."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from hashlib import sha256

from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.extractive_summarizer import ExtractiveSummarizer
from app.adapters.http_summarizer import HttpSummarizer
from app.adapters.redis_cache import RedisSummaryCache
from app.adapters.sql.engine import Database
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.summaries import SqlSummaryStore
from app.adapters.sql.threads import SqlThreadIndex
from app.adapters.token_counter import EncodingTokenCounter
from app.core.large import prepare
from app.core.markup import strip_message
from app.core.model import Appended, Body, NewTurn, Policy, Registry, Summary, ThreadKey
from app.core.tokens import message_tokens
from app.services.summary import Builder
from tests.model_server import ModelServer, model_server
from tests.servers import SCHEMA

# Tokens that leave the grid of messages alone in charge.
POLICY = Policy(window=60, stride=20, token_budget=1_000_000, summary_tokens=500)


@dataclass(slots=True)
class Thread:
    """One thread, the stores it lives in, and the provider behind its summaries."""

    key: ThreadKey
    database: Database
    builder: Builder
    model: ModelServer

    async def save(self, *bodies: Body) -> Appended:
        """Save one turn at the end."""
        identity = sha256(repr((self.key, await self.total(), bodies)).encode()).digest()

        def cost(body: Mapping[str, object]) -> int:
            return message_tokens(body, self.builder.count)

        messages = tuple(
            prepare(body, identity, index, cost=cost, cleaned=strip_message(body))
            for index, body in enumerate(bodies)
        )
        turn = NewTurn(
            identity=identity,
            digest=identity,
            expected=None,
            parent_known=False,
            on_conflict="append",
            messages=messages,
            rules="test",
            metadata={},
            staged_under=None,
            key=None,
        )
        return await self.builder.history.append(self.key, turn)

    async def grow(self, last: int) -> None:
        """Save `msg NNN` turn by turn, user and assistant alternating, up to message `last`."""
        for number in range(await self.total() + 1, last, 2):
            await self.save(message(number), message(number + 1))

    async def registry(self) -> Registry | None:
        return await SqlThreadIndex(self.database).get(self.key)

    async def total(self) -> int:
        registry = await self.registry()
        return registry.position if registry else 0

    async def positions(self) -> list[int]:
        """Where the registry's pointers stand, in order."""
        registry = await self.registry()
        return sorted(pointer.position for pointer in registry.summaries) if registry else []

    async def newest(self) -> Summary:
        """The durable summary that reaches furthest."""
        registry = await self.registry()
        assert registry
        pointer = max(registry.summaries, key=lambda pointer: pointer.position)
        store = SqlSummaryStore(self.database)
        summary = await store.read(self.key, pointer, epoch=registry.summary_epoch)
        assert summary
        assert summary.boundary == pointer
        return summary

    def told(self) -> list[list[int]]:
        """The numbers of the messages that each call of the model was given."""
        return [
            [int(line["text"].split()[1]) for line in lines(prompt) if "role" in line]
            for prompt in self.model.prompts
        ]

    async def arrived(self) -> None:
        """Wait until one more call has come in at the provider."""
        assert await asyncio.to_thread(self.model.arrived.acquire, timeout=10)


def message(number: int) -> Body:
    return {"role": "user" if number % 2 else "assistant", "content": f"msg {number:03}"}


def lines(prompt: str) -> Iterator[dict[str, str]]:
    """The JSON lines of a prompt."""
    for line in prompt.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def first_line(prompt: str) -> dict[str, str]:
    return next(lines(prompt))


@asynccontextmanager
async def open_thread(engine: AsyncEngine, redis_url: str, key: ThreadKey) -> AsyncIterator[Thread]:
    """Open everything around a thread that nobody has written to yet."""
    count = await EncodingTokenCounter().counter("o200k_base")
    database, cache = Database(engine, SCHEMA), RedisSummaryCache(redis_url, timeout_seconds=5)
    with model_server() as model:
        summarizer = HttpSummarizer(model.url, "small-1", count=count, timeout_seconds=10)
        builder = Builder(
            history=SqlHistoryStore(database),
            summaries=SqlSummaryStore(database),
            cache=cache,
            model=summarizer,
            fallback=ExtractiveSummarizer(count=count),
            clean=strip_message,
            count=count,
            policy=POLICY,
        )
        yield Thread(key, database, builder, model)
        await summarizer.close()
    await cache.close()
