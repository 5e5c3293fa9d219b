"""Every dialect saved over HTTP, loaded in every format, as its provider would take it."""

import json
import secrets
from typing import Any

import httpx
import pytest

from app.adapters.token_counter import EncodingTokenCounter
from app.core.dialects.neutral import Dialect
from tests.integration.callers import path_of
from tests.unit.providers import count_output, faults_of
from tests.unit.talks import DIALECTS, FORMATS, WRITERS, Step, Talk

pytestmark = pytest.mark.anyio

CALLS = (("call_1", "find", '{"q":"x"}'), ("call_2", "book", "{}"))
STEP = Step("Looking.", "They want the place.", CALLS, (("call_1", "Lima"), ("call_2", "done")))
TALK = Talk("Where is this?", True, (STEP,), ("It is Lima.",))
NEXT = Talk("And how warm?", False, (), ("18 degrees.",))


async def save(client: httpx.AsyncClient, thread: str, dialect: Dialect, talk: Talk) -> None:
    body = {"key": secrets.token_hex(8), "messages": WRITERS[dialect](talk)}
    answer = await client.post(path_of(thread, "/turns"), json=body)
    assert answer.status_code == 201, answer.text


async def load(client: httpx.AsyncClient, thread: str, form: str, **options: Any) -> Any:
    body = {"thread_id": thread, "format": form, **options}
    answer = await client.post("/v1/context", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_every_format_of_a_dialect(client: httpx.AsyncClient, dialect: Dialect) -> None:
    """A turn of any dialect is loaded in all five formats, each valid and exactly counted."""
    thread = secrets.token_hex(8)
    await save(client, thread, dialect, TALK)
    count = await EncodingTokenCounter().counter("o200k_base")

    for form in FORMATS:
        loaded = await load(client, thread, form, message="And how warm?")
        assert faults_of(form, loaded) == []
        assert loaded["tokens"]["total"] == count_output(form, loaded, count)
        assert ("system" in loaded, "text" in loaded) == (form == "anthropic", form == "text")
        assert "Lima" in json.dumps(loaded)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_own_dialect_comes_back(client: httpx.AsyncClient, dialect: Dialect) -> None:
    """Loaded in the format it was saved in, a turn comes back as it was sent, thoughts too."""
    thread = secrets.token_hex(8)
    await save(client, thread, dialect, TALK)
    loaded = await load(client, thread, dialect)

    assert loaded["messages"] == WRITERS[dialect](TALK)
    assert loaded["warnings"] == []


async def test_thread_of_all_dialects(client: httpx.AsyncClient) -> None:
    """Turns of four dialects in one thread are one conversation in any format."""
    thread = secrets.token_hex(8)
    for dialect in DIALECTS:
        await save(client, thread, dialect, TALK)
        await save(client, thread, dialect, NEXT)

    for form in FORMATS:
        loaded = await load(client, thread, form)
        assert faults_of(form, loaded) == []
        # Thoughts are the one thing that only their own dialect carries.
        lost = {kind for warning in loaded["warnings"] for kind in warning["what"]}
        assert lost == {"reasoning"}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("form", FORMATS)
async def test_conversation_of_any_dialect(
    client: httpx.AsyncClient, dialect: Dialect, form: str
) -> None:
    """A caller's own array may be written in any dialect as well."""
    conversation = [*WRITERS[dialect](TALK), *WRITERS[dialect](NEXT)]
    body = {"conversation": conversation, "format": form}
    loaded = (await client.post("/v1/context", json=body)).json()

    assert faults_of(form, loaded) == []
    assert loaded["coverage"]["window"] == len(conversation)


@pytest.mark.parametrize("form", FORMATS[:-1])
async def test_loaded_list_saved_again_stores_what_is_new(
    client: httpx.AsyncClient, form: Dialect
) -> None:
    """A loaded list with the answer behind it stores the final turn alone, the marker never."""
    thread = secrets.token_hex(8)
    await save(client, thread, form, TALK)
    loaded = await load(client, thread, form, message="And how warm?")
    answers = WRITERS[form](NEXT)[1:]
    body = {"messages": [*loaded["messages"], *answers], "format": form}
    saved = (await client.post(path_of(thread, "/turns"), json=body)).json()
    again = await load(client, thread, "openai")

    assert [line["role"] for line in saved["messages"]] == ["user", "assistant"]
    assert [message["content"] for message in again["messages"]][-2:] == [
        "And how warm?",
        "18 degrees.",
    ]
