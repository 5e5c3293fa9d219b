"""Save: compute, then write. A save without an anchor reads the thread's tail first."""

from app.core.context import DEFAULT_ENCODING
from app.core.errors import ThreadNotFound
from app.core.model import Appended, History, NewTurn, Saved
from app.core.saving import Costing, Plan, SaveRequest, answer, plan_anchored, plan_by_content
from app.core.tokens import message_tokens
from app.services.ports import HistoryPorts, characters_of, run_aside

MAX_TAIL = 2_000
"""The most messages of a thread that a save without an anchor is compared with."""

_LOCKED_TRIES = 3


async def save_turn(ports: HistoryPorts, request: SaveRequest) -> Saved:
    """Store a turn once.

    Errors: ThreadNotFound, CheckpointNotFound, ThreadDeleted, KeyReused, ParentMoved,
        TranscriptDiverged, InvalidPayload, StoreUnavailable.
    """
    costing = await _costing(ports)
    if request.anchored:
        characters = characters_of(request.batch.stored)
        plan = await run_aside(characters, plan_anchored, request, costing)
        appended = await ports.store.append(request.thread, plan.turn) if plan.turn else None
    else:
        plan, appended = await _save_by_content(ports, request, costing)
    saved = answer(request, plan, appended)
    if appended is not None and saved.created:
        ports.notify_if_due(
            request.thread,
            position=appended.position,
            tokens=appended.tokens,
            pointers=appended.summaries,
        )
    return saved


async def _save_by_content(
    ports: HistoryPorts, request: SaveRequest, costing: Costing
) -> tuple[Plan, Appended | None]:
    """Decide on the thread as read; where it has moved by the time of the write, under its lock."""
    window = ports.policy.window
    back = min(max(window, len(request.batch.stored)), MAX_TAIL)
    plans: list[Plan] = []

    def decide(history: History | None) -> NewTurn | None:
        plans.append(plan_by_content(request, history, costing, window=window))
        return plans[-1].turn

    history = await ports.store.recent(request.thread, window=back, stride=1)
    tail = history.messages if history else ()
    characters = characters_of([*request.batch.stored, *(message.body for message in tail)])
    turn = await run_aside(characters, decide, history)
    appended = await ports.store.append(request.thread, turn) if turn else None
    for _ in range(_LOCKED_TRIES):
        if appended is None or appended.outcome != "moved":
            return plans[-1], appended
        _, appended = await ports.store.append_locked(request.thread, back=back, decide=decide)
    raise ThreadNotFound  # it comes and goes faster than it can be locked


async def _costing(ports: HistoryPorts) -> Costing:
    count = await ports.counter.counter(DEFAULT_ENCODING)
    return Costing(
        rules=ports.rules,
        strip=ports.clean,
        cost=lambda body: message_tokens(body, count, image_tokens=ports.image_tokens),
        max_messages=ports.max_turn_messages,
    )
