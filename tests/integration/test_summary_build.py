"""Summaries built by the real service over a real store, a real Valkey and a provider on loopback.

Ids in docstrings name the public report behind a test, in tests/data/cases.jsonl.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import get_args

import pytest
from sqlalchemy import delete, update
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.extractive_summarizer import ExtractiveSummarizer
from app.adapters.http_summarizer import HttpSummarizer
from app.adapters.redis_cache import NullSummaryCache, RedisSummaryCache
from app.adapters.sql.engine import Database
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.summaries import SqlSummaryStore
from app.adapters.sql.tables import tables
from app.adapters.sql.threads import SqlThreadIndex
from app.adapters.token_counter import EncodingTokenCounter
from app.core.large import prepare
from app.core.markup import strip_message
from app.core.model import Appended, Body, NewTurn, Policy, Registry, Summary, ThreadKey
from app.core.ports import Count
from app.core.tokens import message_tokens
from app.services.summary import Builder, build_due
from app.services.summary_worker import SummaryWorker
from tests.model_server import Mode, ModelServer, model_server
from tests.servers import SCHEMA

pytestmark = pytest.mark.anyio

CASES = {
    case["id"]: case
    for line in (Path(__file__).parents[1] / "data" / "cases.jsonl").read_bytes().splitlines()
    if (case := json.loads(line))["area"] == "summary"
}
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


@pytest.fixture(name="count", scope="module")
async def _count() -> Count:
    return await EncodingTokenCounter().counter("o200k_base")


@pytest.fixture(name="thread")
async def _thread(
    engine: AsyncEngine, redis_url: str, key: ThreadKey, count: Count
) -> AsyncIterator[Thread]:
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


async def test_builds_what_is_needed_now_and_ahead(thread: Thread) -> None:
    """A long thread gets the summary its window needs, then the one it will need next."""
    await thread.grow(120)
    built = await build_due(thread.key, thread.builder)

    assert await thread.positions() == [60, 80]
    assert [summary.boundary.position for summary in built.summaries] == [60, 80]
    assert await thread.newest() == built.summaries[-1]
    assert thread.told() == [list(range(1, 61)), list(range(61, 81))]


async def test_what_it_writes_is_whole(thread: Thread) -> None:
    """Text, boundary, cumulative tokens, model and prompt version go together, in both tiers."""
    await thread.grow(120)
    await build_due(thread.key, thread.builder)
    summary, registry = await thread.newest(), await thread.registry()
    assert registry
    cached = await thread.builder.cache.get(
        thread.key, summary.boundary, epoch=registry.summary_epoch
    )

    assert summary.text == "Summary number 2."
    assert summary.boundary.checkpoint_id.startswith("0000000080-")
    assert summary.boundary.tokens * 120 == registry.tokens * 80
    assert (summary.method, summary.model, summary.prompt) == ("model", "small-1", "summary-1")
    assert cached == summary


async def test_a_short_thread_costs_nothing(thread: Thread) -> None:
    """Nothing is built, and no lease stays, while no boundary is near."""
    await thread.grow(50)

    assert (await build_due(thread.key, thread.builder)).summaries == ()
    unknown = replace(thread.key, thread_id="unknown")
    assert (await build_due(unknown, thread.builder)).summaries == ()
    assert thread.model.bodies == []
    assert await thread.builder.summaries.claim(thread.key, lease_seconds=1)


async def test_is_built_half_a_stride_ahead(thread: Thread) -> None:
    """The summary stands before the window's start moves, and only one stride's worth is read."""
    await thread.grow(52)
    await build_due(thread.key, thread.builder)

    assert await thread.positions() == [20]
    assert thread.told() == [list(range(1, 21))]


async def test_costs_at_most_one_call_per_stride(thread: Thread) -> None:
    """Tested after each of 200 turns, 400 messages cost one call a stride and skip none."""
    for last in range(2, 401, 2):
        await thread.grow(last)
        await build_due(thread.key, thread.builder)

    told = thread.told()

    assert [number for call in told for number in call] == list(range(1, 361))
    assert [len(call) for call in told] == [20] * 18
    assert await thread.positions() == [340, 360]


async def test_costs_at_most_one_call_per_stride_of_tokens(thread: Thread) -> None:
    """Where tokens rule, a call is made once per token step, and again none is skipped."""
    policy = Policy(window=1000, stride=300, token_budget=3_000, summary_tokens=100)
    builder = replace(thread.builder, policy=policy)
    words = "word " * 40
    for number in range(1, 201, 2):
        user, assistant = message(number), message(number + 1)
        await thread.save(
            {**user, "content": f"{user['content']} {words}"},
            {**assistant, "content": f"{assistant['content']} {words}"},
        )
        await build_due(thread.key, builder)
    registry = await thread.registry()
    assert registry
    told = thread.told()

    assert len(told) <= registry.tokens / builder.grid.token_step
    assert [number for call in told for number in call] == list(range(1, told[-1][-1] + 1))
    assert registry.tokens - max(p.tokens for p in registry.summaries) <= builder.grid.token_span


async def test_two_builds_at_once_make_one_call(thread: Thread) -> None:
    """While one process builds, another finds the lease taken and goes away."""
    await thread.grow(52)
    thread.model.mode = "hang"
    first = asyncio.ensure_future(build_due(thread.key, thread.builder))
    await thread.arrived()
    others = await asyncio.gather(*(build_due(thread.key, thread.builder) for _ in range(5)))
    thread.model.release.set()

    assert len((await first).summaries) == 1
    assert all(other.summaries == () for other in others)
    assert len(thread.model.bodies) == 1


BAD_MODES: dict[str, Mode] = {
    "returns ''": "empty",
    "returns '   '": "blank",
    "stops with reason length": "length",
    "stream breaks after 20 words": "cut-body",
}


@pytest.mark.parametrize(
    "behaviour",
    [each["summariser"] for each in CASES["summary-partial-or-empty-not-used"]["input"]["each"]],
)
async def test_no_useless_answer_advances_coverage(thread: Thread, behaviour: str) -> None:
    """summary-partial-or-empty-not-used: the old summary and its coverage stay as they were.

    A refusal in words cannot be told from a summary; that one is accepted.
    """
    await thread.grow(52)
    thread.model.answer = lambda *_: "I cannot help with that."
    before = (await build_due(thread.key, thread.builder)).summaries
    await thread.grow(72)
    thread.model.mode = BAD_MODES.get(behaviour, "answer")
    built = await build_due(thread.key, thread.builder)
    useless = behaviour in BAD_MODES

    assert built.failed == useless
    assert await thread.positions() == ([20] if useless else [20, 40])
    assert not useless or await thread.newest() == before[0]


@pytest.mark.parametrize(
    "mode", [mode for mode in get_args(Mode) if mode not in {"answer", "newer-limit"}]
)
async def test_a_failing_model_keeps_the_old_summary(thread: Thread, mode: Mode) -> None:
    """Whatever the provider does, time-outs included, coverage stays and no lease is kept."""
    await thread.grow(52)
    impatient = HttpSummarizer(
        thread.model.url, "small-1", count=thread.builder.count, timeout_seconds=0.3
    )
    builder = replace(thread.builder, model=impatient)
    thread.model.mode = mode
    built = await build_due(thread.key, builder)
    await impatient.close()

    assert built.failed
    assert await thread.positions() == []
    thread.model.mode = "answer"
    thread.model.release.set()
    assert len((await build_due(thread.key, thread.builder)).summaries) == 1
    assert await thread.positions() == [20]


async def test_the_extractive_one_fills_before_the_window_cannot_reach_back(
    thread: Thread,
) -> None:
    """With a dead model coverage is never more than two strides behind, quoted instead."""
    thread.model.mode = "error"
    for last in range(2, 141, 2):
        await thread.grow(last)
        await build_due(thread.key, thread.builder)
        start = max(0, -(-(last - 60) // 20) * 20)

        assert start - max(await thread.positions(), default=0) <= 40
    summary = await thread.newest()

    assert (summary.method, summary.model, summary.prompt) == ("extractive", None, "extractive-1")
    assert "msg 001" in summary.text

    thread.model.mode = "answer"
    await build_due(thread.key, thread.builder)

    assert (await thread.newest()).method == "model"
    assert first_line(thread.model.prompts[-2])["previous_summary"] == summary.text


async def test_without_a_model_every_summary_is_extractive(thread: Thread) -> None:
    """A deployment that names no provider gets labelled extracts."""
    await thread.grow(120)
    built = await build_due(thread.key, replace(thread.builder, model=None))

    assert [summary.method for summary in built.summaries] == ["extractive", "extractive"]
    assert await thread.positions() == [60, 80]
    assert not built.failed


async def test_facts_are_carried_as_the_previous_summary(thread: Thread) -> None:
    """summary-not-summarised-again-as-message: FACT-A comes once, marked, and is no message."""
    thread.model.answer = lambda _, number: f"FACT-{'ABCDEFGH'[number - 1]}"
    await thread.grow(52)
    await build_due(thread.key, thread.builder)
    await thread.grow(72)
    await build_due(thread.key, thread.builder)
    second = thread.model.prompts[1]

    assert second.count("FACT-A") == 1
    assert first_line(second) == {"previous_summary": "FACT-A"}
    assert not [line for line in lines(thread.model.prompts[0]) if "previous_summary" in line]


async def test_another_model_goes_on_from_the_old_text(thread: Thread) -> None:
    """A change of model or prompt makes no summary worthless."""
    await thread.grow(52)
    await build_due(thread.key, thread.builder)
    await thread.grow(72)
    other = HttpSummarizer(thread.model.url, "small-2", count=thread.builder.count)
    await build_due(thread.key, replace(thread.builder, model=other))
    await other.close()

    assert thread.told()[1] == list(range(21, 41))
    assert (await thread.newest()).model == "small-2"


async def test_the_input_is_stripped_and_within_its_budget(thread: Thread) -> None:
    """summary-input-is-stripped: no base64, no reasoning, steps within the summariser's budget."""
    image = "iVBORw0KGgo" * 280_000
    for number in range(1, 101, 2):
        user, assistant = message(number), message(number + 1)
        if number == 9:
            assistant["content"] = [
                {"type": "text", "text": assistant["content"]},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{image}"}},
            ]
        if number == 11:
            user["content"] = f"{user['content']} ![x](data:image/png;base64,{image[:20_000]})"
            reasoning = "SECRET-THOUGHT " * 3500
            assistant["content"] = f"<think>{reasoning}</think>\n{assistant['content']}"
        if number == 13:
            user["content"] = f"{user['content']} {'long text ' * 30_000}"
        await thread.save(user, assistant)
    builder = replace(thread.builder, input_tokens=4_000)
    await build_due(thread.key, builder)
    prompts = thread.model.prompts

    assert not [prompt for prompt in prompts if "iVBORw0KGgo" in prompt or "SECRET" in prompt]
    assert max(prompt_tokens(body, builder.count) for body in thread.model.bodies) <= 4_000
    assert [number for call in thread.told() for number in call] == list(range(1, 61))


def prompt_tokens(body: Mapping[str, object], count: Count) -> int:
    messages = body["messages"]
    assert isinstance(messages, list)
    return sum(3 + count(message["content"]) for message in messages) + 3


async def test_a_long_import_is_summarised_in_steps(thread: Thread) -> None:
    """What does not fit one call goes through several, each with the text of the one before."""
    await thread.grow(300)
    builder = replace(thread.builder, input_tokens=1_500)
    thread.model.answer = lambda _, number: f"TEXT-{number}."
    await build_due(thread.key, builder)

    assert [number for call in thread.told() for number in call] == list(range(1, 261))
    assert len(thread.told()) > 4
    for number, prompt in enumerate(thread.model.prompts[1:], start=1):
        assert first_line(prompt) == {"previous_summary": f"TEXT-{number}."}


async def test_an_interrupted_import_goes_on_where_it_stopped(thread: Thread) -> None:
    """A model that fails half-way through an import has not worked in vain."""
    await thread.grow(300)
    builder = replace(thread.builder, input_tokens=2_000)

    def answer(_: str, number: int) -> str:
        thread.model.mode = "error" if number == 2 else "answer"
        return f"TEXT-{number}."

    thread.model.answer = answer
    await build_due(thread.key, replace(builder, policy=replace(POLICY, stride=60)))
    reached = (await thread.positions())[-1]
    thread.model.mode, before = "answer", len(thread.model.bodies)
    thread.model.answer = lambda _, number: f"TEXT-{number}."
    await build_due(thread.key, builder)

    assert thread.told()[before][0] == reached + 1
    assert (await thread.positions())[-1] == 260


async def test_a_build_longer_than_its_lease_is_done_in_several(thread: Thread) -> None:
    """Past half of the lease no call is begun; the next claim goes on where the last one wrote."""
    await thread.grow(300)
    ticks = itertools.count(step=60)
    builder = replace(thread.builder, input_tokens=1_500, clock=lambda: float(next(ticks)))
    built = await build_due(thread.key, builder)

    assert len(built.summaries) == len(thread.model.bodies) > 4
    assert [number for call in thread.told() for number in call] == list(range(1, 261))


async def test_a_lost_durable_copy_is_made_anew(thread: Thread) -> None:
    """Without the old text the next summary begins at the first message, and goes further."""
    await thread.grow(52)
    await build_due(thread.key, thread.builder)
    blobs = tables(SCHEMA).blobs
    async with thread.database.connection() as connection:
        await connection.execute(delete(blobs).where(blobs.c.tenant_id == thread.key.tenant_id))
    await thread.grow(72)
    builder = replace(thread.builder, cache=NullSummaryCache(), input_tokens=1_000)
    await build_due(thread.key, builder)

    assert [number for call in thread.told()[1:] for number in call] == list(range(1, 41))
    assert await thread.positions() == [20, 40]


async def test_the_watermark_is_a_position(thread: Thread) -> None:
    """summary-watermark-is-position: what is saved meanwhile is next time's, none twice."""
    await thread.grow(60)
    thread.model.mode = "hang"
    build = asyncio.ensure_future(build_due(thread.key, thread.builder))
    await thread.arrived()
    await thread.grow(230)
    thread.model.mode = "answer"
    thread.model.release.set()
    await build

    assert thread.told()[0] == list(range(1, 21))
    assert [number for call in thread.told() for number in call] == list(range(1, 181))


async def test_survives_a_restart(thread: Thread, engine: AsyncEngine, count: Count) -> None:
    """summary-survives-restart: a process with nothing in memory reads the same, and goes on."""
    await thread.grow(52)
    await build_due(thread.key, thread.builder)
    await thread.grow(72)
    database = Database(engine, SCHEMA)
    fresh = replace(
        thread.builder,
        history=SqlHistoryStore(database),
        summaries=SqlSummaryStore(database),
        cache=NullSummaryCache(),
    )
    await build_due(thread.key, fresh)

    assert first_line(thread.model.prompts[1]) == {"previous_summary": "Summary number 1."}
    assert thread.told() == [list(range(1, 21)), list(range(21, 41))]


async def test_an_emptied_cache_is_read_again_not_paid_again(thread: Thread) -> None:
    """After the cache lost everything the durable copy serves, without a call of the model."""
    await thread.grow(120)
    await build_due(thread.key, thread.builder)
    calls = len(thread.model.bodies)
    empty = replace(thread.builder, cache=NullSummaryCache())

    assert (await build_due(thread.key, empty)).summaries == ()
    assert (await thread.newest()).text == "Summary number 2."
    assert len(thread.model.bodies) == calls


async def test_an_older_run_cannot_overwrite(thread: Thread) -> None:
    """summary-older-run-cannot-overwrite: who finishes late, with less, changes nothing."""
    await thread.grow(52)
    thread.model.mode = "hang"
    older = asyncio.ensure_future(build_due(thread.key, thread.builder))
    await thread.arrived()
    await thread.grow(112)
    thread.model.mode = "answer"
    an_hour_on = SqlSummaryStore(
        thread.database, now=lambda: datetime.now(UTC) + timedelta(hours=1)
    )
    newer = await build_due(thread.key, replace(thread.builder, summaries=an_hour_on))
    thread.model.release.set()
    late = await older

    assert late.summaries == ()
    assert await thread.positions() == [60, 80]
    assert await thread.newest() == newer.summaries[-1]


async def test_what_was_read_before_a_redaction_is_not_written(thread: Thread) -> None:
    """summary-invalidated-by-delete: an epoch raised during the call makes its text worthless."""
    await thread.grow(52)
    thread.model.mode = "hang"
    build = asyncio.ensure_future(build_due(thread.key, thread.builder))
    await thread.arrived()
    await raise_epoch(thread)
    thread.model.release.set()

    assert (await build).summaries == ()
    assert await thread.positions() == []


async def raise_epoch(thread: Thread) -> None:
    threads = tables(SCHEMA).threads
    statement = (
        update(threads)
        .where(threads.c.tenant_id == thread.key.tenant_id)
        .values(summary_epoch=threads.c.summary_epoch + 1, summaries=[])
    )
    async with thread.database.connection() as connection:
        await connection.execute(statement)


async def test_a_thread_of_one_endless_exchange_gets_no_summary(thread: Thread) -> None:
    """Where no exchange has ended there is no boundary to summarise up to."""
    await thread.save(message(1))
    for number in range(2, 101):
        await thread.save({"role": "assistant", "content": f"msg {number:03}"})
    await build_due(thread.key, thread.builder)

    assert await thread.positions() == []
    assert thread.model.bodies == []


async def test_an_exchange_over_many_turns_ends_where_it_ends(thread: Thread) -> None:
    """A boundary may lie inside a turn, and never inside an exchange."""
    for number in range(1, 141, 7):
        bodies: list[Body] = [
            {"role": "user" if at % 4 == 1 else "assistant", "content": f"msg {at:03}"}
            for at in range(number, number + 7)
        ]
        await thread.save(*bodies)
    await build_due(thread.key, thread.builder)

    assert all(position % 4 == 0 for position in await thread.positions())
    assert await thread.positions() == [80, 100]
    assert [number for call in thread.told() for number in call] == list(range(1, 101))


async def test_a_shutdown_gives_the_lease_back(thread: Thread) -> None:
    """A build cancelled in the middle of a call leaves the thread to the next process at once."""
    await thread.grow(52)
    thread.model.mode = "hang"
    worker = SummaryWorker(partial(build_due, builder=thread.builder))
    async with worker.running():
        worker.notify(thread.key)
        await thread.arrived()
    thread.model.mode = "answer"

    assert len((await build_due(thread.key, thread.builder)).summaries) == 1


async def test_a_build_notified_from_many_sides_is_one(thread: Thread) -> None:
    """Two workers told of the same thread over and over make one call between them."""
    await thread.grow(52)
    workers = [SummaryWorker(partial(build_due, builder=thread.builder)) for _ in range(2)]
    async with workers[0].running(), workers[1].running():
        for worker in workers * 10:
            worker.notify(thread.key)
        await asyncio.gather(*(worker.drained() for worker in workers))

    assert len(thread.model.bodies) == 1
    assert await thread.positions() == [20]
