"""HttpSummarizer against a real HTTP server, well and badly behaved."""

import json
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import get_args

import pytest

from app.adapters.extractive_summarizer import ExtractiveSummarizer
from app.adapters.http_summarizer import HttpSummarizer
from app.adapters.token_counter import EncodingTokenCounter
from app.core.ports import SummaryFailed
from tests.model_server import Mode, ModelServer, model_server

pytestmark = pytest.mark.anyio

MESSAGES = [
    {"role": "user", "content": "My PIN-free secret phrase is WALRUS."},
    {"role": "assistant", "content": "Noted."},
]
KEY = "sk-test-key"


@pytest.fixture(name="model")
def _model() -> Iterator[ModelServer]:
    with model_server() as model:
        yield model


@asynccontextmanager
async def summarizer(
    model: ModelServer, *, key: str | None = None, seconds: float = 5
) -> AsyncIterator[HttpSummarizer]:
    count = await EncodingTokenCounter().counter("o200k_base")
    made = HttpSummarizer(model.url, "small-1", count=count, api_key=key, timeout_seconds=seconds)
    yield made
    await made.close()


async def test_returns_the_models_text(model: ModelServer) -> None:
    """The answer's text comes back without the white space around it."""
    model.answer = lambda *_: "\n The user likes walruses. \n"
    async with summarizer(model) as made:
        assert await made.summarize(None, MESSAGES, max_tokens=100) == "The user likes walruses."
        assert made.name == "small-1"


async def test_asks_as_the_contract_says(model: ModelServer) -> None:
    """Model, ceiling and key are sent; the previous summary once, under its name."""
    async with summarizer(model, key=KEY) as made:
        await made.summarize("FACT-A", MESSAGES, max_tokens=100)
    lines = model.prompts[0].splitlines()

    assert model.bodies[0]["model"] == "small-1"
    assert model.bodies[0]["max_tokens"] == 100
    assert model.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert json.loads(lines[0]) == {"previous_summary": "FACT-A"}
    assert json.dumps(model.bodies[0]).count("FACT-A") == 1
    assert json.loads(lines[1]) == {"role": "user", "text": MESSAGES[0]["content"]}


async def test_sends_no_key_where_there_is_none(model: ModelServer) -> None:
    """A local server without authentication gets no header."""
    async with summarizer(model) as made:
        await made.summarize(None, MESSAGES, max_tokens=100)

    assert "Authorization" not in model.headers[0]


GOOD_MODES = {"answer", "hang", "newer-limit"}


@pytest.mark.parametrize("mode", [mode for mode in get_args(Mode) if mode not in GOOD_MODES])
async def test_refuses_what_is_no_whole_summary(
    model: ModelServer, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    """An error, an empty, refused, filtered, cut-off or malformed answer is no summary."""
    model.mode = mode
    with caplog.at_level(logging.DEBUG):
        async with summarizer(model, key=KEY) as made:
            with pytest.raises(SummaryFailed) as failure:
                await made.summarize("OLD", MESSAGES, max_tokens=100)

    said = caplog.text + str(failure.value) + repr(failure.value.__cause__)
    assert not [secret for secret in (KEY, "WALRUS", "SECRET-ECHO", "Twenty") if secret in said]


async def test_gives_up_on_a_provider_that_hangs(model: ModelServer) -> None:
    """A call ends with its time-out, and the next one is not hurt by it."""
    model.mode = "hang"
    async with summarizer(model, seconds=0.3) as made:
        begun = time.monotonic()
        with pytest.raises(SummaryFailed):
            await made.summarize(None, MESSAGES, max_tokens=100)

        assert time.monotonic() - begun < 10
        model.mode = "answer"
        assert await made.summarize(None, MESSAGES, max_tokens=100)


async def test_gives_up_when_nobody_listens() -> None:
    """A refused connection is a failed summary, no other error."""
    count = await EncodingTokenCounter().counter("o200k_base")
    made = HttpSummarizer("http://127.0.0.1:9/v1", "small-1", count=count)
    with pytest.raises(SummaryFailed):
        await made.summarize(None, MESSAGES, max_tokens=100)
    await made.close()


async def test_refuses_a_text_over_the_ceiling(model: ModelServer) -> None:
    """A model that ignores the limit is not cut, since a cut summary lies about its coverage."""
    model.answer = lambda *_: "word " * 101
    async with summarizer(model) as made:
        with pytest.raises(SummaryFailed, match="ceiling"):
            await made.summarize(None, MESSAGES, max_tokens=100)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("<think>WALRUS? ok</think>\nThe summary.", "The summary."),
        ("<think>only this</think>", None),
    ],
)
async def test_a_models_reasoning_is_no_summary(
    model: ModelServer, answer: str, text: str | None
) -> None:
    """Reasoning in front is taken off; an answer of nothing else is empty."""
    model.answer = lambda *_: answer
    async with summarizer(model) as made:
        if text is None:
            with pytest.raises(SummaryFailed):
                await made.summarize(None, MESSAGES, max_tokens=100)
        else:
            assert await made.summarize(None, MESSAGES, max_tokens=100) == text


async def test_learns_the_newer_name_of_the_limit(model: ModelServer) -> None:
    """A model that refuses `max_tokens` is asked again by the newer name, and then always so."""
    model.mode = "newer-limit"
    async with summarizer(model) as made:
        for _ in range(2):
            text = await made.summarize(None, MESSAGES, max_tokens=100)

            assert text == "By the newer limit."

    assert ["max_tokens" in body for body in model.bodies] == [True, False, False]


async def test_a_refusal_in_words_is_accepted(model: ModelServer) -> None:
    """A polite refusal cannot be told from a summary without guessing, so it is taken as one."""
    model.answer = lambda *_: "I cannot help with that."
    async with summarizer(model) as made:
        assert await made.summarize(None, MESSAGES, max_tokens=100)


async def test_sends_text_that_no_utf8_can_carry(model: ModelServer) -> None:
    """A lone surrogate in a message does not fail the call."""
    async with summarizer(model) as made:
        await made.summarize("a\udc00", [{"role": "user", "content": "\ud800 x"}], max_tokens=100)

    assert "\ufffd x" in model.prompts[0]


async def test_the_extractive_one_needs_nothing() -> None:
    """The built-in summariser quotes, and fails only when there is no input at all."""
    made = ExtractiveSummarizer(count=len)

    assert "WALRUS" in await made.summarize(None, MESSAGES, max_tokens=200)
    assert made.name == "extractive"
    with pytest.raises(SummaryFailed):
        await made.summarize(None, [], max_tokens=200)
