"""The requests about turns in flight."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import ConfigDict, Field, WithJsonSchema
from pydantic.config import JsonDict

from app.api.keys import KEY_HEADER, agreed_key
from app.api.validation import (
    Name,
    RequestModel,
    checked_name,
    unknown_fields,
    validate,
)
from app.core.model import ThreadKey
from app.core.staging import MAX_WRITES, StageRequest

_EXAMPLE: JsonDict = {
    "parent": "0000000006-5f0c1b7e9a3d4c6f8e2b1a",
    "key": "turn-4",
    "writes": [
        {
            "channel": "messages",
            "value": {"role": "tool", "tool_call_id": "call_1", "content": "18 degrees, rain"},
        }
    ],
}


class WriteIn(RequestModel):
    """One value of a task. channel: what it is, for whoever replays it."""

    channel: Name
    value: Annotated[object, WithJsonSchema({}), Field(description="Any JSON, null too.")]


class WritesIn(RequestModel):
    """What a finished task of a turn in flight gave, staged whole or not at all."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    writes: Annotated[list[WriteIn], Field(min_length=1, max_length=MAX_WRITES)]
    parent: Annotated[
        Name | None,
        Field(
            description="The head seen at load; null: the thread was empty; absent: where the key"
            " has staged before, else the head."
        ),
    ] = None
    key: Annotated[
        Name | None, Field(description=f"The key the turn is saved with; also as {KEY_HEADER}.")
    ] = None


class DiscardParameters(RequestModel):
    """Whose staged writes are discarded."""

    key: Annotated[Name | None, Field(description="Of this turn only; absent: all.")] = None


def parse_writes(
    thread: ThreadKey, task_id: str, body: Mapping[str, object], in_header: str | None
) -> StageRequest:
    """Read a stage. in_header: the turn's key as sent in the header. Errors: InvalidPayload."""
    wanted = validate(WritesIn, body)
    for index, write in enumerate(wanted.writes):
        checked_name(write.channel, f"#/writes/{index}/channel")
    return StageRequest(
        thread=thread,
        task_id=task_id,
        values=tuple((write.channel, write.value) for write in wanted.writes),
        key=agreed_key(wanted.key, in_header),
        parent=checked_name(wanted.parent, "#/parent"),
        parent_known="parent" in body,
    )


def unknown_in_writes(body: Mapping[str, object]) -> tuple[Mapping[str, object], ...]:
    """Return a warning for each member that the contract does not know, of the values too.

    Shape: `writes` has been checked. One warning a name, in whichever values it stands.
    """
    writes = body["writes"]
    inside: dict[str, object] = {}
    for write in writes if isinstance(writes, list) else ():
        inside.update(write)
    return (*unknown_fields(WritesIn, body), *unknown_fields(WriteIn, inside))
