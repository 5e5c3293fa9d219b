"""Summaries built by the real service over a real store, a real Valkey and a provider on loopback.

Ids in docstrings name the public report behind a test, in tests/data/cases.jsonl.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.http_summarizer import HttpSummarizer
from app.core.model import Body, Policy, ThreadKey
from app.core.ports import Count
from app.services.summary import build_due
from tests.integration.summary_thread import Thread, first_line, lines, message, open_thread

pytestmark = pytest.mark.anyio


@pytest.fixture(name="thread")
async def _thread(engine: AsyncEngine, redis_url: str, key: ThreadKey) -> AsyncIterator[Thread]:
    async with open_thread(engine, redis_url, key) as thread:
        yield thread


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
