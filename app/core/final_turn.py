"""Making room inside a final turn that is over budget alone: its user message is never touched."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from app.core.dialects.items import is_output
from app.core.dialects.langchain import data_of
from app.core.exchanges import Entry, Rules, place, rewrite
from app.core.healing import widowed_reasoning
from app.core.messages import calls_of, role_of
from app.core.model import Body
from app.core.pairs import heal
from app.core.shorten import shorten

LEAST_RESULT_TOKENS = 48
"""A tool result is not shortened below this: less tells a model nothing. Source: our own figure."""

_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})


def fit_final_turn(
    entries: Sequence[Entry], allowed: int, rules: Rules
) -> tuple[tuple[Entry, ...], tuple[Mapping[str, object], ...]]:
    """Shorten tool results, largest first; then leave out calls with their results, oldest first.

    Shape: -> entries and warnings. Units: allowed in tokens of the rules' encoding.
    Keeps: every message that is neither a call nor a result, even over the limit.
    Cost:  a turn may hold thousands of calls, so how many go is found by halving.
    """
    calls = [index for index, entry in enumerate(entries) if calls_of(entry.body)]

    def fit(dropped: int) -> tuple[Entry, ...] | None:
        return _shorten_results(
            _without(entries, frozenset(calls[:dropped]), rules), allowed, rules
        )

    dropped = bisect_left(range(len(calls)), True, key=lambda number: fit(number) is not None)
    left = fit(dropped) or _without(entries, frozenset(calls), rules)
    return left, _explain(entries, left, {entries[index].position for index in calls})


def map_result_texts(body: Mapping[str, object], change: Callable[[str], str]) -> Body:
    """Return the message with each text of its tool results changed; images in them stay.

    Shape: of any dialect; the result of a call that only a provider's client knows is left whole.
    """
    data = data_of(body)
    if data is not None:
        content = data.get("content")
        changed = _map_texts(content, change) if role_of(body) == "tool" else content
        return {**body, "data": {**data, "content": changed}}
    if body.get("type") in _OUTPUTS and is_output(body):
        return {**body, "output": _map_texts(body.get("output"), change)}
    content = body.get("content")
    if role_of(body) == "tool":
        return {**body, "content": _map_texts(content, change)}
    if not isinstance(content, list):
        return dict(body)
    return {**body, "content": [_map_result(part, change) for part in content]}


def _map_result(part: object, change: Callable[[str], str]) -> object:
    if isinstance(part, dict) and part.get("type") == "tool_result":
        return {**part, "content": _map_texts(part.get("content"), change)}
    return part


def _map_texts(content: object, change: Callable[[str], str]) -> object:
    if isinstance(content, str):
        return change(content)
    if not isinstance(content, list):
        return content
    return [_map_text(part, change) for part in content]


def _map_text(part: object, change: Callable[[str], str]) -> object:
    if isinstance(part, str):
        return change(part)
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return {**part, "text": change(part["text"])}
    return part


def _without(entries: Sequence[Entry], dropped: frozenset[int], rules: Rules) -> tuple[Entry, ...]:
    if not dropped:
        return tuple(entries)
    bodies = [entry.body for entry in entries]
    kept = [index for index in range(len(entries)) if index not in dropped]
    # The results of a call that is gone have become lone ones; the pair rule takes them out.
    healed, _ = heal([bodies[index] for index in kept])
    left: list[Body | None] = [None] * len(entries)
    for index, body in zip(kept, healed, strict=True):
        left[index] = body
    for index in widowed_reasoning(bodies, left):
        left[index] = None
    return tuple(
        entry if body is entry.body else rewrite(entry, body, rules)
        for entry, body in zip(entries, left, strict=True)
        if body is not None
    )


def _shorten_results(
    entries: Sequence[Entry], allowed: int, rules: Rules
) -> tuple[Entry, ...] | None:
    sizes = [rules.count(text) for entry in entries for text in _result_texts(entry.body)]
    rest = sum(entry.cost for entry in entries) - sum(sizes)
    room = allowed - rest
    while (level := _level(sizes, room)) is not None:
        shortened = tuple(_shorten_entry(entry, level, rules) for entry in entries)
        excess = sum(entry.cost for entry in shortened) - allowed
        if excess <= 0:
            return shortened
        # Texts that stand inside a longer one (the text format) need not cost what they cost alone.
        room -= excess
    return None


def _level(sizes: Sequence[int], room: int) -> int | None:
    """Return the highest level that, with all larger sizes cut to it, lets them fit the room."""
    if sum(min(size, LEAST_RESULT_TOKENS) for size in sizes) > room:
        return None
    ascending = sorted(sizes)
    for index, size in enumerate(ascending):
        share = room // (len(ascending) - index)
        if size > share:
            return max(share, LEAST_RESULT_TOKENS)
        room -= size
    return max(ascending, default=0)


def _shorten_entry(entry: Entry, level: int, rules: Rules) -> Entry:
    body = map_result_texts(entry.body, lambda text: shorten(text, level, rules.count))
    return entry if body == entry.body else rewrite(entry, body, rules)


def _result_texts(body: Mapping[str, object]) -> list[str]:
    texts: list[str] = []

    def collect(text: str) -> str:
        texts.append(text)
        return text

    map_result_texts(body, collect)
    return texts


def _explain(
    before: Sequence[Entry], after: Sequence[Entry], calls: set[int]
) -> tuple[Mapping[str, object], ...]:
    left = {entry.position: entry for entry in after}
    gone = [e for e in before if e.position not in left and e.position in calls]
    shortened = [
        entry
        for entry in before
        if entry.position in left and left[entry.position].body is not entry.body
    ]
    return (
        *(_warn("tool-step-left-out", "a tool call and its results did not fit", e) for e in gone),
        *(_warn("result-shortened", "a tool result was shortened to fit", e) for e in shortened),
    )


def _warn(code: str, detail: str, entry: Entry) -> Mapping[str, object]:
    return {"code": code, "detail": detail, **place(entry.position, entry.message_id)}
