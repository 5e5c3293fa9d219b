import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationRecord,
    ConversationStore,
)
from pydantic_ai.exceptions import UserError

from tests.client.conversations import STORES, loaded, said, saved, store_named, words
from threadkeep_client import AsyncThreadkeep

pytestmark = pytest.mark.anyio


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, memory: AsyncThreadkeep) -> ConversationStore:
    return store_named(request.param, memory)


async def test_branch_and_back(store: ConversationStore) -> None:
    """A branch goes on from an earlier message, and the history it left can be gone back to."""
    entries = await saved(store, "a", "b", "c", "d")
    revision = (await loaded(store)).revision

    branch = await store.branch("c", at=2, expected_revision=revision)
    assert words((await loaded(store)).messages) == ["a", "b"]
    branch.messages += said("C")
    await store.save(branch)
    assert words((await loaded(store)).messages) == ["a", "b", "C"]

    record = await store.read_record("c")
    assert record is not None
    assert record.branches == [entries[-1].id]
    back = await store.branch("c", from_entry=entries[3].id, expected_revision=branch.revision)
    assert words(back.messages) == ["a", "b", "c", "d"]
    assert words((await loaded(store)).messages) == ["a", "b", "c", "d"]
    with pytest.raises(UserError):
        await store.branch("c", from_entry="nobody", expected_revision=back.revision)


async def test_branch_to_the_beginning(store: ConversationStore) -> None:
    """A branch that keeps nothing is an empty conversation, whose next message is its first."""
    await saved(store, "a", "b")

    branch = await store.branch("c", at=0, expected_revision=(await loaded(store)).revision)
    assert (await loaded(store)).messages == []
    branch.messages += said("A")
    await store.save(branch)

    entries = await store.load_entries("c")
    assert entries is not None
    assert [entry.parent_id for entry in entries] == [None]


async def test_rewritten_history_branches_off(store: ConversationStore) -> None:
    """A history that was changed is stored from the first difference on, the old one kept."""
    old = await saved(store, "a", "b", "c", "d")
    rewritten = Conversation(
        messages=said("a", "b", "c2"),
        conversation_id="c",
        revision=(await loaded(store)).revision,
    )

    new = await store.save(rewritten)

    assert [entry.message for entry in new] == said("a", "b", "c2")[2:]
    assert new[0].parent_id == old[1].id
    record = await store.read_record("c")
    assert record is not None
    assert record.branches == [old[-1].id]
    assert await store.read_history(old[-1].id) == old


async def test_fork_goes_its_own_way(store: ConversationStore) -> None:
    """A fork begins with the same entries, and neither conversation sees the other's next ones."""
    entries = await saved(store, "a", "b", "c", "d", scope="ada")

    fork = await store.fork("c", at=2, new_conversation_id="f")
    fork.messages += said("C")
    new = await store.save(fork)
    conversation = await loaded(store)
    conversation.messages += said("e")
    await store.save(conversation)

    assert await store.load_entries("f") == [*entries[:2], *new]
    assert words((await loaded(store)).messages) == ["a", "b", "c", "d", "e"]
    record = await store.read_record("f")
    assert record is not None
    assert (record.forked_from, record.forked_at) == ("c", entries[1].id)
    assert record.scope == "ada"
    with pytest.raises(ConversationConflict):
        await store.fork("c", new_conversation_id="f")


async def test_fork_of_a_branch_and_of_nothing(store: ConversationStore) -> None:
    """A fork may begin at an entry of a branch that was left, or before the first message."""
    entries = await saved(store, "a", "b", "c")
    await store.branch("c", at=1, expected_revision=(await loaded(store)).revision)

    await store.fork("c", from_entry=entries[2].id, new_conversation_id="f")
    await store.fork("c", at=0, new_conversation_id="g")

    assert await store.load_entries("f") == entries
    assert await store.load_entries("g") == []


async def test_head_that_nobody_has_conflicts(store: ConversationStore) -> None:
    """A record cannot point at an entry that was erased, or never was."""
    record = ConversationRecord(conversation_id="c", head_id="nobody")

    with pytest.raises(ConversationConflict):
        await store.write_record(record, expected_revision=None)

    assert await store.read_record("c") is None


async def test_deleted_conversation_is_gone(store: ConversationStore) -> None:
    """It neither loads nor lists, its entries are gone, and its id begins anew."""
    entries = await saved(store, "a", "b")
    stale = await loaded(store)
    branch = await store.branch("c", at=1, expected_revision=stale.revision)
    await store.delete("c")

    assert await store.load("c") is None
    assert await store.list_conversations() == []
    for entry in entries:
        with pytest.raises(LookupError):
            await store.read_entry(entry.id)
    branch.messages += said("x")
    with pytest.raises(ConversationConflict):
        await store.save(branch)
    await saved(store, "anew")
    with pytest.raises(ConversationConflict):
        await store.save(branch)
    assert words((await loaded(store)).messages) == ["anew"]


async def test_fork_outlives_what_it_was_forked_from(store: ConversationStore) -> None:
    """Deleting either leaves the other whole."""
    entries = await saved(store, "a", "b", "c")
    await store.fork("c", at=2, new_conversation_id="f")
    await store.fork("f", new_conversation_id="g")

    await store.delete("c")
    await store.delete("g")

    assert await store.load_entries("f") == entries[:2]
    assert await store.read_entry(entries[0].id) == entries[0]
    with pytest.raises(LookupError):
        await store.read_entry(entries[2].id)


async def test_list_is_the_most_recently_saved_first(store: ConversationStore) -> None:
    """Each conversation is listed once, as it is now, by scope and up to a limit."""
    for conversation_id, scope in (("one", "ada"), ("two", "bob"), ("three", "ada")):
        await saved(store, "a", conversation_id=conversation_id, scope=scope)
    again = await loaded(store, "one")
    again.messages += said("b")
    await store.save(again)

    listed = await store.list_conversations()
    assert [record.conversation_id for record in listed] == ["one", "three", "two"]
    assert listed[0] == await store.read_record("one")
    assert [r.conversation_id for r in await store.list_conversations(limit=2)] == ["one", "three"]
    assert [r.conversation_id for r in await store.list_conversations(scope="ada", limit=1)] == [
        "one"
    ]
    assert await store.list_conversations(scope="nobody") == []
    assert await store.list_conversations(limit=0) == []


async def test_list_holds_many(store: ConversationStore) -> None:
    """More conversations than a page are all listed, in order."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(105):
        record = ConversationRecord(
            conversation_id=str(number), head_id=None, updated_at=start + timedelta(hours=number)
        )
        await store.write_record(record, expected_revision=None)

    listed = await store.list_conversations()

    assert [record.conversation_id for record in listed] == [str(n) for n in reversed(range(105))]


async def test_record_that_moves_to_another_scope(store: ConversationStore) -> None:
    """It is listed by the scope it has now, and no longer by the one it had."""
    await saved(store, "a", scope="ada")
    record = await store.read_record("c")
    assert record is not None
    moved = dataclasses.replace(record, scope="bob", revision="2")

    await store.write_record(moved, expected_revision=record.revision)

    assert await store.list_conversations(scope="bob") == [moved]
    assert await store.list_conversations(scope="ada") == []


async def test_scope_keeps_a_conversation_to_its_owner(store: ConversationStore) -> None:
    """Whoever names another scope finds nothing, and changes nothing."""
    await saved(store, "secret", scope="ada")

    assert await store.load("c", scope="bob") is None
    await store.delete("c", scope="bob")
    with pytest.raises(ConversationConflict):
        await saved(store, "x", scope="bob")
    with pytest.raises(UserError):
        await store.fork("c", source_scope="bob")

    assert await store.load("c", scope="ada") is not None


async def test_what_was_read_is_a_copy(store: ConversationStore) -> None:
    """Changing a loaded record or message does not change what is stored."""
    await saved(store, "a")
    record = await store.read_record("c")
    conversation = await loaded(store)
    assert record is not None
    record.branches.append("x")
    record.usage.requests = 99
    conversation.messages.clear()

    again = await store.read_record("c")
    assert again is not None
    assert (again.branches, again.usage.requests) == ([], 0)
    assert words((await loaded(store)).messages) == ["a"]
