"""Load: what the model should read."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from fastapi import Request, Response

from app.api.answers import ContextOut
from app.api.auth import Principal
from app.api.dependencies import answer, api_router, authorize, read_request, resources_of
from app.api.openapi import documented
from app.api.paths import path_thread_id
from app.api.schemas import (
    ExplainParameters,
    LoadIn,
    LoadParameters,
    LoadRequest,
    parse_load,
    parse_load_query,
)
from app.core.errors import CheckpointNotFound, PayloadTooLarge, UnsupportedMediaType
from app.core.explanation import WindowExplained
from app.core.model import Context, Pointer, Summary
from app.core.pending import Write
from app.services.load import Loaded, load_context

_STAGES = ("store", "cache", "assemble")

router = api_router("context", prefix="/v1")


@router.post(
    "/context",
    **documented(
        {200: ContextOut},
        thread=False,
        query=ExplainParameters,
        body=LoadIn,
        errors=(CheckpointNotFound, PayloadTooLarge, UnsupportedMediaType),
    ),
)
async def post_context(request: Request) -> Response:
    """Load a context, from any of the three generations of request."""
    principal = authorize(request, "read")
    query = request.query_params
    wanted = await read_request(request, lambda body: parse_load(body, query))
    return await _load(request, principal, wanted)


@router.get(
    "/threads/{thread_id:segment}/context",
    **documented({200: ContextOut}, query=LoadParameters, errors=(CheckpointNotFound,)),
)
async def get_context(request: Request) -> Response:
    """Load a stored thread's context.

    A current `message` goes with POST only: user text does not belong in a URL.
    """
    principal = authorize(request, "read")
    thread_id = path_thread_id(request)
    return await _load(request, principal, parse_load_query(thread_id, request.query_params))


async def _load(request: Request, principal: Principal, wanted: LoadRequest) -> Response:
    resources = resources_of(request)
    key = None if wanted.thread_id is None else principal.key_of(wanted.thread_id)
    loaded = await load_context(
        resources.history,
        key,
        wanted.source,
        wanted.options,
        checkpoint_id=wanted.checkpoint_id,
    )
    headers = {"Server-Timing": _server_timing(loaded.timings)}
    return answer(context_json(wanted, loaded), headers=headers)


def context_json(wanted: LoadRequest, loaded: Loaded) -> Mapping[str, object]:
    """Return the answer to a load; `output` brings `messages` (and `system`) or `text`."""
    context = loaded.context
    return {
        "thread_id": wanted.thread_id,
        "head": loaded.head,
        "shape": loaded.shape,
        "format": wanted.options.format,
        **context.output,
        "summary": {"text": context.summary and context.summary.text, **_summary_of(context)},
        "coverage": context.coverage,
        "tokens": context.tokens,
        "strip": context.stripped,
        "pending": _pending_json(loaded.pending),
        "warnings": [*wanted.warnings, *loaded.warnings, *context.warnings],
        **({"explain": explain_json(context)} if context.explanation else {}),
    }


def summary_json(state: str, summary: Summary | None) -> dict[str, object]:
    """Return what is said of a summary besides its text."""
    return {
        "state": state,
        "covers": summary.boundary.position if summary else 0,
        "boundary": boundary_json(summary.boundary if summary else None),
        "method": summary and summary.method,
        "model": summary and summary.model,
        "prompt": summary and summary.prompt,
        "created_at": summary and summary.created_at,
    }


def explain_json(context: Context) -> dict[str, object] | None:
    """Return what became of every message, and how the window was chosen."""
    explained = context.explanation
    if explained is None:
        return None
    return {
        "messages": explained.messages,
        "ranges": [
            {"from": one.first, "to": one.last, "fate": one.fate, "reason": one.reason}
            for one in explained.ranges
        ],
        "strip": {"rules": context.stripped.rules, "messages": explained.stripped},
        "window": _window_json(explained.window),
        "tokens": explained.overheads,
    }


def boundary_json(pointer: Pointer | None) -> dict[str, object] | None:
    """Return a boundary."""
    if pointer is None:
        return None
    return {"checkpoint_id": pointer.checkpoint_id, "position": pointer.position}


def _summary_of(context: Context) -> dict[str, object]:
    return summary_json(context.summary_state, context.summary)


def _window_json(window: WindowExplained) -> dict[str, object]:
    pointer = {"checkpoint_id": window.checkpoint_id, "position": window.position}
    return {
        "start": window.start,
        "grid": {
            "window": window.window,
            "stride": window.stride,
            "token_span": window.token_span,
            "token_step": window.token_step,
        },
        "cap": window.cap,
        "pointer": pointer if window.checkpoint_id else None,
        "summary": {"state": window.state, "why": window.why},
    }


def _pending_json(pending: Sequence[Write]) -> list[dict[str, object]]:
    """Group by key; the store has them in that order, and each key's in the order of replay."""
    return [
        {"key": key or None, "writes": _writes_json(writes)}
        for key, writes in groupby(pending, key=attrgetter("key"))
    ]


def _writes_json(writes: Iterable[Write]) -> list[dict[str, object]]:
    return [
        {"task_id": write.task_id, "channel": write.channel, "value": write.value}
        for write in writes
    ]


def _server_timing(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{stage};dur={seconds.get(stage, 0.0) * 1000:.2f}" for stage in _STAGES)
