"""Channel values: which are plain JSON, which are typed bytes, and that both come back exactly."""

import json
import math
import pickle
from dataclasses import dataclass
from enum import Enum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from threadkeep_client.errors import ThreadkeepError
from threadkeep_client.langgraph_values import (
    MAX_INLINE_BYTES,
    PickledValue,
    divide,
    dump,
    is_inline,
    load,
    load_blobs,
    plain,
)

SERDE = JsonPlusSerializer(allowed_msgpack_modules=True)


class Colour(StrEnum):
    RED = "red"


class Size(Enum):
    LARGE = 3


@dataclass
class Point:
    x: int


class Unknown:
    """Neither data nor a model: msgpack cannot carry it."""


class Reversed(CipherProtocol):
    """Not a cipher, but as opaque to the service as one."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "reversed", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "reversed"
        return ciphertext[::-1]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
EXACT = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats()


@pytest.mark.parametrize("value", [None, True, False, 0, -1, 2**63 - 1, 0.0, 1.5, "", "text", "é"])
def test_small_scalars_are_inline(value: object) -> None:
    """None, bool, numbers and short text stay in the checkpoint's own JSON."""
    assert is_inline(value)


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        b"",
        (),
        Point(1),
        Colour.RED,
        Size.LARGE,
        math.nan,
        math.inf,
        2**63,
        "\0",
        "\ud800",
        "x" * (MAX_INLINE_BYTES + 1),
        "é" * MAX_INLINE_BYTES,
    ],
    ids=repr,
)
def test_what_json_would_change_is_a_blob(value: object) -> None:
    """Whatever JSON cannot bring back as it was, or would repeat in every row, is a blob."""
    assert not is_inline(value)


@given(SCALARS)
def test_inline_values_survive_json(value: object) -> None:
    """Every value that is inline comes back from JSON with its type."""
    if is_inline(value):
        returned = json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False).encode())
        assert (type(returned), returned) == (type(value), value)


@given(
    st.recursive(
        EXACT | st.binary(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner)
        ),
    )
)
def test_typed_bytes_come_back(value: object) -> None:
    """A value dumped and loaded is the same value, through base64 text."""
    typed = dump(SERDE, "channel", value)

    assert repr(load(SERDE, json.loads(json.dumps(typed)))) == repr(value)


@pytest.mark.parametrize("value", [Colour.RED, Size.LARGE, Point(1), bytearray(b"b"), {1, 2}])
def test_types_come_back(value: object) -> None:
    """A blob brings back the very type, which a list of plain JSON types would not."""
    returned = load(SERDE, dump(SERDE, "channel", value))

    assert (type(returned), returned) == (type(value), value)


def test_only_new_channels_are_sent() -> None:
    """A value whose version did not move is not sent again, unless it is inline."""
    values = {"new": [1], "old": [2], "small": 3, "long": "x" * 9000}

    divided = divide(values, {"new": 1}, SERDE)

    assert divided.inline == {"small": 3}
    assert load_blobs(SERDE, [{"channel": "new", **divided.blobs["new"]}]) == {"new": [1]}
    assert divided.blobs.keys() == {"new"}


def test_a_snapshot_leaves_a_mark() -> None:
    """A delta channel's snapshot is `true` in the checkpoint and a blob beside it."""
    divided = divide({"log": _DeltaSnapshot([1])}, {"log": 1}, SERDE)

    assert divided.inline == {"log": True}
    assert load(SERDE, divided.blobs["log"]) == _DeltaSnapshot([1])


def test_nothing_to_encrypt_is_inline() -> None:
    """With an encrypting serializer even a short text is a blob, so it is not stored in clear."""
    serde = EncryptedSerializer(Reversed(), SERDE)

    divided = divide({"name": "Ada", "none": None}, {"name": 1, "none": 1}, serde)

    assert divided.inline == {}
    assert {name: blob["type"] for name, blob in divided.blobs.items()} == {
        "name": "msgpack+reversed",
        "none": "null+reversed",
    }
    assert load(serde, divided.blobs["name"]) == "Ada"


def test_an_empty_marker_is_no_value() -> None:
    """A blob of type `empty`, as other savers leave for a cleared channel, is no value."""
    assert load_blobs(SERDE, [{"channel": "gone", "type": "empty", "data": None}]) == {}


@pytest.mark.parametrize("encrypted", [False, True])
def test_pickle_is_refused_with_advice(*, encrypted: bool) -> None:
    """A value that would be pickled is refused before it is sent, saying what to do instead."""
    pickling = JsonPlusSerializer(pickle_fallback=True)
    serde = EncryptedSerializer(Reversed(), pickling) if encrypted else pickling

    with pytest.raises(PickledValue, match=r"'tools' holds a Unknown .* pydantic model") as raised:
        dump(serde, "tools", Unknown())

    assert isinstance(raised.value, ThreadkeepError)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)  # noqa: S301


def test_metadata_is_cleaned_at_every_depth() -> None:
    """Metadata loses NUL and half characters, which no JSON column takes, and tuples are lists."""
    assert plain({"a\0": ("x\0", ["\ud800y", 1, None, True])}) == {
        "a": ["x", ["?y", 1, None, True]]
    }
