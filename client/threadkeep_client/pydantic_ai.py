"""pydantic-ai's conversation store, kept by Threadkeep.

A conversation is a thread of graph checkpoints in the namespace `pydantic-ai`. Each save is one
checkpoint: the record as it is then, and the entries that are new, stored together or not at all.
So a save writes what is new only, and a loaded history reads the saves that hold it, page by page.

Why not turns, which other formats could read: a record also changes without a message (a branch, a
fork, usage), an entry has an id of its own that is looked up without its conversation, and system
prompts are entries too, while a turn has one message at least and never stores a system prompt.

- Revision: a save goes on top of the checkpoint that holds the expected revision, and is refused
  when that is not the newest. So one of two concurrent saves wins, and the other conflicts.
- Fork: unlike the in-memory store, a fork copies the history it keeps (its entries have the same
  ids in both), in one request. So each conversation stands alone, and
- Delete erases: the conversation's record and entries, those of its branches too, are gone when it
  returns, whatever was forked from it. A process that dies in between leaves the conversation
  deleted, and its content to be erased when the conversation is next read.
- Listing reads the newest checkpoint of each conversation it looks at; give it a `scope`.
"""

import asyncio
from collections.abc import Mapping, Sequence

from pydantic_ai.conversation_store import (
    ConversationConflict,
    ConversationEntry,
    ConversationRecord,
    ConversationStore,
)

from threadkeep_client import AsyncThreadkeep
from threadkeep_client.errors import CheckpointNotFound, ParentMoved, ThreadNotFound
from threadkeep_client.pydantic_ai_wire import (
    NAMESPACE,
    Body,
    Row,
    deleted_body,
    entries_of,
    history_of,
    id_of,
    next_row,
    record_of,
    saved_body,
    target,
    thread_of,
)

_ROUTES = "/v1/checkpoints"
_PAGE = 50
_LONGEST_PAGE = 100
_AT_ONCE = 8
_REMEMBERED = 1000
_READS = 3
_GONE = (ThreadNotFound, CheckpointNotFound)


class ThreadkeepConversationStore(ConversationStore):
    """Conversations of one tenant, and of one owner if the client names one.

    client: stays open; whoever made it closes it.
    Errors: what a store's methods raise, and those of the client.
    """

    def __init__(self, client: AsyncThreadkeep) -> None:
        self._client = client
        # Which checkpoint a revision is, so that a save after a load need not ask. Only a hint: the
        # service refuses a save on any other checkpoint than the newest.
        self._rows: dict[str, Row] = {}

    async def read_record(self, conversation_id: str) -> ConversationRecord | None:
        """Return the record for a conversation, or `None` if the store doesn't have it."""
        while (found := await self._newest(conversation_id)) is not None:
            run_id = found["metadata"]["run_id"]
            if (record := record_of(found)) is not None:
                self._remember(conversation_id, Row.of(id_of(found), run_id, record))
                return record
            # Deleted by someone who did not get to the end of it.
            await self._erase(run_id)
        self._rows.pop(conversation_id, None)
        return None

    async def read_records(
        self, *, scope: str | None = None, limit: int | None = None
    ) -> Sequence[ConversationRecord]:
        """Return the records, or those with the scope, the most recently saved first."""
        wanted = {"listed": True} if scope is None else {"listed": True, "scope": scope}
        ids = await self._thread_ids(wanted)
        records: list[ConversationRecord] = []
        for start in range(0, len(ids), _AT_ONCE):
            read = map(self.read_record, ids[start : start + _AT_ONCE])
            records += [record for record in await asyncio.gather(*read) if record is not None]
        records = [record for record in records if scope in (None, record.scope)]
        return sorted(records, key=lambda record: record.updated_at, reverse=True)[:limit]

    async def write_record(
        self,
        record: ConversationRecord,
        *,
        new_entries: Sequence[ConversationEntry] = (),
        expected_revision: str | None,
    ) -> None:
        """Store a record and its new entries, together or not at all.

        Errors: ConversationConflict.
        """
        conversation_id = record.conversation_id
        row = await self._expected(conversation_id, expected_revision)
        while (row.revision if row else None) == expected_revision:
            entries = await self._whole(record, new_entries, row)
            written = next_row(row, record)
            try:
                await self._put(conversation_id, row, saved_body(row, written, record, entries))
            except ParentMoved:
                row = await self._reread(conversation_id)
            except ThreadNotFound:
                if row is None:
                    raise  # it is another owner's
                row = await self._reread(conversation_id)
            else:
                self._remember(conversation_id, written)
                return
        raise ConversationConflict(conversation_id)

    async def delete_record(self, conversation_id: str, *, expected_revision: str) -> None:
        """Erase a conversation's record and all of its entries. Errors: ConversationConflict."""
        row = await self._expected(conversation_id, expected_revision)
        if row is None or row.revision != expected_revision:
            raise ConversationConflict(conversation_id)
        self._rows.pop(conversation_id, None)
        try:
            await self._put(conversation_id, row, deleted_body(row))
        except (ParentMoved, ThreadNotFound) as error:
            raise ConversationConflict(conversation_id) from error
        await self._erase(row.run_id)

    async def read_entry(self, entry_id: str) -> ConversationEntry:
        """Return the entry with this identifier. Errors: LookupError."""
        for item in await self._list({"filter": {"entries": [entry_id]}, "limit": 1}):
            return next(entry for entry in entries_of(item) if entry.id == entry_id)
        raise LookupError(entry_id)

    async def read_history(
        self, head_id: str | None, *, limit: int | None = None
    ) -> list[ConversationEntry]:
        """Return the entries up to `head_id`, in order, or only the last `limit` of them.

        Errors: LookupError.
        """
        if head_id is None or limit == 0:
            return []
        for _ in range(_READS):
            entries: dict[str, ConversationEntry] = {}
            items = await self._list({"filter": {"entries": [head_id]}, "limit": 1})
            while items:
                entries |= {entry.id: entry for item in items for entry in entries_of(item)}
                history = history_of(entries, head_id, limit)
                if history is not None:
                    return history
                items = await self._older(items[-1], limit)
            # Where it was found it was erased meanwhile; a fork may hold it too.
        raise LookupError(head_id)

    async def _expected(self, conversation_id: str, revision: str | None) -> Row | None:
        """Return the row of the revision if it is known, else the newest one."""
        row = self._rows.get(conversation_id)
        return row if row and row.revision == revision else await self._reread(conversation_id)

    async def _reread(self, conversation_id: str) -> Row | None:
        await self.read_record(conversation_id)
        return self._rows.get(conversation_id)

    def _remember(self, conversation_id: str, row: Row) -> None:
        self._rows.pop(conversation_id, None)
        self._rows[conversation_id] = row
        if len(self._rows) > _REMEMBERED:
            del self._rows[next(iter(self._rows))]

    async def _whole(
        self,
        record: ConversationRecord,
        new_entries: Sequence[ConversationEntry],
        row: Row | None,
    ) -> list[ConversationEntry]:
        """Return the new entries behind those that they follow and the conversation lacks.

        Errors: ConversationConflict where the store lacks them too.
        """
        known = {entry.id for entry in new_entries} | {row.head_id if row else None}
        named = [*(entry.parent_id for entry in new_entries), record.head_id]
        copied: dict[str, ConversationEntry] = {}
        for entry_id in dict.fromkeys(named):
            if entry_id is None or entry_id in known:
                continue
            if row and await self._holds(record.conversation_id, entry_id):
                continue
            try:
                history = await self.read_history(entry_id)
            except LookupError as error:
                raise ConversationConflict(record.conversation_id) from error
            copied |= {entry.id: entry for entry in history}
        return [*copied.values(), *new_entries]

    async def _holds(self, conversation_id: str, entry_id: str) -> bool:
        wanted = {"filter": {"entries": [entry_id]}, "limit": 1}
        return bool(await self._list({**target(conversation_id), **wanted}))

    async def _newest(self, conversation_id: str) -> Body | None:
        try:
            found: Body = await self._client.request(
                "POST", f"{_ROUTES}/get-tuple", json=target(conversation_id)
            )
        except _GONE:
            return None
        return found

    async def _older(self, item: Body, limit: int | None) -> list[Body]:
        """Return the next page of checkpoints of the same conversation."""
        page = _PAGE if limit is None else min(limit, _PAGE)
        wanted = {"before": id_of(item), "limit": page}
        try:
            return await self._list({**target(thread_of(item)), **wanted})
        except _GONE:
            return []

    async def _thread_ids(self, wanted: Mapping[str, object]) -> list[str]:
        ids: dict[str, None] = {}
        cursor: str | None = ""
        while cursor is not None:
            after = {"cursor": cursor} if cursor else {}
            body = {"ns": NAMESPACE, "filter": wanted, "limit": _LONGEST_PAGE, **after}
            page = await self._client.request("POST", f"{_ROUTES}/list", json=body)
            ids |= {thread_of(item): None for item in page["items"]}
            cursor = page["next_cursor"]
        return list(ids)

    async def _list(self, body: Mapping[str, object]) -> list[Body]:
        """Return the first page."""
        page = await self._client.request("POST", f"{_ROUTES}/list", json={"ns": NAMESPACE, **body})
        items: list[Body] = page["items"]
        return items

    async def _put(self, conversation_id: str, row: Row | None, body: Body) -> None:
        """Put a checkpoint on top of the row. Errors: ParentMoved, ThreadNotFound."""
        parent = target(conversation_id, row.checkpoint_id if row else None)
        put = {**parent, **body, "on_conflict": "reject"}
        await self._client.request("POST", f"{_ROUTES}/put", json=put)

    async def _erase(self, run_id: str) -> None:
        """Erase what was stored in one life of a conversation, and nothing of the next one."""
        await self._client.request("POST", f"{_ROUTES}/delete-for-runs", json={"run_ids": [run_id]})
