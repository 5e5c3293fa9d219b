"""The answers about turns in flight, as documentation; see app.api.answers."""

from pydantic import BaseModel, ConfigDict
from pydantic.config import JsonDict

from app.api.answers import Warned

# FastAPI leaves nulls out of the document, examples included, so this has none.
_STAGED: JsonDict = {
    "thread_id": "t1",
    "task_id": "call_1",
    "parent": "0000000006-5f0c1b7e9a3d4c6f8e2b1a",
    "key": "turn-4",
    "staged": 0,
    "created": False,
    "folded": True,
    "checkpoint_id": "0000000010-b27c94d01e6f8a35c2d7e1",
    "warnings": [],
}


class StagedOut(BaseModel):
    """A staged task. created: false for the same again.

    parent: where it is staged, to be sent with the save. staged: how many values of the task stand
    staged. folded: the turn of this key is saved already, as checkpoint_id; nothing was staged.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [_STAGED]})

    thread_id: str
    task_id: str
    parent: str | None
    key: str | None
    staged: int
    created: bool
    folded: bool
    checkpoint_id: str | None
    warnings: list[Warned]
