"""Requests and answers of a saver, without a service."""

from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from threadkeep_client.langgraph_wire import (
    forget_bodies,
    histories_from,
    listing,
    prune_bodies,
    put_body,
    put_writes_body,
    target,
    tuple_from,
)

SERDE = JsonPlusSerializer()
CONFIG: RunnableConfig = {
    "configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "c1", "user": "u"},
    "metadata": {"app": "shop\0", "thread_id": "t", "tools": ["not a scalar"]},
}


def page(*items: object, more: bool) -> dict[str, Any]:
    """Return a page of a list."""
    return {"items": items, "has_more": more, "next_cursor": "next" if more else None}


def test_only_what_names_a_checkpoint_is_sent() -> None:
    """Of a config travel the thread (as text), the namespace and the checkpoint, nothing else."""
    config: RunnableConfig = {"configurable": {"thread_id": 7, "checkpoint_map": {}, "x": object()}}

    assert target(config) == {"configurable": {"thread_id": "7", "checkpoint_ns": ""}}


def test_put_carries_new_values_only() -> None:
    """A put sends the values of the new versions, and metadata as LangGraph's own savers do."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"a": ["new"], "b": ["old"]}
    checkpoint["channel_versions"] = {"a": 2, "b": 1}

    body: Any = put_body(CONFIG, checkpoint, {"source": "loop", "step": 1}, {"a": 2}, SERDE)

    assert [(blob["channel"], blob["version"]) for blob in body["blobs"]] == [("a", 2)]
    assert body["checkpoint"]["channel_values"] == {}
    assert body["metadata"] == {"source": "loop", "step": 1, "app": "shop", "user": "u"}


def test_a_fork_carries_all_values() -> None:
    """A copied checkpoint stands beside its original, so it brings every value along."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"a": ["x"], "b": ["y"]}
    checkpoint["channel_versions"] = {"a": 2, "b": 1}

    body: Any = put_body(CONFIG, checkpoint, {"source": "fork"}, {}, SERDE)

    assert [(blob["channel"], blob["version"]) for blob in body["blobs"]] == [("a", 2), ("b", 1)]


@pytest.mark.parametrize(
    ("channels", "indexes", "special"),
    [
        (["a", "b"], [0, 1], False),
        (["a", "__error__", "b"], [0, -1, 2], False),
        (["__error__", "__scheduled__", "__interrupt__", "__resume__"], [-1, -2, -3, -4], True),
    ],
)
def test_write_indexes(channels: list[str], indexes: list[int], *, special: bool) -> None:
    """A write's index is its place, fixed for special channels; only those alone overwrite."""
    writes = [(channel, 1) for channel in channels]

    body: Any = put_writes_body(CONFIG, writes, "task", "~path", SERDE)

    assert [write["idx"] for write in body["writes"]] == indexes
    assert body["all_special"] is special
    assert (body["task_id"], body["task_path"]) == ("task", "~path")


def test_a_channel_without_version_does_not_load() -> None:
    """An inline value whose channel has no version is left out; a blob covers a snapshot's mark."""
    checkpoint = {
        **empty_checkpoint(),
        "channel_values": {"kept": 0, "gone": 1, "log": True},
        "channel_versions": {"kept": 1, "log": 1},
    }
    wire = {
        "config": CONFIG,
        "checkpoint": checkpoint,
        "metadata": {},
        "parent_config": None,
        "pending_writes": [],
        "blobs": [{"channel": "log", "version": "1.h", "type": "bytes", "data": "eA=="}],
    }

    assert tuple_from(wire, SERDE).checkpoint["channel_values"] == {"kept": 0, "log": b"x"}


def test_a_seed_of_none_is_a_seed() -> None:
    """A stored None is a seed; nothing stored is none."""
    found = {"writes": [], "seed": {"type": "null", "data": ""}, "found": True}
    nothing: dict[str, Any] = {"writes": [], "seed": None, "found": False}

    histories = histories_from({"channels": {"a": found, "b": nothing}}, ["a", "b"], SERDE)

    assert histories == {"a": {"writes": [], "seed": None}, "b": {"writes": []}}


def test_a_list_asks_for_no_more_than_wanted() -> None:
    """A limit is spread over pages; when it is reached nothing more is asked."""
    wanted = listing(CONFIG, filter={"step": 1}, before=CONFIG, limit=25)

    assert wanted.body()["limit"] == 20
    assert len(wanted.take(page(*range(20), more=True))) == 20
    assert wanted.body() == {
        "config": target(CONFIG),
        "filter": {"step": 1},
        "before": "c1",
        "limit": 5,
        "cursor": "next",
    }
    wanted.take(page(*range(5), more=True))
    assert not wanted.open


def test_a_list_goes_on_after_a_short_page() -> None:
    """A page may end early; only its own word ends the list."""
    wanted = listing(None, filter=None, before=None, limit=None)

    wanted.take(page(1, more=True))
    assert wanted.open
    wanted.take(page(more=False))
    assert not wanted.open


@pytest.mark.parametrize("limit", [0, -1])
def test_a_list_of_nothing_asks_nothing(limit: int) -> None:
    """A limit of zero or less is an empty list."""
    assert not listing(None, filter=None, before=None, limit=limit).open


def test_a_list_without_namespace_has_all() -> None:
    """A config without a namespace lists all of them; the root is named by an empty text."""
    every = listing({"configurable": {"thread_id": "t"}}, filter={}, before=None, limit=None)
    root = listing(
        {"configurable": {"thread_id": "t", "checkpoint_ns": ""}},
        filter=None,
        before=None,
        limit=None,
    )

    assert every.criteria == {"config": {"configurable": {"thread_id": "t"}}}
    assert root.criteria == {"config": {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}}


def test_one_text_is_not_a_list_of_ids() -> None:
    """A single id where many are wanted is refused, instead of pruning a thread per letter."""
    with pytest.raises(TypeError, match="run_ids must be a sequence"):
        forget_bodies("run-1")
    with pytest.raises(TypeError, match="thread_ids must be a sequence"):
        prune_bodies("thread-1", "delete")
    with pytest.raises(ValueError, match="Unknown prune strategy 'keep_all'"):
        prune_bodies(["t"], "keep_all")


def test_many_ids_go_in_batches() -> None:
    """As many ids as are given, in requests no longer than the service takes; none for none."""
    sent: Any = prune_bodies([f"t{n}" for n in range(2001)], "delete")

    assert [len(body["thread_ids"]) for body in sent] == [1000, 1000, 1]
    assert sent[2] == {"thread_ids": ["t2000"], "strategy": "delete"}
    assert forget_bodies([]) == []
