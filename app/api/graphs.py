"""LangGraph's checkpoints over HTTP: what a checkpointer asks of its store.

Requests and answers are LangGraph's own, so fields that are not known here are passed over in
silence. Bodies may be as large as whole graph states; what is large is read and written aside.
"""

from collections.abc import Callable
from typing import TypeVar

from fastapi import Request, Response

from app.api.auth import Principal
from app.api.dependencies import (
    answer,
    api_router,
    authorize,
    read_request,
    resources_of,
)
from app.api.graphs_answers import (
    DeltaHistoriesOut,
    GraphBlobOut,
    PutOut,
    TupleOut,
    TuplesPage,
    blob_json,
    config_json,
    histories_json,
    tuple_json,
    tuples_json,
)
from app.api.graphs_parsing import (
    checked_ns,
    parse_channels,
    parse_list,
    parse_prune,
    parse_put,
    parse_put_writes,
    parse_runs,
    parse_target,
    short_name,
)
from app.api.graphs_schemas import (
    BlobParameters,
    CopyThreadIn,
    DeltaHistoryIn,
    ForgetRunsIn,
    GetTupleIn,
    ListIn,
    PruneIn,
    PutIn,
    PutWritesIn,
)
from app.api.openapi import documented
from app.api.paths import check_thread_id, path_name, path_thread_id
from app.api.threads import page_json
from app.api.validation import validate, validate_query
from app.core.errors import (
    ChannelNotFound,
    CheckpointNotFound,
    Flaw,
    InvalidPayload,
    ParentMoved,
    PayloadTooLarge,
    ThreadDeleted,
    ThreadExists,
    ThreadNotFound,
    UnsupportedMediaType,
    VersionAmbiguous,
)
from app.core.graphs import HASH_LENGTH
from app.services.ports import run_aside

router = api_router("checkpoints", prefix="/v1/checkpoints")

_T = TypeVar("_T")
_OF_BODIES = (PayloadTooLarge, UnsupportedMediaType)
_IN_PATH = [
    {
        "name": name,
        "in": "path",
        "required": True,
        "description": text,
        "schema": {"type": "string", "minLength": 1},
    }
    for name, text in (
        ("channel", "As thread ids, one percent-encoded segment."),
        ("version", "As a checkpoint's `blobs` name it, or the client's if it has one value only."),
    )
]


@router.post(
    "/get-tuple",
    **documented(
        {200: TupleOut},
        thread=False,
        body=GetTupleIn,
        errors=(ThreadNotFound, CheckpointNotFound, *_OF_BODIES),
    ),
)
async def get_tuple(request: Request) -> Response:
    """Read one checkpoint with its values and writes: the latest, unless one is named."""
    _, (target, _) = await _read(
        request, "read", lambda principal, body: parse_target(principal, GetTupleIn, body)
    )
    found = await resources_of(request).graphs.read(target.key, target.ns, target.checkpoint_id)
    return await run_aside(found.size_bytes, lambda: answer(tuple_json(found)))


@router.post(
    "/list",
    **documented(
        {200: TuplesPage}, thread=False, body=ListIn, errors=(CheckpointNotFound, *_OF_BODIES)
    ),
)
async def list_graph_checkpoints(request: Request) -> Response:
    """List checkpoints with their values and writes, newest first: greatest id first."""
    _, query = await _read(request, "read", parse_list)
    found, cursor = await resources_of(request).graphs.page(query)
    size = sum(item.size_bytes for item in found)
    return await run_aside(size, lambda: answer(page_json(tuples_json(found), cursor)))


@router.post(
    "/put",
    **documented(
        {200: PutOut},
        thread=False,
        body=PutIn,
        errors=(ThreadNotFound, ParentMoved, VersionAmbiguous, ThreadDeleted, *_OF_BODIES),
    ),
)
async def put_checkpoint(request: Request) -> Response:
    """Store a checkpoint on top of the one that the config names; the same id again replaces it."""
    _, graph = await _read(request, "write", parse_put)
    await resources_of(request).graphs.put(graph)
    return answer({"config": config_json(graph.thread.thread_id, graph.ns, graph.checkpoint_id)})


@router.post(
    "/put-writes",
    status_code=204,
    **documented(
        {}, thread=False, body=PutWritesIn, errors=(ThreadNotFound, ThreadDeleted, *_OF_BODIES)
    ),
)
async def put_checkpoint_writes(request: Request) -> Response:
    """Store what a task wrote on top of a checkpoint, which may still be to come."""
    _, writes = await _read(request, "write", parse_put_writes)
    await resources_of(request).graphs.put_writes(writes)
    return Response(status_code=204)


@router.get(
    "/blobs/{thread_id:segment}/{channel:segment}/{version:segment}",
    **documented(
        {200: GraphBlobOut},
        query=BlobParameters,
        headers=_IN_PATH,
        errors=(ThreadNotFound, ChannelNotFound, VersionAmbiguous),
    ),
)
async def get_blob(request: Request) -> Response:
    """Read one value alone. What a stored version names never changes, so it may be kept."""
    principal = authorize(request, "read")
    key = principal.key_of(path_thread_id(request))
    name = path_name(request, "channel"), path_name(request, "version")
    wanted = validate_query(BlobParameters, request.query_params)
    ns = checked_ns(wanted.ns, "#/ns")
    checkpoint_id = wanted.checkpoint_id and short_name(wanted.checkpoint_id, "#/checkpoint_id")
    blob = await resources_of(request).graphs.blob(key, ns, name, checkpoint_id)
    immutable = blob.version == name[1]
    headers = {
        "ETag": f'"{blob.version[-HASH_LENGTH:]}"',
        "Cache-Control": "private, max-age=31536000, immutable"
        if immutable
        else "private, no-cache",
    }
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    size = len(blob.value.data)
    return await run_aside(size, lambda: answer(blob_json(blob), headers=headers))


@router.delete("/threads/{thread_id:segment}", status_code=204, **documented({}))
async def delete_checkpoints(request: Request) -> Response:
    """Delete a thread's checkpoints in every namespace; its turns stay. 204 also for no thread."""
    principal = authorize(request, "write")
    await resources_of(request).graphs.forget(principal.key_of(path_thread_id(request)))
    return Response(status_code=204)


@router.post(
    "/delete-for-runs",
    status_code=204,
    **documented({}, thread=False, body=ForgetRunsIn, errors=_OF_BODIES),
)
async def delete_for_runs(request: Request) -> Response:
    """Delete the checkpoints whose metadata names one of the runs, with their writes."""
    principal, runs = await _read(request, "write", lambda _, body: parse_runs(body))
    owner = principal.thread_owner()
    await resources_of(request).graphs.forget_runs(principal.tenant_id, owner, runs)
    return Response(status_code=204)


@router.post(
    "/copy-thread",
    status_code=204,
    **documented(
        {},
        thread=False,
        body=CopyThreadIn,
        errors=(ThreadNotFound, ThreadExists, ThreadDeleted, *_OF_BODIES),
    ),
)
async def copy_thread(request: Request) -> Response:
    """Copy all checkpoints of a thread to another, with values, writes and parents."""
    principal, wanted = await _read(request, "write", lambda _, body: validate(CopyThreadIn, body))
    source = principal.key_of(check_thread_id(wanted.source, "#/source"))
    target = check_thread_id(wanted.target, "#/target")
    if target == source.thread_id:
        raise InvalidPayload([Flaw("#/target", "must be another thread than the source")])
    await resources_of(request).graphs.copy(source, target)
    return Response(status_code=204)


@router.post(
    "/prune",
    status_code=204,
    **documented({}, thread=False, body=PruneIn, errors=_OF_BODIES),
)
async def prune_threads(request: Request) -> Response:
    """Keep the latest checkpoint of each namespace and what it is rebuilt from, or nothing."""
    principal, (threads, delete) = await _read(request, "write", lambda _, body: parse_prune(body))
    owner = principal.thread_owner()
    await resources_of(request).graphs.prune(principal.tenant_id, owner, threads, delete=delete)
    return Response(status_code=204)


@router.post(
    "/delta-history",
    **documented(
        {200: DeltaHistoriesOut},
        thread=False,
        body=DeltaHistoryIn,
        errors=(ThreadNotFound, CheckpointNotFound, *_OF_BODIES),
    ),
)
async def get_delta_history(request: Request) -> Response:
    """Read what delta channels are rebuilt from: writes of ancestors, on top of a stored value."""
    _, (target, channels) = await _read(request, "read", parse_channels)
    found = await resources_of(request).graphs.delta_history(
        target.key, target.ns, target.checkpoint_id, channels
    )
    size = sum(history.size_bytes for history in found.values())
    return await run_aside(size, lambda: answer({"channels": histories_json(found)}))


async def _read(
    request: Request, scope: str, parse: Callable[[Principal, dict[str, object]], _T]
) -> tuple[Principal, _T]:
    principal = authorize(request, scope)
    limit = resources_of(request).limits.max_checkpoint_bytes
    parsed = await read_request(request, lambda body: parse(principal, body), max_bytes=limit)
    return principal, parsed
