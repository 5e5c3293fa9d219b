"""What delta channels are rebuilt from, held against LangGraph's own default implementation."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from app.adapters.sql.engine import Database
from app.adapters.sql.graphs import SqlGraphStore
from app.core.errors import CheckpointNotFound
from app.core.graphs import DeltaHistory, GraphWrite, Typed
from app.core.model import ThreadKey
from tests.graph_factories import new_graph, new_writes, with_values

pytestmark = pytest.mark.anyio

CHANNELS = ("a", "b", "c")


@pytest.fixture
def store(database: Database) -> SqlGraphStore:
    return SqlGraphStore(database)


@dataclass(frozen=True)
class Node:
    """One checkpoint of a tree. parent: by number, or one that is gone (99)."""

    parent: int | None
    values: Mapping[str, object]
    writes: tuple[tuple[str, str, str], ...]


@st.composite
def trees(draw: st.DrawFn) -> list[Node]:
    """Checkpoints in order of their ids, each on an earlier one: branches, holes, seeds, writes."""
    nodes: list[Node] = []
    # Inline values without NUL: the routes refuse it, as jsonb would.
    texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3)
    seeds = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), texts, st.binary())
    write = st.tuples(
        st.sampled_from(["", "~1", "~2"]), st.sampled_from("xyz"), st.sampled_from(CHANNELS)
    )
    for number in range(draw(st.integers(1, 12))):
        earlier = st.integers(max(0, number - 3), number - 1) if number else st.none()
        parent = draw(st.one_of(earlier, earlier, earlier, st.none(), st.just(99)))
        seeded = draw(st.sets(st.sampled_from(CHANNELS), max_size=1))
        values = {channel: draw(seeds) for channel in seeded}
        nodes.append(Node(parent, values, tuple(draw(st.lists(write, max_size=4)))))
    return nodes


def name_of(number: int) -> str:
    return f"c{number:02}"


class Reference(BaseCheckpointSaver[int]):
    """LangGraph's default implementation over a tree in memory."""

    def __init__(self, nodes: list[Node]) -> None:
        super().__init__()
        self._nodes = {name_of(number): node for number, node in enumerate(nodes)}

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        name = config["configurable"]["checkpoint_id"]
        node = self._nodes.get(name)
        if node is None:
            return None
        placed = sorted(
            (path, task, idx, channel) for idx, (path, task, channel) in enumerate(node.writes)
        )
        checkpoint: Any = {"id": name, "channel_values": dict(node.values)}
        parent: Any = {"configurable": {"checkpoint_id": name_of(node.parent or 0)}}
        return CheckpointTuple(
            config,
            checkpoint,
            {},
            None if node.parent is None else parent,
            [(task, channel, f"{name}/{idx}".encode()) for _, task, idx, channel in placed],
        )


async def store_tree(store: SqlGraphStore, key: ThreadKey, nodes: list[Node]) -> None:
    for number, node in enumerate(nodes):
        name = name_of(number)
        parent = None if node.parent is None else name_of(node.parent)
        blobs = {channel: v for channel, v in node.values.items() if isinstance(v, bytes)}
        inline = {channel: v for channel, v in node.values.items() if not isinstance(v, bytes)}
        versions = dict.fromkeys(CHANNELS, number + 1)
        await store.put(with_values(new_graph(key, name, parent), versions, blobs, inline))
        for idx, (path, task, channel) in enumerate(node.writes):
            data = Typed("bytes", f"{name}/{idx}".encode())
            write = GraphWrite(task, path, idx, channel, data)
            await store.put_writes(new_writes(key, name, writes=(write,)))


def seed_of(history: DeltaHistory) -> list[object]:
    """The seed in a list, for an inline one may be null; an empty list for none."""
    if history.seed is None:
        return []
    return [orjson.loads(history.seed.data) if history.seed.type == "json" else history.seed.data]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(nodes=trees())
async def test_as_langgraph_rebuilds(store: SqlGraphStore, tenant: str, nodes: list[Node]) -> None:
    """On any tree each checkpoint's channels have the seed and writes that LangGraph finds."""
    key = ThreadKey(tenant, f"t{abs(hash(repr(nodes)))}")
    await store_tree(store, key, nodes)
    reference = Reference(nodes)
    for number in range(len(nodes)):
        config: RunnableConfig = {"configurable": {"checkpoint_id": name_of(number)}}
        expected = reference.get_delta_channel_history(config=config, channels=CHANNELS)

        found = await store.delta_history(key, "", name_of(number), CHANNELS)

        for channel in CHANNELS:
            writes = [(w.task_id, w.channel, w.value.data) for w in found[channel].writes]
            wanted = expected[channel]
            assert writes == wanted["writes"]
            assert seed_of(found[channel]) == ([wanted["seed"]] if "seed" in wanted else [])


async def test_a_mark_gives_way_to_its_snapshot(store: SqlGraphStore, key: ThreadKey) -> None:
    """Beside a snapshot stands `true`; the snapshot is the seed, and the target's own never is."""
    snapshot = with_values(new_graph(key, "c1"), {"log": 1}, {"log": b"snapshot"}, {"log": True})
    await store.put(snapshot)
    await store.put(with_values(new_graph(key, "c2", "c1"), {"log": 2}, {"log": b"later"}))

    found = await store.delta_history(key, "", None, ["log", "other"])

    assert found["log"] == DeltaHistory(seed=Typed("bytes", b"snapshot"))
    assert found["other"] == DeltaHistory()
    assert await store.delta_history(key, "", "c2", []) == {}
    with pytest.raises(CheckpointNotFound):
        await store.delta_history(key, "", "c9", ["log"])


async def test_cycles_end(store: SqlGraphStore, key: ThreadKey) -> None:
    """Parents that go round in a circle end every walk, each write counted once.

    Source: near bytedance/deer-flow#5308 (case cp-parent-cycle).
    """
    for name, parent in (("c1", "c3"), ("c2", "c1"), ("c3", "c2"), ("c4", "c4x"), ("c4x", "c4")):
        graph = new_graph(
            key, name, parent, metadata={"counters_since_delta_snapshot": {"ch": [1, 1]}}
        )
        await store.put(with_values(graph, {"ch": 1}))
        await store.put_writes(new_writes(key, name))

    async with asyncio.timeout(1):
        found = await store.delta_history(key, "", "c3", ["ch"])
        two = await store.delta_history(key, "", "c4", ["ch"])
        await store.prune(key.tenant_id, "", [key.thread_id], delete=False)

    assert len(found["ch"].writes) == 2
    assert len(two["ch"].writes) == 1
    assert (await store.read(key, "", "c4x")).parent_id == "c4"
