"""What an exchange must lose before it can be sent: lone calls and results, and lone reasoning."""

from collections.abc import Sequence

from app.core.dialects.view import is_item
from app.core.messages import calls_of, results_of, role_of
from app.core.model import Body
from app.core.pairs import Repair, heal


def heal_exchange(
    exchange: Sequence[Body],
) -> tuple[list[Body | None], list[Repair], list[int]]:
    """Heal pairs; then leave out reasoning items whose follower is gone.

    Shape: messages[n] -> messages[n], None where nothing is left to send; the repairs; and the
        indexes of reasoning that was left out.
    """
    healed, repairs = heal(exchange)
    widows = widowed_reasoning(exchange, healed)
    return [None if i in widows else body for i, body in enumerate(healed)], repairs, widows


def widowed_reasoning(before: Sequence[Body], after: Sequence[Body | None]) -> list[int]:
    """Return the indexes of kept reasoning items without the item they led to, in order.

    Source: OpenAI Responses refuses them, "Item 'rs_...' of type 'reasoning' was provided without
        its required following item" (vercel/ai#7099).
    """
    widows: list[int] = []
    followed = False
    for index in reversed(range(len(before))):
        if not _is_reasoning(before[index]):
            followed = after[index] is not None and role_of(before[index]) == "assistant"
        elif not followed and after[index] is not None:
            widows.append(index)
    return widows[::-1]


def order_with_pairs(bodies: Sequence[Body]) -> list[int]:
    """Return the order in which each result stands right behind the turn that called for it.

    Shape: indexes, all of them. Chat messages stand so already (the pair rule demands it); other
        items may part a Responses call from its output. A call is answered once, so a second result
        with a reused id belongs to the call before (as the pair rule has matched them).
    """
    order = list(range(len(bodies)))
    if not any(is_item(body) and calls_of(body) for body in bodies):
        return order
    order.clear()
    unanswered = [[call.id for call in calls_of(body)] for body in bodies]
    for index, body in enumerate(bodies):
        at = len(order)
        for call_id in results_of(body):
            caller = next((n for n in reversed(order) if call_id in unanswered[n]), None)
            if caller is not None:
                unanswered[caller].remove(call_id)
                at = _after_results(bodies, order, order.index(caller))
        order.insert(at, index)
    return order


def _after_results(bodies: Sequence[Body], order: Sequence[int], calling: int) -> int:
    at = calling
    while at < len(order) and role_of(bodies[order[at]]) == "assistant":
        at += 1
    while at < len(order) and results_of(bodies[order[at]]):
        at += 1
    return at


def _is_reasoning(body: Body) -> bool:
    return body.get("type") == "reasoning" and is_item(body)
