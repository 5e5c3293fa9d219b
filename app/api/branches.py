"""The tree of a thread's turns: look at it, choose its head, fork it; and delete the thread."""

from fastapi import Request, Response

from app.api.branches_answers import (
    ChangedThreadOut,
    ChannelOut,
    CheckpointsPage,
    OneCheckpointOut,
    checkpoint_json,
    turn_json,
    value_json,
)
from app.api.branches_schemas import (
    TURNS,
    CheckpointsParameters,
    DeleteParameters,
    ForkIn,
    HeadIn,
    checked_space,
    parse_fork,
    parse_head,
)
from app.api.dependencies import answer, api_router, authorize, read_request, resources_of
from app.api.openapi import documented
from app.api.paths import path_name, path_thread_id
from app.api.threads import page_json, raw_messages, thread_json
from app.api.validation import unknown_fields, validate_query
from app.core.errors import (
    ChannelNotFound,
    CheckpointNotFound,
    ParentMoved,
    PayloadTooLarge,
    ThreadDeleted,
    ThreadExists,
    ThreadNotFound,
    UnsupportedMediaType,
)
from app.services.branches import fork_thread, move_head
from app.services.erasure import delete_thread as erase

router = api_router("threads", prefix="/v1")

_CHECKPOINT = {
    "name": "checkpoint_id",
    "in": "path",
    "required": True,
    "description": "A turn of the thread, of any branch.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
_CHANNEL = {
    "name": "channel",
    "in": "path",
    "required": True,
    "description": "As the checkpoint's `channels` name it.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}


@router.get(
    "/threads/{thread_id:segment}/checkpoints",
    **documented({200: CheckpointsPage}, query=CheckpointsParameters, errors=(ThreadNotFound,)),
)
async def list_checkpoints(request: Request) -> Response:
    """List a thread's checkpoints, of every branch, greatest id first."""
    principal = authorize(request, "read")
    key = principal.key_of(path_thread_id(request))
    page = validate_query(CheckpointsParameters, request.query_params)
    found = await resources_of(request).branches.page(
        key, checked_space(page.ns), limit=page.limit, cursor=page.cursor
    )
    if found is None:
        raise ThreadNotFound
    return answer(page_json([checkpoint_json(item) for item in found[0]], found[1]))


@router.get(
    "/threads/{thread_id:segment}/checkpoints/{checkpoint_id:segment}",
    **documented(
        {200: OneCheckpointOut},
        headers=[_CHECKPOINT],
        errors=(ThreadNotFound, CheckpointNotFound),
    ),
)
async def get_checkpoint(request: Request) -> Response:
    """Read one turn, of any branch: its messages as they were sent, and its channels."""
    principal = authorize(request, "read")
    key = principal.key_of(path_thread_id(request))
    resources = resources_of(request)
    turn, current = await resources.branches.turn(key, path_name(request, "checkpoint_id"))
    messages = await raw_messages(resources, key, turn.messages)
    return answer({**turn_json(turn, TURNS, current=current), "messages": messages})


@router.get(
    "/threads/{thread_id:segment}/checkpoints/{checkpoint_id:segment}/channels/{channel:segment}",
    **documented(
        {200: ChannelOut},
        headers=[_CHECKPOINT, _CHANNEL],
        errors=(ThreadNotFound, CheckpointNotFound, ChannelNotFound),
    ),
)
async def get_channel(request: Request) -> Response:
    """Read one large value of a turn, and nothing else."""
    principal = authorize(request, "read")
    key = principal.key_of(path_thread_id(request))
    checkpoint_id = path_name(request, "checkpoint_id")
    channel = path_name(request, "channel")
    value = await resources_of(request).branches.value(key, checkpoint_id, channel)
    return answer(value_json(checkpoint_id, value))


@router.put(
    "/threads/{thread_id:segment}/head",
    **documented(
        {200: ChangedThreadOut},
        body=HeadIn,
        errors=(
            ThreadNotFound,
            CheckpointNotFound,
            ParentMoved,
            ThreadDeleted,
            PayloadTooLarge,
            UnsupportedMediaType,
        ),
    ),
)
async def put_head(request: Request) -> Response:
    """Go on from another turn: loads show its branch, and the next save continues it.

    Nothing is removed: turns that were left stay in the tree. The same head again is a no-op.
    """
    principal = authorize(request, "write")
    key = principal.key_of(path_thread_id(request))
    move, unknown = await read_request(
        request, lambda body: (parse_head(body), unknown_fields(HeadIn, body))
    )
    resources = resources_of(request)
    registry = await move_head(resources.branches, key, move)
    return answer({**thread_json(resources, registry), "warnings": unknown})


@router.post(
    "/threads/{thread_id:segment}/fork",
    status_code=201,
    **documented(
        {201: ChangedThreadOut, 200: ChangedThreadOut},
        body=ForkIn,
        errors=(
            ThreadNotFound,
            CheckpointNotFound,
            ThreadExists,
            ThreadDeleted,
            PayloadTooLarge,
            UnsupportedMediaType,
        ),
    ),
)
async def post_fork(request: Request) -> Response:
    """Copy a turn and all before it to a new thread: 201, and 200 when it is that fork already.

    The copy stands alone: the thread it was made from may be changed or deleted.
    """
    principal = authorize(request, "write")
    key = principal.key_of(path_thread_id(request))
    (target, checkpoint_id), unknown = await read_request(
        request, lambda body: (parse_fork(body), unknown_fields(ForkIn, body))
    )
    resources = resources_of(request)
    registry, created = await fork_thread(resources.branches, key, checkpoint_id, target)
    told = {**thread_json(resources, registry), "warnings": unknown}
    return answer(told, status=201 if created else 200)


@router.delete(
    "/threads/{thread_id:segment}",
    status_code=204,
    **documented({}, query=DeleteParameters, errors=(ThreadNotFound,)),
)
async def delete_thread(request: Request) -> Response:
    """Delete a thread with all it holds; for a day late writes to its id are refused.

    204 also for one that is deleted already.
    """
    principal = authorize(request, "write")
    key = principal.key_of(path_thread_id(request))
    wanted = validate_query(DeleteParameters, request.query_params)
    resources = resources_of(request)
    await erase(resources.erasure, resources.history.cache, key, reuse=wanted.reuse)
    return Response(status_code=204)
