import asyncio
import dataclasses
from datetime import UTC, datetime

import pytest
from pydantic_ai import DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import (
    BinaryImage,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage, RunUsage

from tests.client.conversations import STORES, loaded, said, saved, store_named, words
from threadkeep_client import AsyncThreadkeep

pytestmark = pytest.mark.anyio


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, memory: AsyncThreadkeep) -> ConversationStore:
    return store_named(request.param, memory)


async def test_unknown_conversation_is_none(store: ConversationStore) -> None:
    """What was never saved is not there, by any of the methods."""
    assert await store.load("c") is None
    assert await store.load_entries("c") is None
    assert await store.read_record("c") is None
    assert await store.list_conversations() == []
    await store.delete("c")
    with pytest.raises(LookupError):
        await store.read_entry("e")
    with pytest.raises(LookupError):
        await store.read_history("e")
    assert await store.read_history(None) == []


async def test_every_message_comes_back_as_it_was(store: ConversationStore) -> None:
    """Parts of all kinds, bytes, times, usage and metadata survive."""
    now = datetime(2026, 12, 1, 8, 30, tzinfo=UTC)
    messages: list[ModelMessage] = [
        ModelRequest(
            parts=[
                SystemPromptPart("Be brief.", timestamp=now),
                UserPromptPart(
                    ["Look:", BinaryImage(b"\x89PNG\xff\x00", media_type="image/png")],
                    timestamp=now,
                ),
            ],
            instructions="Answer in Polish. \u0000 Łódź 🐈",
            timestamp=now,
            run_id="r1",
            metadata={"source": {"app": 7}},
        ),
        ModelResponse(
            parts=[
                ThinkingPart("hm", signature="c2ln", provider_name="p"),
                ToolCallPart("look", {"at": [1, 2.5, None]}, tool_call_id="call_1"),
                ToolCallPart("look", '{"at": []}', tool_call_id="call_2"),
            ],
            usage=RequestUsage(input_tokens=11, output_tokens=7, details={"cached": 3}),
            model_name="m",
            timestamp=now,
            provider_details={"finish_reason": "tool_calls"},
            finish_reason="tool_call",
        ),
        ModelRequest(
            parts=[
                ToolReturnPart("look", {"cat": True}, tool_call_id="call_1", timestamp=now),
                ToolReturnPart("look", "dog", tool_call_id="call_2", timestamp=now),
            ],
            timestamp=now,
        ),
        ModelResponse(parts=[TextPart("Kot.")], timestamp=now),
    ]
    conversation = Conversation(
        messages=list(messages),
        conversation_id="c",
        usage=RunUsage(requests=2, input_tokens=11, output_tokens=7, details={"cached": 3}),
        deferred_tool_requests=DeferredToolRequests(
            calls=[ToolCallPart("ask", {"q": 1}, tool_call_id="call_3")],
            metadata={"call_3": {"why": "because"}},
        ),
    )

    await store.save(conversation)

    found = await loaded(store)
    assert found.messages == messages
    assert found.usage == conversation.usage
    assert found.deferred_tool_requests == conversation.deferred_tool_requests
    assert found.revision == conversation.revision


async def test_record_comes_back_as_it_was_written(store: ConversationStore) -> None:
    """The five primitives keep what they are given, member by member."""
    entries = [
        ConversationEntry(id="e1", parent_id=None, message=said("a")[0]),
        ConversationEntry(id="e2", parent_id="e1", message=said("a", "b")[1]),
    ]
    record = ConversationRecord(
        conversation_id="some/conversation ü",
        head_id="e2",
        usage=RunUsage(requests=3),
        scope="ada",
        forked_from="another",
        forked_at="e1",
        branches=["e1"],
        revision="not a uuid",
        updated_at=datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC),
    )
    as_given = dataclasses.replace(record)

    await store.write_record(record, new_entries=entries, expected_revision=None)

    assert record == as_given
    assert await store.read_record(record.conversation_id) == record
    assert [await store.read_entry(entry.id) for entry in entries] == entries
    assert await store.read_history("e2") == entries
    assert await store.read_history("e2", limit=1) == entries[1:]
    assert await store.read_history("e2", limit=0) == []
    assert await store.read_history("e1") == entries[:1]


async def test_save_stores_what_is_new(store: ConversationStore) -> None:
    """A save after a load returns the entries it stored, each after the one before it."""
    first = await saved(store, "a", "b")
    conversation = await loaded(store)
    conversation.messages += said("c", "d")

    second = await store.save(conversation)

    assert [entry.message for entry in second] == said("c", "d")
    entries = await store.load_entries("c")
    assert entries == [*first, *second]
    assert [entry.parent_id for entry in entries] == [None, *(e.id for e in entries[:-1])]
    assert await store.save(conversation) == []


async def test_same_words_twice_are_two_entries(store: ConversationStore) -> None:
    """A user who says yes twice has said it twice."""
    await saved(store, "yes", "Done.")
    conversation = await loaded(store)
    conversation.messages += said("yes", "Done.")
    await store.save(conversation)

    assert words((await loaded(store)).messages) == ["yes", "Done.", "yes", "Done."]


async def test_limit_loads_the_newest(store: ConversationStore) -> None:
    """A window is the last messages, and what follows it is appended to the whole."""
    await saved(store, "a", "b", "c", "d")

    window = await store.load("c", limit=2)
    assert window is not None
    assert words(window.messages) == ["c", "d"]
    window.messages += said("e")
    await store.save(window)

    assert words((await loaded(store)).messages) == ["a", "b", "c", "d", "e"]
    empty = await store.load("c", limit=0)
    assert empty is not None
    assert empty.messages == []
    with pytest.raises(UserError):
        await store.load("c", limit=-1)


async def test_long_history_is_read_whole(store: ConversationStore) -> None:
    """However many saves made a history, it is read in order, and so is any window of it."""
    texts = [str(n) for n in range(130)]
    await saved(store, texts[0])
    conversation = await loaded(store)
    for text in texts[1:]:
        conversation.messages += said(text)
        await store.save(conversation)

    assert words((await loaded(store)).messages) == texts
    for limit in (1, 50, 51, 130, 500):
        window = await store.load("c", limit=limit)
        assert window is not None
        assert words(window.messages) == texts[-limit:]


async def test_stale_revision_conflicts(store: ConversationStore) -> None:
    """Of two writers who loaded the same, one saves; the other loses nothing of the first."""
    await saved(store, "a", "b")
    one, other = await loaded(store), await loaded(store)
    one.messages += said("c")
    other.messages += said("d")
    await store.save(one)

    with pytest.raises(ConversationConflict):
        await store.save(other)
    with pytest.raises(ConversationConflict):
        await store.branch("c", at=1, expected_revision=other.revision)
    with pytest.raises(ConversationConflict):
        await store.delete_record("c", expected_revision=str(other.revision))
    with pytest.raises(ConversationConflict):
        await saved(store, "e")

    assert words((await loaded(store)).messages) == ["a", "b", "c"]


async def test_conflict_leaves_nothing_behind(store: ConversationStore) -> None:
    """Entries of a refused write are not stored, nor is its record."""
    await saved(store, "a")
    before = await store.read_record("c")
    entry = ConversationEntry(id="lost", parent_id=None, message=said("x")[0])

    for conversation_id, expected in (("c", None), ("c", "wrong"), ("new", "wrong")):
        record = ConversationRecord(conversation_id=conversation_id, head_id="lost")
        with pytest.raises(ConversationConflict):
            await store.write_record(record, new_entries=[entry], expected_revision=expected)

    assert await store.read_record("c") == before
    assert await store.read_record("new") is None
    with pytest.raises(LookupError):
        await store.read_entry("lost")


async def test_concurrent_saves_store_one(store: ConversationStore) -> None:
    """Of many saves at once of what was loaded together, one is stored and the others conflict."""
    await saved(store, "a", "b")
    copies = [await loaded(store) for _ in range(6)]
    for number, copy in enumerate(copies):
        copy.messages += said(f"c{number}")

    results = await asyncio.gather(*map(store.save, copies), return_exceptions=True)

    refused = [result for result in results if isinstance(result, BaseException)]
    assert len(refused) == 5
    assert all(isinstance(error, ConversationConflict) for error in refused)
    winner = next(index for index, result in enumerate(results) if result not in refused)
    assert words((await loaded(store)).messages) == ["a", "b", f"c{winner}"]


async def test_concurrent_beginnings_store_one(store: ConversationStore) -> None:
    """Of many first saves of one conversation, one is stored and the others conflict."""
    results = await asyncio.gather(
        *(saved(store, f"a{number}") for number in range(6)), return_exceptions=True
    )

    assert sum(isinstance(result, ConversationConflict) for result in results) == 5
    assert len((await loaded(store)).messages) == 1
