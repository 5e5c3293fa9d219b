"""LangChain's chat message history, kept by Threadkeep.

A call of `add_messages` is one turn, stored whole or not at all, under a key of its own: a retry of
the client is a no-op, and the same words in a second call are stored again. Messages come back as
they were added, ids, tool calls and usage included.

System messages are not stored: they change with every deploy, so the chain brings them itself. One
that is added is left out with a warning.
"""

import warnings
from collections.abc import Iterable, Sequence
from uuid import uuid4

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import (
    BaseMessage,
    convert_to_messages,
    message_to_dict,
    messages_from_dict,
)

from threadkeep_client import AsyncThreadkeep, Threadkeep
from threadkeep_client.answers import Context, Message, Saved
from threadkeep_client.calls import LoadOptions
from threadkeep_client.errors import ThreadNotFound

_PLACE = frozenset({"id", "client_id", "position", "checkpoint_id"})


class ThreadkeepChatMessageHistory(BaseChatMessageHistory):
    """The history of one thread.

    client: for the methods without `a`. async_client: for those with it; without one they run the
    others in a thread. Both stay open: whoever made them closes them.
    context: options of a load. With them (`{}` for the service's defaults) the messages are what
    the model should read, a summary and the recent ones; without, all that are stored.
    Errors: ValueError without any client; RuntimeError when the client for a method is missing.
    """

    def __init__(
        self,
        thread_id: str,
        *,
        client: Threadkeep | None = None,
        async_client: AsyncThreadkeep | None = None,
        context: LoadOptions | None = None,
    ) -> None:
        super().__init__()
        if client is None and async_client is None:
            raise ValueError("a history needs a client, an async_client or both")
        self.thread_id = thread_id
        self._client = client
        self._async_client = async_client
        self._context = None if context is None else _load_options(context)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]
        """The messages, oldest first; none of an unknown thread."""
        client = self._needed()
        if self._context is not None:
            return _assembled(client.load(self.thread_id, **self._context))
        try:
            return _raw(client.messages(self.thread_id))
        except ThreadNotFound:
            return []

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the messages, oldest first; none of an unknown thread."""
        if self._async_client is None:
            return await super().aget_messages()
        if self._context is not None:
            return _assembled(await self._async_client.load(self.thread_id, **self._context))
        try:
            return _raw([m async for m in self._async_client.messages(self.thread_id)])
        except ThreadNotFound:
            return []

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store the messages as one turn. Errors: InvalidPayload, TypeError for what is no JSON."""
        if messages:
            turn = [message_to_dict(message) for message in messages]
            _tell(self._needed().save(self.thread_id, turn, key=uuid4().hex, format="langchain"))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Store the messages as one turn. Errors: InvalidPayload, TypeError for what is no JSON."""
        if self._async_client is None:
            await super().aadd_messages(messages)
        elif messages:
            turn = [message_to_dict(message) for message in messages]
            _tell(
                await self._async_client.save(
                    self.thread_id, turn, key=uuid4().hex, format="langchain"
                )
            )

    def clear(self) -> None:
        """Erase the thread; its id is free at once."""
        try:
            self._needed().delete_thread(self.thread_id, reuse=True)
        except ThreadNotFound:
            return

    async def aclear(self) -> None:
        """Erase the thread; its id is free at once."""
        if self._async_client is None:
            await super().aclear()
            return
        try:
            await self._async_client.delete_thread(self.thread_id, reuse=True)
        except ThreadNotFound:
            return

    def _needed(self) -> Threadkeep:
        if self._client is None:
            raise RuntimeError("this history has an async_client only: use its async methods")
        return self._client


def _load_options(context: LoadOptions) -> LoadOptions:
    # The chain puts the new question behind the history, so a marker in it would stand too early.
    return {"marker": "off", **context, "format": "langchain"}


def _assembled(context: Context) -> list[BaseMessage]:
    return messages_from_dict(context["messages"])


def _raw(stored: Iterable[Message]) -> list[BaseMessage]:
    return [_message(body) for body in stored]


def _message(body: Message) -> BaseMessage:
    if "role" not in body and isinstance(body.get("data"), dict):
        return messages_from_dict([body])[0]
    # Written by someone who speaks another dialect.
    spoken = {name: value for name, value in body.items() if name not in _PLACE}
    return convert_to_messages([{**spoken, "id": body.get("client_id", body["id"])}])[0]


def _tell(saved: Saved) -> None:
    if left_out := saved["ignored"]:
        roles = ", ".join(sorted({str(line["role"]) for line in left_out}))
        warnings.warn(f"messages that are never stored were left out ({roles})", stacklevel=3)
