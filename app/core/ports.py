"""What the services need from outside, as roles. Adapters implement them, one technology each.

Every store method is one statement or one transaction, committed before it returns; every one takes
a ThreadKey (or names the tenant and owner), and another's thread looks like none. All raise
StoreUnavailable when the database does not answer.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from app.core.model import (
    Appended,
    History,
    Large,
    NewTurn,
    Pointer,
    Registry,
    StoredMessage,
    Summary,
    ThreadKey,
    Turn,
)


class HistoryStore(Protocol):
    """Turns: append-only, read from the newest end."""

    async def recent(
        self, key: ThreadKey, *, window: int, stride: int, checkpoint_id: str | None = None
    ) -> History | None:
        """Read the registry row and the newest turns in one trip.

        Shape: turns reach back at least to the message grid's start, max(0, stride * ceil((T -
            window) / stride)), and on to the newest summary pointer before it when that lies within
            two strides.
        None: the thread is unknown to this caller, expired or deleted.
        Errors: CheckpointNotFound when checkpoint_id is not of this thread.
        """
        ...

    async def turns(self, key: ThreadKey, *, head: str, after: int) -> tuple[Turn, ...]:
        """Read the turns of the branch that ends in `head` from position after + 1 on."""
        ...

    async def append(self, key: ThreadKey, turn: NewTurn) -> Appended:
        """Store one turn by compare-and-set on the head, in one trip."""
        ...

    async def append_locked(
        self, key: ThreadKey, *, back: int, decide: Callable[[History | None], NewTurn | None]
    ) -> tuple[History | None, Appended | None]:
        """Lock the thread, read its last `back` messages, decide, store; one transaction.

        decide is pure and may raise; None stores nothing. The History is the one it was given.
        """
        ...

    async def values(
        self, key: ThreadKey, wanted: Sequence[Large]
    ) -> Mapping[tuple[str, str], bytes]:
        """Read blobs in one trip: (channel, version) -> the member's JSON text as it was stored."""
        ...


class Lease(Protocol):
    """The right to build a thread's next summary: what was true when it was granted."""

    @property
    def token(self) -> str:
        """Names this grant; no other has it."""
        ...

    @property
    def registry(self) -> Registry:
        """The registry row as it was when the lease was granted."""
        ...


class SummaryStore(Protocol):
    """The durable tier of summaries, and the single flight of their builds."""

    async def claim(self, key: ThreadKey, *, lease_seconds: float) -> Lease | None:
        """Take the thread's summary lease; None when another holds it or the thread is unknown."""
        ...

    async def read(self, key: ThreadKey, boundary: Pointer, *, epoch: int) -> Summary | None:
        """Read one durable summary."""
        ...

    async def write(self, key: ThreadKey, lease: Lease, summary: Summary, *, needed: int) -> bool:
        """Write the summary and point the registry at it, in one transaction.

        needed: the boundary the window needs now; of the older pointers the newest at or before it
        stays. False (nothing written): the thread is gone, its epoch or the lease changed, or a
        summary as far or further already stands (forward only; at equal coverage the first write
        wins).
        """
        ...

    async def release(self, key: ThreadKey, lease: Lease) -> None:
        """Give the lease back if it is still held."""
        ...


class ThreadIndex(Protocol):
    """Plain reads of the registry and of raw messages."""

    async def get(self, key: ThreadKey) -> Registry | None:
        """Read one registry row."""
        ...

    async def page(
        self, tenant_id: str, owner_id: str | None, *, limit: int, cursor: str | None
    ) -> tuple[tuple[Registry, ...], str | None]:
        """List threads, newest first by creation. Errors: InvalidPayload for a bad cursor."""
        ...

    async def messages(
        self, key: ThreadKey, *, newest_first: bool, limit: int, cursor: str | None
    ) -> tuple[tuple[StoredMessage, ...], str | None] | None:
        """Page through the raw messages of the current branch; None: unknown thread."""
        ...


class SummaryCache(Protocol):
    """The fast tier of summaries. Fails open: trouble is a miss, never an error."""

    async def get(self, key: ThreadKey, boundary: Pointer, *, epoch: int) -> Summary | None:
        """Return the cached summary of exactly this boundary and epoch."""
        ...

    async def put(
        self, key: ThreadKey, summary: Summary, *, epoch: int, keep: bool = False
    ) -> None:
        """Remember a summary for the configured time; with keep, unless one is remembered there."""
        ...

    async def forget(self, key: ThreadKey, *, epoch: int) -> None:
        """Remove all that is remembered of a thread; what is put late, up to this epoch, too."""
        ...

    async def check(self) -> bool:
        """Tell whether the cache answers now; never raises."""
        ...


class Summarizer(Protocol):
    """Makes the next summary from the previous one and what has left the window since."""

    name: str

    async def summarize(
        self, previous: str | None, messages: Sequence[Mapping[str, object]], *, max_tokens: int
    ) -> str:
        """Return the new summary's text.

        Shape: messages are cleaned, oldest first. Units: max_tokens of the default encoding.
        Errors: SummaryFailed on a time-out, an error, an empty or a cut-off answer.
        """
        ...


class SummaryFailed(Exception):
    """The summariser gave nothing that can be used; the old summary stays."""


Count = Callable[[str], int]
"""Counts one text in one encoding."""


class TokenCounter(Protocol):
    """Exact token counts; o200k_base and cl100k_base never touch the network."""

    async def counter(self, encoding: str) -> Count:
        """Return a counting function. Errors: UnknownEncoding when the table cannot be had."""
        ...


class Health(Protocol):
    """Whether a dependency is there."""

    async def check(self) -> bool:
        """Tell whether it answers now; never raises."""
        ...
