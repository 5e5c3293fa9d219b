"""The pure rules of graph checkpoints: stored versions, indexes of writes, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base import WRITES_IDX_MAP

from app.core.graphs import (
    HASH_LENGTH,
    SPECIAL_INDEX,
    DeltaHistory,
    GraphTuple,
    GraphWrite,
    Typed,
    each_index_once,
    holds_nul,
    new_blob,
    write_index,
)


def write(idx: int, data: bytes = b"") -> GraphWrite:
    return GraphWrite("task", "", idx, "ch", Typed("bytes", data))


def test_stored_versions_are_frozen() -> None:
    """A stored version never changes for the same value: stored checkpoints name it."""
    assert new_blob("a", 2, Typed("json", b"[1]")).version == "2.3db648273204aae740bd74"
    assert new_blob("a", "0.5", Typed("null", b"")).version == "0.5.97cccb1b1197f11c6edbb0"


@given(st.binary(), st.binary(), st.text(), st.text())
def test_values_never_share_a_version(one: bytes, two: bytes, kind: str, other: str) -> None:
    """Two values of one client version have two stored versions, told apart by type too."""
    kind, other = kind.replace("\0", ""), other.replace("\0", "")
    first, second = new_blob("a", 1, Typed(kind, one)), new_blob("a", 1, Typed(other, two))

    assert (first.version == second.version) == ((kind, one) == (other, two))
    assert len(first.version) == len("1.") + HASH_LENGTH


def test_indexes_are_langgraphs() -> None:
    """Special channels have LangGraph's own indexes, any other its place in the list."""
    assert SPECIAL_INDEX == WRITES_IDX_MAP
    assert [write_index(channel, 3) for channel in ("ch", "__error__", "__resume__")] == [3, -1, -4]


@pytest.mark.parametrize(("overwrite", "kept"), [(True, b"last"), (False, b"first")])
def test_each_index_once(overwrite: bool, kept: bytes) -> None:
    """Of two writes with one index the one stays that would stay if they came one by one."""
    found = each_index_once(
        [write(-1, b"first"), write(0), write(-1, b"last")], overwrite=overwrite
    )

    assert [(item.idx, item.value.data) for item in found] == [(-1, kept), (0, b"")]


@pytest.mark.parametrize(
    ("node", "held"),
    [
        ("a\0", True),
        ({"a\0": 1}, True),
        ({"a": [{"b": "\0"}]}, True),
        ({"a": ["\\u0000", 1, None, 1.5, True]}, False),
        (None, False),
    ],
)
def test_nul_is_found(node: object, held: bool) -> None:
    """NUL is found in texts and in names, however deep; its spelled escape is no NUL."""
    assert holds_nul(node) is held


def test_size() -> None:
    """A checkpoint or history is as large as its values together."""
    blobs = (new_blob("a", 1, Typed("bytes", b"123")),)
    graph = GraphTuple("t", "", "c", None, {}, {}, blobs, (write(0, b"45"),))

    assert graph.size_bytes == 5
    assert DeltaHistory((write(0, b"45"),), Typed("bytes", b"123")).size_bytes == 5
    assert DeltaHistory((write(0, b"45"),)).size_bytes == 2
