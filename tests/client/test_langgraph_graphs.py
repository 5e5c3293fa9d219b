"""Real graphs over the saver: resume, partial failure, time travel, subgraphs, history."""

import operator
import time
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send, interrupt

from threadkeep_client import AsyncThreadkeep, Threadkeep
from threadkeep_client.langgraph import ThreadkeepSaver

pytestmark = pytest.mark.anyio

CONFIG: RunnableConfig = {"configurable": {"thread_id": "graph-thread"}}
WAIT_SECONDS = 20.0

Graph = CompiledStateGraph[Any, Any, Any, Any]


class Log(TypedDict):
    """A state that only grows."""

    log: Annotated[list[str], operator.add]


class IntegerVersions(ThreadkeepSaver):
    """A saver that counts versions in integers, as LangGraph's base class does."""

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002
        return (current or 0) + 1


@pytest.fixture
def saver(
    memory: AsyncThreadkeep, sync_memory: Threadkeep, anyio_backend: object
) -> ThreadkeepSaver:
    """A saver of a fresh tenant."""
    return ThreadkeepSaver(memory, sync_memory)


def say(text: str) -> Any:
    """Return a node that writes one text."""
    return lambda _: {"log": [text]}


def chain(saver: ThreadkeepSaver, *names: str, **options: Any) -> Graph:
    """Return a graph of these nodes in a row; each logs its name."""
    builder = StateGraph(Log)
    for name in names:
        builder.add_node(name, say(name))
    for before, after in zip((START, *names), (*names, END), strict=True):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=saver, **options)


def asking(saver: ThreadkeepSaver | None) -> Graph:
    """Return a graph that works, then asks, then writes the answer."""

    def ask(state: Log) -> dict[str, list[str]]:
        return {"log": [interrupt("name?")]}

    builder = StateGraph(Log)
    builder.add_node("work", say("worked"))
    builder.add_node("ask", ask)
    builder.add_edge(START, "work")
    builder.add_edge("work", "ask")
    return builder.compile(checkpointer=saver)


def test_interrupt_and_resume(saver: ThreadkeepSaver) -> None:
    """A graph that asks is resumed with the answer, and what ran before does not run again."""
    graph = asking(saver)

    stopped = graph.invoke({"log": []}, CONFIG)
    assert [one.value for one in stopped["__interrupt__"]] == ["name?"]
    assert graph.get_state(CONFIG).next == ("ask",)

    assert graph.invoke(Command(resume="Ada"), CONFIG)["log"] == ["worked", "Ada"]
    assert graph.get_state(CONFIG).next == ()


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_interrupt_and_resume_with_asyncio(saver: ThreadkeepSaver, durability: Any) -> None:
    """The same with asyncio, in each of LangGraph's ways to save, and after a new start."""
    await asking(saver).ainvoke({"log": []}, CONFIG, durability=durability)

    resumed = asking(saver)
    answer = await resumed.ainvoke(Command(resume="Ada"), CONFIG, durability=durability)

    assert answer["log"] == ["worked", "Ada"]
    assert (await resumed.aget_state(CONFIG)).values == answer


def test_a_finished_node_does_not_run_again(saver: ThreadkeepSaver) -> None:
    """When one node of a parallel step fails, resuming runs that one only."""
    runs: Counter[str] = Counter()

    def finishes(state: Log) -> dict[str, list[str]]:
        runs["finishes"] += 1
        return {"log": ["finished"]}

    def fails_once(state: Log) -> dict[str, list[str]]:
        runs["fails"] += 1
        if runs["fails"] == 1:
            _wait_for_write(saver, "log")
            raise ConnectionError("cut off")
        return {"log": ["recovered"]}

    builder = StateGraph(Log)
    builder.add_node("finishes", finishes)
    builder.add_node("fails", fails_once)
    builder.add_edge(START, "finishes")
    builder.add_edge(START, "fails")
    graph = builder.compile(checkpointer=saver)
    with pytest.raises(ConnectionError):
        graph.invoke({"log": ["start"]}, CONFIG)

    failed = graph.get_state(CONFIG)
    assert {task.name: str(task.error) for task in failed.tasks} == {
        "finishes": "None",
        "fails": "ConnectionError('cut off')",
    }
    assert sorted(graph.invoke(None, CONFIG)["log"]) == ["finished", "recovered", "start"]
    assert runs == {"finishes": 1, "fails": 2}


def test_time_travel(saver: ThreadkeepSaver) -> None:
    """An edit of an earlier state makes a branch; the first branch stays as it was."""
    graph = chain(saver, "one", "two")
    first = graph.invoke({"log": ["start"]}, CONFIG)
    before_two = next(s for s in graph.get_state_history(CONFIG) if s.next == ("two",))
    ended = graph.get_state(CONFIG)

    fork = graph.update_state(before_two.config, {"log": ["edited"]}, as_node="one")
    second = graph.invoke(None, fork)

    assert first["log"] == ["start", "one", "two"]
    assert second["log"] == ["start", "one", "edited", "two"]
    assert graph.get_state(CONFIG).values == second
    assert graph.get_state(ended.config).values == first
    forked = graph.get_state(fork)
    assert forked.parent_config == before_two.config
    assert forked.metadata is not None
    assert forked.metadata["source"] == "update"


@pytest.mark.parametrize("kind", [ThreadkeepSaver, IntegerVersions])
async def test_branches_of_equal_versions_stay_apart(
    kind: type[ThreadkeepSaver], memory: AsyncThreadkeep
) -> None:
    """Copies and branches whose versions count alike each keep their own values."""
    graph = chain(kind(memory), "one", "two")
    await graph.ainvoke({"log": ["left"]}, CONFIG)
    left = await graph.aget_state(CONFIG)
    start = [s async for s in graph.aget_state_history(CONFIG)][-1]

    await graph.ainvoke({"log": ["right"]}, start.config)
    right = await graph.aget_state(CONFIG)
    copy = await graph.aupdate_state(left.config, None, as_node="__copy__")

    assert (await graph.aget_state(left.config)).values["log"] == ["left", "one", "two"]
    assert (await graph.aget_state(right.config)).values["log"] == ["right", "one", "two"]
    assert (await graph.aget_state(copy)).values["log"] == ["left", "one", "two"]


def test_a_subgraph_has_its_namespace(saver: ThreadkeepSaver) -> None:
    """A subgraph's checkpoints stand in a namespace of their own, and it resumes from there."""
    builder = StateGraph(Log)
    builder.add_node("outer", say("outer"))
    builder.add_node("inner", asking(None))
    builder.add_edge(START, "outer")
    builder.add_edge("outer", "inner")
    graph = builder.compile(checkpointer=saver)
    graph.invoke({"log": []}, CONFIG)

    inner = graph.get_state(CONFIG, subgraphs=True).tasks[0].state
    namespaces = {found.config["configurable"]["checkpoint_ns"] for found in saver.list(CONFIG)}

    assert isinstance(inner, tuple)
    assert inner.next == ("ask",)
    assert namespaces == {"", inner.config["configurable"]["checkpoint_ns"]}
    assert inner.config["configurable"]["checkpoint_ns"].startswith("inner:")
    assert (
        len(list(saver.list({"configurable": {**CONFIG["configurable"], "checkpoint_ns": ""}})))
        == 3
    )
    resumed = graph.invoke(Command(resume="Ada"), CONFIG)
    assert resumed["log"][-2:] == ["worked", "Ada"]


def test_history_is_filtered_and_paged(saver: ThreadkeepSaver) -> None:
    """The history of a graph is newest first, filtered by metadata, and goes on from any state."""
    graph = chain(saver, "one", "two", "three")
    graph.invoke({"log": []}, CONFIG)

    states = list(graph.get_state_history(CONFIG))
    assert [_step(s.metadata) for s in states] == [3, 2, 1, 0, -1]
    assert [s.values.get("log") for s in states[:2]] == [["one", "two", "three"], ["one", "two"]]

    loops = graph.get_state_history(CONFIG, filter={"source": "loop", "step": 2})
    assert [s.config for s in loops] == [states[1].config]
    earlier = graph.get_state_history(CONFIG, before=states[1].config, limit=2)
    assert [s.config for s in earlier] == [s.config for s in states[2:4]]
    assert list(graph.get_state_history(CONFIG, filter={"step": "2"})) == []


async def test_history_with_asyncio(saver: ThreadkeepSaver) -> None:
    """The asynchronous history is the same one."""
    graph = chain(saver, "one", "two")
    await graph.ainvoke({"log": []}, CONFIG)

    found = [s.config async for s in graph.aget_state_history(CONFIG)]

    assert found == [s.config for s in graph.get_state_history(CONFIG)]
    assert len(found) == 4


@pytest.mark.parametrize("kind", [ThreadkeepSaver, IntegerVersions])
async def test_messages_accumulate(kind: type[ThreadkeepSaver], memory: AsyncThreadkeep) -> None:
    """A conversation of messages grows over turns, types and ids kept, with either versions."""

    def answer(state: MessagesState) -> dict[str, list[AnyMessage]]:
        return {"messages": [AIMessage(f"You said {state['messages'][-1].text}")]}

    builder = StateGraph(MessagesState)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    graph = builder.compile(checkpointer=kind(memory))
    first = await graph.ainvoke({"messages": [HumanMessage("yes")]}, CONFIG)
    second = await graph.ainvoke({"messages": [HumanMessage("yes")]}, CONFIG)

    assert second["messages"][:2] == first["messages"]
    assert [type(message) for message in second["messages"]] == [HumanMessage, AIMessage] * 2
    assert len({message.id for message in second["messages"]}) == 4
    assert (await graph.aget_state(CONFIG)).values == second


async def test_sends_wait_in_the_store(saver: ThreadkeepSaver) -> None:
    """Tasks that were sent and have not run yet survive an interruption before they do."""
    builder = StateGraph(Log)
    builder.add_node("plan", say("planned"))
    builder.add_node("work", lambda item: {"log": [f"did {item}"]})
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda _: [Send("work", n) for n in range(3)], ["work"])
    graph = builder.compile(checkpointer=saver, interrupt_before=["work"])
    await graph.ainvoke({"log": []}, CONFIG)

    assert (await graph.aget_state(CONFIG)).next == ("work", "work", "work")
    done = await graph.ainvoke(None, CONFIG)
    assert done["log"] == ["planned", "did 0", "did 1", "did 2"]


def _step(metadata: Mapping[str, Any] | None) -> Any:
    assert metadata is not None
    return metadata["step"]


def _wait_for_write(saver: ThreadkeepSaver, channel: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        found = saver.get_tuple(CONFIG)
        if found and any(write[1] == channel for write in found.pending_writes or []):
            return
        time.sleep(0.01)  # between two looks at a condition
    raise AssertionError("the other node's write never came")
