"""The error tree: what the service answered instead of what was asked for, or that it did not.

ThreadkeepError
├─ Unreachable    no answer: refused, cut, timed out, in every try that was allowed
├─ BadAnswer      an answer that is not this service's (the page of a proxy that says 200)
├─ TurnSaved      the turn of this key is saved already (`turn`)
└─ Problem        the service said no (RFC 9457); `type` is the stable slug to branch on
   ├─ Invalid       InvalidPayload · UnknownEncoding · PayloadTooLarge · UnsupportedMediaType ·
   │                OwnerRequired
   ├─ Denied        Unauthenticated · MissingScope
   ├─ NotFound      ThreadNotFound · CheckpointNotFound · ChannelNotFound
   ├─ Conflict      ParentMoved · KeyReused · TranscriptDiverged · WriteDiffers · ThreadExists
   ├─ Gone          ThreadDeleted
   └─ Unavailable   RateLimited · StoreUnavailable

A slug this version does not know is the class of its status, so a newer service breaks no `except`.
The texts are the service's own, which holds no message text; nothing that was sent is added.
"""

from collections.abc import Mapping
from http import HTTPStatus

PREFIX = "urn:threadkeep:problem:"


class ThreadkeepError(Exception):
    """Something went wrong between this client and the service."""


class Unreachable(ThreadkeepError):
    """The service did not answer, however often it was asked."""


class BadAnswer(ThreadkeepError):
    """The answer is not one of this service's."""


class TurnSaved(ThreadkeepError):
    """The turn of this key is saved already: there is nothing left to run.

    checkpoint_id: where; `checkpoint` reads its messages.
    """

    def __init__(self, checkpoint_id: str | None) -> None:
        self.checkpoint_id = checkpoint_id
        super().__init__(checkpoint_id)

    def __str__(self) -> str:
        return f"the turn of this key is saved already, as {self.checkpoint_id}"


class Problem(ThreadkeepError):
    """The service refused the call.

    type: the slug, as `thread-not-found`. errors: [{pointer, detail}] for a bad payload.
    extensions: the members that only this type has. retry_after: in seconds, if the service said.
    """

    def __init__(
        self, document: Mapping[str, object], status: int, retry_after: float | None = None
    ) -> None:
        self.document = document
        self.status = status
        self.retry_after = retry_after
        # The arguments as they came: so that it can be pickled, as a task queue does.
        super().__init__(document, status, retry_after)

    def __str__(self) -> str:
        return f"{self.type or self.status}: {self.detail or self.title}"

    @property
    def type(self) -> str:
        """The stable slug; empty for an answer that is no problem document."""
        return slug_of(self.document)

    @property
    def title(self) -> str:
        """One sentence, the same for every problem of the type."""
        return str(self.document.get("title") or _phrase(self.status))

    @property
    def detail(self) -> str:
        """What is the matter this time."""
        return str(self.document.get("detail") or "")

    @property
    def errors(self) -> list[dict[str, str]]:
        """Where the payload is wrong: a JSON pointer and a sentence each."""
        errors = self.document.get("errors")
        return errors if isinstance(errors, list) else []

    @property
    def extensions(self) -> dict[str, object]:
        """The members beyond those that every problem has."""
        shared = {"type", "title", "status", "detail", "instance", "errors"}
        return {name: value for name, value in self.document.items() if name not in shared}


class Invalid(Problem):
    """The request cannot be understood; the same again will fail again."""


class InvalidPayload(Invalid):
    """The payload is malformed; `errors` says where."""


class UnknownEncoding(Invalid):
    """The service cannot count tokens in this encoding."""


class PayloadTooLarge(Invalid):
    """The request is larger than the service takes."""


class UnsupportedMediaType(Invalid):
    """The request's body is not declared as JSON."""


class OwnerRequired(Invalid):
    """The deployment wants every call to name its owner."""


class Denied(Problem):
    """The key does not allow this."""


class Unauthenticated(Denied):
    """The API key is missing or unknown."""


class MissingScope(Denied):
    """The API key lacks the scope for this call."""


class NotFound(Problem):
    """There is no such thing, for this key and owner."""


class ThreadNotFound(NotFound):
    """There is no such thread, for this key and owner."""


class CheckpointNotFound(NotFound):
    """The thread holds no such checkpoint."""


class ChannelNotFound(NotFound):
    """The checkpoint holds no such channel."""


class Conflict(Problem):
    """The request contradicts what is stored."""


class ParentMoved(Conflict):
    """The thread has moved on from the parent that was given; `head` is where it is now."""

    @property
    def head(self) -> str | None:
        """The head of the thread when the call was refused."""
        head = self.document.get("head")
        return head if isinstance(head, str) else None


class KeyReused(Conflict):
    """The key belongs to a turn with other content."""


class TranscriptDiverged(Conflict):
    """The transcript that was sent contradicts the stored thread."""


class WriteDiffers(Conflict):
    """The task is staged already, with other values."""


class ThreadExists(Conflict):
    """The thread to be made exists already."""


class VersionAmbiguous(Conflict):
    """The channel has several values under this version."""


class Gone(Problem):
    """It was there and has been erased."""


class ThreadDeleted(Gone):
    """The thread was deleted; it takes no writes for now."""


class Unavailable(Problem):
    """The service cannot answer just now, in every try that was allowed."""


class RateLimited(Unavailable):
    """Too many calls; `retry_after` says when to come back, if it is known."""


class StoreUnavailable(Unavailable):
    """The service's database does not answer."""


BY_SLUG: Mapping[str, type[Problem]] = {
    "invalid-payload": InvalidPayload,
    "unknown-encoding": UnknownEncoding,
    "payload-too-large": PayloadTooLarge,
    "unsupported-media-type": UnsupportedMediaType,
    "owner-required": OwnerRequired,
    "unauthenticated": Unauthenticated,
    "missing-scope": MissingScope,
    "thread-not-found": ThreadNotFound,
    "checkpoint-not-found": CheckpointNotFound,
    "channel-not-found": ChannelNotFound,
    "parent-moved": ParentMoved,
    "key-reused": KeyReused,
    "transcript-diverged": TranscriptDiverged,
    "write-differs": WriteDiffers,
    "thread-exists": ThreadExists,
    "version-ambiguous": VersionAmbiguous,
    "thread-deleted": ThreadDeleted,
    "store-unavailable": StoreUnavailable,
}

BY_STATUS: Mapping[int, type[Problem]] = {
    400: Invalid,
    401: Unauthenticated,
    403: Denied,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: PayloadTooLarge,
    415: UnsupportedMediaType,
    422: Invalid,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def problem_of(
    document: Mapping[str, object], status: int, retry_after: float | None = None
) -> Problem:
    """Return the exception for a problem document: by its slug, else by the status."""
    kind = BY_SLUG.get(slug_of(document)) or BY_STATUS.get(status, Problem)
    return kind(document, status, retry_after)


def slug_of(document: Mapping[str, object]) -> str:
    """Return the slug of a problem document; empty if it is not one of this service's."""
    name = document.get("type")
    return name[len(PREFIX) :] if isinstance(name, str) and name.startswith(PREFIX) else ""


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown status"
