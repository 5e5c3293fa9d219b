"""Count how often a context begins with the very bytes of the one before: what prompt caches want.

    python -m examples.prefix [--url http://127.0.0.1:8080] [--turns 200]

Plays conversations turn by turn in new threads of a running service, load and save as a backend
does, and compares each load with the one before, up to the end of that one's last complete
exchange. Beside it the same figures for sending the last 60 messages, and for sending everything.
Strides are counted by the service's defaults: window 60, stride 20, token budget 16,000.
"""

import argparse
import asyncio
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import quicktok

from app.core.model import LoadOptions, Policy
from app.core.tokens import message_tokens
from app.core.window import grid_for, thresholds
from examples.replay import post, read_conversations, split_turns

RECORDED = Path(__file__).parents[1] / "tests" / "data" / "airline_support.jsonl"
WINDOW = 60
MARKER = "threadkeep_marker"
HEADINGS = ("turns", "kept", "breaks", "strides", "builds", "sent", "uncached")

count = quicktok.get_encoding("o200k_base").count
Message = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sent:
    """One message as it is sent: its bytes, and what it costs."""

    line: bytes
    tokens: int


@dataclass(slots=True)
class Figures:
    """What one way of sending a conversation came to.

    turns: loads that had one before. kept: of them those that began as it did.
    strides: times the window's grid was crossed, by messages or by tokens. builds: summaries made.
    sent, uncached: tokens, and those of them that no prompt cache can have seen.
    """

    turns: int = 0
    kept: int = 0
    strides: int = 0
    builds: int = 0
    sent: int = 0
    uncached: int = 0
    before: list[Sent] = field(default_factory=list, repr=False)
    complete: int = 0

    @property
    def breaks(self) -> int:
        """Loads that began otherwise than the one before."""
        return self.turns - self.kept

    def add(self, messages: list[Sent], complete: int) -> None:
        """Add one load. complete: messages up to the end of its last complete exchange."""
        if self.before:
            self.turns += 1
            self.kept += messages[: self.complete] == self.before[: self.complete]
        pairs = zip(messages, self.before, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        self.sent += sum(message.tokens for message in messages)
        self.uncached += sum(message.tokens for message in messages[same:])
        self.before, self.complete = messages, complete


def sent(messages: Sequence[Message]) -> list[Sent]:
    """Return messages as they are sent."""
    return [Sent(json.dumps(one).encode(), message_tokens(one, count)) for one in messages]


def made_up(turns: int, words: int) -> list[list[Message]]:
    """Return turns of a question and an answer, the answer of about so many words."""
    return [
        [
            {"role": "user", "content": f"Question {number}: what stands in section {number}?"},
            {"role": "assistant", "content": " ".join(_words(number, words))},
        ]
        for number in range(turns)
    ]


def _words(number: int, words: int) -> list[str]:
    return [f"Section {number}.", *(f"clause {number * words + at}," for at in range(words // 2))]


def recorded() -> list[list[Message]]:
    """Return the turns of all recorded conversations, joined to one."""
    joined = [message for _, messages in read_conversations(RECORDED) for message in messages]
    return list(split_turns(joined))


async def play(http: httpx.AsyncClient, turns: Sequence[list[Message]]) -> dict[str, Figures]:
    """Play one conversation in a new thread, and figure the three ways of sending it."""
    thread_id = f"prefix-{secrets.token_hex(6)}"
    path = f"/v1/threads/{quote(thread_id, safe='')}"
    ours, plain, all_of_it = Figures(), Figures(), Figures()
    stored: list[Sent] = []
    lines, boundary = (0, 0), 0
    for number, turn in enumerate(turns):
        question, *reply = sent(turn)
        loaded = await post(http, "/v1/context", {"thread_id": thread_id, "message": turn[0]})
        names = [message.get("name") for message in loaded["messages"]]
        ours.add(sent(loaded["messages"]), names.index(MARKER) if MARKER in names else 0)
        recent = stored[-WINDOW:]
        plain.add([*recent, question], len(recent))
        all_of_it.add([*stored, question], len(stored))
        await post(http, f"{path}/turns", {"key": f"turn-{number}", "messages": turn})
        stored += [question, *reply]
        thread = (await http.get(path)).raise_for_status().json()
        crossed, covered = _lines(thread), thread["summary"]["covers"]
        ours.strides += crossed != lines
        ours.builds += covered != boundary
        lines, boundary = crossed, covered
    return {"threadkeep": ours, "last 60": plain, "everything": all_of_it}


def _lines(thread: dict[str, Any]) -> tuple[int, int]:
    grid, _ = grid_for(Policy(), LoadOptions())
    return thresholds(grid, position=thread["messages"], tokens=thread["tokens"])


async def measure(http: httpx.AsyncClient, turns: int) -> dict[str, dict[str, Figures]]:
    """Play each kind of conversation: by its name, the figures of each way of sending it."""
    conversations = {
        "short messages": made_up(turns, 20),
        "long messages": made_up(turns, 300),
        "recorded, with tools": recorded(),
    }
    played = await asyncio.gather(*(play(http, said) for said in conversations.values()))
    return dict(zip(conversations, played, strict=True))


def table(measured: dict[str, dict[str, Figures]]) -> str:
    """Return the figures as a table of plain text."""
    lines = [f"{'':32}" + "".join(f"{heading:>12}" for heading in HEADINGS)]
    for conversation, ways in measured.items():
        for way, figures in ways.items():
            cells = "".join(f"{getattr(figures, name):>12,}" for name in HEADINGS)
            lines.append(f"{conversation + ': ' + way:32}{cells}")
    return "\n".join(lines)


async def main(url: str, api_key: str | None, turns: int) -> None:
    """Measure and print."""
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as http:
        print(table(await measure(http, turns)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--turns", type=int, default=200)
    arguments = parser.parse_args()
    asyncio.run(main(arguments.url, os.environ.get("THREADKEEP_API_KEY"), arguments.turns))
