"""Where the answer begins: behind the reasoning a model put in front of it."""

import re
from collections.abc import Sequence

from app.core.markup_blocks import answer_at
from app.core.markup_inline import Tag
from app.core.markup_rules import REASONING

_LONE_CLOSER = re.compile(
    rf"^[ \t]*+(?P<tag></(?:{'|'.join(REASONING)})\s*+>)[ \t]*+\r?$", re.IGNORECASE | re.MULTILINE
)


def answer_start(text: str, tags: Sequence[Tag]) -> int:
    """Return the position behind leading reasoning, 0 where there is none.

    A block that is never closed reaches to the end. Closers without any opener, alone on their
    line, end reasoning whose opener the chat template supplied: the last of them counts.
    """
    at = _leading_end(text, tags)
    if at or any(not tag.is_closer for tag in tags):
        return at
    lone = {found.start("tag") for found in _LONE_CLOSER.finditer(text)} if tags else set()
    for tag in reversed(tags):
        if tag.span[0] in lone:
            return answer_at(text, tag.span[1])
    return 0


def _leading_end(text: str, tags: Sequence[Tag]) -> int:
    closers = _pair(tags)
    at, index = 0, 0
    while index < len(tags) and not tags[index].is_closer:
        tag = tags[index]
        if text[at : tag.span[0]].strip():
            break
        if tag.is_void:
            at, index = tag.span[1], index + 1
        elif index in closers:
            at, index = tags[closers[index]].span[1], closers[index] + 1
        else:
            return _unpaired_end(text, tag)
        at = answer_at(text, at)
    return at


def _unpaired_end(text: str, tag: Tag) -> int:
    """Return where a block ends that has no closer, but for one in code that it left open."""
    closer = _LONE_CLOSER.search(text, tag.span[1])
    return answer_at(text, closer.end("tag")) if closer else len(text)


def _pair(tags: Sequence[Tag]) -> dict[int, int]:
    """Return opener -> closer by index: what balances it, else the next of its name, or of any."""
    pairs: dict[int, int] = {}
    opened: dict[str, list[int]] = {}
    for index, tag in enumerate(tags):
        if not tag.is_closer:
            opened.setdefault(tag.name, []).append(index)
        elif opened.get(tag.name):
            pairs[opened[tag.name].pop()] = index
    following: dict[str, int] = {}
    for index in range(len(tags) - 1, -1, -1):
        name = tags[index].name
        if tags[index].is_closer:
            following[name] = following[""] = index
        elif following:
            pairs.setdefault(index, following.get(name, following[""]))
    return pairs
