"""AsyncThreadkeep: the client for asyncio."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar, Unpack

import httpx

from threadkeep_client import calls
from threadkeep_client.answers import (
    Channel,
    Checkpoint,
    Context,
    Message,
    Page,
    Saved,
    Staged,
    Thread,
)
from threadkeep_client.calls import UNKNOWN, Call, Head, LoadOptions, SaveOptions
from threadkeep_client.retry import RetryPolicy, Tries
from threadkeep_client.turn import AsyncTurn
from threadkeep_client.turn_state import TurnRequest, message_of
from threadkeep_client.wire import Service, read_answer

_T = TypeVar("_T")


class AsyncThreadkeep:
    """A client of one Threadkeep service. Make one per process: it keeps its connections.

    A call whose answer does not come (refused, cut, timed out, 429, 502, 503, 504) is made again,
    after a pause that grows and that `Retry-After` lengthens. Each method says why that is safe.

    owner: for whom the calls are made; see `for_owner`.
    timeout: seconds of each wait for the network (connect, send, receive). No try begins later than
    three times that after the first, and none waits beyond it.
    retries: tries after the first.
    http: a client to use instead of an own one; whoever made it closes it.
    Errors: Unreachable when no answer comes; Problem and its subclasses when the service says no;
    BadAnswer when something else answers.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        owner: str | None = None,
        timeout: float = 10.0,
        retries: int = 3,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._service = Service(base_url, api_key, owner)
        self._policy = RetryPolicy(timeout, retries)
        self._closes = http is None
        self._http = httpx.AsyncClient() if http is None else http

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._service})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; a client that was handed in stays open."""
        if self._closes:
            await self._http.aclose()

    def for_owner(self, owner: str | None) -> Self:
        """Return a client for one owner's threads, over the same connections; it is not closed.

        A backend that serves many people makes one client, and one of these for each request.
        """
        return type(self)(
            self._service.base_url,
            api_key=self._service.api_key,
            owner=owner,
            timeout=self._policy.timeout,
            retries=self._policy.retries,
            http=self._http,
        )

    async def load(
        self,
        thread_id: str | None,
        message: str | Message | None = None,
        **options: Unpack[LoadOptions],
    ) -> Context:
        """Load what the model should read: summary, recent messages, `message` as the last one.

        An unknown thread is an empty history. Repeated freely: a load writes nothing.
        """
        return await self._call(calls.load(thread_id, message, options))

    async def save(
        self,
        thread_id: str,
        messages: Sequence[Message],
        *,
        parent: Head = UNKNOWN,
        key: str | None = None,
        **options: Unpack[SaveOptions],
    ) -> Saved:
        """Store a turn, whole or not at all.

        parent: the `head` of the load; None when that was None. key: the caller's own name of turn.
        Repeated safely: with a key the turn is that key's; with a parent it is the one with this
        content under this parent as sent. The repeat answers `created: false`, with the first
        save's ids. With neither, the content decides: a turn with an assistant message that is
        still among the recent ones is found again; messages without one are found only while they
        are the end of the thread, so they can be stored twice if the answer is lost and another
        turn comes in between.
        Errors: ParentMoved (`on_conflict="reject"`), KeyReused, TranscriptDiverged, ThreadDeleted.
        """
        return await self._call(calls.save(thread_id, messages, parent, key, options))

    async def stage(
        self,
        thread_id: str,
        task_id: str,
        writes: Mapping[str, object],
        *,
        parent: Head = UNKNOWN,
        key: str | None = None,
    ) -> Staged:
        """Keep a finished task's values (by channel) of a turn that is not saved yet.

        A load of the same head lists them in `pending`; the save with this key folds them away.
        Repeated safely: a task's values are put, and the same again changes nothing.
        Errors: WriteDiffers for other values of the same task; ThreadDeleted.
        """
        return await self._call(calls.stage(thread_id, task_id, writes, parent, key))

    async def discard(self, thread_id: str, *, key: str | None = None) -> None:
        """Drop what is staged for the turn of this key; without one, for all of the thread.

        Repeated safely: what is gone stays gone.
        """
        await self._call(calls.discard(thread_id, key))

    def turn(
        self,
        thread_id: str,
        question: str | Message,
        *,
        key: str | None = None,
        on_conflict: calls.Conflicts = "append",
        metadata: Mapping[str, Any] | None = None,
        **options: Unpack[LoadOptions],
    ) -> AsyncTurn:
        """Return a turn for `async with`: loaded on entry, saved on exit; see TurnState.

        `checkpoint_id` with `on_conflict="branch"` asks again from an earlier turn; to ask again
        from the very beginning, put the head there first: `set_head(thread_id, None)`.
        Repeated safely: its parent is the head that was loaded, and it has a key.
        """
        asked = message_of(question)
        request = TurnRequest(
            thread_id, self._service.owner, asked, key, on_conflict, metadata, options
        )
        return AsyncTurn(self._call, request)

    def threads(self, *, page_size: int = 100) -> AsyncIterator[Thread]:
        """Iterate over the threads, newest first; a page (1 to 100) is read when it is reached."""
        return self._items(calls.threads(page_size))

    async def thread(self, thread_id: str) -> Thread:
        """Read what is known of a thread. Errors: ThreadNotFound."""
        return await self._call(calls.thread(thread_id))

    def messages(
        self, thread_id: str, *, order: Literal["asc", "desc"] = "asc", page_size: int = 100
    ) -> AsyncIterator[Message]:
        """Iterate over the stored messages as they were sent, oldest first."""
        return self._items(calls.messages(thread_id, order, page_size))

    async def delete_thread(self, thread_id: str, *, reuse: bool = False) -> None:
        """Erase a thread; its id takes no writes for a day, unless it is to be free for reuse.

        Repeated safely: a deleted thread stays deleted. With `reuse` a repeat whose first answer
        was lost raises ThreadNotFound: the thread is gone.
        """
        await self._call(calls.delete_thread(thread_id, reuse=reuse))

    def checkpoints(
        self, thread_id: str, *, ns: str | None = None, page_size: int = 100
    ) -> AsyncIterator[Checkpoint]:
        """Iterate over the turns of every branch, newest first. Errors: ThreadNotFound.

        ns: a graph's namespace ("" is its root), to list what a checkpointer stored instead.
        """
        return self._items(calls.checkpoints(thread_id, ns, page_size))

    async def checkpoint(self, thread_id: str, checkpoint_id: str) -> Checkpoint:
        """Read one checkpoint, with its messages. Errors: ThreadNotFound, CheckpointNotFound."""
        return await self._call(calls.checkpoint(thread_id, checkpoint_id))

    async def channel(self, thread_id: str, checkpoint_id: str, name: str) -> Channel:
        """Read one large value alone. Errors: CheckpointNotFound, ChannelNotFound."""
        return await self._call(calls.channel(thread_id, checkpoint_id, name))

    async def set_head(
        self,
        thread_id: str,
        checkpoint_id: str | None,
        *,
        expected: Head = UNKNOWN,
    ) -> Thread:
        """Choose the turn that the next one follows; None is before the first.

        expected: the head the choice was made on. Repeated safely: the head is put.
        Errors: ParentMoved when the head is not the expected one; CheckpointNotFound.
        """
        return await self._call(calls.set_head(thread_id, checkpoint_id, expected))

    async def fork(
        self, thread_id: str, new_thread_id: str, *, checkpoint_id: str | None = None
    ) -> Thread:
        """Copy a thread up to a checkpoint (the head if left out) into a new thread of its own.

        Repeated safely while the source's head stands or a checkpoint is given: the same copy is
        answered.   Errors: ThreadExists, CheckpointNotFound, ThreadDeleted.
        """
        return await self._call(calls.fork(thread_id, new_thread_id, checkpoint_id))

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: object = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Make any call and return its parsed answer, None for 204; only what is safe to repeat."""
        sent = self._service.request(path, json, params, headers)
        tries = Tries(self._policy)
        while True:
            try:
                response = await self._http.request(method, **sent, timeout=tries.begin())
            except httpx.RequestError as error:
                await asyncio.sleep(tries.after_error(error))
                continue
            pause = tries.after_answer(response)
            if pause is None:
                return read_answer(response)
            await asyncio.sleep(pause)

    async def _call(self, call: Call[_T]) -> _T:
        answer: _T = await self.request(call.method, call.path, json=call.json, params=call.params)
        return answer

    async def _items(self, first: Call[Page[_T]]) -> AsyncIterator[_T]:
        call: Call[Page[_T]] | None = first
        while call is not None:
            page = await self._call(call)
            for item in page["items"]:
                yield item
            call = calls.next_page(call, page)
