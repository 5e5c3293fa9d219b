"""The error tree: what can go wrong, without a word about HTTP.

ThreadkeepError
├─ NotFound      ThreadNotFound · CheckpointNotFound · ChannelNotFound
├─ Conflict      KeyReused · ParentMoved · TranscriptDiverged · WriteDiffers ·
│                ThreadExists · VersionAmbiguous
├─ Gone          ThreadDeleted
├─ Invalid       InvalidPayload · UnknownEncoding · OwnerRequired · PayloadTooLarge ·
│                UnsupportedMediaType
├─ Denied        Unauthenticated · MissingScope
└─ Unavailable   StoreUnavailable

Each leaf has a stable slug; its docstring's first line is its title. `extensions` become members of
the problem document, so they must never hold message text.
"""

from collections.abc import Sequence
from dataclasses import dataclass


class ThreadkeepError(Exception):
    """Something went wrong."""

    slug = "error"

    def __init__(self, detail: str = "", **extensions: object) -> None:
        self.detail = detail
        self.extensions = extensions
        super().__init__(detail or self.title)

    @property
    def title(self) -> str:
        """One sentence for people, the same for every occurrence."""
        return (type(self).__doc__ or "").splitlines()[0]


class NotFound(ThreadkeepError):
    """There is no such thing."""


class ThreadNotFound(NotFound):
    """The thread does not exist for this caller."""

    slug = "thread-not-found"


class CheckpointNotFound(NotFound):
    """The thread holds no such checkpoint."""

    slug = "checkpoint-not-found"


class ChannelNotFound(NotFound):
    """The checkpoint holds no such value."""

    slug = "channel-not-found"


class Conflict(ThreadkeepError):
    """The request contradicts what is stored."""


class KeyReused(Conflict):
    """The key was already used for a turn with other content."""

    slug = "key-reused"


class ParentMoved(Conflict):
    """The thread has moved on from the given parent."""

    slug = "parent-moved"


class TranscriptDiverged(Conflict):
    """The transcript contradicts the stored thread."""

    slug = "transcript-diverged"


class WriteDiffers(Conflict):
    """The task is already staged with other values."""

    slug = "write-differs"


class ThreadExists(Conflict):
    """There is another thread of this id already."""

    slug = "thread-exists"


class VersionAmbiguous(Conflict):
    """The channel has several values under this version."""

    slug = "version-ambiguous"


class Gone(ThreadkeepError):
    """It was there and has been erased."""


class ThreadDeleted(Gone):
    """The thread was deleted; it takes no further writes for now."""

    slug = "thread-deleted"


@dataclass(frozen=True, slots=True)
class Flaw:
    """One thing wrong with a payload: where (JSON pointer, as '#/messages/0/role') and what."""

    pointer: str
    detail: str


class Invalid(ThreadkeepError):
    """The request cannot be understood."""


class InvalidPayload(Invalid):
    """The payload is malformed."""

    slug = "invalid-payload"

    def __init__(self, flaws: Sequence[Flaw]) -> None:
        self.flaws = tuple(flaws)
        super().__init__("; ".join(f"{flaw.pointer}: {flaw.detail}" for flaw in self.flaws[:3]))


class UnknownEncoding(InvalidPayload):
    """The encoding is unknown or its table cannot be had here."""

    slug = "unknown-encoding"


class PayloadTooLarge(Invalid):
    """The request body is larger than this service takes."""

    slug = "payload-too-large"


class UnsupportedMediaType(Invalid):
    """The request body is not declared as plain JSON."""

    slug = "unsupported-media-type"


class OwnerRequired(Invalid):
    """Every call to this deployment must name the owner it is made for."""

    slug = "owner-required"


class Denied(ThreadkeepError):
    """The caller may not do this."""


class Unauthenticated(Denied):
    """A valid API key is required."""

    slug = "unauthenticated"


class MissingScope(Denied):
    """The API key lacks the scope for this call."""

    slug = "missing-scope"


class Unavailable(ThreadkeepError):
    """Something this service depends on does not answer."""


class StoreUnavailable(Unavailable):
    """The database does not answer; try again shortly."""

    slug = "store-unavailable"
