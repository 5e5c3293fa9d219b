"""Planning a summary's build: what goes to the summariser, in which steps. Forward only.

A step ends at the end of an exchange, so that what it covers can be written down; only an exchange
that is too large for one step is split, and only a message that is too large for one is shortened.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from app.core.messages import begins_exchange
from app.core.model import Body, Large, StoredMessage
from app.core.plain import plain_message
from app.core.ports import Count
from app.core.prompt import render_line
from app.core.shorten import shorten
from app.core.window import exchange_starts

_NOTICE_TOKENS = 40
# Read whole, a large value may take half a step; beyond, its preview has to do.
_LARGE_SHARE = 2
_LARGE_BYTES_A_TOKEN = 16


@dataclass(frozen=True, slots=True)
class Step:
    """One call of the summariser.

    messages: plain, oldest first, within the budget. taken: messages of the input behind them, from
    its beginning. whole: the step ends an exchange, so its text covers `taken` messages.
    """

    messages: tuple[Body, ...]
    taken: int
    whole: bool


def plan_steps(
    messages: Sequence[Mapping[str, object]], *, budget: int, count: Count
) -> Iterator[Step]:
    """Split messages into steps as long as the budget allows; none is left out or comes twice.

    Shape: messages are cleaned, oldest first, and begin with an exchange.
    Units: budget in tokens for a step's lines, without the previous summary and the instructions.
    """
    pending: list[Body] = []
    spent = taken = 0
    for size in _exchange_sizes(messages):
        lines = [_fitted(message, budget, count) for message in messages[taken : taken + size]]
        exchange = sum(cost for _, cost in lines)
        for index, (body, cost) in enumerate(lines):
            # An exchange begins a new step when it does not fit whole; inside, a message does.
            if pending and spent + (cost if index else exchange) > budget:
                yield Step(tuple(pending), taken, whole=not index)
                pending, spent = [], 0
            pending.append(body)
            spent += cost
            taken += 1
    if pending:
        yield Step(tuple(pending), taken, whole=True)


def wanted_values(messages: Sequence[StoredMessage], *, budget: int) -> tuple[Large, ...]:
    """Return the large values worth reading: those that a step has room for.

    Units: budget in tokens of one step.
    """
    return tuple(
        item
        for message in messages
        for item in message.large
        if item.tokens <= budget // _LARGE_SHARE
        and item.size_bytes <= budget * _LARGE_BYTES_A_TOKEN
    )


def stretch(messages: Sequence[StoredMessage], limit: int) -> int:
    """Return how many messages to read at once: whole exchanges, one at least, limit at most."""
    if len(messages) <= limit:
        return len(messages)
    starts = [
        index for index, message in enumerate(messages) if index and begins_exchange(message.body)
    ]
    within = [start for start in starts if start <= limit]
    return within[-1] if within else next(iter(starts), len(messages))


def with_previews(message: StoredMessage) -> StoredMessage:
    """Put the previews of what was not read where the content would stand."""
    previews = [item.preview for item in message.large if item.member == "content"]
    if not previews:
        return message
    content = message.body.get("content")
    bones = content if isinstance(content, list) else []
    text = {"type": "text", "text": f"{previews[0]} [...]"}
    return replace(message, body={**message.body, "content": [text, *bones]})


def _exchange_sizes(messages: Sequence[Mapping[str, object]]) -> list[int]:
    starts = exchange_starts(messages)
    return [end - start for start, end in pairwise([*starts, len(messages)])]


def _fitted(message: Mapping[str, object], budget: int, count: Count) -> tuple[Body, int]:
    """Return the message in plain words, shortened to the budget, and what its line costs."""
    body = plain_message(message)
    cost = count(render_line(body)) + 1
    limit = budget
    while cost > budget and limit > _NOTICE_TOKENS:
        # A line is JSON and costs more than its text: take off what it is over, at least a tenth.
        limit = min(limit - (cost - budget if cost < 2 * budget else 0), limit * 9 // 10)
        shorter = {"content": shorten(str(body["content"]), limit, count)}
        body = {**body, **shorter}
        cost = count(render_line(body)) + 1
    if cost > budget:
        body = {"role": body["role"], "content": "[too long to be read]"}
        cost = count(render_line(body)) + 1
    return body, cost
