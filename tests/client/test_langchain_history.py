import asyncio
import uuid
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata
from langchain_core.messages.tool import invalid_tool_call, tool_call

from threadkeep_client import AsyncThreadkeep, Threadkeep
from threadkeep_client.errors import InvalidPayload
from threadkeep_client.langchain import ThreadkeepChatMessageHistory

pytestmark = pytest.mark.anyio

EVERYTHING: list[BaseMessage] = [
    HumanMessage(
        [
            {"type": "text", "text": "What is on it?"},
            {"type": "image", "base64": "aGk=", "mime_type": "image/png"},
        ],
        id="human-1",
        name="ada",
        additional_kwargs={"sent_by": {"app": 7}},
    ),
    AIMessage(
        "",
        id="lc_run--1",
        tool_calls=[tool_call(name="look", args={"at": [1, 2.5, None]}, id="call_1")],
        invalid_tool_calls=[
            invalid_tool_call(name="look", args="{", id="call_2", error="no JSON object")
        ],
        usage_metadata=UsageMetadata(
            input_tokens=11,
            output_tokens=7,
            total_tokens=18,
            input_token_details={"cache_read": 3},
        ),
        response_metadata={"model_name": "some-model", "logprobs": None},
    ),
    ToolMessage(
        "a cat",
        tool_call_id="call_1",
        name="look",
        id="tool-1",
        status="error",
        artifact={"rows": [1, 2]},
    ),
    FunctionMessage(content="a dog", name="look_again"),
    ChatMessage(content="Say it again.", role="user"),
    AIMessageChunk(content="A c", id="chunk-1", chunk_position="last"),
    HumanMessageChunk(content="at?"),
    AIMessage(
        [
            {"type": "reasoning", "reasoning": "hm", "extras": {"signature": "c2ln"}},
            {"type": "text", "text": "A cat. 🐈 \u0000", "annotations": []},
            {"type": "something_new", "of": {"next": "year"}},
        ],
    ),
]


@pytest.fixture
def thread_id() -> str:
    return f"lc/{uuid.uuid4()}"


async def test_every_type_comes_back_as_it_was_added(
    memory: AsyncThreadkeep, sync_memory: Threadkeep, thread_id: str
) -> None:
    """Types, ids, calls, usage, metadata and unknown blocks survive, with and without asyncio."""
    history = ThreadkeepChatMessageHistory(thread_id, client=sync_memory, async_client=memory)

    history.add_messages(EVERYTHING)

    assert history.messages == EVERYTHING
    assert await history.aget_messages() == EVERYTHING
    assert [type(m) for m in history.messages] == [type(m) for m in EVERYTHING]


async def test_history_longer_than_a_page_comes_back_in_order(
    memory: AsyncThreadkeep, thread_id: str
) -> None:
    """All that is stored is read, however many pages that takes."""
    history = ThreadkeepChatMessageHistory(thread_id, async_client=memory)
    for start in range(0, 250, 50):
        await history.aadd_messages([HumanMessage(str(n)) for n in range(start, start + 50)])

    assert [m.content for m in await history.aget_messages()] == [str(n) for n in range(250)]


async def test_same_words_in_a_second_call_are_stored_again(sync_memory: Threadkeep) -> None:
    """A user who says yes twice has said it twice."""
    history = ThreadkeepChatMessageHistory("yes", client=sync_memory)

    for _ in range(2):
        history.add_messages([HumanMessage("yes"), AIMessage("Done.")])
    history.add_user_message("yes")

    assert [m.content for m in history.messages] == ["yes", "Done.", "yes", "Done.", "yes"]


async def test_concurrent_calls_are_stored_whole(memory: AsyncThreadkeep, thread_id: str) -> None:
    """No call's messages are lost, and none stand between another's."""
    history = ThreadkeepChatMessageHistory(thread_id, async_client=memory)

    calls = [[HumanMessage(f"q{n}"), AIMessage(f"a{n}")] for n in range(12)]
    await asyncio.gather(*(history.aadd_messages(call) for call in calls))

    stored = [str(m.content) for m in await history.aget_messages()]
    assert sorted(stored[::2]) == sorted(f"q{n}" for n in range(12))
    assert [content[1:] for content in stored[::2]] == [content[1:] for content in stored[1::2]]


async def test_unknown_thread_and_no_messages_are_empty(sync_memory: Threadkeep) -> None:
    """Reading what is not there is an empty history, and adding nothing makes no thread."""
    history = ThreadkeepChatMessageHistory("nobody", client=sync_memory)

    history.add_messages([])
    history.clear()

    assert history.messages == []
    assert list(sync_memory.threads()) == []


async def test_clear_erases_and_the_history_goes_on(
    memory: AsyncThreadkeep, sync_memory: Threadkeep
) -> None:
    """After a clear nothing is left, and the same id takes messages at once."""
    history = ThreadkeepChatMessageHistory("cleared", client=sync_memory, async_client=memory)
    history.add_messages([HumanMessage("one")])

    history.clear()
    assert history.messages == []
    history.add_messages([HumanMessage("two")])
    assert [m.content for m in history.messages] == ["two"]

    await history.aclear()
    await history.aclear()
    assert await history.aget_messages() == []


async def test_system_message_is_left_out_with_a_warning(
    memory: AsyncThreadkeep, sync_memory: Threadkeep
) -> None:
    """What changes per deploy is not stored, and the caller hears of it."""
    history = ThreadkeepChatMessageHistory("system", client=sync_memory, async_client=memory)

    with pytest.warns(UserWarning, match=r"never stored.*system"):
        history.add_messages([SystemMessage("Be brief."), HumanMessage("Hi")])
    with pytest.warns(UserWarning, match=r"never stored.*system"):
        await history.aadd_messages([SystemMessage("Be brief."), AIMessage("Hello")])

    assert [m.content for m in history.messages] == ["Hi", "Hello"]


async def test_what_cannot_be_stored_is_refused_whole(sync_memory: Threadkeep) -> None:
    """A value that is no JSON, or more messages than a turn takes, stores nothing."""
    history = ThreadkeepChatMessageHistory("refused", client=sync_memory)

    with pytest.raises(TypeError):
        history.add_messages(
            [HumanMessage("q"), ToolMessage("r", tool_call_id="c", artifact=object())]
        )
    with pytest.raises(InvalidPayload):
        history.add_messages([HumanMessage("x")] * 201)

    assert history.messages == []


async def test_messages_of_another_dialect_are_read(sync_memory: Threadkeep) -> None:
    """A thread that another client wrote in chat messages is a history too."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    turn: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi", "id": "mine"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
        {"role": "assistant", "content": "One."},
    ]
    sync_memory.save("other", turn)

    messages = ThreadkeepChatMessageHistory("other", client=sync_memory).messages

    assert [m.type for m in messages] == ["human", "ai", "tool", "ai"]
    assert messages[0].id == "mine"
    assert isinstance(messages[1], AIMessage)
    assert messages[1].tool_calls == [tool_call(name="f", args={"a": 1}, id="c1")]
    assert all(not {"position", "checkpoint_id"} & m.additional_kwargs.keys() for m in messages)


async def test_context_is_what_the_model_should_read(
    memory: AsyncThreadkeep, sync_memory: Threadkeep, thread_id: str
) -> None:
    """With load options the messages are the window, with a summary and without a marker."""
    whole = ThreadkeepChatMessageHistory(thread_id, client=sync_memory)
    for n in range(40):
        whole.add_messages([HumanMessage(f"question {n}"), AIMessage(f"answer {n}")])
    sync_memory.request("POST", f"/v1/threads/{thread_id.replace('/', '%2F')}/summary")

    history = ThreadkeepChatMessageHistory(
        thread_id, client=sync_memory, async_client=memory, context={"window": 10}
    )

    messages = history.messages
    assert messages == await history.aget_messages()
    assert [m.content for m in messages if m.type != "system"][-1] == "answer 39"
    assert len(messages) <= 11
    assert all(m.name != "threadkeep_marker" for m in messages)
    assert len(whole.messages) == 80


def test_client_that_is_missing_is_named(sync_memory: Threadkeep) -> None:
    """Without a client there is no history, and without the sync one no sync method."""
    with pytest.raises(ValueError, match="needs a client"):
        ThreadkeepChatMessageHistory("t")
    with pytest.raises(RuntimeError, match="async methods"):
        ThreadkeepChatMessageHistory("t", async_client=AsyncThreadkeep()).clear()


async def test_async_methods_do_with_the_sync_client(sync_memory: Threadkeep) -> None:
    """One client is enough for both kinds of methods."""
    history = ThreadkeepChatMessageHistory("aside", client=sync_memory)

    await history.aadd_messages([HumanMessage("Hi")])
    assert [m.content for m in await history.aget_messages()] == ["Hi"]
    await history.aclear()
    assert await history.aget_messages() == []
