"""Load and save as a reader of the contract would check them, over HTTP."""

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from types import NoneType
from typing import Any, TypeAlias

import httpx
import pytest

from app.adapters.token_counter import EncodingTokenCounter
from tests.integration.callers import ANSWER, QUESTION, path_of
from tests.integration.conftest import MakeClient

pytestmark = pytest.mark.anyio

Json: TypeAlias = dict[str, Any]
TURN_ID = re.compile(r"[0-9]{10}-[0-9a-f]{22}")
MESSAGE_ID = re.compile(r"msg_[0-9a-f]{24}")
EVERYTHING = {"window": 1000, "token_budget": 10_000_000, "marker": "off"}

LOADED: Mapping[str, tuple[type, ...]] = {
    "thread_id": (str,),
    "head": (str, NoneType),
    "shape": (int,),
    "format": (str,),
    "messages": (list,),
    "summary": (dict,),
    "coverage": (dict,),
    "tokens": (dict,),
    "strip": (dict,),
    "pending": (list,),
    "warnings": (list,),
}
SUMMARY: Mapping[str, tuple[type, ...]] = {
    "text": (str, NoneType),
    "covers": (int,),
    "boundary": (dict, NoneType),
    "state": (str,),
    "method": (str, NoneType),
    "model": (str, NoneType),
    "prompt": (str, NoneType),
    "created_at": (str, NoneType),
}
COVERAGE: Mapping[str, tuple[type, ...]] = {
    "total": (int,),
    "summarized": (int,),
    "window": (int,),
    "trimmed": (int,),
    "from_position": (int, NoneType),
}
TOKENS: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("budget", "total", "summary", "window", "marker", "message"), (int,)),
    "encoding": (str,),
    "over_budget": (bool,),
}
SAVED: Mapping[str, tuple[type, ...]] = {
    "thread_id": (str,),
    "checkpoint_id": (str,),
    "parent_checkpoint_id": (str, NoneType),
    "digest": (str,),
    "messages": (list,),
    "created": (bool,),
    "rebased": (bool,),
    "ignored": (list,),
    "warnings": (list,),
}


class Thread:
    """One thread as a caller of the API sees it."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.thread_id = f"thread-{secrets.token_hex(8)}"

    async def post(self, messages: Sequence[Json], **members: object) -> httpx.Response:
        body = {"messages": messages, **members}
        return await self.client.post(path_of(self.thread_id, "/turns"), json=body)

    async def save(self, *texts: str, **members: object) -> Json:
        """Save a turn of alternating user and assistant messages, which must be new."""
        answer = await self.post(said_by_turns(*texts), **members)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    async def grow(self, last: int) -> None:
        """Save the messages m001, m002 and so on up to `last`, two a turn."""
        for number in range(await self.total() + 1, last, 2):
            await self.save(f"m{number:03}", f"m{number + 1:03}", key=f"turn-{number}")

    async def load(self, **members: object) -> Json:
        answer = await self.client.post(
            "/v1/context", json={"thread_id": self.thread_id, **members}
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def total(self) -> int:
        loaded = await self.load()
        return int(loaded["coverage"]["total"])

    async def build(self) -> Json:
        return dict((await self.client.post(path_of(self.thread_id, "/summary"))).json())


def said_by_turns(*texts: str) -> list[Json]:
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]


async def listed(thread: Thread) -> list[Json]:
    """The raw messages of a short thread, without their place."""
    page = await thread.client.get(path_of(thread.thread_id, "/messages"))
    place = {"id", "position", "checkpoint_id"}
    return [{k: v for k, v in m.items() if k not in place} for m in page.json()["items"]]


def texts_of(loaded: Json) -> list[object]:
    """What users and assistants say in a loaded context."""
    return [m["content"] for m in loaded["messages"] if m["role"] != "system"]


def check_members(value: Json, types: Mapping[str, tuple[type, ...]]) -> None:
    """Fail unless exactly these members are there, each of one of its types."""
    assert value.keys() == types.keys()
    assert {name: type(value[name]) for name in types if type(value[name]) not in types[name]} == {}


def check_sums(loaded: Json) -> None:
    """Fail unless the sums of a load's answer are right."""
    coverage, tokens = loaded["coverage"], loaded["tokens"]
    parts = [coverage[name] for name in ("summarized", "window", "trimmed")]
    assert sum(parts) == coverage["total"]
    assert min(parts) >= 0
    assert loaded["summary"]["covers"] == coverage["summarized"]
    first = coverage["total"] - coverage["window"] + 1
    assert coverage["from_position"] == (first if coverage["window"] else None)
    assert tokens["over_budget"] == (tokens["total"] > tokens["budget"])


@pytest.fixture
def thread(client: httpx.AsyncClient) -> Thread:
    """A thread nobody has written to yet."""
    return Thread(client)


# --- the replies


async def test_reply_of_a_load(thread: Thread) -> None:
    """A load answers with the members of the contract, each of its type."""
    empty = await thread.load()
    await thread.grow(140)
    await thread.build()
    full = await thread.load(message="now")

    for loaded in (empty, full):
        check_members(loaded, LOADED)
        check_members(loaded["summary"], SUMMARY)
        check_members(loaded["coverage"], COVERAGE)
        check_members(loaded["tokens"], TOKENS)
        check_sums(loaded)
    assert (empty["head"], empty["messages"], empty["coverage"]["total"]) == (None, [], 0)
    assert TURN_ID.fullmatch(str(full["head"]))
    assert (full["thread_id"], full["shape"], full["format"]) == (thread.thread_id, 1, "openai")


async def test_reply_of_a_save(thread: Thread) -> None:
    """A save answers with the members of the contract, each of its type, and derived ids."""
    first = await thread.post([QUESTION, ANSWER], key="k")
    again = await thread.post([QUESTION, ANSWER], key="k")

    assert (first.status_code, again.status_code) == (201, 200)
    for answer in (first.json(), again.json()):
        check_members(answer, SAVED)
        assert answer["thread_id"] == thread.thread_id
        assert TURN_ID.fullmatch(answer["checkpoint_id"])
        assert re.fullmatch(r"[0-9a-f]{64}", answer["digest"])
        assert all(MESSAGE_ID.fullmatch(message["id"]) for message in answer["messages"])
        assert [(m["role"], m["position"]) for m in answer["messages"]] == [
            ("user", 1),
            ("assistant", 2),
        ]
    assert [m["new"] for m in first.json()["messages"]] == [True, True]
    assert [m["new"] for m in again.json()["messages"]] == [False, False]
    same = ("checkpoint_id", "parent_checkpoint_id", "digest")
    assert [first.json()[name] for name in same] == [again.json()[name] for name in same]


async def test_server_timing(thread: Thread) -> None:
    """A load says how long store, cache and assembly took, in milliseconds."""
    await thread.save("q", "a")
    answer = await thread.client.get(path_of(thread.thread_id, "/context"))

    timing = answer.headers["server-timing"]
    assert re.fullmatch(r"store;dur=\d+\.\d+, cache;dur=\d+\.\d+, assemble;dur=\d+\.\d+", timing)


async def test_get_is_a_load(thread: Thread) -> None:
    """GET with a query is the same load as POST with a body."""
    await thread.grow(20)
    posted = await thread.load(window=4, marker="off")
    query: Json = {"window": 4, "marker": "off"}
    got = await thread.client.get(path_of(thread.thread_id, "/context"), params=query)

    assert (got.status_code, got.json()) == (200, posted)


async def test_load_leaves_no_trace(thread: Thread) -> None:
    """Loads change nothing of a thread, and make none."""
    assert (await thread.load(message="hello"))["head"] is None
    assert (await thread.client.get(path_of(thread.thread_id))).status_code == 404
    await thread.grow(10)
    before = (await thread.client.get(path_of(thread.thread_id))).json()
    for _ in range(3):
        await thread.load(message="hello", window=2, large_values="stub")

    assert (await thread.client.get(path_of(thread.thread_id))).json() == before


# --- head and parent


async def test_head_goes_round(thread: Thread) -> None:
    """The head of a load, null at first, is the parent of the next save, which is the next head."""
    heads: list[str] = []
    for number in range(5):
        loaded = await thread.load()
        saved = await thread.save(f"q{number}", f"a{number}", parent=loaded["head"])
        assert saved["parent_checkpoint_id"] == loaded["head"]
        assert saved["rebased"] is False
        heads.append(saved["checkpoint_id"])

    assert (await thread.load())["head"] == heads[-1]
    assert heads == sorted(heads)


@pytest.mark.parametrize("anchor", [{"key": "k"}, {"parent": None}], ids=["key", "parent"])
async def test_late_retry(thread: Thread, anchor: Json) -> None:
    """A retry long after the thread has moved on is 200 and names what was stored at first."""
    first = await thread.save("q", "a", **anchor)
    for number in range(40):
        await thread.save(f"q{number}", f"a{number}", key=f"turn-{number}")
    again = await thread.post(said_by_turns("q", "a"), **anchor)

    assert again.status_code == 200
    assert again.json() == {
        **first,
        "created": False,
        "messages": [{**message, "new": False} for message in first["messages"]],
    }
    assert await thread.total() == 82


async def test_yes_twice(thread: Thread) -> None:
    """A user who says yes twice is stored twice when each turn names its parent."""
    first = await thread.save("yes", "Done.", parent=None)
    second = await thread.save("yes", "Done.", parent=first["checkpoint_id"])
    again = await thread.post(said_by_turns("yes", "Done."), parent=first["checkpoint_id"])

    assert (again.status_code, again.json()["checkpoint_id"]) == (200, second["checkpoint_id"])
    assert texts_of(await thread.load()) == ["yes", "Done."] * 2


async def test_conflict_three_ways(thread: Thread) -> None:
    """A save on an old head is appended, refused, or becomes a branch, as it asks."""
    old = (await thread.save("q1", "a1"))["checkpoint_id"]
    head = (await thread.save("q2", "a2"))["checkpoint_id"]

    rejected = await thread.post(said_by_turns("q3", "a3"), parent=old, on_conflict="reject")
    appended = await thread.save("q4", "a4", parent=old)
    after_append = texts_of(await thread.load())
    branched = await thread.save("q5", "a5", parent=old, on_conflict="branch")

    assert rejected.status_code == 409
    assert rejected.json()["type"] == "urn:threadkeep:problem:parent-moved"
    assert rejected.json()["head"] == head
    assert (appended["rebased"], appended["parent_checkpoint_id"]) == (True, head)
    assert after_append == ["q1", "a1", "q2", "a2", "q4", "a4"]
    assert (branched["rebased"], branched["parent_checkpoint_id"]) == (False, old)
    assert [message["position"] for message in branched["messages"]] == [3, 4]
    loaded = await thread.load()
    assert (texts_of(loaded), loaded["head"]) == (
        ["q1", "a1", "q5", "a5"],
        branched["checkpoint_id"],
    )


@pytest.mark.parametrize("on_conflict", ["append", "reject", "branch"])
async def test_retry_after_a_conflict(thread: Thread, on_conflict: str) -> None:
    """A retry is told of its turn, however the conflict of its first try was settled."""
    old = (await thread.save("q1", "a1"))["checkpoint_id"]
    await thread.save("q2", "a2")
    if on_conflict == "reject":
        old = (await thread.load())["head"]
    anchor = {"parent": old, "on_conflict": on_conflict}
    first = await thread.save("q3", "a3", **anchor)
    await thread.save("q4", "a4", key="k4")
    again = await thread.post(said_by_turns("q3", "a3"), **anchor)

    assert (again.status_code, again.json()["created"]) == (200, False)
    assert again.json()["checkpoint_id"] == first["checkpoint_id"]


async def test_unknown_parent(thread: Thread) -> None:
    """A parent the thread does not hold is 404, and nothing is stored."""
    foreign = Thread(thread.client)
    elsewhere = (await foreign.save("q", "a"))["checkpoint_id"]
    await thread.save("other", "thing", "one", "two")
    for parent in (elsewhere, "0000000002-" + "0" * 22, "nonsense"):
        answer = await thread.post(said_by_turns("q", "a"), parent=parent)
        assert answer.status_code == 404
        assert answer.json()["type"] == "urn:threadkeep:problem:checkpoint-not-found"

    assert await thread.total() == 4


async def test_as_of_a_checkpoint(thread: Thread) -> None:
    """A load as of a turn shows what a load showed when that turn was the head."""
    seen: dict[str, Json] = {}
    for number in range(1, 80, 2):
        saved = await thread.save(f"m{number:03}", f"m{number + 1:03}", key=f"turn-{number}")
        seen[str(saved["checkpoint_id"])] = saved
    for end, head in enumerate(seen, start=1):
        loaded = await thread.load(checkpoint_id=head, marker="off")
        check_sums(loaded)
        assert (loaded["head"], loaded["coverage"]["total"]) == (head, 2 * end)
        window = texts_of(loaded)
        assert window == [f"m{number:03}" for number in range(1, 2 * end + 1)][-len(window) :]
        assert loaded["summary"]["covers"] + len(window) == 2 * end
    unknown = {"thread_id": thread.thread_id, "checkpoint_id": "0000000002-" + "0" * 22}

    assert (await thread.client.post("/v1/context", json=unknown)).status_code == 404


# --- what is stored and what is not


async def test_preamble_is_ignored(thread: Thread) -> None:
    """System, developer and ephemeral messages are named and never stored or part of the digest."""
    turn = said_by_turns("q", "a")
    preamble: list[Json] = [
        {"role": "system", "content": "You are helpful."},
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "retrieved documents", "ephemeral": True},
    ]
    first = (await thread.post([*preamble, *turn], key="k")).json()
    again = (await thread.post(turn, key="k")).json()
    nothing = await thread.post(preamble, key="k2")

    assert [(line["index"], line["role"]) for line in first["ignored"]] == [
        (0, "system"),
        (1, "developer"),
        (2, "user"),
    ]
    assert (again["created"], again["digest"]) == (False, first["digest"])
    assert (nothing.status_code, nothing.json()["created"]) == (200, False)
    assert texts_of(await thread.load()) == ["q", "a"]


async def test_loaded_list_comes_back(thread: Thread) -> None:
    """A loaded list that is sent back with the answer stores only what is new."""
    await thread.grow(140)
    await thread.build()
    loaded = await thread.load(message="now")
    turn = [*loaded["messages"], {"role": "assistant", "content": "then"}]
    saved = await thread.post(turn)

    assert saved.status_code == 201
    assert [(m["position"], m["new"]) for m in saved.json()["messages"]] == [
        (141, True),
        (142, True),
    ]
    assert texts_of(await thread.load())[-4:] == ["m139", "m140", "now", "then"]


async def test_metadata_is_kept_beside(thread: Thread) -> None:
    """Metadata of a turn is no part of it: a retry with another is the same turn."""
    first = await thread.save("q", "a", key="k", metadata={"trace": "1", "deep": {"list": [1]}})
    again = await thread.post(said_by_turns("q", "a"), key="k", metadata={"trace": "2"})

    assert again.status_code == 200
    assert again.json()["digest"] == first["digest"]
    assert (await thread.load())["messages"][-1] == {"role": "assistant", "content": "a"}


async def test_unknown_members_survive(thread: Thread) -> None:
    """Members of a message that no model reads are kept as sent; loads leave them out."""
    sent: list[Json] = [
        {"role": "user", "content": "q", "name": "ann", "annotations": [{"x": 1.50}]},
        {"role": "assistant", "content": [{"type": "poem", "lines": ["a", None]}], "refusal": None},
    ]
    await thread.post(sent, key="k")

    loaded = (await thread.load(marker="off"))["messages"]

    assert await listed(thread) == sent
    assert loaded == [
        {"role": "user", "content": "q", "name": "ann"},
        {"role": "assistant", "content": [{"type": "poem", "lines": ["a", None]}]},
    ]


async def test_message_is_not_doubled(thread: Thread) -> None:
    """The current message is the final turn once, also when it was saved before the run."""
    await thread.save("q", "a", key="k1")
    unsaved = await thread.load(message="next")
    await thread.save("next", key="k2")
    saved = await thread.load(message="next")
    as_object = await thread.load(message={"role": "user", "content": "next"})
    await thread.save("next", key="k3")
    repeated = await thread.load(message="next")

    assert texts_of(unsaved) == texts_of(saved) == texts_of(as_object) == ["q", "a", "next"]
    assert [loaded["coverage"]["total"] for loaded in (unsaved, saved, repeated)] == [2, 3, 4]
    assert texts_of(repeated) == ["q", "a", "next", "next"]


async def test_marker_stands_before_the_final_turn(thread: Thread) -> None:
    """One marker stands right before the final turn, unless nothing does or it is switched off."""
    alone = await thread.load(message="now")
    await thread.save("q", "a", key="k")
    marked = await thread.load(message="now")
    off = await thread.load(message="now", marker="off")

    assert [m["role"] for m in alone["messages"]] == ["user"]
    assert [m.get("name") for m in marked["messages"]] == [None, None, "threadkeep_marker", None]
    assert [m for m in marked["messages"] if m["role"] != "system"] == off["messages"]
    assert (off["tokens"]["marker"], marked["tokens"]["marker"] > 0) == (0, True)


# --- large values

WILD = (
    "".join(chr(n) for n in range(1, 0x3000) if not 0xD800 <= n < 0xE000) + "\u0000👩\u200d🚀\r\n"
)


async def test_large_values_byte_for_byte(thread: Thread) -> None:
    """Large contents, parts and arguments come back as they were, in loads and in lists."""
    arguments = json.dumps({"text": WILD * 3}, ensure_ascii=False)
    call = {"id": "c1", "type": "function", "function": {"name": "write", "arguments": arguments}}
    sent: list[Json] = [
        {"role": "user", "content": WILD * 10},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": WILD * 5}]},
        {"role": "assistant", "content": "small", "notes": {"deep": [WILD, 1.10, None]}},
    ]
    saved = await thread.post(sent, key="k")
    loaded = await thread.load(**EVERYTHING)

    assert saved.status_code == 201
    assert await listed(thread) == sent
    del sent[-1]["notes"]
    assert loaded["messages"] == sent
    check_sums(loaded)


async def test_large_values_as_stubs(thread: Thread) -> None:
    """Asked for stubs, a load sends a reference with size, tokens and a preview, and counts it."""
    big = "word " * 4000
    await thread.save("small", big, "next", "small too", key="k")
    inline, stubbed = await thread.load(), await thread.load(large_values="stub")

    stub = stubbed["messages"][1]["content"]
    assert stub.keys() == {"type", "channel", "bytes", "tokens", "preview"}
    assert (stub["type"], stub["bytes"]) == ("threadkeep_ref", len(big) + 2)
    assert big.startswith(stub["preview"])
    assert texts_of(inline)[1] == big
    assert [texts_of(stubbed)[n] for n in (0, 2, 3)] == ["small", "next", "small too"]
    assert stubbed["tokens"]["total"] < stub["tokens"] < inline["tokens"]["total"]


# --- window, coverage, summary


async def test_coverage_adds_up(thread: Thread) -> None:
    """Every stored message is in one place at any length, window, stride and budget."""
    asked: list[Json] = [
        {},
        *({"window": window} for window in (1, 2, 7, 60, 61, 200, 1000)),
        *({"window": 8, "stride": stride} for stride in (1, 2, 5, 8)),
        *({"token_budget": budget} for budget in (1, 50, 200, 1000, 100_000)),
        {"window": 6, "token_budget": 120, "message": "now"},
    ]
    for last in (2, 8, 58, 60, 62, 82, 120, 122, 140, 200):
        await thread.grow(last)
        for members in asked:
            loaded = await thread.load(**members)
            check_sums(loaded)
            coverage = loaded["coverage"]
            assert coverage["total"] == last
            stored = [text for text in texts_of(loaded) if text != "now"]
            assert len(stored) == coverage["window"]
            assert stored == [f"m{n:03}" for n in range(last - len(stored) + 1, last + 1)]
            if loaded["summary"]["state"] == "fresh":
                assert len(stored) <= max(members.get("window", 60), 2)


async def test_newest_sixty(thread: Thread) -> None:
    """Of 200 plain messages exactly the last 60 are sent, after a summary of all before them."""
    await thread.grow(200)
    await thread.build()
    loaded = await thread.load(marker="off")

    summary, *window = loaded["messages"]
    assert [message["content"] for message in window] == [f"m{n}" for n in range(141, 201)]
    assert (summary["role"], summary["name"]) == ("system", "threadkeep_summary")
    assert str(loaded["summary"]["text"]) in summary["content"]
    assert loaded["coverage"] == {
        "total": 200,
        "summarized": 140,
        "window": 60,
        "trimmed": 0,
        "from_position": 141,
    }


async def test_states_of_the_summary(thread: Thread) -> None:
    """There is none while all fits, then one that says what it covers, and how it was made."""
    await thread.grow(40)
    none = (await thread.load())["summary"]
    await thread.grow(100)
    report = await thread.build()
    fresh = (await thread.load())["summary"]

    assert none == {
        "state": "none",
        "covers": 0,
        **dict.fromkeys(("text", "boundary", "method", "model", "prompt", "created_at")),
    }
    assert (fresh["state"], fresh["covers"], fresh["method"]) == ("fresh", 40, "extractive")
    assert fresh["model"] is None
    assert fresh["boundary"]["position"] == 40
    assert str(fresh["boundary"]["checkpoint_id"]).startswith("0000000040-")
    assert datetime.fromisoformat(str(fresh["created_at"])).tzinfo
    assert report["state"] == "fresh"


async def test_prefix_stands_still(thread: Thread) -> None:
    """From one turn to the next what was sent stays, but for one break a stride."""
    await thread.grow(100)
    prefixes: list[list[Json]] = []
    for last in range(100, 180, 2):
        await thread.grow(last)
        await thread.build()
        prefixes.append((await thread.load(marker="off"))["messages"])
    breaks = [after[: len(before)] != before for before, after in pairwise(prefixes)]

    assert sum(breaks) == 4


async def test_one_exchange_of_300_messages(thread: Thread) -> None:
    """An exchange longer than the window is sent whole, its calls with their results."""
    await thread.save("q", "a", key="k0")
    rounds = [message for number in range(149) for message in tool_round(number)]
    done: Json = {"role": "assistant", "content": "done"}
    long = [{"role": "user", "content": "work"}, *rounds, done]
    for at in (0, 150):
        part = await thread.post(long[at : at + 150], key=f"part-{at}")
        assert part.status_code == 201, part.text
    loaded = await thread.load(marker="off")
    check_sums(loaded)
    trimmed = await thread.load(token_budget=500)
    check_sums(trimmed)

    assert loaded["messages"][-300:] == long
    results = [m["tool_call_id"] for m in trimmed["messages"] if m["role"] == "tool"]
    calls = [call["id"] for m in trimmed["messages"] for call in m.get("tool_calls", [])]
    assert results == calls
    assert texts_of(trimmed)[0] == "work"
    assert texts_of(trimmed)[-1] == "done"
    assert trimmed["tokens"]["total"] <= 500

    await thread.save("and now?", "fine", key="k1")
    after = await thread.load()
    check_sums(after)
    assert after["coverage"]["total"] == 304
    assert texts_of(after)[-2:] == ["and now?", "fine"]


def tool_round(number: int) -> list[Json]:
    function = {"name": "step", "arguments": f'{{"n": {number}}}'}
    call = {"id": f"c{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number}"},
    ]


async def test_wide_open(thread: Thread) -> None:
    """With the largest window and a budget beyond need, all of a long thread is sent."""
    await thread.grow(400)
    loaded = await thread.load(**EVERYTHING)
    check_sums(loaded)

    assert texts_of(loaded) == [f"m{n:03}" for n in range(1, 401)]
    assert loaded["tokens"]["over_budget"] is False


async def test_tight_budget(thread: Thread) -> None:
    """A final turn that alone is over the budget is sent all the same, and said to be over it."""
    await thread.grow(20)
    loaded = await thread.load(message="word " * 500, token_budget=100)
    check_sums(loaded)

    assert texts_of(loaded) == ["word " * 500]
    assert loaded["tokens"]["over_budget"] is True
    assert loaded["coverage"]["trimmed"] == 20


async def test_tokens_are_counted(thread: Thread) -> None:
    """The total is what the documented rule gives: 3 a message, names and 1, calls, and 3."""
    await thread.grow(100)
    await thread.build()
    await thread.post([{"role": "user", "content": "do", "name": "ann"}, *tool_round(1)], key="k")
    for encoding in ("o200k_base", "cl100k_base"):
        count = await EncodingTokenCounter().counter(encoding)
        loaded = await thread.load(message="naïve 日本 👍", encoding=encoding)
        cost = 3
        for message in loaded["messages"]:
            cost += 3 + count(message["content"] or "")
            cost += count(message["name"]) + 1 if "name" in message else 0
            for call in message.get("tool_calls", []):
                cost += count(call["function"]["name"]) + count(call["function"]["arguments"])
        tokens = loaded["tokens"]
        assert (tokens["total"], tokens["encoding"]) == (cost, encoding)
        sections = ("summary", "window", "marker", "message")
        assert sum(tokens[name] for name in sections) + 3 == cost


async def test_format_text(thread: Thread) -> None:
    """As text a context is one block for each message, oldest first, and says the same."""
    await thread.save("How long?\nExactly.", "Long.", key="k1")
    loaded = await thread.load(format="text", message="And wide?")

    check_members(loaded, {**{k: v for k, v in LOADED.items() if k != "messages"}, "text": (str,)})
    check_sums(loaded)
    text = str(loaded["text"])
    assert text.startswith("User: How long?\nExactly.\n\nAssistant: Long.\n\n")
    assert text.rstrip().endswith("User: And wide?")
    count = await EncodingTokenCounter().counter("o200k_base")
    assert loaded["tokens"]["total"] == count(text)


async def test_strip_is_for_reading(make_client: MakeClient) -> None:
    """Markup goes from assistants' words when they are read, unless it is asked for; raw stays."""
    raw = "<think>hmm</think>Lisbon【1†source】."
    async with make_client() as client:
        thread = Thread(client)
        await thread.save(raw, raw, key="k")
        clean, kept = await thread.load(), await thread.load(strip="off")
        stored = await listed(thread)

    assert texts_of(clean) == [raw, "Lisbon."]
    assert texts_of(kept) == [raw, raw]
    assert [message["content"] for message in stored] == [raw, raw]
