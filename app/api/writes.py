"""Stage what a turn in flight has done so far."""

from fastapi import Request, Response

from app.api.dependencies import answer, api_router, authorize, read_request, resources_of
from app.api.keys import KEY_PARAMETER, key_header
from app.api.openapi import documented
from app.api.paths import path_name, path_thread_id
from app.api.validation import checked_name, validate_query
from app.api.writes_answers import StagedOut
from app.api.writes_schemas import DiscardParameters, WritesIn, parse_writes, unknown_in_writes
from app.core.errors import (
    CheckpointNotFound,
    PayloadTooLarge,
    ThreadDeleted,
    ThreadNotFound,
    UnsupportedMediaType,
    WriteDiffers,
)
from app.services.staging import discard_writes, stage_writes

router = api_router("threads", prefix="/v1")

_TASK = {
    "name": "task_id",
    "in": "path",
    "required": True,
    "description": "The caller's own name of the task, such as a tool call's id; as thread ids.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}


@router.put(
    "/threads/{thread_id:segment}/writes/{task_id:segment}",
    **documented(
        {200: StagedOut},
        headers=[_TASK, KEY_PARAMETER],
        body=WritesIn,
        errors=(
            ThreadNotFound,
            CheckpointNotFound,
            WriteDiffers,
            ThreadDeleted,
            PayloadTooLarge,
            UnsupportedMediaType,
        ),
    ),
)
async def put_writes(request: Request) -> Response:
    """Stage what a task of a turn in flight gave; loads return it until the turn is saved.

    The same again is a no-op. A turn whose key is saved already takes nothing more.
    """
    principal = authorize(request, "write")
    key = principal.key_of(path_thread_id(request))
    task_id = path_name(request, "task_id")
    header = key_header(request)
    wanted, unknown = await read_request(
        request, lambda body: (parse_writes(key, task_id, body, header), unknown_in_writes(body))
    )
    staged = await stage_writes(resources_of(request).staging, wanted)
    return answer(
        {
            "thread_id": staged.thread_id,
            "task_id": staged.task_id,
            "parent": staged.parent,
            "key": staged.key,
            "staged": staged.staged,
            "created": staged.created,
            "folded": staged.folded,
            "checkpoint_id": staged.checkpoint_id,
            "warnings": unknown,
        }
    )


@router.delete(
    "/threads/{thread_id:segment}/writes",
    status_code=204,
    **documented({}, query=DiscardParameters, errors=(ThreadNotFound, ThreadDeleted)),
)
async def delete_writes(request: Request) -> Response:
    """Discard what is staged for turns in flight; 204 also where nothing is."""
    principal = authorize(request, "write")
    key = principal.key_of(path_thread_id(request))
    wanted = validate_query(DiscardParameters, request.query_params)
    turn_key = checked_name(wanted.key, "#/key")
    await discard_writes(resources_of(request).staging, key, turn_key)
    return Response(status_code=204)
