"""Delta channels: what the service says they are rebuilt from, against LangGraph's own walk."""

import random
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.graph import START, StateGraph
from langgraph.graph.state import CompiledStateGraph

from threadkeep_client import AsyncThreadkeep, Threadkeep
from threadkeep_client.langgraph import ThreadkeepSaver

pytestmark = pytest.mark.anyio

THREAD: RunnableConfig = {"configurable": {"thread_id": "delta", "checkpoint_ns": ""}}
CHANNELS = ("log", "files", "never")

Graph = CompiledStateGraph[Any, Any, Any, Any]


def extend(state: list[Any], writes: Sequence[list[Any]]) -> list[Any]:
    """Return the list with every write appended, in their order."""
    return [*state, *(item for write in writes for item in write)]


class Log(TypedDict):
    """A state whose list is stored as its writes, with a snapshot after every third."""

    log: Annotated[list[str], DeltaChannel(extend, snapshot_frequency=3)]


@pytest.fixture
def saver(
    memory: AsyncThreadkeep, sync_memory: Threadkeep, anyio_backend: object
) -> ThreadkeepSaver:
    """A saver of a fresh tenant."""
    return ThreadkeepSaver(memory, sync_memory)


def put(saver: ThreadkeepSaver, parent: RunnableConfig, **values: Any) -> RunnableConfig:
    """Store a checkpoint under a parent, with these values new."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = values
    checkpoint["channel_versions"] = {name: saver.get_next_version(None, None) for name in values}
    return saver.put(parent, checkpoint, {}, checkpoint["channel_versions"])


def histories(saver: ThreadkeepSaver, config: RunnableConfig) -> Any:
    """Return the histories of all channels, after comparing them with LangGraph's own walk."""
    found = saver.get_delta_channel_history(config=config, channels=CHANNELS)
    walked = BaseCheckpointSaver.get_delta_channel_history(saver, config=config, channels=CHANNELS)
    assert found == walked
    return found


def logging(saver: ThreadkeepSaver) -> Graph:
    """Return a graph that logs that it ran, after what it was given."""

    def run(state: Log) -> dict[str, list[str]]:
        return {"log": [f"ran {len(state['log'])}"]}

    builder = StateGraph(Log)
    builder.add_node("run", run)
    builder.add_edge(START, "run")
    return builder.compile(checkpointer=saver)


def test_writes_back_to_the_root(saver: ThreadkeepSaver) -> None:
    """Without a stored value a channel has every ancestor's writes, oldest first, and no seed."""
    first = put(saver, THREAD)
    saver.put_writes(first, [("log", 1), ("files", "a"), ("log", 2)], "task")
    second = put(saver, first)
    saver.put_writes(second, [("log", 3)], "task")
    last = put(saver, second)
    saver.put_writes(last, [("log", "pending")], "task")

    found = histories(saver, last)

    assert found["log"] == {"writes": [("task", "log", 1), ("task", "log", 2), ("task", "log", 3)]}
    assert found["files"] == {"writes": [("task", "files", "a")]}
    assert found["never"] == {"writes": []}


@pytest.mark.parametrize("seed", [_DeltaSnapshot(["s"]), ["plain"], "text", 0, False, "", [], None])
def test_the_nearest_value_is_the_seed(saver: ThreadkeepSaver, seed: Any) -> None:
    """A walk ends at the nearest stored value, inline or not, and takes that ancestor's writes."""
    root = put(saver, THREAD, log=["too old"])
    saver.put_writes(root, [("log", "too old")], "task")
    seeded = put(saver, root, log=seed)
    saver.put_writes(seeded, [("log", 1)], "task")
    last = put(saver, put(saver, seeded))

    found = histories(saver, last)["log"]

    assert found == {"seed": seed, "writes": [("task", "log", 1)]}
    assert type(found["seed"]) is type(seed)


def test_an_inherited_value_is_no_nearer(saver: ThreadkeepSaver) -> None:
    """A checkpoint that still holds an older value holds it: the walk ends there."""
    seeded = put(saver, THREAD, log=["seed"])
    saver.put_writes(seeded, [("log", "before")], "task")
    held = empty_checkpoint()
    found = saver.get_tuple(seeded)
    assert found is not None
    held["channel_versions"] = found.checkpoint["channel_versions"]
    keeping = saver.put(seeded, held, {}, {})
    saver.put_writes(keeping, [("log", "after")], "task")

    assert histories(saver, put(saver, keeping))["log"] == {
        "seed": ["seed"],
        "writes": [("task", "log", "after")],
    }


def test_parallel_tasks_replay_in_the_order_they_ran(saver: ThreadkeepSaver) -> None:
    """Writes of one step follow the tasks' paths, not their ids or when they arrived."""
    root = put(saver, THREAD)
    saver.put_writes(root, [("log", "second")], "aa-task", "~1:b")
    saver.put_writes(root, [("log", "first")], "zz-task", "~1:a")
    saver.put_writes(root, [("log", "input")], "mm-task")

    found = histories(saver, put(saver, root))["log"]["writes"]

    assert [value for _, _, value in found] == ["input", "first", "second"]


def test_another_branch_is_not_replayed(saver: ThreadkeepSaver) -> None:
    """Only the ancestors count: a sibling's writes belong to its own branch."""
    root = put(saver, THREAD, log=_DeltaSnapshot(["root"]))
    left, right = put(saver, root), put(saver, root)
    saver.put_writes(left, [("log", "left")], "task")
    saver.put_writes(right, [("log", "right")], "task")
    on_left, on_right = put(saver, left), put(saver, right)

    assert histories(saver, on_left)["log"]["writes"] == [("task", "log", "left")]
    assert histories(saver, on_right)["log"]["writes"] == [("task", "log", "right")]


async def test_nothing_stored_is_an_empty_history(saver: ThreadkeepSaver) -> None:
    """An unknown thread or checkpoint has no writes and no seed; no channels, no histories."""
    unknown: RunnableConfig = {"configurable": {**THREAD["configurable"], "checkpoint_id": "nope"}}
    assert histories(saver, THREAD)["log"] == {"writes": []}
    put(saver, THREAD)

    assert histories(saver, unknown)["log"] == {"writes": []}
    assert histories(saver, THREAD)["log"] == {"writes": []}
    assert await saver.aget_delta_channel_history(config=THREAD, channels=[]) == {}


def test_a_missing_ancestor_ends_the_walk(saver: ThreadkeepSaver) -> None:
    """A hole in the chain is where a history begins."""
    gone: RunnableConfig = {"configurable": {**THREAD["configurable"], "checkpoint_id": "0gone"}}
    orphan = put(saver, gone)
    saver.put_writes(orphan, [("log", 1)], "task")

    assert histories(saver, put(saver, orphan))["log"] == {"writes": [("task", "log", 1)]}


@pytest.mark.parametrize("seed", range(4))
async def test_any_tree_agrees_with_the_walk(saver: ThreadkeepSaver, seed: int) -> None:
    """On trees of random branches, values and writes every checkpoint agrees with the walk."""
    dice = random.Random(seed)  # noqa: S311 (a test that is the same every time)
    stored = [put(saver, THREAD)]
    for number in range(14):
        parent = dice.choice(stored[-4:])
        names = [name for name in CHANNELS[:2] if dice.random() < 0.2]
        stored.append(put(saver, parent, **{name: _DeltaSnapshot([number]) for name in names}))
        for task in dice.sample("abcd", dice.randrange(3)):
            writes = [(dice.choice(CHANNELS[:2]), f"{number}{task}{n}") for n in range(2)]
            saver.put_writes(stored[-1], writes, task, dice.choice(["", "~1", "~2"]))

    for config in stored:
        found = histories(saver, config)
        assert await saver.aget_delta_channel_history(config=config, channels=CHANNELS) == found


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
async def test_a_graph_rebuilds_its_channel(saver: ThreadkeepSaver, durability: Any) -> None:
    """A real delta channel is what its run made, at every turn, across snapshots."""
    graph = logging(saver)
    expected: list[str] = []
    for turn in range(8):
        done = await graph.ainvoke({"log": [f"turn {turn}"]}, THREAD, durability=durability)
        expected += [f"turn {turn}", f"ran {len(expected) + 1}"]
        assert done["log"] == expected
        assert (await graph.aget_state(THREAD)).values["log"] == expected
        assert graph.get_state(THREAD).values["log"] == expected


def test_a_copied_thread_rebuilds(saver: ThreadkeepSaver) -> None:
    """A copy rebuilds every state by itself, also when the thread it came from is gone."""
    graph = logging(saver)
    for turn in range(5):
        graph.invoke({"log": [f"turn {turn}"]}, THREAD)
    states = [state.values for state in graph.get_state_history(THREAD)]
    copy: RunnableConfig = {"configurable": {"thread_id": "copy", "checkpoint_ns": ""}}

    saver.copy_thread("delta", "copy")
    saver.delete_thread("delta")

    assert [state.values for state in graph.get_state_history(copy)] == states
    assert graph.invoke({"log": ["more"]}, copy)["log"] == [*states[0]["log"], "more", "ran 11"]
    assert saver.get_tuple(THREAD) is None


@pytest.mark.parametrize("turns", range(1, 5))
def test_a_pruned_thread_rebuilds(saver: ThreadkeepSaver, turns: int) -> None:
    """Pruning keeps what the latest state is rebuilt from, wherever the last snapshot was."""
    graph = logging(saver)
    for turn in range(turns):
        graph.invoke({"log": [f"turn {turn}"]}, THREAD)
    latest = graph.get_state(THREAD)
    before = len(list(saver.list(THREAD)))

    saver.prune(["delta"])

    assert graph.get_state(THREAD).values == latest.values
    assert graph.get_state(THREAD).config == latest.config
    assert len(list(saver.list(THREAD))) <= before
    assert graph.invoke({"log": ["more"]}, THREAD)["log"][:-2] == latest.values["log"]
    histories(saver, THREAD)


def test_a_branch_rebuilds(saver: ThreadkeepSaver) -> None:
    """Both branches of an edited thread rebuild their own values."""
    graph = logging(saver)
    for turn in range(4):
        graph.invoke({"log": [f"turn {turn}"]}, THREAD)
    first = graph.get_state(THREAD)
    earlier = list(graph.get_state_history(THREAD))[5]

    fork = graph.update_state(earlier.config, {"log": ["edited"]})

    assert graph.get_state(fork).values["log"] == [*earlier.values["log"], "edited"]
    assert graph.get_state(first.config).values == first.values
    assert graph.get_state(earlier.config).values == earlier.values
