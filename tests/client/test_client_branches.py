"""Checkpoints, heads, forks and deletion through both clients."""

import pytest

from threadkeep_client import AsyncThreadkeep, Threadkeep
from threadkeep_client.errors import (
    ChannelNotFound,
    CheckpointNotFound,
    ParentMoved,
    ThreadDeleted,
    ThreadExists,
    ThreadNotFound,
)

pytestmark = pytest.mark.anyio

LARGE = "word " * 4000


async def save(memory: AsyncThreadkeep, text: str, parent: str | None, thread_id: str = "t") -> str:
    messages = [{"role": "user", "content": text}]
    saved = await memory.save(thread_id, messages, parent=parent, on_conflict="branch")
    assert saved["checkpoint_id"] is not None
    return saved["checkpoint_id"]


async def contents(memory: AsyncThreadkeep, thread_id: str = "t") -> list[str]:
    return [message["content"] async for message in memory.messages(thread_id)]


async def test_checkpoints_are_a_tree(memory: AsyncThreadkeep, sync_memory: Threadkeep) -> None:
    """All branches are listed, page by page, with their parents and which is the current one."""
    root = await save(memory, "root", None)
    left = await save(memory, "left", root)
    right = await save(memory, "right", root)
    listed = [point async for point in memory.checkpoints("t", page_size=1)]
    assert {point["checkpoint_id"]: point["parent_checkpoint_id"] for point in listed} == {
        root: None,
        left: root,
        right: root,
    }
    assert [point["checkpoint_id"] for point in listed if not point["current"]] == [left]
    assert listed == list(sync_memory.checkpoints("t"))
    assert list(sync_memory.checkpoints("t", ns="")) == []


async def test_one_checkpoint_and_one_channel(
    memory: AsyncThreadkeep, sync_memory: Threadkeep
) -> None:
    """A checkpoint gives its messages and names its large values, each to be had alone."""
    head = await save(memory, LARGE, None)
    point = await memory.checkpoint("t", head)
    assert [message["content"] for message in point["messages"]] == [LARGE]
    [named] = point["channels"]
    channel = await memory.channel("t", head, named["channel"])
    assert (channel["value"], channel["version"]) == (LARGE, named["version"])
    assert sync_memory.channel("t", head, named["channel"]) == channel
    assert sync_memory.checkpoint("t", head) == point
    with pytest.raises(ChannelNotFound):
        await memory.channel("t", head, "no/such channel")
    with pytest.raises(CheckpointNotFound):
        await memory.checkpoint("t", "nowhere")


async def test_the_head_is_chosen(memory: AsyncThreadkeep, sync_memory: Threadkeep) -> None:
    """The head is put where it is wanted, but not over somebody else's choice; twice is once."""
    first = await save(memory, "first", None)
    second = await save(memory, "second", first)
    for _ in range(2):
        thread = await memory.set_head("t", first, expected=second)
        assert thread["head"] == first
    assert await contents(memory) == ["first"]
    with pytest.raises(ParentMoved) as moved:
        await memory.set_head("t", None, expected=second)
    assert moved.value.head == first
    assert sync_memory.set_head("t", None)["head"] is None
    assert sync_memory.set_head("t", second, expected=None)["head"] == second
    assert await contents(memory) == ["first", "second"]


async def test_a_fork_is_a_thread_of_its_own(
    memory: AsyncThreadkeep, sync_memory: Threadkeep
) -> None:
    """A fork holds what stood before the checkpoint, says where it is from, and is made once."""
    first = await save(memory, "first", None)
    second = await save(memory, "second", first)
    copy = await memory.fork("t", "copy", checkpoint_id=first)
    assert copy["forked_from"] == {"thread_id": "t", "checkpoint_id": first}
    again = sync_memory.fork("t", "copy", checkpoint_id=first)
    assert again["created_at"] == copy["created_at"]
    assert (await memory.fork("t", "whole"))["messages"] == 2
    with pytest.raises(ThreadExists):
        await memory.fork("t", "copy", checkpoint_id=second)
    await memory.delete_thread("t")
    assert await contents(memory, "copy") == ["first"]


async def test_deletion(memory: AsyncThreadkeep, sync_memory: Threadkeep) -> None:
    """A deleted thread stays deleted; its id takes no writes until it is free for reuse."""
    await save(memory, "first", None)
    await memory.delete_thread("t")
    sync_memory.delete_thread("t")
    with pytest.raises(ThreadNotFound):
        await memory.thread("t")
    with pytest.raises(ThreadDeleted):
        await save(memory, "again", None)
    with pytest.raises(ThreadDeleted):
        async with memory.turn("t", "Hello?"):
            raise AssertionError("the body runs")
    await memory.delete_thread("t", reuse=True)
    with pytest.raises(ThreadNotFound):
        sync_memory.delete_thread("t", reuse=True)
    await save(memory, "anew", None)
    assert await contents(memory) == ["anew"]


def test_staging_without_asyncio(sync_memory: Threadkeep) -> None:
    """The sync client stages, lists and drops as the other one does."""
    assert sync_memory.stage("t", "search", {"value": 1}, parent=None, key="k")["created"] is True
    assert sync_memory.stage("t", "search", {"value": 1}, parent=None, key="k")["created"] is False
    [pending] = sync_memory.load("t")["pending"]
    assert (pending["key"], pending["writes"]) == (
        "k",
        [{"task_id": "search", "channel": "value", "value": 1}],
    )
    sync_memory.discard("t", key="k")
    assert sync_memory.load("t")["pending"] == []


async def test_one_owner_in_the_sync_client(sync_memory: Threadkeep) -> None:
    """The sync client serves owners over its connections as well."""
    with sync_memory.for_owner("ann") as ann:
        ann.save("t", [{"role": "user", "content": "hi"}])
    assert ann.thread("t")["owner"] == "ann"
