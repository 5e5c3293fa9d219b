"""Threadkeep: the client for code without asyncio."""

import time
from collections.abc import Iterator, Mapping, Sequence
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
from threadkeep_client.turn import Turn
from threadkeep_client.turn_state import TurnRequest, message_of
from threadkeep_client.wire import Service, read_answer

_T = TypeVar("_T")


class Threadkeep:
    """A client of one Threadkeep service. Make one per process: threads may share it.

    Its methods are those of AsyncThreadkeep, where each says what it takes, what it raises, and why
    it is safe to repeat.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8080",
        *,
        api_key: str | None = None,
        owner: str | None = None,
        timeout: float = 10.0,
        retries: int = 3,
        http: httpx.Client | None = None,
    ) -> None:
        self._service = Service(base_url, api_key, owner)
        self._policy = RetryPolicy(timeout, retries)
        self._closes = http is None
        self._http = httpx.Client() if http is None else http

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._service})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; a client that was handed in stays open."""
        if self._closes:
            self._http.close()

    def for_owner(self, owner: str | None) -> Self:
        """Return a client for one owner's threads, over the same connections; it is not closed."""
        return type(self)(
            self._service.base_url,
            api_key=self._service.api_key,
            owner=owner,
            timeout=self._policy.timeout,
            retries=self._policy.retries,
            http=self._http,
        )

    def load(
        self,
        thread_id: str | None,
        message: str | Message | None = None,
        **options: Unpack[LoadOptions],
    ) -> Context:
        """Load what the model should read: summary, recent messages, `message` as the last one."""
        return self._call(calls.load(thread_id, message, options))

    def save(
        self,
        thread_id: str,
        messages: Sequence[Message],
        *,
        parent: Head = UNKNOWN,
        key: str | None = None,
        **options: Unpack[SaveOptions],
    ) -> Saved:
        """Store a turn, whole or not at all."""
        return self._call(calls.save(thread_id, messages, parent, key, options))

    def stage(
        self,
        thread_id: str,
        task_id: str,
        writes: Mapping[str, object],
        *,
        parent: Head = UNKNOWN,
        key: str | None = None,
    ) -> Staged:
        """Keep a finished task's values (by channel) of a turn that is not saved yet."""
        return self._call(calls.stage(thread_id, task_id, writes, parent, key))

    def discard(self, thread_id: str, *, key: str | None = None) -> None:
        """Drop what is staged for the turn of this key; without one, for all of the thread."""
        self._call(calls.discard(thread_id, key))

    def turn(
        self,
        thread_id: str,
        question: str | Message,
        *,
        key: str | None = None,
        on_conflict: calls.Conflicts = "append",
        metadata: Mapping[str, Any] | None = None,
        **options: Unpack[LoadOptions],
    ) -> Turn:
        """Return a turn for `with`: loaded on entry, saved on exit; see TurnState."""
        asked = message_of(question)
        request = TurnRequest(
            thread_id, self._service.owner, asked, key, on_conflict, metadata, options
        )
        return Turn(self._call, request)

    def threads(self, *, page_size: int = 100) -> Iterator[Thread]:
        """Iterate over the threads, newest first; a page (1 to 100) is read when it is reached."""
        return self._items(calls.threads(page_size))

    def thread(self, thread_id: str) -> Thread:
        """Read what is known of a thread. Errors: ThreadNotFound."""
        return self._call(calls.thread(thread_id))

    def messages(
        self, thread_id: str, *, order: Literal["asc", "desc"] = "asc", page_size: int = 100
    ) -> Iterator[Message]:
        """Iterate over the stored messages as they were sent, oldest first."""
        return self._items(calls.messages(thread_id, order, page_size))

    def delete_thread(self, thread_id: str, *, reuse: bool = False) -> None:
        """Erase a thread; its id takes no writes for a day, unless it is to be free for reuse."""
        self._call(calls.delete_thread(thread_id, reuse=reuse))

    def checkpoints(
        self, thread_id: str, *, ns: str | None = None, page_size: int = 100
    ) -> Iterator[Checkpoint]:
        """Iterate over the turns of every branch, newest first."""
        return self._items(calls.checkpoints(thread_id, ns, page_size))

    def checkpoint(self, thread_id: str, checkpoint_id: str) -> Checkpoint:
        """Read one checkpoint, with its messages. Errors: ThreadNotFound, CheckpointNotFound."""
        return self._call(calls.checkpoint(thread_id, checkpoint_id))

    def channel(self, thread_id: str, checkpoint_id: str, name: str) -> Channel:
        """Read one large value alone. Errors: CheckpointNotFound, ChannelNotFound."""
        return self._call(calls.channel(thread_id, checkpoint_id, name))

    def set_head(
        self,
        thread_id: str,
        checkpoint_id: str | None,
        *,
        expected: Head = UNKNOWN,
    ) -> Thread:
        """Choose the turn that the next one follows; None is before the first."""
        return self._call(calls.set_head(thread_id, checkpoint_id, expected))

    def fork(
        self, thread_id: str, new_thread_id: str, *, checkpoint_id: str | None = None
    ) -> Thread:
        """Copy a thread up to a checkpoint (the head if left out) into a new thread of its own."""
        return self._call(calls.fork(thread_id, new_thread_id, checkpoint_id))

    def request(
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
                response = self._http.request(method, **sent, timeout=tries.begin())
            except httpx.RequestError as error:
                time.sleep(tries.after_error(error))
                continue
            pause = tries.after_answer(response)
            if pause is None:
                return read_answer(response)
            time.sleep(pause)

    def _call(self, call: Call[_T]) -> _T:
        answer: _T = self.request(call.method, call.path, json=call.json, params=call.params)
        return answer

    def _items(self, first: Call[Page[_T]]) -> Iterator[_T]:
        call: Call[Page[_T]] | None = first
        while call is not None:
            page = self._call(call)
            yield from page["items"]
            call = calls.next_page(call, page)
