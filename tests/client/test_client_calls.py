"""Load, save, threads and messages through both clients, against the running service."""

import pytest

from tests.service import Service
from threadkeep_client import AsyncThreadkeep, Threadkeep
from threadkeep_client.errors import CheckpointNotFound, InvalidPayload, ThreadNotFound
from threadkeep_client.wire import segment

pytestmark = pytest.mark.anyio

NILE = [
    {"role": "user", "content": "How long is the Nile?"},
    {"role": "assistant", "content": "About 6,650 km."},
]


async def test_load_and_save(memory: AsyncThreadkeep) -> None:
    """What was saved is loaded, in front of the new message, and the head is its parent."""
    assert (await memory.load("t"))["head"] is None
    saved = await memory.save("t", NILE, parent=None, key="one", metadata={"model": "m"})
    assert saved["created"] is True
    context = await memory.load("t", "And the Amazon?", marker="off")
    assert context["head"] == saved["checkpoint_id"]
    assert context["messages"] == [*NILE, {"role": "user", "content": "And the Amazon?"}]
    again = await memory.save("t", NILE, parent=None, key="one", metadata={"model": "m"})
    assert (again["created"], again["messages"][0]["id"]) == (False, saved["messages"][0]["id"])


def test_load_and_save_without_asyncio(sync_memory: Threadkeep) -> None:
    """The sync client does the same."""
    saved = sync_memory.save("t", NILE, parent=None)
    context = sync_memory.load("t", {"role": "user", "content": "Why?"}, marker="off", window=1)
    assert context["head"] == saved["checkpoint_id"]
    assert context["messages"][-1] == {"role": "user", "content": "Why?"}


async def test_options_reach_the_service(memory: AsyncThreadkeep) -> None:
    """Options of a load are the service's own, and one that it does not know is named."""
    saved = await memory.save("t", NILE, format="openai")
    await memory.save("t", [{"role": "user", "content": "Thanks."}], on_conflict="append")
    early = await memory.load("t", checkpoint_id=saved["checkpoint_id"], format="text")
    assert early["head"] == saved["checkpoint_id"]
    assert early["text"].startswith("User: How long is the Nile?")
    newer = await memory.load("t", colour="red")  # type: ignore[call-arg] # of a newer service
    assert [warning["code"] for warning in newer["warnings"]] == ["unknown-field"]
    with pytest.raises(CheckpointNotFound):
        await memory.load("t", checkpoint_id="nowhere")


async def test_own_histories_are_loaded(memory: AsyncThreadkeep) -> None:
    """A history that the caller keeps itself needs no thread."""
    context = await memory.load(None, conversation=NILE, marker="off")
    assert (context["shape"], context["messages"]) == (3, NILE)
    assert (await memory.load(None, history="User: Hi\nAssistant: Hello"))["shape"] == 2


async def test_no_parent_and_a_null_parent_differ(memory: AsyncThreadkeep) -> None:
    """Left out, the parent is unknown; None is a first turn's, and goes after the others."""
    await memory.save("t", NILE, parent=None)
    again = await memory.save("t", NILE)
    assert again["created"] is False
    after = await memory.save("t", [{"role": "user", "content": "Hm."}], parent=None)
    assert after["rebased"] is True


async def test_lists_are_read_page_by_page(
    memory: AsyncThreadkeep, sync_memory: Threadkeep
) -> None:
    """An iteration goes over all pages, in order, and stops reading when it is left."""
    for number in range(5):
        await memory.save(f"t{number}", NILE)
    names = [thread["thread_id"] async for thread in memory.threads(page_size=2)]
    assert names == ["t4", "t3", "t2", "t1", "t0"]
    assert names == [thread["thread_id"] for thread in sync_memory.threads(page_size=2)]
    newest = [message["role"] async for message in memory.messages("t1", order="desc", page_size=1)]
    assert newest == ["assistant", "user"]
    assert next(sync_memory.messages("t1"))["content"] == "How long is the Nile?"
    with pytest.raises(ThreadNotFound):
        next(sync_memory.messages("nowhere"))


async def test_owners_share_connections_only(memory: AsyncThreadkeep, service: Service) -> None:
    """A client for an owner sees that owner's threads, and closing it closes nothing."""
    ann, bob = memory.for_owner("ann"), memory.for_owner("bob")
    await ann.save("t", NILE)
    await ann.aclose()
    assert [thread["owner"] async for thread in ann.threads()] == ["ann"]
    assert [thread async for thread in bob.threads()] == []
    with pytest.raises(ThreadNotFound):
        await bob.thread("t")


@pytest.mark.parametrize("name", ["a/b", "a b?#%2F", "ünï/☃", "...", "~x", "a%2Eb"])
async def test_any_id_is_one_segment(memory: AsyncThreadkeep, name: str) -> None:
    """Whatever an id holds, the thread that is read is the one that was written."""
    await memory.save(name, NILE)
    assert (await memory.thread(name))["thread_id"] == name
    assert "/" not in segment(name)


@pytest.mark.parametrize("name", [".", "..", "", "a\nb"])
async def test_ids_that_no_thread_has(memory: AsyncThreadkeep, name: str) -> None:
    """What cannot be an id is refused as one: it never leads to another path."""
    with pytest.raises(InvalidPayload, match="thread_id"):
        await memory.save(name, NILE)
