"""Two turns in flight under one parent, in every order: nothing is lost, repeated or mixed."""

import asyncio
import secrets
from dataclasses import dataclass, field, replace
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.sql.engine import Database
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.staging import SqlStagingStore
from app.core.digest import KeyAnchor, identity
from app.core.model import NewTurn, ThreadKey
from app.core.staging import StageRequest, answer
from tests.factories import load, new_message, new_turn, said, saved_turns
from tests.servers import SCHEMA

pytestmark = pytest.mark.anyio

KEYS = ("a", "b")
TASKS = ("ask", "call-2", "call-1")


@dataclass(frozen=True)
class Step:
    """What the client of one turn does: stage a task (once more), or save (once more)."""

    key: str
    task: str | None
    on_conflict: Literal["append", "branch"] = "append"
    with_parent: bool = True


@dataclass
class Turn:
    """One turn as its client knows it. staged: in the order of staging."""

    store: SqlHistoryStore
    staging: SqlStagingStore
    thread: ThreadKey
    parent: str
    key: str
    staged: dict[str, list[str]] = field(default_factory=dict)
    saved: str | None = None
    sent: NewTurn | None = None

    async def take(self, step: Step) -> None:
        """Do one step, and compare what a load under the parent shows of this turn."""
        if step.task is None:
            await self.save(step.on_conflict)
        else:
            await self.stage(step.task, with_parent=step.with_parent)
        expected = [] if self.saved else [text for texts in self.staged.values() for text in texts]
        assert await self.pending() == expected

    async def stage(self, task: str, *, with_parent: bool) -> None:
        texts = [f"{self.key} {task} {part}" for part in range(2)]
        request = StageRequest(
            self.thread,
            task,
            tuple((f"c{part}", text) for part, text in enumerate(texts)),
            key=self.key,
            # A turn that has begun may leave its parent out: it stays where it is.
            parent=self.parent if with_parent or not self.staged else None,
            parent_known=with_parent or not self.staged,
        )
        staged = answer(request, await self.staging.stage(request))
        assert (staged.folded, staged.checkpoint_id) == (self.saved is not None, self.saved)
        assert staged.created == (self.saved is None and task not in self.staged)
        if self.saved is None:
            assert staged.parent == self.parent
            self.staged.setdefault(task, texts)

    async def save(self, on_conflict: Literal["append", "branch"]) -> None:
        """Save what a load shows of the turn; a retry sends the same again."""
        texts = [f"turn {self.key}", *await self.pending()]
        if self.sent is None:
            self.sent = new_turn(
                messages=tuple(new_message(text) for text in texts),
                key=self.key,
                identity=identity(self.thread, KeyAnchor(self.key)),
                expected=self.parent,
            )
        appended = await self.store.append(self.thread, replace(self.sent, on_conflict=on_conflict))
        assert appended.outcome == ("duplicate" if self.saved else "created")
        assert self.saved in (None, appended.checkpoint_id)
        self.saved = appended.checkpoint_id

    async def pending(self) -> list[str]:
        found = (await load(self.store, self.thread, self.parent)).pending
        return [str(write.value) for write in found if write.key == self.key]


steps = st.builds(
    Step,
    key=st.sampled_from(KEYS),
    task=st.sampled_from((*TASKS, None)),
    on_conflict=st.sampled_from(("append", "branch")),
    with_parent=st.booleans(),
)


async def begin(engine: AsyncEngine) -> tuple[Turn, Turn]:
    """Two turns under the one turn of a new thread."""
    database = Database(engine, SCHEMA)
    store, staging = SqlHistoryStore(database), SqlStagingStore(database)
    thread = ThreadKey(f"tenant-{secrets.token_hex(8)}", "t")
    parent = (await saved_turns(store, thread, 1))[0].head
    assert parent is not None
    first, second = (Turn(store, staging, thread, parent, key) for key in KEYS)
    return first, second


async def finish(*turns: Turn) -> None:
    """Save both; each turn then holds what was staged for it, once, and nothing is left over."""
    for turn in turns:
        await turn.take(Step(turn.key, None))
    for turn in turns:
        history = await load(turn.store, turn.thread, turn.saved)
        mine = [message.body["content"] for message in history.turns[-1].messages]
        assert mine == [f"turn {turn.key}", *(t for texts in turn.staged.values() for t in texts)]
        assert said(history)[:2] == ["question 0", "answer 0"]
    left = await load(turns[0].store, turns[0].thread)
    assert (left.pending, left.stale) == ((), ())


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(plan=st.lists(steps, max_size=14))
async def test_any_interleaving(engine: AsyncEngine, plan: list[Step]) -> None:
    """Whatever the order of stage, save and retry, each turn is saved with its own, once.

    In between a load of the head shows what is in flight under it, and names what was left behind.
    """
    turns = dict(zip(KEYS, await begin(engine), strict=True))
    for step in plan:
        await turns[step.key].take(step)
        history = await load(turns["a"].store, turns["a"].thread)
        open_tasks = {
            (turn.key, task) for turn in turns.values() if not turn.saved for task in turn.staged
        }
        pending = {(write.key, write.task_id) for write in history.pending}
        stale = {(task.key, task.task_id) for task in history.stale}
        moved = any(turn.saved for turn in turns.values())
        assert (pending, stale) == ((set(), open_tasks) if moved else (open_tasks, set()))
    await finish(*turns.values())


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(plan=st.lists(steps, min_size=2, max_size=14))
async def test_at_the_same_time(engine: AsyncEngine, plan: list[Step]) -> None:
    """The same with the two clients running at once, each waiting for its own answers only."""
    turns = dict(zip(KEYS, await begin(engine), strict=True))

    async def run(key: str) -> None:
        for step in plan:
            if step.key == key:
                await turns[key].take(step)

    await asyncio.gather(*(run(key) for key in KEYS))
    await finish(*turns.values())
