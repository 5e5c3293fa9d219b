"""One thread id, two kinds of memory: turns by load and save, checkpoints by a graph."""

from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph

from threadkeep_client import AsyncThreadkeep, Threadkeep
from threadkeep_client.langgraph import ThreadkeepSaver

pytestmark = pytest.mark.anyio

THREAD_ID = "shared"
CONFIG: RunnableConfig = {"configurable": {"thread_id": THREAD_ID}}
ASKED = {"role": "user", "content": "asked through load and save"}
ANSWERED = {"role": "assistant", "content": "answered through load and save"}


@pytest.fixture
def saver(
    memory: AsyncThreadkeep, sync_memory: Threadkeep, anyio_backend: object
) -> ThreadkeepSaver:
    """A saver of a fresh tenant."""
    return ThreadkeepSaver(memory, sync_memory)


def answering(saver: ThreadkeepSaver) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return a graph that answers one message."""

    def answer(state: MessagesState) -> dict[str, list[AnyMessage]]:
        return {"messages": [AIMessage("answered by the graph")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=saver)


async def turns_of(memory: AsyncThreadkeep) -> list[Any]:
    """Return the contents that a load gives."""
    return [message["content"] for message in (await memory.load(THREAD_ID))["messages"]]


async def use_both(memory: AsyncThreadkeep, saver: ThreadkeepSaver) -> None:
    """Take turns with both kinds on one thread."""
    graph = answering(saver)
    await graph.ainvoke({"messages": [HumanMessage("asked of the graph")]}, CONFIG)
    await memory.save(THREAD_ID, [ASKED, ANSWERED], parent=None)
    await graph.ainvoke({"messages": [HumanMessage("asked of the graph again")]}, CONFIG)
    head = (await memory.load(THREAD_ID))["head"]
    await memory.stage(THREAD_ID, "task", {"result": 1}, parent=head, key="next")


async def test_neither_sees_the_other(memory: AsyncThreadkeep, saver: ThreadkeepSaver) -> None:
    """A load has only turns and the graph only its state, in both directions."""
    await use_both(memory, saver)

    state = await answering(saver).aget_state(CONFIG)

    assert await turns_of(memory) == [ASKED["content"], ANSWERED["content"]]
    assert [message.text for message in state.values["messages"]] == [
        "asked of the graph",
        "answered by the graph",
        "asked of the graph again",
        "answered by the graph",
    ]


async def test_lists_hold_no_turns(memory: AsyncThreadkeep, saver: ThreadkeepSaver) -> None:
    """No list of checkpoints, of the thread or of all, and no tuple shows a turn."""
    await use_both(memory, saver)

    for config in (CONFIG, None):
        listed = [found async for found in saver.alist(config)]
        assert {found.config["configurable"]["checkpoint_ns"] for found in listed} == {""}
        assert len(listed) == 6


@pytest.mark.parametrize("strategy", ["keep_latest", "delete"])
async def test_pruning_leaves_turns(
    memory: AsyncThreadkeep, saver: ThreadkeepSaver, strategy: str
) -> None:
    """Pruning a thread's checkpoints leaves its turns and what is staged."""
    await use_both(memory, saver)

    await saver.aprune([THREAD_ID], strategy=strategy)

    assert await turns_of(memory) == [ASKED["content"], ANSWERED["content"]]
    assert len((await memory.load(THREAD_ID))["pending"]) == 1
    kept = [found async for found in saver.alist(CONFIG)]
    assert len(kept) == (1 if strategy == "keep_latest" else 0)


async def test_deleting_checkpoints_leaves_turns(
    memory: AsyncThreadkeep, saver: ThreadkeepSaver
) -> None:
    """Deleting a thread through the saver deletes the graph's state, and the turns stay."""
    await use_both(memory, saver)

    await saver.adelete_thread(THREAD_ID)

    assert await saver.aget_tuple(CONFIG) is None
    assert await turns_of(memory) == [ASKED["content"], ANSWERED["content"]]
    assert len((await memory.load(THREAD_ID))["pending"]) == 1


async def test_a_copy_has_no_turns(memory: AsyncThreadkeep, saver: ThreadkeepSaver) -> None:
    """Copying a thread through the saver copies the graph's state only."""
    await use_both(memory, saver)

    await saver.acopy_thread(THREAD_ID, "copy")

    assert (await memory.load("copy"))["messages"] == []
    copied: RunnableConfig = {"configurable": {"thread_id": "copy"}}
    assert len([found async for found in saver.alist(copied)]) == 6
