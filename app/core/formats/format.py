"""What a format of a load's answer has to do."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

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
        yield from self.window
        yield from (body for body in (self.marker,) if body is not None)
        yield from self.final


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

    def cost(self, body: Mapping[str, object], count: Count) -> int:
        """Return what one message adds to the output, in tokens; never less than it really does."""
        ...

    def render(self, sections: Sections) -> Mapping[str, object]:
        """Return the format's own members of the answer."""
        ...

    def total(self, output: Mapping[str, object], added: int, count: Count) -> int:
        """Return the output's exact tokens. added: reply overhead and all messages' costs."""
        ...
