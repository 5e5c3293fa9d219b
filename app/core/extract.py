"""The extractive summariser: no model, no network, the same words for the same input.

One line a message. Favours what is newest, but never lets go of the first line, which tells what
was asked for at the very beginning.
"""

from collections.abc import Iterator, Mapping, Sequence

import regex

from app.core.messages import role_of
from app.core.plain import mend, plain_calls, plain_text
from app.core.ports import Count
from app.core.shorten import cluster_end

VERSION = "extractive-1"
"""Stands where a model's summary names its prompt."""

_READ_CHARACTERS = 4000
_LINE_CHARACTERS = 240
_CALLS_NAMED = 5
# The part of the room that new lines leave to an older summary, when both want it all.
_PREVIOUS_SHARE = 3
# However long, the first line leaves half of the room to the others, unless there is next to none.
_FIRST_TOKENS = 64
_SPEAKERS = {"user": "User", "assistant": "Assistant", "tool": "Tool"}
_NOTHING_SAID = "…"

_FENCED = regex.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1|\Z)", regex.MULTILINE | regex.DOTALL)
_SENTENCES = regex.compile(
    r".+?(?:[.!?…]+[\"')\]»”]*(?=\s)|[。\uff01\uff1f｡]+|\n|\Z)", regex.DOTALL
)


def summarize_extractively(
    previous: str | None,
    messages: Sequence[Mapping[str, object]],
    *,
    max_tokens: int,
    count: Count,
) -> str:
    """Return the next summary: the previous one condensed, then a line for each message that fits.

    Shape: messages are cleaned, oldest first; the text is empty only when there is no input at all.
    Units: at most max_tokens (1 and more) as `count` counts.
    Cost:  linear; of a message its first 4000 characters are read, of most of them nothing.
    """
    old = _condensable(mend(previous or ""))
    first, rest = (old.pop(0), messages) if old else _first_request(messages)
    if not first:
        return _NOTHING_SAID if messages or previous else ""
    first = _cut_to_tokens(first, max(max_tokens // 2, min(max_tokens, _FIRST_TOKENS)), count)
    left = max_tokens - count(first) - 1
    share = min(sum(count(piece) + 1 for piece in old), left // _PREVIOUS_SHARE)
    new, left = _newest(_lines_backwards(rest), left - share, count)
    kept, _ = _newest(reversed(old), left + share, count)
    return _join_within([first, *kept, *new], max_tokens, count)


def _condensable(previous: str) -> list[str]:
    """Split an older summary: by lines, and a line that is a whole paragraph by its sentences."""
    pieces: list[str] = []
    for line in previous.splitlines():
        if len(line) <= 2 * _LINE_CHARACTERS:
            pieces.append(line.strip())
        else:
            pieces += [match.group().strip() for match in _SENTENCES.finditer(line)]
    return [_cut(piece, 2 * _LINE_CHARACTERS) for piece in pieces if piece]


def _first_request(
    messages: Sequence[Mapping[str, object]],
) -> tuple[str, Sequence[Mapping[str, object]]]:
    """Return the first user message's line (else the first message's there is), and the rest."""
    for wanted in ({"user"}, _SPEAKERS.keys()):
        for index, message in enumerate(messages):
            if role_of(message) in wanted and (line := _message_line(message)):
                return line, messages[index + 1 :]
    return "", ()


def _lines_backwards(messages: Sequence[Mapping[str, object]]) -> Iterator[str]:
    for message in reversed(messages):
        if line := _message_line(message):
            yield line


def _message_line(message: Mapping[str, object]) -> str:
    said = _first_sentences(plain_text(message))
    names = [name for name, _ in plain_calls(message)]
    if names:
        more = f" and {len(names) - _CALLS_NAMED} more" if len(names) > _CALLS_NAMED else ""
        said = f"{said} [called {', '.join(names[:_CALLS_NAMED])}{more}]".strip()
    return f"- {_SPEAKERS.get(role_of(message), 'Other')}: {said}" if said else ""


def _first_sentences(text: str) -> str:
    """Return the sentences a line has room for; code blocks are named, not quoted."""
    prose = _FENCED.sub(" [code] ", text[:_READ_CHARACTERS])
    taken = ""
    for match in _SENTENCES.finditer(prose):
        sentence = " ".join(match.group().split())
        if taken and len(taken) + 1 + len(sentence) > _LINE_CHARACTERS:
            break
        taken = f"{taken} {sentence}".strip()
    return _cut(taken, _LINE_CHARACTERS)


def _newest(backwards: Iterator[str], budget: int, count: Count) -> tuple[list[str], int]:
    """Take lines, newest first, while they fit; return them in order, and the budget left."""
    taken: list[str] = []
    for line in backwards:
        cost = count(line) + 1
        if cost > budget:
            break
        budget -= cost
        taken.append(line)
    return taken[::-1], budget


def _join_within(lines: list[str], max_tokens: int, count: Count) -> str:
    """Join the lines; should the whole cost more than its parts, drop what follows the first."""
    while count("\n".join(lines)) > max_tokens and len(lines) > 1:
        del lines[1 : 2 + len(lines) // 8]
    return "\n".join(lines)


def _cut_to_tokens(text: str, max_tokens: int, count: Count) -> str:
    limit = len(text)
    while count(text) > max_tokens:
        limit = limit * 3 // 4
        if limit < len(_NOTHING_SAID) + 1:
            return _NOTHING_SAID
        text = _cut(text, limit)
    return text


def _cut(text: str, limit: int) -> str:
    """Cut to the limit in characters: after a word, else after a visible character."""
    if len(text) <= limit:
        return text
    space = text.rfind(" ", limit // 2, limit)
    end = space if space > 0 else cluster_end(text, limit - 1)
    return text[: end or limit - 1].rstrip() + "…"
