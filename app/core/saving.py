"""From a save's request to the turn to be stored, and from the store's word to the answer.

The service reads and writes; what is decided is decided here (docs/identity.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.core.appending import Diverged, Rest, Retry, Strip, orphan_results
from app.core.digest import (
    Anchor,
    HeadAnchor,
    KeyAnchor,
    ParentAnchor,
    identity,
    message_id,
    position_of,
    turn_digest,
)
from app.core.errors import (
    CheckpointNotFound,
    Flaw,
    InvalidPayload,
    KeyReused,
    ParentMoved,
    ThreadDeleted,
    ThreadNotFound,
    TranscriptDiverged,
)
from app.core.ingest import Batch
from app.core.large import Cost, prepare
from app.core.messages import role_of
from app.core.model import (
    Appended,
    Body,
    Conflicts,
    History,
    NewTurn,
    Saved,
    SavedMessage,
    StoredMessage,
    ThreadKey,
)
from app.core.respelling import Compared, decide_in_any

MAX_MESSAGES = 200
"""The most messages one turn may store, unless the deployment says otherwise."""

_BY_CONTENT = {
    "code": "retry-by-content",
    "detail": "Nothing was stored: by content, or by the messages' own ids, this turn stands in the"
    " thread as it was first written. To store the same words as a turn of their own, send 'parent'"
    " (the 'head' of the load) or a 'key'.",
}


@dataclass(frozen=True, slots=True)
class SaveRequest:
    """What the caller asks to be saved. parent_known: `parent` was sent, null included."""

    thread: ThreadKey
    batch: Batch
    key: str | None = None
    parent: str | None = None
    parent_known: bool = False
    on_conflict: Conflicts = "append"
    metadata: Mapping[str, object] = field(default_factory=dict)

    @property
    def anchored(self) -> bool:
        """Tell whether the caller anchored the turn, so that the tail need not be read."""
        return self.key is not None or self.parent_known


@dataclass(frozen=True, slots=True)
class Costing:
    """How messages are cleaned and counted when they are stored; rules names both versions.

    max_messages: the most that one turn may store.
    """

    rules: str
    strip: Strip
    cost: Cost
    max_messages: int = MAX_MESSAGES


@dataclass(frozen=True, slots=True)
class Plan:
    """What a save comes to.

    turn:    to be stored; None when all of it stands in the thread, or nothing is to be stored.
    matched: the messages of the batch that stand in the thread already.
    parent:  of the turn that a retry by content ended in.
    """

    turn: NewTurn | None
    digest: bytes
    matched: tuple[StoredMessage, ...] = ()
    parent: str | None = None
    warnings: tuple[Mapping[str, object], ...] = ()


def plan_anchored(request: SaveRequest, costing: Costing) -> Plan:
    """Plan a save that the caller anchored by a key or a parent; no read is needed.

    Errors: CheckpointNotFound for a parent that no turn can have; InvalidPayload for too many
        messages.
    """
    _check_parent(request.parent)
    bodies = request.batch.stored
    digest = turn_digest(bodies)
    anchor: Anchor = ParentAnchor(request.parent, digest)
    if request.key is not None:
        anchor = KeyAnchor(request.key)
    empty_thread = request.parent_known and request.parent is None
    return Plan(
        turn=_new_turn(request, bodies, anchor, digest, costing) if bodies else None,
        digest=digest,
        warnings=_orphans(request.batch, 0, () if empty_thread else None),
    )


def plan_by_content(
    request: SaveRequest, history: History | None, costing: Costing, *, window: int
) -> Plan:
    """Plan a save without key and parent against the thread as it was read (None: unknown).

    Units:  window in messages, how far back a whole turn counts as a late retry.
    Errors: TranscriptDiverged, with the position; InvalidPayload for too many messages.
    """
    batch = request.batch
    digest = turn_digest(batch.stored)
    if not batch.stored:
        return Plan(None, digest)
    tail = history.messages if history else ()
    total = history.position if history else 0
    compared = Compared(batch.stored, batch.dialect, tail, total)
    decision = decide_in_any(compared, strip=costing.strip, window=window)
    if isinstance(decision, Diverged):
        raise _contradiction(decision, batch)
    if isinstance(decision, Retry):
        parent = _parent_of(decision.matched[-1], history)
        return Plan(None, digest, decision.matched, parent, (_BY_CONTENT,))
    rest = decision if isinstance(decision, Rest) else Rest(0, ())
    bodies = batch.stored[rest.offset :]
    digest = turn_digest(bodies)
    anchor = HeadAnchor(history.head if history else None, digest)
    return Plan(
        turn=_new_turn(request, bodies, anchor, digest, costing),
        digest=digest,
        matched=rest.matched,
        warnings=_orphans(batch, rest.offset, [message.body for message in tail]),
    )


def answer(request: SaveRequest, plan: Plan, appended: Appended | None) -> Saved:
    """Turn what the store did with the plan (None: there was nothing to do) into the answer.

    Errors: ThreadNotFound, ThreadDeleted, CheckpointNotFound, KeyReused, ParentMoved.
    """
    warnings = plan.warnings
    if plan.turn is None or appended is None:
        last = plan.matched[-1].checkpoint_id if plan.matched else None
        parent, lines, created, rebased = plan.parent, saved_messages(plan.matched), False, False
    else:
        _check(appended, request)
        last, parent = appended.checkpoint_id, appended.parent_id
        created, rebased = appended.outcome == "created", appended.rebased
        lines = saved_messages(plan.matched, plan.turn, appended)
        if not created and plan.turn.on_conflict == "decided":
            warnings = (*warnings, _BY_CONTENT)
    return Saved(
        thread_id=request.thread.thread_id,
        checkpoint_id=last,
        parent_checkpoint_id=parent,
        digest=plan.digest.hex(),
        messages=lines,
        created=created,
        rebased=rebased,
        ignored=request.batch.ignored,
        warnings=warnings,
    )


def saved_messages(
    matched: Sequence[StoredMessage],
    turn: NewTurn | None = None,
    appended: Appended | None = None,
) -> tuple[SavedMessage, ...]:
    """Return the answer's lines: the messages found in the thread, then those of the turn.

    Shape: a turn that was stored before (a retry) has the ids and positions of the first time.
    """
    old = tuple(
        SavedMessage(message.id, role_of(message.body), message.position, new=False)
        for message in matched
    )
    if turn is None or appended is None:
        return old
    start = appended.position - len(turn.messages) + 1
    return old + tuple(
        SavedMessage(
            id=message_id(turn.identity, index),
            role=role_of(message.body),
            position=start + index,
            new=appended.outcome == "created",
        )
        for index, message in enumerate(turn.messages)
    )


def _new_turn(
    request: SaveRequest,
    bodies: Sequence[Body],
    anchor: Anchor,
    digest: bytes,
    costing: Costing,
) -> NewTurn:
    if len(bodies) > costing.max_messages:
        limit = f"at most {costing.max_messages} messages to be stored"
        detail = f"must hold {limit}, not {len(bodies)}"
        raise InvalidPayload((Flaw("#/messages", detail),))
    by_content = isinstance(anchor, HeadAnchor)
    expected = anchor.head if isinstance(anchor, HeadAnchor) else request.parent
    turn_identity = identity(request.thread, anchor)
    return NewTurn(
        identity=turn_identity,
        digest=digest,
        expected=expected,
        parent_known=by_content or request.parent_known,
        on_conflict="decided" if by_content else request.on_conflict,
        messages=tuple(
            prepare(body, turn_identity, index, cost=costing.cost, cleaned=costing.strip(body))
            for index, body in enumerate(bodies)
        ),
        rules=costing.rules,
        metadata=request.metadata,
        staged_under=expected,
        key=request.key,
        dialect=request.batch.dialect,
    )


def _check_parent(parent: str | None) -> None:
    if parent is None:
        return
    try:
        position_of(parent)
    except ValueError as error:
        raise CheckpointNotFound from error


def _check(appended: Appended, request: SaveRequest) -> None:
    match appended.outcome:
        case "unknown" if request.parent is not None:
            raise CheckpointNotFound  # a thread unknown to the caller holds no parent either
        case "unknown":
            raise ThreadNotFound
        case "deleted":
            raise ThreadDeleted
        case "no-parent":
            raise CheckpointNotFound
        case "key-reused":
            raise KeyReused(key=request.key)
        case "moved":
            raise ParentMoved(head=appended.head)


def _contradiction(decision: Diverged, batch: Batch) -> TranscriptDiverged:
    pointer = f"#/messages/{batch.indexes[decision.index - 1]}"
    return TranscriptDiverged(
        f"The messages overlap the thread and do not continue it; {pointer} is where they part."
        " Send only the new messages, with 'parent' or 'key'.",
        pointer=pointer,
        position=decision.position,
    )


def _parent_of(message: StoredMessage, history: History | None) -> str | None:
    turns = history.turns if history else ()
    parents = {turn.checkpoint_id: turn.parent_id for turn in turns}
    return parents.get(message.checkpoint_id)


def _orphans(
    batch: Batch, offset: int, before: Sequence[Body] | None
) -> tuple[Mapping[str, object], ...]:
    """Warn of each result in batch.stored[offset:] without its call; before None: not known."""
    return tuple(
        {
            "code": "tool-result-without-call",
            "detail": "A tool result does not follow the call it names; loads leave it out.",
            "pointer": f"#/messages/{batch.indexes[offset + index]}",
        }
        for index in orphan_results(batch.stored[offset:], before)
    )
