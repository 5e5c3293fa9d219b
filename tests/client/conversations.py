"""Conversations as pydantic-ai has them, and both stores for them."""

from datetime import UTC, datetime

from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import (
    ConversationEntry,
    ConversationStore,
    InMemoryConversationStore,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)

from threadkeep_client import AsyncThreadkeep
from threadkeep_client.pydantic_ai import ThreadkeepConversationStore

STORES = ["in memory", "threadkeep"]
"""pydantic-ai's own store and ours: what is true of one is true of both."""

_THEN = datetime(2026, 1, 1, tzinfo=UTC)


def store_named(name: str, memory: AsyncThreadkeep) -> ConversationStore:
    """Return one of STORES, with nothing in it."""
    if name == "threadkeep":
        return ThreadkeepConversationStore(memory)
    return InMemoryConversationStore()


def said(*texts: str) -> list[ModelMessage]:
    """Return messages that say these words, asked and answered in turn."""
    return [
        ModelResponse(parts=[TextPart(text)], timestamp=_THEN)
        if index % 2
        else ModelRequest(parts=[UserPromptPart(text, timestamp=_THEN)])
        for index, text in enumerate(texts)
    ]


def words(messages: list[ModelMessage]) -> list[str]:
    """Return what each message says."""
    return [str(getattr(message.parts[0], "content", "")) for message in messages]


async def loaded(store: ConversationStore, conversation_id: str = "c") -> Conversation:
    """Load a conversation that is there."""
    conversation = await store.load(conversation_id)
    assert conversation is not None
    return conversation


async def saved(
    store: ConversationStore, *texts: str, conversation_id: str = "c", scope: str | None = None
) -> list[ConversationEntry]:
    """Save a new conversation of these words."""
    conversation = Conversation(messages=said(*texts), conversation_id=conversation_id)
    return await store.save(conversation, scope=scope)
