"""The requests of the contract: their documentation, their checks, and how they become values.

Types are strict: a number is not a thread id and true is not a number. A member that is null counts
as left out (but for `parent`). Messages are checked by the core, which names the place of what is
wrong with them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, WithJsonSchema

from app.api.keys import KEY_HEADER, agreed_key
from app.api.paths import check_thread_id
from app.api.validation import (
    Name,
    PageParameters,
    RequestModel,
    checked_name,
    unknown_fields,
    validate,
    validate_query,
)
from app.core.dialects.neutral import Dialect
from app.core.errors import Flaw, InvalidPayload
from app.core.ingest import parse_batch, parse_message, parse_messages, parse_metadata
from app.core.messages import role_of
from app.core.model import Body, Conflicts, FormatName, LoadOptions, ThreadKey
from app.core.saving import SaveRequest
from app.services.load import Conversation, HistoryText, Source, StoredThread

MAX_WINDOW = 1000

_NOTHING: Mapping[str, str] = MappingProxyType({})
_MESSAGE = {"$ref": "#/components/schemas/Message"}

_StringOrMessage = Annotated[object, WithJsonSchema({"anyOf": [{"type": "string"}, _MESSAGE]})]
_Messages = Annotated[object, WithJsonSchema({"type": "array", "items": _MESSAGE})]


class ExplainParameters(RequestModel):
    """What a load may ask for in the query string beside a body."""

    explain: Annotated[
        bool, Field(description="Also say what became of every message, and why.")
    ] = False


class LoadParameters(ExplainParameters):
    """What a load may ask for, in a body or in a query string."""

    checkpoint_id: Annotated[Name | None, Field(description="History as of this turn.")] = None
    token_budget: Annotated[
        int | None,
        Field(ge=1, description="Most tokens of the answer; the deployment's if absent."),
    ] = None
    window: Annotated[
        int | None, Field(ge=1, le=MAX_WINDOW, description="Most messages sent as they are.")
    ] = None
    stride: Annotated[
        int | None,
        Field(
            ge=1, le=MAX_WINDOW, description="Step of the window's start; a third of the window."
        ),
    ] = None
    encoding: Annotated[
        str, Field(min_length=1, max_length=64, description="What tokens are counted in.")
    ] = "o200k_base"
    format: Annotated[FormatName, Field(description="Form of the answer.")] = "openai"
    marker: Annotated[
        Literal["on", "off"], Field(description="A marker right before the final turn.")
    ] = "on"
    strip: Annotated[
        Literal["default", "off"],
        Field(description="Take presentation markup out of assistant text."),
    ] = "default"
    large_values: Annotated[
        Literal["inline", "stub"], Field(description="stub: a reference instead of a large value.")
    ] = "inline"

    def to_options(self, message: Body | None = None) -> LoadOptions:
        """Return the core's options."""
        return LoadOptions(
            message=message,
            window=self.window,
            stride=self.stride,
            token_budget=self.token_budget,
            encoding=self.encoding,
            format=self.format,
            marker=self.marker == "on",
            strip=self.strip == "default",
            stub_large=self.large_values == "stub",
            explain=self.explain,
        )


class LoadIn(LoadParameters):
    """A load. Of `conversation`, `history` and `thread_id` the first one present is the source."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"thread_id": "t1", "message": "And the Amazon?", "token_budget": 8000},
                {"history": "User: How long is the Nile?\nAssistant: About 6,650 km."},
                {"conversation": [{"role": "user", "content": "How long is the Nile?"}]},
            ]
        }
    )

    thread_id: Annotated[str | None, Field(description="Generation 1: the stored thread.")] = None
    history: Annotated[str | None, Field(description="Generation 2: one opaque text.")] = None
    conversation: Annotated[
        _Messages, Field(description="Generation 3: the messages themselves; nothing is stored.")
    ] = None
    message: Annotated[_StringOrMessage, Field(description="The current user turn.")] = None


class SaveIn(RequestModel):
    """A turn to be stored, whole or not at all."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "key": "turn-1",
                    "messages": [
                        {"role": "user", "content": "How long is the Nile?"},
                        {"role": "assistant", "content": "About 6,650 km."},
                    ],
                }
            ]
        }
    )

    messages: Annotated[_Messages, Field(description="Oldest first.")]
    format: Annotated[Dialect | None, Field(description="Told from the messages if absent.")] = None
    parent: Annotated[
        Name | None,
        Field(description="The head seen at load; null: the thread was empty; absent: unknown."),
    ] = None
    key: Annotated[Name | None, Field(description=f"Of the turn; also as {KEY_HEADER}.")] = None
    on_conflict: Annotated[Conflicts, Field(description="If parent is not the head.")] = "append"
    metadata: Annotated[
        object, WithJsonSchema({"type": "object"}), Field(description="Kept beside the turn.")
    ] = None


class MessagesParameters(PageParameters):
    """One page of a thread's messages."""

    order: Annotated[Literal["asc", "desc"], Field(description="asc: oldest first.")] = "asc"


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A load as the services take it. warnings: what of the request was not understood."""

    thread_id: str | None
    source: Source
    options: LoadOptions
    checkpoint_id: str | None
    warnings: tuple[Mapping[str, object], ...]


def parse_load(body: Mapping[str, object], query: Mapping[str, str] = _NOTHING) -> LoadRequest:
    """Read a load from a request's body; explain may stand beside it. Errors: InvalidPayload."""
    beside = validate_query(ExplainParameters, query).model_dump(exclude_unset=True)
    wanted = validate(LoadIn, {**beside, **body})
    if wanted.thread_id is not None:
        check_thread_id(wanted.thread_id)
    return LoadRequest(
        thread_id=wanted.thread_id,
        source=_source_of(wanted),
        options=wanted.to_options(_message_of(wanted.message)),
        checkpoint_id=checked_name(wanted.checkpoint_id, "#/checkpoint_id"),
        warnings=unknown_fields(LoadIn, body),
    )


def parse_load_query(thread_id: str, query: Mapping[str, str]) -> LoadRequest:
    """Read a load from a query string. Errors: InvalidPayload."""
    wanted = validate_query(LoadParameters, query)
    return LoadRequest(
        thread_id=thread_id,
        source=StoredThread(),
        options=wanted.to_options(),
        checkpoint_id=checked_name(wanted.checkpoint_id, "#/checkpoint_id"),
        warnings=unknown_fields(LoadParameters, query),
    )


def parse_save(
    thread: ThreadKey, body: Mapping[str, object], key_header: str | None
) -> SaveRequest:
    """Read a save. key_header: the turn's key as sent in the header. Errors: InvalidPayload."""
    wanted = validate(SaveIn, body)
    return SaveRequest(
        thread=thread,
        batch=parse_batch(wanted.messages, "#/messages", wanted.format),
        key=agreed_key(wanted.key, key_header),
        parent=checked_name(wanted.parent, "#/parent"),
        parent_known="parent" in body,
        on_conflict=wanted.on_conflict,
        metadata=parse_metadata(wanted.metadata),
    )


def _source_of(wanted: LoadIn) -> Source:
    if wanted.conversation is not None:
        return Conversation(parse_messages(wanted.conversation, "#/conversation"))
    if wanted.history is not None:
        return HistoryText(wanted.history)
    if wanted.thread_id is not None:
        return StoredThread()
    raise InvalidPayload([Flaw("#", "must have one of thread_id, history and conversation")])


def _message_of(message: object) -> Body | None:
    if isinstance(message, str):
        return {"role": "user", "content": message}
    body = None if message is None else parse_message(message, "#/message")
    if body and role_of(body) in {"system", "developer"}:
        raise InvalidPayload(
            [Flaw("#/message/role", "must not be a system role: it would stand last")]
        )
    return body
