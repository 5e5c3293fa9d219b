"""Load: read, then compute. A load writes nothing to the store and waits for no model."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from app.core.context import (
    Branch,
    Reading,
    assemble,
    assemble_given,
    assemble_text,
    is_same,
    large_to_fetch,
)
from app.core.errors import CheckpointNotFound
from app.core.large import restore
from app.core.model import (
    Body,
    Context,
    History,
    LoadOptions,
    ThreadKey,
)
from app.core.pending import Write, stale_warnings
from app.core.ports import HistoryStore
from app.core.tokens import message_tokens
from app.core.window import MESSAGE_TOKENS, Grid, WindowPlan, grid_for, plan_window
from app.services.gap import fill_gap, given_before
from app.services.ports import CHARACTERS_A_TOKEN, HistoryPorts, characters_of, run_aside


@dataclass(frozen=True, slots=True)
class StoredThread:
    """Generation 1: the history comes from the store."""


@dataclass(frozen=True, slots=True)
class HistoryText:
    """Generation 2: the history is one opaque text."""

    text: str


@dataclass(frozen=True, slots=True)
class Conversation:
    """Generation 3: the history is the caller's own messages."""

    messages: tuple[Body, ...]


Source: TypeAlias = StoredThread | HistoryText | Conversation


@dataclass(frozen=True, slots=True)
class Loaded:
    """A load's answer. shape: the generation of the request. timings: seconds by stage.

    warnings: of the thread, beside the context's own.
    """

    context: Context
    head: str | None
    shape: int
    pending: tuple[Write, ...]
    warnings: tuple[Mapping[str, object], ...]
    timings: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Stopwatch:
    """Adds up the seconds of each stage."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - began


async def load_context(
    ports: HistoryPorts,
    key: ThreadKey | None,
    source: Source,
    options: LoadOptions,
    *,
    checkpoint_id: str | None = None,
) -> Loaded:
    """Load what the model should read.

    Shape:  a thread that is unknown to the caller is an empty history. With a history of the
        caller's own nothing is read but the head and what is staged under it.
    Errors: CheckpointNotFound, UnknownEncoding, StoreUnavailable.
    """
    count = await ports.counter.counter(options.encoding)
    reading = Reading(
        options, ports.policy, count, ports.profile, ports.rules, ports.image_tokens, ports.memo
    )
    watch = _Stopwatch()
    if isinstance(source, StoredThread):
        if key is None:
            raise ValueError("a stored thread is read by its key")
        return await _load_stored(ports, key, reading, checkpoint_id, watch)
    history = None
    if key is not None:
        with watch.time("store"):
            history = await _read_recent(ports.store, key, Grid(1, 1, 1, 1), checkpoint_id)
    with watch.time("assemble"):
        context = await _assemble_sent(source, reading)
    return _loaded(context, history, 2 if isinstance(source, HistoryText) else 3, watch)


async def _load_stored(
    ports: HistoryPorts,
    key: ThreadKey,
    reading: Reading,
    checkpoint_id: str | None,
    watch: _Stopwatch,
) -> Loaded:
    grid, _ = grid_for(ports.policy, reading.options)
    with watch.time("store"):
        history = await _read_recent(ports.store, key, grid, checkpoint_id)
        if history is None:
            return _loaded(assemble(Branch(), reading), None, 1, watch)
        unsaved = _unsaved_tokens(history, reading)
        history, plan = await _read_window(ports.store, key, grid, history, unsaved)
    branch = Branch(history.messages, history.position, plan.start, None, plan.state, plan.ahead)
    with watch.time("cache"):
        branch, missing = await _with_summary(ports, key, history, plan, branch)
    with watch.time("store"):
        if missing:
            branch = replace(await fill_gap(ports, key, history, branch), filled=True)
        branch = await _restore_large(ports.store, key, branch, reading)
    with watch.time("assemble"):
        characters = CHARACTERS_A_TOKEN * sum(message.tokens for message in branch.messages)
        context = await run_aside(characters, assemble, branch, reading)
    registry = history.registry
    ports.notify_if_due(
        key,
        position=registry.position,
        tokens=registry.tokens,
        pointers=registry.summaries,
    )
    return _loaded(context, history, 1, watch)


async def _read_recent(
    store: HistoryStore, key: ThreadKey, grid: Grid, checkpoint_id: str | None
) -> History | None:
    history = await store.recent(
        key, window=grid.window, stride=grid.stride, checkpoint_id=checkpoint_id
    )
    if history is None and checkpoint_id is not None:
        raise CheckpointNotFound  # of a thread that is unknown to this caller
    return history


async def _read_window(
    store: HistoryStore, key: ThreadKey, grid: Grid, history: History, unsaved: int
) -> tuple[History, WindowPlan]:
    """Plan the window; read further back where one exchange is longer than all that was read."""
    plan = plan_window(grid, history, unsaved=unsaved)
    while plan is None and history.head is not None:
        reach = 2 * max(len(history.messages), grid.window)
        turns = await store.turns(key, head=history.head, after=max(0, history.position - reach))
        if len(turns) <= len(history.turns):
            break  # erased meanwhile
        history = replace(history, turns=turns)
        plan = plan_window(grid, history, unsaved=unsaved)
    first = history.position - len(history.messages)
    return history, plan or WindowPlan(first, None, gap=False, state="none")


async def _with_summary(
    ports: HistoryPorts, key: ThreadKey, history: History, plan: WindowPlan, branch: Branch
) -> tuple[Branch, bool]:
    """Read the plan's summary; tell whether a gap is left that it does not cover."""
    if plan.ahead:
        # Once a load has given more than the newest summary covers, the window does not go back.
        given = await given_before(ports, key, history, plan.ahead)
        if given is not None:
            branch = replace(branch, start=plan.ahead, summary=given, state="fresh")
            return replace(branch, ahead=0, filled=True), False
    if plan.pointer is None:
        return branch, plan.gap
    summary = await ports.read_summary(key, plan.pointer, history.registry, built=plan.gap)
    return replace(branch, summary=summary), plan.gap or summary is None


def _unsaved_tokens(history: History, reading: Reading) -> int:
    """Return what the current message costs beyond the room kept for it, 0 where it is stored."""
    message, last = reading.options.message, history.messages[-1:]
    if message is None:
        return 0
    cost = message_tokens(message, reading.count, image_tokens=reading.image_tokens)
    if cost <= MESSAGE_TOKENS or (last and is_same(last[0], message)):
        return 0
    return cost - MESSAGE_TOKENS


async def _restore_large(
    store: HistoryStore, key: ThreadKey, branch: Branch, reading: Reading
) -> Branch:
    wanted = large_to_fetch(branch, reading)
    if not wanted:
        return branch
    values = await store.values(key, wanted)
    return replace(branch, messages=tuple(restore(m, values) for m in branch.messages))


async def _assemble_sent(source: HistoryText | Conversation, reading: Reading) -> Context:
    if isinstance(source, HistoryText):
        return await run_aside(len(source.text), assemble_text, source.text, reading)
    return await run_aside(characters_of(source.messages), assemble_given, source.messages, reading)


def _loaded(context: Context, history: History | None, shape: int, watch: _Stopwatch) -> Loaded:
    return Loaded(
        context=context,
        head=history.head if history else None,
        shape=shape,
        pending=history.pending if history else (),
        warnings=stale_warnings(history.stale) if history else (),
        timings=watch.seconds,
    )
