"""Other memories, driven as their users drive them, beside the service and one bare query.

They run in this process, so none of them pays for a hop over HTTP. `load` hands over what a model
is to read, cut to 8,000 tokens; `save` stores a question and its answer. A peer whose package is
not installed is left out, by name: `google-adk` needs an environment of its own, since its
requirements and those of openai-agents exclude each other.
"""

import asyncio
import importlib
import secrets
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from app.adapters.embedded import EmbeddedUrls
from bench.servers import Server
from bench.texts import Message, Writer

TOKENS = 8_000
_ROUNDS = 30
_CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory: how a turn is saved, how a context is loaded. load returns its messages."""

    save: Callable[[str, list[Message]], Awaitable[object]]
    load: Callable[[str], Awaitable[int]]


Open = Callable[[EmbeddedUrls, Server], AbstractAsyncContextManager[Memory]]


@asynccontextmanager
async def threadkeep(_: EmbeddedUrls, server: Server) -> AsyncIterator[Memory]:
    """Open the service, over HTTP, with its defaults but for the budget of all."""
    async with httpx.AsyncClient(base_url=server.url) as http:

        async def save(thread: str, turn: list[Message]) -> object:
            body = {"key": secrets.token_hex(8), "messages": turn}
            return (
                await http.post(f"/v1/threads/{quote(thread)}/turns", json=body)
            ).raise_for_status()

        async def load(thread: str) -> int:
            body = {"thread_id": thread, "token_budget": TOKENS}
            answer = (await http.post("/v1/context", json=body)).raise_for_status()
            return len(answer.json()["messages"])

        yield Memory(save, load)


@asynccontextmanager
async def langgraph(urls: EmbeddedUrls, _: Server) -> AsyncIterator[Memory]:
    """Open a graph compiled with LangGraph's AsyncPostgresSaver; trim_messages on what it holds."""
    saver_module = importlib.import_module("langgraph.checkpoint.postgres.aio")
    graphs = importlib.import_module("langgraph.graph")
    messages = importlib.import_module("langchain_core.messages")
    async with saver_module.AsyncPostgresSaver.from_conn_string(urls.database_url) as saver:
        await saver.setup()
        builder = graphs.StateGraph(graphs.MessagesState)
        builder.add_node("answer", lambda state: {"messages": [_answer(state)]})
        builder.add_edge(graphs.START, "answer")
        graph = builder.compile(checkpointer=saver)

        def _answer(state: Any) -> Any:
            return messages.AIMessage(state["messages"][-1].additional_kwargs["answer"])

        async def save(thread: str, turn: list[Message]) -> object:
            question = messages.HumanMessage(
                turn[0]["content"], additional_kwargs={"answer": turn[1]["content"]}
            )
            return await graph.ainvoke({"messages": [question]}, _thread(thread))

        async def load(thread: str) -> int:
            state = await graph.aget_state(_thread(thread))
            kept = messages.trim_messages(
                state.values["messages"],
                max_tokens=TOKENS,
                token_counter="approximate",  # noqa: S106
            )
            return len(kept)

        yield Memory(save, load)


def _thread(thread_id: str) -> dict[str, object]:
    return {"configurable": {"thread_id": thread_id}}


@asynccontextmanager
async def openai_agents(urls: EmbeddedUrls, _: Server) -> AsyncIterator[Memory]:
    """Open the SQLAlchemySession of the OpenAI Agents SDK: all items, cut from the front."""
    memory = importlib.import_module("agents.extensions.memory")
    engines = importlib.import_module("sqlalchemy.ext.asyncio")
    engine = engines.create_async_engine(_sqlalchemy(urls.database_url))

    def session(thread: str) -> Any:
        return memory.SQLAlchemySession(thread, engine=engine, create_tables=True)

    async def save(thread: str, turn: list[Message]) -> object:
        return await session(thread).add_items(turn)

    async def load(thread: str) -> int:
        return len(_cut([item["content"] for item in await session(thread).get_items()]))

    yield Memory(save, load)
    await engine.dispose()


@asynccontextmanager
async def google_adk(urls: EmbeddedUrls, _: Server) -> AsyncIterator[Memory]:
    """Open the DatabaseSessionService of Google's ADK: all events, cut from the front."""
    sessions = importlib.import_module("google.adk.sessions")
    events = importlib.import_module("google.adk.events")
    types = importlib.import_module("google.genai.types")
    service = sessions.DatabaseSessionService(_sqlalchemy(urls.database_url))
    names = {"app_name": "bench", "user_id": "bench"}

    async def session(thread: str) -> Any:
        found = await service.get_session(**names, session_id=thread)
        return found or await service.create_session(**names, session_id=thread)

    async def save(thread: str, turn: list[Message]) -> None:
        opened = await session(thread)
        for author, message in zip(("user", "agent"), turn, strict=True):
            part = types.Part(text=message["content"])
            content = types.Content(role="user" if author == "user" else "model", parts=[part])
            await service.append_event(opened, events.Event(author=author, content=content))

    async def load(thread: str) -> int:
        opened = await session(thread)
        return len(_cut([event.content.parts[0].text for event in opened.events]))

    yield Memory(save, load)


PEERS: Mapping[str, Open] = {
    "threadkeep": threadkeep,
    "langgraph AsyncPostgresSaver + trim_messages": langgraph,
    "openai-agents SQLAlchemySession": openai_agents,
    "google-adk DatabaseSessionService": google_adk,
}


async def measure(
    urls: EmbeddedUrls, server: Server, lengths: Sequence[int]
) -> dict[str, dict[str, object]]:
    """Grow one thread a peer turn by turn; at each length the median load and save."""
    found: dict[str, dict[str, object]] = {}
    for name, opened in PEERS.items():
        try:
            async with opened(urls, server) as memory:
                found[name] = await _grow(memory, lengths)
        except ModuleNotFoundError as error:
            found[name] = {"left out": f"{error.name} is not installed"}
        print(name, found[name], flush=True)
    return found


async def _grow(memory: Memory, lengths: Sequence[int]) -> dict[str, object]:
    thread, writer, held = secrets.token_hex(6), Writer(), 0
    found: dict[str, object] = {}
    for length in lengths:
        while held < length:
            await memory.save(thread, writer.turn())
            held += 2
        loads = [await _seconds(memory.load(thread)) for _ in range(_ROUNDS)]
        saves = [await _seconds(memory.save(thread, writer.turn())) for _ in range(_ROUNDS)]
        held += 2 * _ROUNDS
        found[str(length)] = {
            "load_us": round(statistics.median(loads) * 1e6),
            "save_us": round(statistics.median(saves) * 1e6),
        }
    return found


async def _seconds(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    await asyncio.sleep(0)
    return time.perf_counter() - began


def _cut(texts: Sequence[str]) -> Sequence[str]:
    left = TOKENS * _CHARACTERS_A_TOKEN
    for index in range(len(texts) - 1, -1, -1):
        left -= len(texts[index])
        if left < 0:
            return texts[index + 1 :]
    return texts


def _sqlalchemy(url: str) -> str:
    return url.replace("postgresql://", "postgresql+asyncpg://", 1)
