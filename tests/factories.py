"""Values for tests, each right by itself; what a test is about is given as an override."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from app.core.model import (
    Appended,
    History,
    Large,
    NewMessage,
    NewTurn,
    Pointer,
    Summary,
    ThreadKey,
)
from app.core.ports import HistoryStore

NOW = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)


def new_message(text: str, role: str = "user", tokens: int = 5, **overrides: Any) -> NewMessage:
    """A small message to be stored."""
    return replace(NewMessage(body={"role": role, "content": text}, tokens=tokens), **overrides)


def new_turn(*texts: str, **overrides: Any) -> NewTurn:
    """A turn of alternating user and assistant messages for an empty thread.

    Its identity is that of a save with a parent, or with a key where one is given.
    """
    digest = sha256(repr(texts).encode()).digest()
    turn = NewTurn(
        identity=b"",
        digest=digest,
        expected=None,
        parent_known=True,
        on_conflict="append",
        messages=tuple(
            new_message(text, ("user", "assistant")[index % 2]) for index, text in enumerate(texts)
        ),
        rules="rules-1",
        metadata={},
        staged_under=overrides.get("expected"),
        key=None,
    )
    turn = replace(turn, **overrides)
    anchor = turn.key or (turn.expected, turn.digest)
    return turn if turn.identity else replace(turn, identity=sha256(repr(anchor).encode()).digest())


def large_message(value: bytes, channel: str, **overrides: Any) -> NewMessage:
    """A message whose content lives in a blob; value: its JSON."""
    version = sha256(value).hexdigest()[:22]
    large = Large("content", channel, version, len(value), tokens=7, preview="preview")
    message = new_message("", large=((large, value),), **overrides)
    small = {**message.body, "content": None}
    return replace(message, body=small, digest=b"d" * 32, cleaned_digest=b"c" * 32)


async def saved_turns(store: HistoryStore, key: ThreadKey, count: int) -> list[Appended]:
    """Save `count` turns of a question and an answer one after another."""
    saved: list[Appended] = []
    for number in range(count):
        turn = new_turn(
            f"question {number}", f"answer {number}", expected=saved[-1].head if saved else None
        )
        saved.append(await store.append(key, turn))
    return saved


async def load(store: HistoryStore, key: ThreadKey, checkpoint_id: str | None = None) -> History:
    """Load a thread that must be there."""
    history = await store.recent(key, window=60, stride=20, checkpoint_id=checkpoint_id)
    assert history is not None
    return history


def said(history: History) -> list[object]:
    """The contents of the loaded messages."""
    return [message.body["content"] for message in history.messages]


def clock_at(moment: datetime) -> Callable[[], datetime]:
    """A clock that stands still."""
    return lambda: moment


def pointer(saved: Appended, position: int | None = None) -> Pointer:
    """A boundary at the end of a stored turn, or at a position inside it."""
    assert saved.checkpoint_id is not None
    return Pointer(saved.checkpoint_id, position or saved.position, saved.tokens)


def summary(boundary: Pointer, text: str = "They said hello.") -> Summary:
    """A summary of everything up to a boundary."""
    return Summary(text, boundary, method="model", model="small", prompt="p1", created_at=NOW)
