"""The pair rule: no tool result without its call, no call without its result, no empty message.

Models reuse call ids, so calls and results meet by adjacency: a result answers the assistant
message right before it, other results in between excepted. Responses items are the exception: their
calls are items of their own, which other items may part from their outputs. Both is also what
providers check.
Sources: OpenAI chat completions ("followed by tool messages"), Anthropic messages (`tool_result` in
the next user message), OpenAI Responses ("No tool output found for function call");
open-webui#28305 (ids reused), turnstone#219 (some results missing).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from app.core.dialects.langchain import data_of, without_calls
from app.core.dialects.view import chat_view, is_item, with_content
from app.core.messages import calls_of, is_empty, parts_of, results_of, role_of
from app.core.model import Body

RepairCode = Literal["call-without-result", "result-without-call", "empty-message"]

_THOUGHT_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning"})


@dataclass(frozen=True, slots=True)
class Repair:
    """What was left out of a message. index: of the message in its exchange; ids: of the calls."""

    index: int
    code: RepairCode
    ids: tuple[str, ...] = ()


@dataclass(slots=True)
class _Pairing:
    """Which calls and results of a message are to stay, in the order messages.py lists them."""

    calls: list[str] = field(default_factory=list)
    answered: list[bool] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    matched: list[bool] = field(default_factory=list)

    def answer(self, call_id: str) -> bool:
        """Take the first unanswered call with this id, if there is one."""
        for index, known in enumerate(self.calls):
            if known == call_id and not self.answered[index]:
                self.answered[index] = True
                return True
        return False


def heal(exchange: Sequence[Body]) -> tuple[list[Body | None], list[Repair]]:
    """Leave out what a provider would refuse: lone calls, lone results, empty messages.

    Shape: messages[n] of one exchange -> messages[n], None where nothing is left to send; a message
        that needs no change is the same object.
    """
    if all(map(_is_plain, exchange)):
        return list(exchange), []
    healed: list[Body | None] = []
    repairs: list[Repair] = []
    for index, (body, pairing) in enumerate(zip(exchange, _pair(exchange), strict=True)):
        kept = _without_lone_calls(_without_lone_results(body, pairing), pairing)
        repairs.extend(_lone(index, pairing))
        if kept is body and is_empty(body):
            repairs.append(Repair(index, "empty-message"))
            kept = None
        healed.append(kept)
    return healed, repairs


def _is_plain(body: Mapping[str, object]) -> bool:
    """Tell at a glance that there is nothing to pair and something to say; most messages are so."""
    content = body.get("content")
    if not isinstance(content, str) or body.get("role") == "tool" or not content.strip():
        return False
    return not body.get("tool_calls") and not body.get("function_call")


def _pair(exchange: Sequence[Mapping[str, object]]) -> list[_Pairing]:
    pairings = []
    message, items = _Pairing(), list[_Pairing]()
    for body in exchange:
        pairing = _Pairing()
        pairings.append(pairing)
        for call_id in results_of(body):
            callers = chain([message], reversed(items))
            pairing.results.append(call_id)
            pairing.matched.append(any(caller.answer(call_id) for caller in callers))
        if role_of(body) == "assistant":
            pairing.calls = [call.id for call in calls_of(body)]
            pairing.answered = [False] * len(pairing.calls)
        if is_item(body):
            items += [pairing] if pairing.calls else []
        elif _ends_results(body):
            message = pairing
    return pairings


def _ends_results(body: Mapping[str, object]) -> bool:
    """Tell whether results after this message can no longer answer calls before it."""
    if role_of(body) == "tool":
        return False
    if results_of(body):
        return len(results_of(body)) < len(parts_of(body))
    return not is_empty(body)


def _lone(index: int, pairing: _Pairing) -> Iterator[Repair]:
    calls = [i for i, found in zip(pairing.calls, pairing.answered, strict=True) if not found]
    results = [i for i, found in zip(pairing.results, pairing.matched, strict=True) if not found]
    if calls:
        yield Repair(index, "call-without-result", tuple(calls))
    if results:
        yield Repair(index, "result-without-call", tuple(results))


def _without_lone_results(body: Body, pairing: _Pairing) -> Body | None:
    if all(pairing.matched):
        return body
    if role_of(body) == "tool":
        return None
    found = iter(pairing.matched)
    parts = [part for part in parts_of(body) if not _is_part(part, "tool_result") or next(found)]
    left = with_content(body, parts)
    return None if is_empty(left) else left


def _without_lone_calls(body: Body | None, pairing: _Pairing) -> Body | None:
    if body is None or all(pairing.answered):
        return body
    if is_item(body):
        return None
    if data_of(body) is not None:
        left = without_calls(body, pairing.answered)
        return left if _says_something(chat_view(left)) else None
    # The order is that of calls_of: tool_calls, function_call, then tool_use parts.
    answered = iter(pairing.answered)
    left = dict(body)
    tool_calls = left.pop("tool_calls", None)
    if isinstance(tool_calls, list):
        kept = [call for call in tool_calls if isinstance(call, dict) and next(answered)]
        left |= {"tool_calls": kept} if kept else {}
    if isinstance(left.get("function_call"), dict) and not next(answered):
        del left["function_call"]
    content = left.get("content")
    if isinstance(content, list):
        left["content"] = [p for p in content if not _is_part(p, "tool_use") or next(answered)]
    return left if _says_something(left) else None


def _says_something(body: Mapping[str, object]) -> bool:
    """Tell whether anything but thoughts is left; thoughts alone are refused by their providers."""
    if calls_of(body):
        return True
    spoken = [part for part in parts_of(body) if not _is_thought(part)]
    return not is_empty({**body, "content": spoken})


def _is_part(part: object, kind: str) -> bool:
    return isinstance(part, dict) and part.get("type") == kind


def _is_thought(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") in _THOUGHT_PARTS
