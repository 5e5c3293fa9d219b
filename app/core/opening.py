"""Where a format's conversation must begin with the user: what stands before is left out.

Source: Anthropic's Messages API, whose first message must be the user's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from app.core.exchanges import Entry, Exchange, Rules, place
from app.core.messages import parts_of, role_of
from app.core.model import Body


def open_with_user(exchanges: Sequence[Exchange], rules: Rules) -> list[Exchange]:
    """Leave out what stands before the first words of the user, named in the warnings.

    Shape: exchanges[n] -> exchanges[n], the same objects from the first user's words on. Results in
        a message of the user answer calls that are left out, so they go as well.
    """
    opened: list[Exchange] = []
    for index, exchange in enumerate(exchanges):
        entries, warnings = _from_user(exchange.entries, rules)
        warned = (*exchange.warnings, *warnings)
        opened.append(replace(exchange, entries=entries, warnings=warned))
        if entries:
            return [*opened, *exchanges[index + 1 :]]
    return opened


def _from_user(
    entries: Sequence[Entry], rules: Rules
) -> tuple[tuple[Entry, ...], list[Mapping[str, object]]]:
    warnings: list[Mapping[str, object]] = []
    for index, entry in enumerate(entries):
        sent = tuple(_spoken(entry.sent))
        if sent:
            first = replace(entry, sent=sent, cost=rules.cost_all(sent))
            return (entry if sent == entry.sent else first, *entries[index + 1 :]), warnings
        warnings.append(_left_out(entry))
    return (), warnings


def _spoken(bodies: Sequence[Body]) -> Iterator[Body]:
    for body in bodies if bodies and role_of(bodies[0]) == "user" else ():
        parts = [part for part in parts_of(body) if not _is_result(part)]
        if len(parts) == len(parts_of(body)):
            yield body
        elif parts:
            yield {**body, "content": parts}


def _is_result(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "tool_result"


def _left_out(entry: Entry) -> Mapping[str, object]:
    detail = "a message was left out: in this format the conversation must begin with the user's"
    return {"code": "opening-left-out", "detail": detail, **place(entry.position, entry.message_id)}
