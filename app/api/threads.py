"""Save a turn, and look at what is stored."""

from collections.abc import Mapping, Sequence

from fastapi import Request, Response

from app.api.answers import BuiltSummaryOut, MessagesPage, SavedOut, ThreadOut, ThreadsPage
from app.api.context import boundary_json, summary_json
from app.api.dependencies import (
    Resources,
    answer,
    api_router,
    authorize,
    read_request,
    resources_of,
)
from app.api.keys import KEY_PARAMETER, key_header
from app.api.openapi import documented
from app.api.paths import path_thread_id
from app.api.schemas import (
    MessagesParameters,
    SaveIn,
    parse_save,
)
from app.api.validation import PageParameters, unknown_fields, validate_query
from app.core.errors import (
    CheckpointNotFound,
    Flaw,
    InvalidPayload,
    KeyReused,
    ParentMoved,
    PayloadTooLarge,
    ThreadDeleted,
    ThreadNotFound,
    TranscriptDiverged,
    UnsupportedMediaType,
)
from app.core.large import restore
from app.core.model import Registry, Saved, StoredMessage, ThreadKey
from app.core.window import summary_state
from app.services.save import save_turn

router = api_router("threads", prefix="/v1")


@router.post(
    "/threads/{thread_id:segment}/turns",
    status_code=201,
    **documented(
        {201: SavedOut, 200: SavedOut},
        headers=[KEY_PARAMETER],
        body=SaveIn,
        errors=(
            ThreadNotFound,
            CheckpointNotFound,
            KeyReused,
            ParentMoved,
            TranscriptDiverged,
            ThreadDeleted,
            PayloadTooLarge,
            UnsupportedMediaType,
        ),
    ),
)
async def post_turn(request: Request) -> Response:
    """Store a turn once: 201 when it is new, 200 with the first save's ids when it is a retry."""
    principal = authorize(request, "write")
    key = principal.key_of(path_thread_id(request))
    header = key_header(request)
    wanted, unknown = await read_request(
        request, lambda body: (parse_save(key, body, header), unknown_fields(SaveIn, body))
    )
    saved = await save_turn(resources_of(request).history, wanted)
    return answer(saved_json(saved, unknown), status=201 if saved.created else 200)


@router.get("/threads", **documented({200: ThreadsPage}, thread=False, query=PageParameters))
async def list_threads(request: Request) -> Response:
    """List the threads the call sees, newest first by creation."""
    principal = authorize(request, "read")
    page = validate_query(PageParameters, request.query_params)
    resources = resources_of(request)
    threads, cursor = await resources.index.page(
        principal.tenant_id, principal.thread_owner(), limit=page.limit, cursor=page.cursor
    )
    return answer(page_json([thread_json(resources, thread) for thread in threads], cursor))


@router.get(
    "/threads/{thread_id:segment}", **documented({200: ThreadOut}, errors=(ThreadNotFound,))
)
async def get_thread(request: Request) -> Response:
    """Read what is known of a thread: counts, tokens, bytes, where its summary stands."""
    principal = authorize(request, "read")
    resources = resources_of(request)
    registry = await resources.index.get(principal.key_of(path_thread_id(request)))
    if registry is None:
        raise ThreadNotFound
    return answer(thread_json(resources, registry))


@router.get(
    "/threads/{thread_id:segment}/messages",
    **documented({200: MessagesPage}, query=MessagesParameters, errors=(ThreadNotFound,)),
)
async def list_messages(request: Request) -> Response:
    """Page through the messages of the current branch, as they were sent."""
    principal = authorize(request, "read")
    key = principal.key_of(path_thread_id(request))
    page = validate_query(MessagesParameters, request.query_params)
    resources = resources_of(request)
    found = await resources.index.messages(
        key, newest_first=page.order == "desc", limit=page.limit, cursor=page.cursor
    )
    if found is None:
        if page.cursor is not None and await resources.index.get(key) is not None:
            raise InvalidPayload([Flaw("#/cursor", "is not a cursor of this list")])
        raise ThreadNotFound
    messages, cursor = found
    return answer(page_json(await raw_messages(resources, key, messages), cursor))


@router.post(
    "/threads/{thread_id:segment}/summary",
    **documented({200: BuiltSummaryOut}, errors=(ThreadNotFound,)),
)
async def post_summary(request: Request) -> Response:
    """Build the summaries that are due now, and say where the thread's summary stands."""
    principal = authorize(request, "write")
    key = principal.key_of(path_thread_id(request))
    report = await resources_of(request).build_summary(key)
    return answer({**summary_json(report.state, report.summary), "built": report.built})


def saved_json(saved: Saved, unknown: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return the answer to a save."""
    return {
        "thread_id": saved.thread_id,
        "checkpoint_id": saved.checkpoint_id,
        "parent_checkpoint_id": saved.parent_checkpoint_id,
        "digest": saved.digest,
        "messages": saved.messages,
        "created": saved.created,
        "rebased": saved.rebased,
        "ignored": saved.ignored,
        "warnings": [*unknown, *saved.warnings],
    }


def thread_json(resources: Resources, registry: Registry) -> dict[str, object]:
    """Return what is told of a thread."""
    newest = max(registry.summaries, key=lambda pointer: pointer.position, default=None)
    return {
        "thread_id": registry.thread_id,
        "owner": registry.owner_id or None,
        "title": registry.title,
        "metadata": registry.metadata,
        "head": registry.head,
        "messages": registry.position,
        "turns": registry.turns,
        "tokens": registry.tokens,
        "bytes": registry.size_bytes,
        "summary": {
            "state": summary_state(resources.history.grid, registry),
            "covers": newest.position if newest else 0,
            "boundary": boundary_json(newest),
        },
        "created_at": registry.created_at,
        "updated_at": registry.updated_at,
        "expires_at": registry.expires_at,
        "forked_from": registry.forked_from,
    }


def message_json(message: StoredMessage) -> dict[str, object]:
    """Return a message as it was sent, with its place; a sender's own `id` is `client_id`."""
    named = {"client_id": message.body["id"]} if "id" in message.body else {}
    place = {"position": message.position, "checkpoint_id": message.checkpoint_id}
    return {**message.body, **named, "id": message.id, **place}


def page_json(items: Sequence[object], cursor: str | None) -> dict[str, object]:
    """Return one page of a list."""
    return {"items": items, "next_cursor": cursor, "has_more": cursor is not None}


async def raw_messages(
    resources: Resources, key: ThreadKey, messages: Sequence[StoredMessage]
) -> list[dict[str, object]]:
    """Return messages as they were sent; large members are read in one trip more."""
    large = [member for message in messages for member in message.large]
    values = await resources.history.store.values(key, large) if large else {}
    return [message_json(restore(message, values)) for message in messages]
