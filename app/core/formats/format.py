"""What a format of a load's answer has to do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from app.core.dialects.neutral import Dialect
from app.core.model import Body
from app.core.ports import Count


@dataclass(frozen=True, slots=True)
class Sections:
    """What is sent, in order. window and final: whole exchanges, oldest first."""

    pinned: Body | None
    summary: Body | None
    window: tuple[Body, ...]
    marker: Body | None
    final: tuple[Body, ...]

    def bodies(self) -> Iterator[Body]:
        """Yield the messages in the order in which they are sent."""
        yield from (body for body in (self.pinned, self.summary) if body is not None)
        yield from self.spoken()

    def spoken(self) -> Iterator[Body]:
        """Yield the conversation: all but what stands before it."""
        yield from self.window
        yield from (body for body in (self.marker,) if body is not None)
        yield from self.final


@dataclass(frozen=True, slots=True)
class Translated:
    """A message as a format writes it: none, one or several.

    lost:    what the format has no place for, by kind: `reasoning`, `image`, a part's own type.
    wrapped: ids of calls whose arguments are no JSON object, where the format wants one.
    """

    bodies: tuple[Body, ...]
    lost: tuple[str, ...] = ()
    wrapped: tuple[str, ...] = ()


class Format(Protocol):
    """One way to write a context, and what it costs there."""

    @property
    def name(self) -> str:
        """The name a caller asks for it by."""
        ...

    @property
    def reply_overhead(self) -> int:
        """Tokens that any output costs, however many messages it has."""
        ...

    @property
    def opens_with_user(self) -> bool:
        """Whether the conversation must begin with words of the user."""
        ...

    @property
    def pairs_meet(self) -> bool:
        """Whether results must stand right behind the message that called for them."""
        ...

    def translate(self, body: Body, dialect: Dialect) -> Translated:
        """Write a stored message, as it is if it was stored in this format's own dialect."""
        ...

    def frame(self, body: Body) -> Body:
        """Write a system message: the pinned one, and what the service itself puts in."""
        ...

    def cost(self, body: Mapping[str, object], count: Count) -> int:
        """Return what one written message adds to the output, in tokens; never less than it does.

        Shape: a body that translate or frame returned.
        """
        ...

    def saved(self, sections: Sections) -> int:
        """Return by how many tokens merging makes the output cheaper than its bodies' costs."""
        ...

    def render(self, sections: Sections) -> Mapping[str, object]:
        """Return the format's own members of the answer. Shape: sections of written bodies."""
        ...

    def total(self, output: Mapping[str, object], added: int, count: Count) -> int:
        """Return the output's exact tokens.

        added: reply overhead and all bodies' costs, less what was saved.
        """
        ...
