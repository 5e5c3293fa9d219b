"""Anthropic's turns: consecutive messages of a role are one, results first, and no id twice."""

from collections.abc import Iterable, Mapping, Sequence

from app.core.messages import parts_of
from app.core.model import Body

_NAMING = {"assistant": ("tool_use", "id"), "user": ("tool_result", "tool_use_id")}


def merge_turns(bodies: Iterable[Body]) -> list[Body]:
    """Merge neighbours of one role.

    Shape: a message with no such neighbour is as it was, unless its results stand behind its text
        or a call's id is taken; blocks are never changed otherwise.
    """
    turns: list[list[Body]] = []
    for body in bodies:
        if turns and turns[-1][0]["role"] == body["role"]:
            turns[-1].append(body)
        else:
            turns.append([body])
    return _with_own_ids([_merge(turn) for turn in turns])


def as_blocks(body: Body) -> list[object]:
    """Return the content as blocks."""
    return [
        {"type": "text", "text": part} if isinstance(part, str) else part for part in parts_of(body)
    ]


def _merge(turn: Sequence[Body]) -> Body:
    if len(turn) == 1:
        return _results_first(turn[0])
    blocks = [block for body in turn for block in as_blocks(body)]
    if turn[0]["role"] == "assistant":
        # Text behind a call would stand between it and its result.
        blocks.sort(key=lambda block: _is_block(block, "tool_use"))
    return _results_first({"role": turn[0]["role"], "content": blocks})


def _results_first(message: Body) -> Body:
    content = message["content"]
    if not isinstance(content, list) or message["role"] != "user":
        return message
    ordered = sorted(content, key=lambda block: not _is_block(block, "tool_result"))
    return message if ordered == content else {**message, "content": ordered}


def _with_own_ids(messages: Sequence[Body]) -> list[Body]:
    """Give a call another id where an earlier one has it: models count calls, the API refuses it.

    Sources: `tool_use` ids must be unique (anomalyco/opencode#1279, NVIDIA-NeMo/Switchyard#502).
    """
    taken: set[str] = set()
    renamed: dict[str, list[str]] = {}
    own = []
    for message in messages:
        if message["role"] == "assistant":
            renamed = _own_ids(message, taken)
        own.append(_rename(message, renamed))
    return own


def _own_ids(message: Body, taken: set[str]) -> dict[str, list[str]]:
    """Return for each id of the message's calls the ids that stand for it, in their order."""
    ids: dict[str, list[str]] = {}
    for block in parts_of(message):
        if isinstance(block, dict) and block.get("type") == "tool_use":
            own = _free(str(block.get("id")), taken)
            taken.add(own)
            ids.setdefault(str(block.get("id")), []).append(own)
    return ids


def _rename(message: Body, renamed: Mapping[str, Sequence[str]]) -> Body:
    if all([was] == ids for was, ids in renamed.items()):
        return message
    left = {was: iter(ids) for was, ids in renamed.items()}
    kind, member = _NAMING[str(message["role"])]
    blocks: list[object] = []
    for block in parts_of(message):
        named = isinstance(block, dict) and block.get("type") == kind and block.get(member)
        own = next(left.get(str(named), iter(())), None)
        blocks.append({**block, member: own} if isinstance(block, dict) and own else block)
    return {**message, "content": blocks}


def _free(wanted: str, taken: set[str]) -> str:
    number, free = 1, wanted
    while free in taken:
        number += 1
        free = f"{wanted}_{number}"
    return free


def _is_block(block: object, kind: str) -> bool:
    return isinstance(block, dict) and block.get("type") == kind
