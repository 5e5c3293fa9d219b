"""OpenAI chat completions: messages as they were stored, without what a provider would refuse."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.core.formats.format import Sections
from app.core.model import Body
from app.core.ports import Count
from app.core.tokens import IMAGE_TOKENS, REPLY_OVERHEAD, SENT_MEMBERS, message_tokens

_SENT = frozenset(SENT_MEMBERS)


@dataclass(frozen=True, slots=True)
class OpenAIFormat:
    """The `openai` format. Parts of other dialects pass through as they are."""

    image_tokens: int = IMAGE_TOKENS
    name: str = "openai"
    reply_overhead: int = REPLY_OVERHEAD

    def cost(self, body: Mapping[str, object], count: Count) -> int:
        """Return what one message costs, by the rules of app.core.tokens."""
        return message_tokens(body, count, image_tokens=self.image_tokens)

    def render(self, sections: Sections) -> Mapping[str, object]:
        """Return `messages`, each with the members that are sent (tokens.SENT_MEMBERS).

        Null members but `content`, and an empty list of calls, are left out: client libraries write
        them into every message they dump, and the same providers refuse them.
        """
        return {"messages": [_sent(body) for body in sections.bodies()]}

    def total(self, output: Mapping[str, object], added: int, count: Count) -> int:  # noqa: ARG002
        """Return the sum: messages are counted one by one, so costs simply add up."""
        return added


def _sent(body: Body) -> Body:
    return {
        member: value
        for member, value in body.items()
        if member == "content" or (member in _SENT and value is not None and value != [])
    }
