"""The two hashes of a save, and the ids read off them."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.digest import (
    Anchor,
    HeadAnchor,
    KeyAnchor,
    ParentAnchor,
    canonical,
    checkpoint_suffix,
    identity,
    make_checkpoint_id,
    message_content,
    message_digest,
    message_id,
    position_of,
    turn_digest,
)
from app.core.model import Body, ThreadKey

DATA = Path(__file__).parents[1] / "data"
GOLDEN = json.loads((DATA / "golden_vectors.json").read_text(encoding="utf-8"))
THREAD = ThreadKey("acme", "t1")
DIGEST = turn_digest([{"role": "user", "content": "yes"}])

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool"]), "content": text},
    optional={"name": text, "tool_call_id": text, "tool_calls": st.lists(json_values, max_size=2)},
)


def _lines(name: str) -> list[str]:
    # Not splitlines: the cases hold U+2028 as it is.
    return (DATA / name).read_text(encoding="utf-8").strip().split("\n")


def _anchor(vector: dict[str, str | None]) -> Anchor:
    digest = bytes.fromhex(vector.get("digest") or "")
    if vector["kind"] == "key":
        return KeyAnchor(vector["value"] or "")
    kind = ParentAnchor if vector["kind"] == "parent" else HeadAnchor
    return kind(vector["value"], digest)


def _reordered(value: object) -> object:
    if isinstance(value, dict):
        return {name: _reordered(value[name]) for name in reversed(value)}
    return [_reordered(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("vector", GOLDEN["canonical"], ids=lambda vector: str(vector["name"]))
def test_golden_canonical(vector: dict[str, str]) -> None:
    """Canonical JSON is spelled as it was when the vectors were frozen."""
    assert canonical(json.loads(vector["json"])) == vector["canonical"].encode()


@pytest.mark.parametrize("vector", GOLDEN["digests"], ids=lambda vector: str(vector["name"]))
def test_golden_digest(vector: dict[str, object]) -> None:
    """A turn's digest is what it was when the vectors were frozen, or every retry looks new."""
    bodies = vector["messages"]
    assert isinstance(bodies, list)

    assert turn_digest(bodies).hex() == vector["digest"]


@pytest.mark.parametrize("vector", GOLDEN["identities"], ids=lambda vector: str(vector["name"]))
def test_golden_identity(vector: dict[str, Any]) -> None:
    """Identities, message ids and checkpoint ids are what they were when they were frozen."""
    found = identity(ThreadKey(vector["tenant"], vector["thread"]), _anchor(vector["anchor"]))

    assert found.hex() == vector["identity"]
    assert [message_id(found, index) for index in (0, 1, 199)] == vector["message_ids"]
    assert make_checkpoint_id(42, found) == vector["checkpoint_id_at_42"]


@given(json_values)
def test_canonical_ignores_member_order_and_reads_back(value: object) -> None:
    """Members in any order give the same bytes, and the bytes are the same JSON value."""
    assert canonical(_reordered(value)) == canonical(value)
    assert json.loads(canonical(value)) == value


@pytest.mark.parametrize(
    "bad", [float("nan"), float("inf"), "hi \ud83d", {"\udfff": 1}, ["\ude00"]]
)
def test_canonical_refuses_what_json_cannot_say(bad: object) -> None:
    """NaN, infinities and half surrogate pairs are a ValueError, wherever they stand."""
    with pytest.raises(ValueError):  # noqa: PT011 - three kinds of ValueError, none with our text
        canonical({"x": [bad]})


def test_equal_numbers_of_one_kind_are_one_spelling() -> None:
    """However a number was written, equal ones give equal bytes, and 1 is not 1.0."""
    assert canonical(json.loads('[1e2, 0.10, -0.0, {"a": -0.0}]')) == b'[100.0,0.1,0.0,{"a":0.0}]'
    assert canonical(["-0.0", -0.05]) == b'["-0.0",-0.05]'
    assert canonical(1) != canonical(1.0)


def test_lists_keep_their_order_and_text_its_form() -> None:
    """Order of parts, white space and Unicode form all count: nothing is normalised or trimmed."""
    bodies = [
        {"role": "user", "content": content}
        for content in ("caf\u00e9", "cafe\u0301", "hello", "hello\n", " hello", "\u306f\u3044", "")
    ]

    assert len({message_digest(body) for body in bodies}) == len(bodies)
    assert canonical([2, 1]) != canonical([1, 2])


@given(messages, messages)
def test_digests_differ_when_any_member_differs(one: Body, other: Body) -> None:
    """Two messages share a digest exactly when all five members of content agree."""
    same = message_content(one) == message_content(other)

    assert (message_digest(one) == message_digest(other)) is same


@given(messages, st.sampled_from(["role", "content", "tool_calls", "tool_call_id", "name"]))
def test_each_of_the_five_members_counts(body: Body, member: str) -> None:
    """Changing any one member of content changes the digest of the message and of the turn."""
    changed = {**body, member: ["other"]}

    assert message_digest(changed) != message_digest(body)
    assert turn_digest([changed]) != turn_digest([body])


@given(
    messages, st.dictionaries(st.sampled_from(["id", "metadata", "created_at", "x"]), json_values)
)
def test_save_volatile_metadata_not_identity(body: Body, extra: Body) -> None:
    """Ids, times, metadata and unknown members never enter a digest; nor does member order."""
    redelivered = _reordered({**extra, **body})
    assert isinstance(redelivered, dict)

    assert turn_digest([redelivered]) == turn_digest([body])


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "hello"},
        {"text": "hello", "type": "input_text"},
        {"type": "output_text", "text": "hello"},
        "hello",
    ],
)
def test_one_plain_text_part_is_its_string(part: object) -> None:
    """A list of one plain text part is the same content as the string."""
    assert message_content({"role": "user", "content": [part]}) == {
        "role": "user",
        "content": "hello",
    }


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "hello", "cache_control": {"type": "ephemeral"}}],
        [{"type": "text", "text": "hello"}, {"type": "text", "text": ""}],
        [{"type": "note", "text": "hello"}],
        [{"type": "text", "text": 7}],
        [],
    ],
)
def test_other_lists_are_not_a_string(content: object) -> None:
    """More than one part, another kind of part or a member more is other content."""
    assert message_content({"role": "user", "content": content})["content"] == content


def test_null_is_absent() -> None:
    """Clients that spell out every member as null, or no calls as [], send the same content."""
    bare = {"role": "assistant", "content": "hi"}
    spelled: Body = {**bare, "tool_calls": [], "refusal": None, "audio": None, "name": None}

    assert message_digest(spelled) == message_digest(bare)


def test_what_other_dialects_call_content_counts() -> None:
    """Two refusals, or two old-style function calls, are two messages."""
    bodies = [
        {"role": "assistant", "content": None, member: value}
        for member, value in [
            ("refusal", "I cannot."),
            ("refusal", "I will not."),
            ("function_call", {"name": "f", "arguments": "{}"}),
            ("function_call", {"name": "g", "arguments": "{}"}),
            ("audio", {"id": "a1"}),
        ]
    ]

    assert len({message_digest(body) for body in bodies}) == len(bodies)


def test_save_hash_field_boundaries() -> None:
    """No choice of thread, role and content lets two different messages share an id."""
    cases = (json.loads(line) for line in _lines("cases.jsonl"))
    case = next(case for case in cases if case["id"] == "save-hash-field-boundaries")
    ids = set()
    for one in case["input"]["ids_of"]:
        digest = turn_digest([{"role": one["role"], "content": one["content"]}])
        found = identity(ThreadKey("acme", one["thread"]), ParentAnchor(None, digest))
        ids.add(message_id(found, 0))

    assert len(ids) == len(case["input"]["ids_of"])


def test_save_image_only_messages_distinct() -> None:
    """Two messages without text are still two messages."""
    one, other = (
        [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": f"https://x/{n}"}}],
            }
        ]
        for n in (1, 2)
    )

    assert turn_digest(one) != turn_digest(other)


def test_turns_are_cut_where_their_messages_are() -> None:
    """The same text spread over other messages, or no message at all, is another turn."""
    turns = [
        [],
        [{"role": "user", "content": "ab"}],
        [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
        [{"role": "user", "content": "b"}, {"role": "user", "content": "a"}],
    ]

    assert len({turn_digest(turn) for turn in turns}) == len(turns)


def test_sec_id_guessing_by_hash() -> None:
    """The same words in the same thread have other ids for another tenant."""
    one, other = (identity(ThreadKey(tenant, "t1"), ParentAnchor(None, DIGEST)) for tenant in "AB")

    assert message_id(one, 0) != message_id(other, 0)


def test_save_key_scoped_to_tenant_and_thread() -> None:
    """One key used in two threads or by two tenants is three identities; the owner is no part."""
    anchor = KeyAnchor("1")
    found = {
        identity(ThreadKey(tenant, thread), anchor)
        for tenant, thread in [("A", "t1"), ("B", "t1"), ("A", "t2")]
    }

    assert len(found) == 3
    assert identity(ThreadKey("A", "t1", "ann"), anchor) == identity(ThreadKey("A", "t1"), anchor)


@given(text, text)
def test_kinds_of_anchor_never_collide(one: str, other: str) -> None:
    """Whatever a caller picks as key, it is never the identity of a parent or of a head."""
    other_digest = turn_digest([])
    anchors = [
        KeyAnchor(one),
        KeyAnchor(f"{one}\x00"),
        *(
            kind(value, digest)
            for kind in (ParentAnchor, HeadAnchor)
            for value in (None, one, f"{one}{other}x")
            for digest in (DIGEST, other_digest)
        ),
    ]

    for left, right in combinations(anchors, 2):
        assert identity(THREAD, left) != identity(THREAD, right)


def test_message_ids_differ_by_index() -> None:
    """Equal messages of one turn have ids of their own, in a fixed form."""
    found = identity(THREAD, KeyAnchor("k1"))
    ids = {message_id(found, index) for index in range(300)}

    assert len(ids) == 300
    assert all(len(name) == 28 and name.startswith("msg_") for name in ids)


@given(st.integers(1, 10**10 - 1), st.integers(1, 10**10 - 1), st.binary(min_size=32, max_size=32))
def test_checkpoint_ids_sort_by_position_and_tell_it(one: int, other: int, name: bytes) -> None:
    """A checkpoint id gives its position back, and ids sort as positions do."""
    left, right = make_checkpoint_id(one, name), make_checkpoint_id(other, name)

    assert position_of(left) == one
    assert left.endswith(checkpoint_suffix(name))
    assert (left < right) == (one < other)


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "42",
        "0000000042",
        "0000000042-" + "a" * 21,
        "0000000042-" + "a" * 23,
        "0000000042-" + "A" * 22,
        "0000000042_" + "a" * 22,
        "000000042-" + "a" * 22,
        "\u0660000000042-" + "a" * 22,
        "0000000042-" + "a" * 22 + "\n",
        "0000000042-" + "a" * 22 + "\0",
        "1f07cb2e-6a6c-6f7e-8000-2c3d4e5f6a7b",
    ],
)
def test_position_of_refuses_any_other_form(bad: str) -> None:
    """Only a turn's own ids tell a position."""
    with pytest.raises(ValueError, match="not the checkpoint id"):
        position_of(bad)


@pytest.mark.parametrize("position", [-1, 10**10])
def test_a_position_must_fit(position: int) -> None:
    """A position that would break the order of ids is refused."""
    with pytest.raises(ValueError, match="ten digits"):
        make_checkpoint_id(position, DIGEST)


def test_ids_and_states_of_items_are_not_content() -> None:
    """An item that an API sends back with its id and status is the item that the client sent."""
    sent: Body = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    back = {**sent, "id": "fc_1", "status": "completed", "namespace": None}

    assert message_digest(back) == message_digest(sent)
    assert message_digest({**sent, "call_id": "c2"}) != message_digest(sent)


def test_an_item_that_is_only_an_id_differs_by_it() -> None:
    """References and approvals are told apart by the ids they are."""
    for kind in ("item_reference", "mcp_approval_request"):
        one, other = ({"type": kind, "id": name} for name in ("a", "b"))

        assert message_digest(one) != message_digest(other)


def test_usage_and_ids_of_langchain_are_not_content() -> None:
    """A LangChain message is what it says and calls, not what a run noted about it."""
    say = {"content": "hi", "tool_calls": [{"name": "f", "args": {}, "id": "c1"}]}
    noted = {**say, "id": "run-1", "usage_metadata": {"total_tokens": 1}, "response_metadata": {}}
    one, other = ({"type": "ai", "data": data} for data in (say, noted))

    assert message_digest(one) == message_digest(other)
    assert message_digest({"type": "human", "data": say}) != message_digest(one)
    assert message_digest({"type": "ai", "data": {**say, "content": "ho"}}) != message_digest(one)
