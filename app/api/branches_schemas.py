"""The requests about a thread's tree, its head, forks and its end."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import ConfigDict, Field

from app.api.graphs_parsing import checked_ns
from app.api.paths import check_thread_id
from app.api.validation import Name, PageParameters, RequestModel, checked_name, validate
from app.core.branches import HeadMove
from app.core.errors import Flaw, InvalidPayload

TURNS = "~turns"
"""The namespace of turns."""

_TURN = "0000000006-5f0c1b7e9a3d4c6f8e2b1a"
_LATER = "0000000008-b27c94d01e6f8a35c2d7e1"


class CheckpointsParameters(PageParameters):
    """One page of a thread's checkpoints."""

    ns: Annotated[
        str, Field(description="`~turns`, or a graph's namespace: the root's is empty.")
    ] = TURNS


class HeadIn(RequestModel):
    """Which turn is the head from now on."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"checkpoint_id": _TURN, "expected": _LATER}]}
    )

    checkpoint_id: Annotated[
        Name | None, Field(description="A turn of any branch; null: before the first turn.")
    ]
    expected: Annotated[
        Name | None,
        Field(description="The head as it was seen, null for none; absent: whatever it is."),
    ] = None


class ForkIn(RequestModel):
    """What is copied to which new thread."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"thread_id": "t2", "checkpoint_id": _TURN}]}
    )

    thread_id: Annotated[Name, Field(description="The new thread's id.")]
    checkpoint_id: Annotated[
        Name | None,
        Field(description="The copy's last turn, of any branch; absent: the head."),
    ] = None


class DeleteParameters(RequestModel):
    """How a thread is deleted."""

    reuse: Annotated[
        bool, Field(description="Free the id at once; a late retry then begins a new thread.")
    ] = False


class _HeadGiven(HeadIn):
    """As it is checked: a member that is null counts as left out, and is looked for apart."""

    checkpoint_id: Name | None = None


def checked_space(ns: str) -> str:
    """Return a namespace that may be listed. Errors: InvalidPayload."""
    return ns if ns == TURNS else checked_ns(ns, "#/ns")


def parse_head(body: Mapping[str, object]) -> HeadMove:
    """Read the wish for another head. Errors: InvalidPayload."""
    if "checkpoint_id" not in body:
        raise InvalidPayload([Flaw("#/checkpoint_id", "must be sent; null: before the first turn")])
    wanted = validate(_HeadGiven, body)
    return HeadMove(
        checkpoint_id=checked_name(wanted.checkpoint_id, "#/checkpoint_id"),
        expected=checked_name(wanted.expected, "#/expected"),
        expected_known="expected" in body,
    )


def parse_fork(body: Mapping[str, object]) -> tuple[str, str | None]:
    """Read the new thread's id and the turn that is forked. Errors: InvalidPayload."""
    wanted = validate(ForkIn, body)
    return (
        check_thread_id(wanted.thread_id),
        checked_name(wanted.checkpoint_id, "#/checkpoint_id"),
    )
