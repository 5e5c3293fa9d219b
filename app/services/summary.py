"""Building a thread's summaries in the background: claim, read, condense, write, till none is due.

A build goes forward in steps that fit the model, and each step that ends an exchange is written at
once: a build that stops half-way loses nothing, and the load goes on from what stands.
"""

import asyncio
import logging
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate

from app.core.extract import VERSION as EXTRACTIVE
from app.core.large import restore
from app.core.model import (
    Body,
    LoadOptions,
    Pointer,
    Policy,
    Registry,
    StoredMessage,
    Summary,
    ThreadKey,
)
from app.core.ports import (
    Count,
    HistoryStore,
    Lease,
    Summarizer,
    SummaryCache,
    SummaryFailed,
    SummaryStore,
)
from app.core.prompt import PROMPT, overhead_tokens
from app.core.rolling import Step, plan_steps, stretch, wanted_values, with_previews
from app.core.window import STALE_STRIDES, Grid, boundaries_needed, grid_for, is_due, thresholds

_MAX_CLAIMS = 100
_MIN_STEP_TOKENS = 500
_MESSAGES_AT_ONCE = 200
_NOTHING = Pointer("", 0, 0)
_utc_now = partial(datetime.now, UTC)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Builder:
    """What a build needs.

    clean:    strips a message as a load does. count: of the default encoding.
    model:    None for a deployment without one; fallback then makes every summary.
    input_tokens:  what one call of the model may read, the prompt included.
    lease_seconds: more than twice the longest call.
    """

    history: HistoryStore
    summaries: SummaryStore
    cache: SummaryCache
    model: Summarizer | None
    fallback: Summarizer
    clean: Callable[[Body], Mapping[str, object]]
    count: Count
    policy: Policy
    input_tokens: int = 12_000
    lease_seconds: float = 90.0
    now: Callable[[], datetime] = _utc_now
    clock: Callable[[], float] = time.monotonic

    @property
    def grid(self) -> Grid:
        """The deployment's grid, from which summaries take their boundaries."""
        return grid_for(self.policy, LoadOptions())[0]

    @property
    def step_tokens(self) -> int:
        """What one step's messages may cost."""
        prompt = overhead_tokens(self.count) + self.policy.summary_tokens
        return max(self.input_tokens - prompt, _MIN_STEP_TOKENS)


@dataclass(frozen=True, slots=True)
class Built:
    """What a build did. summaries: those written, oldest first.

    failed: the model was of no use. busy: another process holds the lease.
    """

    summaries: tuple[Summary, ...] = ()
    failed: bool = False
    busy: bool = False


@dataclass(frozen=True, slots=True)
class _Work:
    """What a claim found. start: coverage so far; messages: all after it, up to the head.

    targets: boundaries to be reached, in order, all past `floor`, where the newest pointer stands.
    needed:  the boundary that the window needs now.
    """

    lease: Lease
    start: Pointer
    previous: str | None
    messages: tuple[StoredMessage, ...]
    targets: tuple[int, ...]
    floor: int
    needed: int


async def build_due(key: ThreadKey, builder: Builder) -> Built:
    """Build the summaries a thread's window needs now and half a stride from now.

    Returns at once when none is due, or when another process is at it.
    Errors: StoreUnavailable. A useless model is none: the old summary stays, or, before the window
        could no longer reach back to it, the fallback fills the gap.
    """
    written: list[Summary] = []
    failed = busy = False
    for _ in range(_MAX_CLAIMS):
        lease = await builder.summaries.claim(key, lease_seconds=builder.lease_seconds)
        if lease is None:
            busy = True
            break
        before = len(written)
        try:
            failed = await _build_claimed(key, lease, builder, written)
        finally:
            await builder.summaries.release(key, lease)
        if failed or len(written) == before:
            break
    return Built(tuple(written), failed, busy)


async def _build_claimed(
    key: ThreadKey, lease: Lease, builder: Builder, written: list[Summary]
) -> bool:
    """Build what is due under one lease; tell whether the model failed."""
    # A call begun in the first half of the lease ends before the lease does.
    deadline = builder.clock() + builder.lease_seconds / 2
    work = await _find_work(key, lease, builder)
    if work is None:
        return False
    progress = _Progress(key, work, builder, written)
    try:
        for target in work.targets:
            await progress.advance(target, builder.model or builder.fallback, deadline)
    except SummaryFailed as failure:
        logger.warning("summary failed, the old one stays (%s)", failure)
        left = [target for target in work.targets if target > progress.position]
        if progress.is_out_of_reach(left[-1]):
            await progress.advance(left[0], builder.fallback, math.inf)
        return True
    return False


async def _find_work(key: ThreadKey, lease: Lease, builder: Builder) -> _Work | None:
    registry, grid = lease.registry, builder.grid
    reached = {"position": registry.position, "tokens": registry.tokens}
    if not is_due(grid, **reached, pointers=registry.summaries):
        return None
    newest_first = sorted(registry.summaries, key=lambda pointer: -pointer.position)
    for start in (*newest_first, _NOTHING):
        messages = await _read_after(key, registry, start, builder)
        if messages is None:
            continue
        now, ahead = boundaries_needed(grid, messages, **reached)
        # Forward only: a summary that is gone is passed by, and its pointer never moved back.
        floor = max((pointer.position for pointer in registry.summaries), default=0)
        targets = tuple(sorted({at for at in (now, ahead) if at > floor}))
        if not targets:
            return None
        previous = await _read_text(key, start, registry.summary_epoch, builder)
        if previous is not None or start is _NOTHING:
            needed = now or _needed_among(grid, registry)
            return _Work(lease, start, previous, messages, targets, floor, needed)
    return None


async def _read_after(
    key: ThreadKey, registry: Registry, start: Pointer, builder: Builder
) -> tuple[StoredMessage, ...] | None:
    """Read the messages after a boundary; None when it is not on the branch."""
    turns = await builder.history.turns(key, head=registry.head or "", after=start.position)
    messages = tuple(
        message for turn in turns for message in turn.messages if message.position > start.position
    )
    if len(messages) != registry.position - start.position or not messages:
        return None
    on_branch = {turns[0].parent_id, turns[0].checkpoint_id}
    return messages if start is _NOTHING or start.checkpoint_id in on_branch else None


async def _read_text(key: ThreadKey, boundary: Pointer, epoch: int, builder: Builder) -> str | None:
    if boundary is _NOTHING:
        return None
    # Not from the cache, which may hold an extract for it.
    summary = await builder.summaries.read(key, boundary, epoch=epoch)
    return None if summary is None else summary.text


def _needed_among(grid: Grid, registry: Registry) -> int:
    """Return which of the standing pointers the window needs now: the first past both lines."""
    messages, tokens = thresholds(grid, position=registry.position, tokens=registry.tokens)
    past = (p for p in registry.summaries if p.position >= messages and p.tokens >= tokens)
    return min((pointer.position for pointer in past), default=registry.position)


class _Progress:
    """A claim's build under way. position: what the summary covers so far."""

    def __init__(
        self, key: ThreadKey, work: _Work, builder: Builder, written: list[Summary]
    ) -> None:
        self._key = key
        self._work = work
        self._builder = builder
        self._written = written
        self._text = work.previous
        self._stopped = self._may_stop = False
        self.position = work.start.position
        costs = [message.tokens for message in work.messages]
        self._tokens = list(accumulate(costs, initial=work.lease.registry.tokens - sum(costs)))

    def is_out_of_reach(self, target: int) -> bool:
        """Tell whether a window that begins at target could not reach back to the summary."""
        grid, behind = self._builder.grid, self._tokens[-1] - self._tokens_at(self.position)
        return (
            target - self.position > STALE_STRIDES * grid.stride
            or behind > grid.token_span + STALE_STRIDES * grid.token_step
        )

    async def advance(self, target: int, summarizer: Summarizer, deadline: float) -> None:
        """Summarise up to the target, writing at each exchange's end, until past the deadline.

        Errors: SummaryFailed; what was written before it stands.
        """
        while self.position < target and not self._stopped:
            begin = self.position
            text = self._text
            for step in await self._plan(target, summarizer):
                self._stopped |= self._may_stop and self._builder.clock() > deadline
                if self._stopped:
                    return
                text = await summarizer.summarize(
                    text, step.messages, max_tokens=self._builder.policy.summary_tokens
                )
                # Stopping where nothing can be written would be to begin there again for ever.
                self._may_stop = step.whole and begin + step.taken > self._work.floor
                if step.whole:
                    await self._write(text, begin + step.taken, summarizer)

    async def _plan(self, target: int, summarizer: Summarizer) -> list[Step]:
        """Read the next messages whole where there is room for them, and split them in steps."""
        builder, start = self._builder, self._work.start.position
        left = self._work.messages[self.position - start : target - start]
        messages = left[: stretch(left, _MESSAGES_AT_ONCE)]
        wanted = wanted_values(messages, budget=builder.step_tokens)
        blobs = await builder.history.values(self._key, wanted) if wanted else {}
        budget = sys.maxsize if summarizer is builder.fallback else builder.step_tokens

        def split() -> list[Step]:
            whole = (with_previews(restore(message, blobs)).body for message in messages)
            bodies = [builder.clean(body) for body in whole]
            return list(plan_steps(bodies, budget=budget, count=builder.count))

        return await asyncio.to_thread(split)

    async def _write(self, text: str, position: int, summarizer: Summarizer) -> None:
        work, by_model = self._work, summarizer is not self._builder.fallback
        if position <= work.floor:
            self._text, self.position = text, position
            return
        last = work.messages[position - work.start.position - 1]
        summary = Summary(
            text=text,
            boundary=Pointer(last.checkpoint_id, position, self._tokens_at(position)),
            method="model" if by_model else "extractive",
            model=summarizer.name if by_model else None,
            prompt=PROMPT if by_model else EXTRACTIVE,
            created_at=self._builder.now(),
        )
        store = self._builder.summaries
        if not await store.write(self._key, work.lease, summary, needed=work.needed):
            self._stopped = True
            return
        self._text, self.position = text, position
        self._written.append(summary)
        cache, epoch = self._builder.cache, work.lease.registry.summary_epoch
        # What loads that could not wait were given for the boundary stays while it is cached.
        await cache.put(self._key, summary, epoch=epoch, keep=True)

    def _tokens_at(self, position: int) -> int:
        return self._tokens[position - self._work.start.position]
