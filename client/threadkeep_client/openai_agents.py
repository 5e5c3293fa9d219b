"""The OpenAI Agents SDK's session, kept by Threadkeep.

A call of `add_items` is one turn, stored whole or not at all, under a key of its own: a retry of
the client is a no-op, and the same words in a second call are stored again. Items come back as they
were added, in order, with their ids and with members that nobody here knows; any other client of
the thread reads them too.

System and developer items are not stored: they change with every deploy, so the agent brings them
itself. One that is added is left out with a warning.

`pop_item` takes an item off in one step: of several pops at once, from wherever, each takes another
item. When the item was one of several of its turn, the others are stored as a turn in its place.
When it was alone, an empty message after it says that it is gone, and then the thread's head is put
before both. What was popped stays among the thread's checkpoints until the session is cleared.
One session object makes its changes one after the other. An item that another process adds in the
moment between the reading of a turn of several and its replacement is stored, but off the branch.
"""

import asyncio
import contextlib
import warnings
from collections.abc import Coroutine
from typing import Any, TypeVar, cast
from uuid import uuid4

from agents import SessionSettings, TResponseInputItem
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

from threadkeep_client import AsyncThreadkeep
from threadkeep_client.answers import Message
from threadkeep_client.errors import ParentMoved, ThreadNotFound

_T = TypeVar("_T")
_LONGEST_PAGE = 100
_USUAL_TURN = 10
# A member of the message that says that the one before it is gone; loads leave out empty messages.
_POPPED = "threadkeep_popped"


class ThreadkeepSession:
    """The session of one thread; `session_id` is the thread's id.

    client: stays open; whoever made it closes it.
    session_settings: `limit` is how many of the newest items a run reads, all by default.
    """

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        client: AsyncThreadkeep,
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or {})
        self._client = client
        self._changes = asyncio.Lock()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the newest items, oldest first; all of them without any limit."""
        wanted = resolve_session_limit(limit, self.session_settings)
        if wanted is not None and wanted <= 0:
            return []
        try:
            return [_item(body) for body in await self._newest(wanted)]
        except ThreadNotFound:
            return []

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Store the items as one turn. Errors: InvalidPayload, TypeError for what is no JSON."""
        if not items:
            return
        turn = [cast("Message", item) for item in items]
        saved = await self._settled(self._client.save(self.session_id, turn, key=uuid4().hex))
        if left_out := saved["ignored"]:
            roles = ", ".join(sorted({str(line["role"]) for line in left_out}))
            warnings.warn(f"items that are never stored were left out ({roles})", stacklevel=2)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item off the thread and return it; None when there is none."""
        return await self._settled(self._pop())

    async def clear_session(self) -> None:
        """Erase the thread; its id is free at once."""
        try:
            await self._settled(self._client.delete_thread(self.session_id, reuse=True))
        except ThreadNotFound:
            return

    async def _newest(self, wanted: int | None) -> list[Message]:
        found: list[Message] = []
        gone = 0
        page = _LONGEST_PAGE if wanted is None else min(wanted, _LONGEST_PAGE)
        stored = self._client.messages(self.session_id, order="desc", page_size=page)
        async for body in stored:
            if _POPPED in body:
                gone += 1
            elif gone:
                gone -= 1
            else:
                found.append(body)
                if len(found) == wanted:
                    break
        return found[::-1]

    async def _pop(self) -> TResponseInputItem | None:
        seen: list[str] = []
        while True:
            try:
                turns = await self._newest_turns()
                if not turns:
                    return None
                turn, *before = turns
                if _POPPED in turn[0]:
                    # Someone else's pop, which this one helps to its end.
                    await self._put_head(_head(before[1:]), expected=_head(turns))
                elif await self._take_off(turn, _head(before), seen):
                    return _item(turn[-1])
            except ThreadNotFound:
                return None

    async def _newest_turns(self) -> list[list[Message]]:
        """Return two turns, the newest first, each oldest first, and a message of the third."""
        turns: list[list[Message]] = []
        stored = self._client.messages(self.session_id, order="desc", page_size=_USUAL_TURN)
        async for body in stored:
            if _head(turns[-1:]) != body["checkpoint_id"]:
                turns.append([])
            turns[-1].insert(0, body)
            if len(turns) > 2:  # noqa: PLR2004
                break
        return turns

    async def _take_off(self, turn: list[Message], parent: str | None, seen: list[str]) -> bool:
        """Take the last message off the newest turn; false when someone else was faster.

        Shape: seen are the turns on which this pop was not the first, to which this one is added.
        """
        taken = str(turn[0]["checkpoint_id"])
        rest = [cast("Message", _item(body)) for body in turn[:-1]]
        if not rest:
            return await self._end_with(taken, parent)
        # The key is the turn's, so that of many only one is stored; counted, since the turn may
        # have been popped before and have become the head again.
        mark = {"popped_by": uuid4().hex}
        saved = await self._client.save(
            self.session_id,
            rest,
            parent=parent,
            key=f"rest-of-{taken}-{seen.count(taken)}",
            on_conflict="branch",
            metadata=mark,
        )
        seen.append(taken)
        if saved["created"]:
            return True
        stored = await self._client.checkpoint(self.session_id, str(saved["checkpoint_id"]))
        return stored["metadata"] == mark  # by a try whose answer was lost

    async def _end_with(self, taken: str, parent: str | None) -> bool:
        """Take a turn of one message off the end; false when it is not the end any more."""
        mark = {"role": "assistant", "content": "", _POPPED: True}
        try:
            saved = await self._client.save(
                self.session_id, [mark], parent=taken, key=uuid4().hex, on_conflict="reject"
            )
        except ParentMoved:
            return False
        await self._put_head(parent, expected=saved["checkpoint_id"])
        return True

    async def _put_head(self, checkpoint_id: str | None, *, expected: str | None) -> None:
        with contextlib.suppress(ParentMoved):
            await self._client.set_head(self.session_id, checkpoint_id, expected=expected)

    async def _settled(self, change: Coroutine[Any, Any, _T]) -> _T:
        """Wait until a change is made or refused, even when the caller is cancelled meanwhile."""
        task = asyncio.create_task(self._one_by_one(change))
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                cancelled = cancelled or error
        if cancelled is not None:
            task.exception()  # looked at, so that it is not reported as forgotten
            raise cancelled
        return task.result()

    async def _one_by_one(self, change: Coroutine[Any, Any, _T]) -> _T:
        async with self._changes:
            return await change


def _head(turns: list[list[Message]]) -> str | None:
    """Return the checkpoint of the first turn, None where there is none."""
    return str(turns[0][0]["checkpoint_id"]) if turns else None


def _item(body: Message) -> TResponseInputItem:
    """Return the item as it was added: without its place, its own id where it had one."""
    place = ("id", "client_id", "position", "checkpoint_id")
    item = {name: value for name, value in body.items() if name not in place}
    if "client_id" in body:
        item["id"] = body["client_id"]
    return cast("TResponseInputItem", item)
