"""What a stage answers, and how a load speaks of what was left behind."""

import pytest

from app.core.digest import KeyAnchor, identity
from app.core.errors import (
    CheckpointNotFound,
    InvalidPayload,
    ThreadDeleted,
    ThreadkeepError,
    ThreadNotFound,
    WriteDiffers,
)
from app.core.model import ThreadKey
from app.core.pending import StaleTask, stale_warnings
from app.core.staging import (
    StageOutcome,
    StageRequest,
    Stored,
    answer,
    check_discarded,
)

THREAD = ThreadKey("acme", "t1")
REQUEST = StageRequest(THREAD, "call", (("a", {"x": 1, "y": 1.5}), ("b", None)), key="k1")


def test_a_turn_is_known_by_its_key() -> None:
    """A stage knows the identity that the save with its key will have; without a key none."""
    assert REQUEST.identity == identity(THREAD, KeyAnchor("k1"))
    assert StageRequest(THREAD, "call", ()).identity is None


@pytest.mark.parametrize(
    ("outcome", "staged", "created", "folded"),
    [("created", 2, True, False), ("same", 2, False, False), ("folded", 0, False, True)],
)
def test_answers(outcome: StageOutcome, staged: int, created: bool, folded: bool) -> None:
    """The answer counts what stands staged now and says whether this call stored it."""
    given = answer(REQUEST, Stored(outcome, "p", "id" if folded else None))

    assert (given.staged, given.created, given.folded) == (staged, created, folded)
    assert (given.thread_id, given.task_id, given.key, given.parent) == ("t1", "call", "k1", "p")
    assert given.checkpoint_id == ("id" if folded else None)


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        ("unknown", ThreadNotFound),
        ("deleted", ThreadDeleted),
        ("no-parent", CheckpointNotFound),
        ("too-many", InvalidPayload),
        ("too-large", InvalidPayload),
        ("differs", WriteDiffers),
    ],
)
def test_refusals(outcome: StageOutcome, error: type[ThreadkeepError]) -> None:
    """Each word of the store that is no success is an error of its own."""
    with pytest.raises(error):
        answer(REQUEST, Stored(outcome, None, None, (("a", "other"),)))


@pytest.mark.parametrize("limit", ["1000 values", "16777216 bytes"])
def test_limits_are_named(limit: str) -> None:
    """A refusal for size names the field and the limit."""
    outcome: StageOutcome = "too-many" if "values" in limit else "too-large"
    with pytest.raises(InvalidPayload) as refused:
        answer(REQUEST, Stored(outcome, None, None))

    assert refused.value.flaws[0].pointer == "#/writes"
    assert limit in refused.value.flaws[0].detail


@pytest.mark.parametrize(
    ("values", "same"),
    [
        ((("a", {"y": 1.5, "x": 1}), ("b", None)), True),
        ((("a", {"y": 1.5, "x": 1.0}), ("b", None)), False),
        ((("b", None), ("a", {"x": 1, "y": 1.5})), False),
        ((("a", {"x": 1, "y": 1.5}),), False),
    ],
)
def test_values_are_compared_as_json(values: tuple[tuple[str, object], ...], same: bool) -> None:
    """The order of members does not count; the order of values and the kind of a number do."""
    stored = Stored("differs", None, None, values)

    if same:
        assert answer(REQUEST, stored).created is False
        return
    with pytest.raises(WriteDiffers):
        answer(REQUEST, stored)


def test_discarding() -> None:
    """Nothing staged is no error; no thread and a deleted one are."""
    check_discarded("done")
    with pytest.raises(ThreadNotFound):
        check_discarded("unknown")
    with pytest.raises(ThreadDeleted):
        check_discarded("deleted")


def test_what_is_left_behind_is_grouped() -> None:
    """One warning a parent and key names its tasks, in order."""
    tasks = [
        StaleTask(None, "k", "z"),
        StaleTask(None, "k", "a"),
        StaleTask("p", "", "a"),
        StaleTask("p", "k", "a"),
    ]

    warnings = stale_warnings(tasks)

    assert {w["code"] for w in warnings} == {"stale-writes"}
    assert [(w["parent"], w["key"], w["tasks"]) for w in warnings] == [
        (None, "k", ["z", "a"]),
        ("p", None, ["a"]),
        ("p", "k", ["a"]),
    ]
    assert stale_warnings(()) == ()
