"""Large members leave a message and come back as they were."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.digest import KeyAnchor, identity, message_digest, message_id
from app.core.large import (
    INLINE_BYTES,
    PREVIEW_CHARACTERS,
    cut_preview,
    join_large,
    prepare,
    restore,
    split_large,
)
from app.core.messages import begins_exchange, calls_of, results_of, text_of
from app.core.model import Body, Large, StoredMessage, ThreadKey
from tests.unit.dialects import langchain

IDENTITY = identity(ThreadKey("acme", "t1"), KeyAnchor("k1"))
BIG = "x" * (INLINE_BYTES + 1)


def _split(body: Body) -> tuple[Body, dict[str, tuple[Large, bytes]]]:
    small, large = split_large(body, IDENTITY, 3, preview=lambda member: f"<{member}>", tokens=len)
    return small, {one.member: (one, text) for one, text in large}


def _words(body: object) -> int:
    return 3 + len(str(dict(body)["content"] or "").split()) if isinstance(body, dict) else 0


@given(
    st.dictionaries(
        st.sampled_from(["content", "tool_calls", "x", "a\0b", "y" * 5000, "\u00e9"]),
        st.sampled_from(
            ["small", BIG, ["\u00e9" * 9000, {"b": 1.0, "a": None}], {"n": [BIG, "\0"]}, None]
        ),
    )
)
def test_round_trip_is_byte_exact(members: Body) -> None:
    """What leaves a message and is put back gives the same JSON text, member order included."""
    body: Body = {"role": "user", **members, "id": "m1"}
    small, large = _split(body)

    assert json.dumps(
        join_large(small, {name: text for name, (_, text) in large.items()})
    ) == json.dumps(body)
    assert set(large) == {
        name
        for name, value in body.items()
        if len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) > INLINE_BYTES
    }
    assert all(len(json.dumps(small[name])) < INLINE_BYTES for name in large)


def test_the_limit_is_over_8_kib_of_json() -> None:
    """A member of exactly 8192 bytes of JSON stays, one byte more leaves."""
    assert not _split({"role": "user", "content": "x" * (INLINE_BYTES - 2)})[1]
    small, large = _split({"role": "user", "content": "x" * (INLINE_BYTES - 1)})

    assert small == {"role": "user", "content": None}
    assert large["content"][0].size_bytes == INLINE_BYTES + 1


def test_channel_and_version_name_the_value() -> None:
    """The channel is the message's own, the version follows the bytes."""
    one = _split({"role": "user", "content": BIG})[1]["content"][0]
    other = _split({"role": "user", "content": BIG + "y"})[1]["content"][0]

    assert one.channel == f"{message_id(IDENTITY, 3)}.content" == other.channel
    assert one.version != other.version
    assert len(one.version) == 22


@pytest.mark.parametrize("member", ["a\0b", "y" * 5000, "caf\u00e9", "a.b", ""])
def test_a_channel_is_always_a_name_the_store_takes(member: str) -> None:
    """A client's strange member name never reaches an index or a text column."""
    channel = _split({"role": "user", "content": "x", member: BIG})[1][member][0].channel

    assert channel.isascii()
    assert channel.isprintable()
    assert len(channel) < 100


@pytest.mark.parametrize(
    "body",
    [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": BIG}},
                {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}},
            ],
        },
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"name": "f", "args": {"a": BIG}, "id": "c"}],
        },
        {"role": "assistant", "function_call": {"name": "f", "arguments": BIG}},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": BIG},
                {"type": "tool_use", "id": "c", "name": "f"},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": BIG}, "see above"],
        },
        {"role": "user", "content": [{"type": "text", "text": BIG}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": BIG},
        {"type": "function_call_output", "call_id": "c", "output": BIG},
        langchain("human", BIG),
        langchain("tool", BIG, tool_call_id="c", artifact={"raw": BIG}),
        langchain("ai", "", tool_calls=[{"name": "f", "args": {"a": BIG}, "id": "c"}]),
        langchain("ai", "", invalid_tool_calls=[{"name": "f", "args": BIG, "id": "c"}]),
        langchain("ai", [{"type": "tool_use", "id": "c", "name": "f", "input": {"a": BIG}}]),
        langchain("ai", [{"type": "function_call", "call_id": "c", "id": "f", "arguments": BIG}]),
        langchain(
            "ai",
            "",
            additional_kwargs={
                "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": BIG}}],
                "function_call": {"name": "f", "arguments": BIG},
            },
        ),
        langchain("ai", "", additional_kwargs={"function_call": {"name": "f", "arguments": BIG}}),
    ],
    ids=range(16),
)
def test_calls_results_and_exchanges_are_told_without_the_blob(body: Body) -> None:
    """A message whose large members are away makes and answers the same calls as the whole one."""
    small, large = _split(body)

    assert large
    assert calls_of(small) == calls_of(body)
    assert results_of(small) == results_of(body)
    assert begins_exchange(small) == begins_exchange(body)
    assert join_large(small, {name: text for name, (_, text) in large.items()}) == body


def test_of_langchain_the_members_of_data_leave_one_by_one() -> None:
    """A large artifact is a value of its own: who wants the content need not read it."""
    body = langchain("tool", BIG, tool_call_id="c", artifact={"raw": BIG})
    new = prepare(body, IDENTITY, 0, cost=lambda one: len(text_of(one)), cleaned=body)
    content, artifact = (large for large, _ in new.large)

    assert (content.member, artifact.member) == ("data.content", "data.artifact")
    assert content.channel == f"{message_id(IDENTITY, 0)}.data.content"
    assert content.preview == "x" * PREVIEW_CHARACTERS
    assert (content.tokens, artifact.tokens) == (len(BIG), 0)
    assert new.body == langchain("tool", None, tool_call_id="c", artifact=None)


def test_a_small_message_is_stored_as_it_is() -> None:
    """Nothing is added to an ordinary message but its cost, which is the cleaned one's."""
    body: Body = {"role": "assistant", "content": "one two three"}
    new = prepare(body, IDENTITY, 0, cost=_words, cleaned={**body, "content": "one two"})

    assert new.body == body
    assert new.tokens == 5
    assert (new.large, new.digest, new.cleaned_digest) == ((), None, None)


def test_a_large_message_carries_cost_preview_and_digests() -> None:
    """A large message can be counted, shown and compared without its blob."""
    body: Body = {"role": "assistant", "content": "word [1] " * 2000}
    cleaned: Body = {"role": "assistant", "content": "word " * 2000}
    new = prepare(
        body, IDENTITY, 0, cost=lambda one: _words({"content": "", **one}), cleaned=cleaned
    )
    (large, text), *others = new.large

    assert not others
    assert new.tokens == 2003
    assert large.tokens == 2000
    assert large.preview == "word " * 40
    assert json.loads(text) == body["content"]
    assert new.digest == message_digest(body)
    assert new.cleaned_digest == message_digest(cleaned)


def test_previews_are_of_what_is_there() -> None:
    """Calls are previewed as JSON, other strings as they are, content without text as nothing."""
    body: Body = {
        "role": "assistant",
        "content": [{"type": "image", "data": BIG}],
        "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": BIG}}],
        "note": BIG,
        "gone": [BIG],
    }
    cleaned = {name: value for name, value in body.items() if name != "gone"}
    new = prepare(body, IDENTITY, 0, cost=len, cleaned=cleaned)
    previews = {large.member: large.preview for large, _ in new.large}

    assert previews["content"] == ""
    assert previews["tool_calls"].startswith('[{"id":"c1"')
    assert previews["note"] == "x" * PREVIEW_CHARACTERS
    assert previews["gone"] == ""


def test_restore_puts_back_what_was_read() -> None:
    """Members whose blob was read are whole again; the others stay listed as large."""
    body: Body = {"role": "user", "content": BIG, "note": [BIG]}
    small, large = _split(body)
    blobs = {(one.channel, one.version): text for one, text in large.values()}
    stored = StoredMessage(
        id="m", position=1, checkpoint_id="c", body=small, tokens=1, rules="r", digest=b"d",
        large=tuple(one for one, _ in large.values()),
    )  # fmt: skip
    whole = restore(stored, blobs)

    assert whole == replace(stored, body=body, large=())
    note = large["note"][0]
    del blobs[note.channel, note.version]
    assert restore(stored, blobs).large == (note,)
    assert restore(stored, blobs).body == {**body, "note": None}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("short", "short"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200),
        ("x" * 199 + "e\u0301z", "x" * 199),
        ("x" * 199 + "\r\n", "x" * 199),
        ("x" * 197 + "\U0001f469\u200d\U0001f469\u200d\U0001f467", "x" * 197),
        ("x" * 199 + "\U0001f44d\U0001f3fd", "x" * 199),
        ("x" * 199 + "\U0001f1e8\U0001f1ed", "x" * 199),
        ("\u0301" * 300, "\u0301" * 200),
    ],
    ids=range(9),
)
def test_previews_are_cut_between_visible_characters(text: str, kept: str) -> None:
    """A preview never ends inside an accented letter, an emoji sequence, a flag or a line break."""
    assert cut_preview(text) == kept
