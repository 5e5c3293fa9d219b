"""Pattern B through `turn`: what is read, what is saved, under which parent and key."""

import asyncio

import pytest

from threadkeep_client import AsyncThreadkeep, Threadkeep, TurnSaved
from threadkeep_client.errors import KeyReused, ParentMoved, WriteDiffers

pytestmark = pytest.mark.anyio

QUESTION = "How long is the Nile?"


async def contents(memory: AsyncThreadkeep, thread_id: str = "t") -> list[str]:
    return [message["content"] async for message in memory.messages(thread_id)]


async def test_a_turn_reads_and_saves(memory: AsyncThreadkeep) -> None:
    """The question is the last message to read; question and reply are saved on what was read."""
    async with memory.turn("t", QUESTION, marker="off", metadata={"model": "m"}) as first:
        assert (first.head, first.messages) == (None, [{"role": "user", "content": QUESTION}])
        first.reply("Long.")
    assert first.saved is not None
    async with memory.turn("t", "Why?", marker="off") as second:
        assert second.head == first.saved["checkpoint_id"]
        assert [message["content"] for message in second.messages] == [QUESTION, "Long.", "Why?"]
        second.reply("Rain.")
    assert second.saved is not None
    assert second.saved["parent_checkpoint_id"] == first.saved["checkpoint_id"]
    assert await contents(memory) == [QUESTION, "Long.", "Why?", "Rain."]
    assert (await memory.load("t"))["pending"] == []


async def test_what_is_added_is_read_on(memory: AsyncThreadkeep) -> None:
    """In a tool loop the model reads what was added, and all of it is one turn."""
    call = {"id": "c1", "type": "function", "function": {"name": "len", "arguments": "{}"}}
    async with memory.turn("t", {"role": "user", "content": QUESTION}, marker="off") as turn:
        turn.add({"role": "assistant", "content": None, "tool_calls": [call]})
        turn.add({"role": "tool", "tool_call_id": "c1", "content": "6650"})
        assert [message["role"] for message in turn.messages] == ["user", "assistant", "tool"]
        turn.reply("6,650 km.")
    thread = await memory.thread("t")
    assert (thread["turns"], thread["messages"]) == (1, 4)


async def test_options_of_the_load(memory: AsyncThreadkeep) -> None:
    """A turn takes the options of a load, and gives the whole answer."""
    async with memory.turn("t", QUESTION, format="text", token_budget=500) as turn:
        assert turn.context["text"].endswith(f"User: {QUESTION}\n\n")
        assert turn.context["tokens"]["budget"] == 500
        assert turn.messages == []
        turn.reply("Long.")
    assert await contents(memory) == [QUESTION, "Long."]


async def test_asked_again_after_the_answer(memory: AsyncThreadkeep) -> None:
    """The same question after its answer is another turn, with another key."""
    keys = set()
    for _ in range(3):
        async with memory.turn("t", "Again?") as turn:
            turn.reply("Yes.")
        keys.add(turn.key)
    assert await contents(memory) == ["Again?", "Yes."] * 3
    assert len(keys) == 3


async def test_regenerate(memory: AsyncThreadkeep) -> None:
    """The same question on the same head, saved before, is a sibling with a key of its own."""
    async with memory.turn("t", "First.") as first:
        first.reply("One.")
    assert first.saved is not None
    keys = set()
    for answer in ("a", "b", "c"):
        async with memory.turn(
            "t", QUESTION, checkpoint_id=first.saved["checkpoint_id"], on_conflict="branch"
        ) as turn:
            turn.reply(answer)
        keys.add(turn.key)
        assert await contents(memory) == ["First.", "One.", QUESTION, answer]
    assert len(keys) == 3


async def test_keys_are_of_thread_owner_and_question(memory: AsyncThreadkeep) -> None:
    """Steps of different turns have different keys, on empty threads too; a next try the same."""
    keys = []
    for client, thread_id, question in (
        (memory, "t", QUESTION),
        (memory, "t", "Other?"),
        (memory, "t2", QUESTION),
        (memory.for_owner("ann"), "t3", QUESTION),
        (memory.for_owner("ann"), "t4", QUESTION),
    ):
        with pytest.raises(LookupError):
            async with client.turn(thread_id, question) as turn:
                raise LookupError
        keys.append(turn.step_key("search"))
    assert len(set(keys)) == len(keys)
    async with memory.turn("t", QUESTION) as turn:
        assert turn.step_key("search") == keys[0]


async def test_given_key_is_answered_once(memory: AsyncThreadkeep) -> None:
    """A repeated request is recognised by its key, however the thread has moved on."""
    async with memory.turn("t", QUESTION, key="request-1") as first:
        first.reply("Long.")
    async with memory.turn("t", "Why?") as second:
        second.reply("Rain.")
    assert first.saved is not None
    with pytest.raises(TurnSaved) as before:
        async with memory.turn("t", QUESTION, key="request-1"):
            raise AssertionError("the body runs")
    assert before.value.checkpoint_id == first.saved["checkpoint_id"]
    assert (await memory.load("t"))["pending"] == []


async def test_given_key_in_flight_for_another_question(memory: AsyncThreadkeep) -> None:
    """A key that is in flight with another question is refused before anything runs."""
    async with memory.turn("t", QUESTION, key="request-1") as turn:
        turn.reply("Long.")
        with pytest.raises(WriteDiffers):
            await memory.stage(
                "t", "~question", {"message": "Other?"}, parent=turn.head, key="request-1"
            )


async def test_concurrent_turns(memory: AsyncThreadkeep) -> None:
    """Turns begun on the same head are all saved, whole, and leave nothing staged."""
    begun = asyncio.Barrier(4)

    async def ask(number: int) -> str:
        async with memory.turn("t", f"q{number}") as turn:
            await begun.wait()
            await turn.step("work", lambda _: asyncio.sleep(0, number))
            turn.reply(f"a{number}")
        assert turn.saved is not None
        return "rebased" if turn.saved["rebased"] else "first"

    assert sorted(await asyncio.gather(*map(ask, range(4)))) == ["first", *["rebased"] * 3]
    stored = await contents(memory)
    assert sorted(zip(stored[::2], stored[1::2], strict=True)) == [
        (f"q{number}", f"a{number}") for number in range(4)
    ]
    context = await memory.load("t")
    assert (context["pending"], context["warnings"]) == ([], [])


async def test_reject_leaves_the_work(memory: AsyncThreadkeep) -> None:
    """A turn that will not go after another's is refused, and what it staged is not folded away."""
    turn = memory.turn("t", QUESTION, on_conflict="reject")
    await turn.__aenter__()
    await turn.stage("search", [1])
    winner = await memory.save("t", [{"role": "user", "content": "Faster."}], parent=None, key="k")
    with pytest.raises(ParentMoved) as moved:
        await turn.__aexit__(None, None, None)
    assert moved.value.head == winner["checkpoint_id"]
    assert await contents(memory) == ["Faster."]
    [stale] = (await memory.load("t"))["warnings"]
    assert stale["code"] == "stale-writes"


async def test_two_runs_of_one_turn(memory: AsyncThreadkeep) -> None:
    """Of two runs of one turn one is saved; the other learns it at its next step, or at its end."""
    async with memory.turn("t", QUESTION) as fast:
        fast.reply("Long.")
        late = memory.turn("t", QUESTION)
        await late.__aenter__()
        later = memory.turn("t", QUESTION)
        await later.__aenter__()
    with pytest.raises(TurnSaved):
        await late.stage("search", [1])
    later.reply("Very long.")
    with pytest.raises(KeyReused):
        await later.__aexit__(None, None, None)
    assert await contents(memory) == [QUESTION, "Long."]
    assert (await memory.load("t"))["warnings"] == []


def test_turn_without_asyncio(sync_memory: Threadkeep) -> None:
    """The sync turn reads and saves the same."""
    with sync_memory.turn("t", QUESTION) as turn:
        assert turn.step("search", lambda key: {"key": key}) == {"key": turn.step_key("search")}
        turn.reply("Long.")
    assert turn.saved is not None
    assert turn.saved["created"] is True
    assert [message["content"] for message in sync_memory.messages("t")] == [QUESTION, "Long."]


async def test_a_turn_is_used_inside_its_block(memory: AsyncThreadkeep) -> None:
    """A turn that was not entered says so."""
    with pytest.raises(RuntimeError, match="inside"):
        memory.turn("t", QUESTION).messages  # noqa: B018 (reading it is the test)
