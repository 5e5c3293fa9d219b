"""The turn of Pattern B as a context manager: load on entry, save on exit."""

from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from threadkeep_client.calls import Call
from threadkeep_client.turn_state import VALUE_CHANNEL, TurnRequest, TurnState

_T = TypeVar("_T")


class AsyncRun(Protocol):
    """Makes a call."""

    def __call__(self, call: Call[_T]) -> Awaitable[_T]:
        """Return the answer."""
        ...


class Run(Protocol):
    """Makes a call."""

    def __call__(self, call: Call[_T]) -> _T:
        """Return the answer."""
        ...


class AsyncTurn(TurnState):
    """A turn for `async with`; TurnState says more."""

    def __init__(self, run: AsyncRun, request: TurnRequest) -> None:
        super().__init__(request)
        self._run = run

    async def __aenter__(self) -> Self:
        """Load, and stage the question. Errors: TurnSaved, WriteDiffers for a key given before."""
        self._loaded(await self._run(self._load()))
        while (call := self._ask()) is not None:
            self._answered(await self._run(call))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Save question and answer; after an error nothing, and what was staged stays."""
        if kind is None:
            saved = await self._run(self._save())
            self.saved = saved

    async def stage(self, task_id: str, value: object) -> None:
        """Keep a finished task's value for the next try, should this one not reach its end."""
        await self.stage_writes(task_id, {VALUE_CHANNEL: value})

    async def stage_writes(self, task_id: str, writes: Mapping[str, object]) -> None:
        """Keep several values of a task, by channel.   Errors: TurnSaved, WriteDiffers."""
        self._staged(task_id, writes, await self._run(self._stage(task_id, writes)))

    async def step(self, task_id: str, function: Callable[[str], Awaitable[object]]) -> Any:
        """Return what the task has staged; else run the function, stage what it returns.

        The function gets the task's idempotency key: a step that was cut off runs again with the
        same one, so whoever it calls can tell. What it returns must be JSON, and comes back as
        JSON (a tuple as a list), in the first try as in a later one.
        """
        if not self.done(task_id):
            await self.stage(task_id, await function(self.step_key(task_id)))
        return self.result(task_id)


class Turn(TurnState):
    """A turn for `with`; TurnState says more."""

    def __init__(self, run: Run, request: TurnRequest) -> None:
        super().__init__(request)
        self._run = run

    def __enter__(self) -> Self:
        """Load, and stage the question. Errors: TurnSaved, WriteDiffers for a key given before."""
        self._loaded(self._run(self._load()))
        while (call := self._ask()) is not None:
            self._answered(self._run(call))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Save question and answer; after an error nothing, and what was staged stays."""
        if kind is None:
            self.saved = self._run(self._save())

    def stage(self, task_id: str, value: object) -> None:
        """Keep a finished task's value for the next try, should this one not reach its end."""
        self.stage_writes(task_id, {VALUE_CHANNEL: value})

    def stage_writes(self, task_id: str, writes: Mapping[str, object]) -> None:
        """Keep several values of a task, by channel.   Errors: TurnSaved, WriteDiffers."""
        self._staged(task_id, writes, self._run(self._stage(task_id, writes)))

    def step(self, task_id: str, function: Callable[[str], object]) -> Any:
        """Return what the task has staged; else run the function, stage what it returns.

        As AsyncTurn.step, with a function that is not async.
        """
        if not self.done(task_id):
            self.stage(task_id, function(self.step_key(task_id)))
        return self.result(task_id)
