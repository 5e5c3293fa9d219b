"""HistoryStore on PostgreSQL: load and save are one database function each, one round trip."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TypeAlias

import asyncpg
from sqlalchemy.pool import PoolProxiedConnection

from app.adapters.sql import rows
from app.adapters.sql.engine import Database
from app.adapters.sql.statements import statements
from app.adapters.sql.turn_reader import TurnReader
from app.core.errors import CheckpointNotFound, Flaw, InvalidPayload
from app.core.model import Appended, History, Large, NewTurn, ThreadKey, Turn

_TURN_ID = re.compile(r"[0-9]{10}-[0-9a-f]{22}")

_NO_TURN = "none"
"""Stands for an id no turn can have, which may hold what PostgreSQL refuses in a text."""

_BAD_JSONB = (asyncpg.UntranslatableCharacterError, asyncpg.InvalidTextRepresentationError)

Run: TypeAlias = Callable[..., Awaitable[list[asyncpg.Record]]]


def utc_now() -> datetime:
    """Return the time now."""
    return datetime.now(UTC)


class SqlHistoryStore:
    """Implements HistoryStore.

    now: the clock; the database's own is not asked (Citus refuses). remembered: turns.
    """

    def __init__(
        self,
        database: Database,
        now: Callable[[], datetime] = utc_now,
        *,
        remembered: int = 0,
    ) -> None:
        self._database = database
        self._sql = statements(database.schema)
        self._now = now
        self._turns = TurnReader(remembered)

    async def recent(
        self, key: ThreadKey, *, window: int, stride: int, checkpoint_id: str | None = None
    ) -> History | None:
        """Read the registry row and the newest turns in one trip. See HistoryStore.recent."""
        head = None if checkpoint_id is None else turn_id(checkpoint_id)
        found = await self._database.fetch(
            self._sql.load, *names(key), head, window, stride, self._now()
        )
        history = rows.history(found, checkpoint_id, self._turns)
        if history and checkpoint_id is not None and not history.turns:
            raise CheckpointNotFound
        return history

    async def turns(self, key: ThreadKey, *, head: str, after: int) -> tuple[Turn, ...]:
        """Read the turns of one branch from a position on. See HistoryStore.turns."""
        found = await self._database.fetch(
            self._sql.turns, *names(key), self._now(), turn_id(head), after
        )
        return rows.branch(found, head, self._turns)

    async def append(self, key: ThreadKey, turn: NewTurn) -> Appended:
        """Store one turn in one trip. See HistoryStore.append.

        Errors: InvalidPayload for metadata that jsonb does not take.
        """
        return await self._append(self._database.fetch, key, turn)

    async def append_locked(
        self, key: ThreadKey, *, back: int, decide: Callable[[History | None], NewTurn | None]
    ) -> tuple[History | None, Appended | None]:
        """Lock, read, decide, store, in one transaction. See HistoryStore.append_locked."""
        work = partial(self._locked, key, back, decide)
        locked, history, appended = await self._database.in_transaction(work)
        if not locked and appended is not None and appended.outcome == "moved":
            # What did not exist could not be locked, and somebody has made it meanwhile.
            _, history, appended = await self._database.in_transaction(work)
        return history, appended

    async def _locked(
        self,
        key: ThreadKey,
        back: int,
        decide: Callable[[History | None], NewTurn | None],
        connection: PoolProxiedConnection,
    ) -> tuple[bool, History | None, Appended | None]:
        run = partial(self._database.fetch_on, connection)
        locked = bool(await run(self._sql.lock, *names(key)))
        found = await run(self._sql.load, *names(key), None, back, 1, self._now())
        history = rows.history(found, None, self._turns)
        turn = decide(history)
        return locked, history, None if turn is None else await self._append(run, key, turn)

    async def _append(self, run: Run, key: ThreadKey, turn: NewTurn) -> Appended:
        try:
            found = await run(self._sql.save, *self._save(key, turn))
        except _BAD_JSONB as error:  # the payload is of type json, which takes what these refuse
            detail = "must not hold NUL characters or lone surrogates"
            raise InvalidPayload([Flaw("#/metadata", detail)]) from error
        return _appended(found[0])

    async def values(
        self, key: ThreadKey, wanted: Sequence[Large]
    ) -> Mapping[tuple[str, str], bytes]:
        """Read blobs in one trip. See HistoryStore.values."""
        found = await self._database.fetch(
            self._sql.values,
            *names(key),
            self._now(),
            [large.channel for large in wanted],
            [large.version for large in wanted],
        )
        return {(row["channel"], row["version"]): row["data"] for row in found}

    def _save(self, key: ThreadKey, turn: NewTurn) -> Sequence[object]:
        """Return the parameters of the save function, in its order."""
        payload = rows.encode_turn(turn)
        large = [pair for message in turn.messages for pair in message.large]
        return (
            *names(key),
            turn.identity,
            turn.digest,
            None if turn.expected is None else turn_id(turn.expected),
            turn.parent_known,
            turn.on_conflict,
            len(turn.messages),
            sum(message.tokens for message in turn.messages),
            len(payload) + sum(len(value) for _, value in large),
            payload,
            rows.encode(turn.metadata) if turn.metadata else None,
            None if turn.staged_under is None else turn_id(turn.staged_under),
            turn.key,
            self._now(),
            [blob.channel for blob, _ in large],
            [blob.version for blob, _ in large],
            [value.decode() for _, value in large],
        )


def names(key: ThreadKey) -> tuple[str, str, str | None]:
    """Return the first three parameters of every hot statement."""
    return key.tenant_id, key.thread_id, key.owner_id


def turn_id(given: str) -> str:
    """Return an id that a turn may have, as given."""
    return given if _TURN_ID.fullmatch(given) else _NO_TURN


def _appended(row: rows.Row) -> Appended:
    return Appended(
        outcome=row["outcome"],
        checkpoint_id=row["checkpoint_id"],
        parent_id=row["parent_id"],
        position=row["position"],
        head=row["head"],
        rebased=row["rebased"],
        tokens=row["tokens"],
        summaries=rows.pointers(row["summaries"]),
    )
