import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from tests.service import running_service
from threadkeep_client import AsyncThreadkeep
from threadkeep_client.errors import ThreadNotFound
from threadkeep_client.pydantic_ai import ThreadkeepConversationStore
from threadkeep_client.pydantic_ai_wire import NAMESPACE

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(memory: AsyncThreadkeep) -> ThreadkeepConversationStore:
    return ThreadkeepConversationStore(memory)


def prompts(messages: Sequence[ModelMessage]) -> list[object]:
    """Return what the user said."""
    return [
        part.content
        for message in messages
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]


async def ask(
    store: ThreadkeepConversationStore,
    agent: Agent[None, str],
    prompt: str,
    limit: int | None = None,
) -> str:
    """Run as pydantic-ai's documentation shows it: load, run, save."""
    conversation = await store.load("c", limit=limit) or Conversation(conversation_id="c")
    result = await agent.run(prompt, conversation=conversation)
    await store.save(result)
    return result.output


def counting(seen: list[list[ModelMessage]]) -> Agent[None, str]:
    """Return an agent that answers with the number of messages it was sent."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(messages)
        return ModelResponse(parts=[TextPart(str(len(messages)))])

    return Agent(FunctionModel(answer), instructions="Be brief.")


async def test_runs_go_on_from_what_is_stored(store: ThreadkeepConversationStore) -> None:
    """Each run is sent all runs before it, the same words twice too."""
    seen: list[list[ModelMessage]] = []
    agent = counting(seen)

    answers = [await ask(store, agent, prompt) for prompt in ("Hi", "yes", "yes")]

    assert answers == ["1", "3", "5"]
    assert prompts(seen[-1]) == ["Hi", "yes", "yes"]
    record = await store.read_record("c")
    assert record is not None
    assert record.usage.requests == 3


async def test_tools_are_stored_with_their_results(store: ThreadkeepConversationStore) -> None:
    """A run with tool calls comes back equal, message by message."""
    agent = Agent(TestModel())

    @agent.tool_plain
    def weather(city: str) -> dict[str, object]:
        return {"city": city, "celsius": 21.5}

    first = await agent.run("How warm is it?", conversation=Conversation(conversation_id="c"))
    await store.save(first)

    conversation = await store.load("c")
    assert conversation is not None
    assert conversation.messages == first.all_messages()
    assert len(conversation.messages) == 4
    second = await agent.run("And now?", conversation=conversation)
    assert [entry.message for entry in await store.save(second)] == second.new_messages()


async def test_window_is_read_and_the_whole_is_kept(store: ThreadkeepConversationStore) -> None:
    """A run on the last messages only is appended to the whole conversation."""
    seen: list[list[ModelMessage]] = []
    agent = counting(seen)

    for n in range(4):
        await ask(store, agent, f"q{n}", limit=2)

    assert prompts(seen[-1]) == ["q2", "q3"]
    conversation = await store.load("c")
    assert conversation is not None
    assert prompts(conversation.messages) == ["q0", "q1", "q2", "q3"]


async def test_two_runs_at_once(store: ThreadkeepConversationStore) -> None:
    """Of two runs from one point one is stored; the other conflicts, and is run again."""
    agent = counting([])
    await ask(store, agent, "Hi")

    results = await asyncio.gather(
        ask(store, agent, "one"), ask(store, agent, "other"), return_exceptions=True
    )

    assert sum(isinstance(result, ConversationConflict) for result in results) == 1
    conversation = await store.load("c")
    assert conversation is not None
    assert len(conversation.messages) == 4


async def test_regenerated_answer(store: ThreadkeepConversationStore) -> None:
    """A branch takes the last question and answer back and asks again; the old one is kept."""
    seen: list[list[ModelMessage]] = []
    agent = counting(seen)
    await ask(store, agent, "Hi")
    await ask(store, agent, "Tell me more")
    before = await store.load("c")
    assert before is not None

    branch = await store.branch("c", at=2, expected_revision=before.revision)
    result = await agent.run("Tell me less", conversation=branch)
    await store.save(result)

    conversation = await store.load("c")
    assert conversation is not None
    assert prompts(conversation.messages) == ["Hi", "Tell me less"]
    record = await store.read_record("c")
    assert record is not None
    assert prompts([e.message for e in await store.read_history(record.branches[0])]) == [
        "Hi",
        "Tell me more",
    ]


async def test_paused_run_is_resumed_elsewhere(
    service_environment: dict[str, str], api_key: str, tmp_path: Path
) -> None:
    """A run that waits for an approval goes on in another process, after a kill of the service."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("drop", {"table": "t"}, tool_call_id="c1")])
        return ModelResponse(parts=[TextPart("Dropped.")])

    agent: Agent[None, str | DeferredToolRequests] = Agent(
        FunctionModel(answer), output_type=[str, DeferredToolRequests]
    )
    dropped: list[str] = []

    @agent.tool_plain(requires_approval=True)
    def drop(table: str) -> str:
        dropped.append(table)
        return "done"

    with running_service(service_environment, tmp_path) as service:
        async with AsyncThreadkeep(service.url, api_key=api_key) as memory:
            conversation = Conversation(conversation_id="c")
            await ThreadkeepConversationStore(memory).save(
                await agent.run("Drop t", conversation=conversation)
            )
        service.kill()
    with running_service(service_environment, tmp_path) as service:
        async with AsyncThreadkeep(service.url, api_key=api_key) as memory:
            store = ThreadkeepConversationStore(memory)
            paused = await store.load("c")
            assert paused is not None
            assert paused.deferred_tool_requests is not None
            assert [call.tool_name for call in paused.deferred_tool_requests.approvals] == ["drop"]
            result = await agent.run(
                conversation=paused,
                deferred_tool_results=DeferredToolResults(approvals={"c1": True}),
            )
            await store.save(result)
            finished = await store.load("c")

    assert result.output == "Dropped."
    assert dropped == ["t"]
    assert finished is not None
    assert finished.deferred_tool_requests is None
    assert len(finished.messages) == 4


async def test_save_sends_what_is_new_only(
    memory: AsyncThreadkeep, store: ThreadkeepConversationStore
) -> None:
    """The tenth save of a conversation stores two entries, as the first did."""
    agent = counting([])
    for n in range(10):
        await ask(store, agent, f"q{n}")

    stored = [checkpoint async for checkpoint in memory.checkpoints("c", ns=NAMESPACE)]

    assert [len((checkpoint["metadata"] or {})["entries"]) for checkpoint in stored] == [2] * 10


async def test_deletion_erases_what_is_stored(
    memory: AsyncThreadkeep, store: ThreadkeepConversationStore
) -> None:
    """After a delete the service knows no thread of it."""
    await ask(store, counting([]), "Hi")

    await store.delete("c")

    assert [thread async for thread in memory.threads()] == []


async def test_deletion_that_was_cut_short_is_finished(
    memory: AsyncThreadkeep, store: ThreadkeepConversationStore
) -> None:
    """When the deleting process dies before the erasure, the next read makes up for it."""
    await ask(store, counting([]), "Hi")
    cut = CutShort(memory)
    with pytest.raises(ConnectionError):
        await cut.delete("c")

    assert await store.load("c") is None
    assert [thread async for thread in memory.threads()] == []
    await ask(store, counting([]), "Hi again")
    assert await store.load("c") is not None


class CutShort(ThreadkeepConversationStore):
    """A store whose process dies before it erases."""

    async def _erase(self, run_id: str) -> None:
        raise ConnectionError(run_id)


async def test_late_erasure_spares_the_next_conversation(
    memory: AsyncThreadkeep, store: ThreadkeepConversationStore
) -> None:
    """An id that begins anew while its old conversation is erased keeps what is new."""
    await ask(store, counting([]), "old")
    run_ids: list[str] = []

    class Late(ThreadkeepConversationStore):
        async def _erase(self, run_id: str) -> None:
            run_ids.append(run_id)

    await Late(memory).delete("c")
    await ask(store, counting([]), "new")
    await ask(store, counting([]), "newer")
    await store._erase(run_ids[0])

    conversation = await store.load("c")
    assert conversation is not None
    assert prompts(conversation.messages) == ["new", "newer"]


async def test_conversations_are_the_owners(memory: AsyncThreadkeep) -> None:
    """Another owner reads, lists and finds nothing of it, by entry ids neither."""
    ada = ThreadkeepConversationStore(memory.for_owner("ada"))
    bob = ThreadkeepConversationStore(memory.for_owner("bob"))
    entries = await ada.save(
        await counting([]).run("secret", conversation=Conversation(conversation_id="c"))
    )

    assert await bob.load("c") is None
    assert await bob.list_conversations() == []
    with pytest.raises(LookupError):
        await bob.read_entry(entries[0].id)
    assert len(await ada.list_conversations()) == 1
    with pytest.raises(ThreadNotFound):
        await ask(bob, counting([]), "Hi")
