"""HistoryStore on a real PostgreSQL: what a save leaves and what a load finds."""

import json
from dataclasses import replace

import pytest

from app.adapters.sql.engine import Database, create_engine
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.threads import SqlThreadIndex
from app.core.digest import message_id
from app.core.errors import CheckpointNotFound, InvalidPayload, StoreUnavailable
from app.core.model import ThreadKey
from tests.factories import large_message, load, new_message, new_turn, said, saved_turns
from tests.servers import SCHEMA

pytestmark = pytest.mark.anyio


async def test_a_saved_turn_is_loaded_as_it_was(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """What was saved is what is loaded, with ids, positions and costs of its own."""
    turn = new_turn("hello", "good day", metadata={"run": "r1"})

    saved = await history_store.append(key, turn)
    history = await load(history_store, key)

    assert saved.outcome == "created"
    assert saved.checkpoint_id == f"0000000002-{turn.identity.hex()[:22]}"
    assert (saved.parent_id, saved.position, saved.head) == (None, 2, saved.checkpoint_id)
    assert (saved.rebased, saved.tokens, saved.summaries) == (False, 10, ())
    assert [dict(message.body) for message in history.messages] == [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "good day"},
    ]
    assert [message.position for message in history.messages] == [1, 2]
    assert [message.id for message in history.messages] == [
        message_id(turn.identity, 0),
        message_id(turn.identity, 1),
    ]
    assert {(message.tokens, message.rules) for message in history.messages} == {(5, "rules-1")}
    assert (history.head, history.position, history.tokens) == (saved.head, 2, 10)
    assert history.turns[0].metadata == {"run": "r1"}
    assert history.registry.turns == 1
    assert history.registry.size_bytes > 0


async def test_an_unknown_thread_has_no_history(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A thread nobody wrote to reads as none, also as of a checkpoint."""
    assert await history_store.recent(key, window=60, stride=20) is None
    assert await history_store.recent(key, window=60, stride=20, checkpoint_id="x") is None


async def test_turns_form_one_chain(history_store: SqlHistoryStore, key: ThreadKey) -> None:
    """Each turn is the parent of the next; steps, positions and tokens add up."""
    saved = await saved_turns(history_store, key, 3)

    turns = (await load(history_store, key)).turns

    assert [turn.parent_id for turn in turns] == [None, *(s.checkpoint_id for s in saved[:2])]
    assert [turn.step for turn in turns] == [0, 1, 2]
    assert [turn.position for turn in turns] == [2, 4, 6]
    assert [turn.tokens for turn in turns] == [10, 20, 30]


async def test_a_retry_is_answered_with_the_first_save(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """The same turn again stores nothing, however far the thread has moved on."""
    first, _, last = await saved_turns(history_store, key, 3)

    again = await history_store.append(key, new_turn("question 0", "answer 0"))

    assert again.outcome == "duplicate"
    assert (again.checkpoint_id, again.parent_id, again.position) == (first.head, None, 2)
    assert again.head == last.head
    assert (await load(history_store, key)).registry.turns == 3


async def test_a_key_with_other_content_is_reused(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """One key is one turn: with other content it stores nothing and says so."""
    await history_store.append(key, new_turn("hello", key="k1"))

    again = await history_store.append(key, new_turn("goodbye", key="k1"))

    assert again.outcome == "key-reused"
    assert said(await load(history_store, key)) == ["hello"]


async def test_a_key_alone_appends_to_the_head(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """Without a parent but with a key, a turn follows whatever the head is, and opens a thread."""
    opened = await history_store.append(key, new_turn("one", key="k1", parent_known=False))
    followed = await history_store.append(key, new_turn("two", key="k2", parent_known=False))

    assert opened.outcome == followed.outcome == "created"
    assert (followed.parent_id, followed.rebased) == (opened.head, False)


async def test_a_thread_can_be_read_as_of_a_checkpoint(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """As of an older turn, the history ends there; the registry stays the thread's own."""
    saved = await saved_turns(history_store, key, 3)

    history = await load(history_store, key, saved[1].head)

    assert said(history)[-1] == "answer 1"
    assert (history.head, history.position, history.tokens) == (saved[1].head, 4, 20)
    assert history.registry.head == saved[2].head


@pytest.mark.parametrize(
    "checkpoint_id", ["0000000002-" + "0" * 22, "nonsense", "", "\0", "\ud800"]
)
async def test_an_unknown_checkpoint_is_an_error(
    history_store: SqlHistoryStore, key: ThreadKey, checkpoint_id: str
) -> None:
    """A known thread without that checkpoint is not an empty history."""
    await saved_turns(history_store, key, 2)

    with pytest.raises(CheckpointNotFound):
        await load(history_store, key, checkpoint_id)


async def test_other_tenants_and_owners_see_nothing(
    history_store: SqlHistoryStore, tenant: str
) -> None:
    """A thread exists for its tenant and its owner alone; an admin without an owner sees it."""
    key = ThreadKey(tenant, "t1", "ann")
    saved = (await saved_turns(history_store, key, 1))[0]
    assert saved.head is not None
    strangers = [
        replace(key, owner_id="bob"),
        replace(key, owner_id=""),
        replace(key, tenant_id=f"{tenant}-2"),
    ]

    for stranger in strangers:
        assert await history_store.recent(stranger, window=60, stride=20) is None
        assert await history_store.turns(stranger, head=saved.head, after=0) == ()
        refused = await history_store.append(stranger, new_turn("hi", expected=saved.head))
        assert (refused.outcome, refused.head) == ("unknown", None)
    assert said(await load(history_store, replace(key, owner_id=None)))[0] == "question 0"


async def test_a_foreign_owner_cannot_open_the_thread_again(
    history_store: SqlHistoryStore, tenant: str
) -> None:
    """Saving into a foreign owner's thread without a parent is no way in either."""
    key = ThreadKey(tenant, "t1", "ann")
    await saved_turns(history_store, key, 1)

    refused = await history_store.append(replace(key, owner_id="bob"), new_turn("hi"))

    assert refused.outcome == "unknown"
    assert (await load(history_store, key)).registry.owner_id == "ann"


async def test_the_same_turn_in_two_tenants_is_two(
    history_store: SqlHistoryStore, tenant: str
) -> None:
    """Tenants are separate worlds: equal ids and equal content never meet."""
    for name in (tenant, f"{tenant}-2"):
        saved = await history_store.append(ThreadKey(name, "t1"), new_turn("hello", key="k1"))
        assert saved.outcome == "created"


async def test_payloads_keep_what_json_can_say(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """NUL, lone surrogates, big integers and the order of members come back as they were."""
    body = {
        "role": "user",
        "z": 1.0,
        "content": "nul \0, half \ud83d, whole \U0001f600, \u202e",
        "a": 123456789012345678901234567890,
        "n": [None, True, {"\0": -0.5}],
    }
    odd = new_message("", body=body)
    nul = new_message("", body={"role": "user", "content": "\0"})

    await history_store.append(key, new_turn("x", messages=(odd, nul)))
    first, second = (await load(history_store, key)).messages

    assert json.dumps(first.body) == json.dumps(body)
    assert second.body["content"] == "\0"


@pytest.mark.parametrize("value", ["\0", "\ud800"])
async def test_metadata_that_jsonb_refuses_is_the_callers_error(
    history_store: SqlHistoryStore, key: ThreadKey, value: str
) -> None:
    """Metadata is searchable, hence narrower than a payload; nothing is stored."""
    with pytest.raises(InvalidPayload):
        await history_store.append(key, new_turn("hello", metadata={"k": value}))
    assert await history_store.recent(key, window=60, stride=20) is None


async def test_large_values_come_back_byte_for_byte(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A large member is null in its message, named there, and fetched alone exactly as it was."""
    values = [b'"' + bytes([letter]) * 20_000 + b'\\u0000\xc3\xa9"' for letter in b"ab"]
    messages = tuple(large_message(value, f"m{n}.content") for n, value in enumerate(values))

    await history_store.append(key, new_turn("x", messages=(new_message("small"), *messages)))
    small, *loaded = (await load(history_store, key)).messages
    large = [part for message in loaded for part in message.large]
    fetched = await history_store.values(key, large)

    assert small.large == ()
    assert small.digest is None
    assert [message.body["content"] for message in loaded] == [None, None]
    assert large == [part for message in messages for part, _ in message.large]
    assert {(m.digest, m.cleaned_digest) for m in loaded} == {(b"d" * 32, b"c" * 32)}
    assert [fetched[part.channel, part.version] for part in large] == values
    assert await history_store.values(replace(key, owner_id="bob"), large) == {}


async def test_a_branch_can_be_read_from_a_position_on(
    history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """`turns` gives the turns that hold any later position, of one branch, oldest first."""
    saved = await saved_turns(history_store, key, 4)
    await history_store.append(key, new_turn("x", expected=saved[0].head, on_conflict="branch"))
    head = saved[2].head
    assert head is not None

    assert [t.position for t in await history_store.turns(key, head=head, after=0)] == [2, 4, 6]
    assert [t.position for t in await history_store.turns(key, head=head, after=3)] == [4, 6]
    assert [t.position for t in await history_store.turns(key, head=head, after=4)] == [6]
    assert await history_store.turns(key, head=head, after=6) == ()
    assert await history_store.turns(key, head="nonsense", after=0) == ()


async def test_a_database_that_is_away_is_unavailable() -> None:
    """No connection is the store's own error, not the driver's."""
    engine = create_engine("postgresql://nobody@127.0.0.1:1/nothing")
    store = SqlHistoryStore(Database(engine, SCHEMA))

    with pytest.raises(StoreUnavailable):
        await store.recent(ThreadKey("t", "t"), window=60, stride=20)
    await engine.dispose()


async def test_the_index_and_the_load_agree(
    history_store: SqlHistoryStore, thread_index: SqlThreadIndex, key: ThreadKey
) -> None:
    """The registry row reads the same through the load function as by itself."""
    await saved_turns(history_store, key, 2)

    assert await thread_index.get(key) == (await load(history_store, key)).registry
