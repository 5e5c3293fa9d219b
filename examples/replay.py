"""Replay recorded conversations through the service, turn by turn, the way a backend uses it.

    ./dev example replay tests/data/airline_support.jsonl [--url http://127.0.0.1:8080]

With an API key in THREADKEEP_API_KEY where the service wants one.

Each line of the file is {"id", "messages"} in OpenAI chat-completions form. For every user message:
load the context, let a stand-in model replay the recorded reply (tool calls, results and answer),
save the turn under a key of its own. Then read everything back and compare. Run it twice: the
second run stores nothing new.
"""

import argparse
import asyncio
import json
import os
import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx

Message = dict[str, object]
AT_ONCE = 8


@dataclass(slots=True)
class Tally:
    """What a replay did: turns and messages sent, and how many turns were new to the service."""

    turns: int = 0
    messages: int = 0
    created: int = 0


def read_conversations(path: Path) -> list[tuple[str, list[Message]]]:
    """Return (id, messages) of each line; the system prompt is the caller's and is never stored."""
    lines = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    return [(line["id"], [m for m in line["messages"] if m["role"] != "system"]) for line in lines]


def split_turns(messages: Sequence[Message]) -> Iterator[list[Message]]:
    """Yield the messages in runs that begin with a user message."""
    turn: list[Message] = []
    for message in messages:
        if message["role"] == "user" and turn:
            yield turn
            turn = []
        turn.append(message)
    if turn:
        yield turn


class ReplayedModel:
    """Stands in for the model and its tools: answers with what was recorded."""

    def __init__(self, reply: list[Message]) -> None:
        self.reply = reply

    def run(self, context: list[Message]) -> list[Message]:
        """Return the recorded messages; a real model would read the context."""
        if not context:
            raise ValueError("the context is empty, though there is a question")
        return self.reply


async def run_turn(http: httpx.AsyncClient, thread_id: str, key: str, turn: list[Message]) -> bool:
    """Load, run, save: Pattern B. Return whether the service stored the turn just now."""
    question, *reply = turn
    loaded = await post(http, "/v1/context", {"thread_id": thread_id, "message": question})
    answer = ReplayedModel(reply).run(loaded["messages"])
    saved = await post(
        http,
        f"/v1/threads/{quote(thread_id, safe='')}/turns",
        {"messages": [question, *answer], "key": key},
    )
    return bool(saved["created"])


async def replay(
    http: httpx.AsyncClient, thread_id: str, messages: list[Message], tally: Tally
) -> None:
    """Replay one thread, a turn after the other."""
    for number, turn in enumerate(split_turns(messages)):
        created = await run_turn(http, thread_id, f"turn-{number}", turn)
        tally.created += created
        tally.turns += 1
        tally.messages += len(turn)


async def check_thread(http: httpx.AsyncClient, thread_id: str, messages: list[Message]) -> None:
    """Read the whole thread back and compare it, message by message, with what was sent."""
    loaded = await post(
        http,
        "/v1/context",
        {"thread_id": thread_id, "window": 1000, "token_budget": 1_000_000, "marker": "off"},
    )
    if loaded["messages"] != messages:
        raise SystemExit(f"{thread_id}: the loaded messages differ from the saved ones")
    check_pairs(loaded["messages"])
    check_coverage(loaded["coverage"])


def check_pairs(messages: Sequence[Message]) -> None:
    """Fail unless every tool result directly follows its call, or another result of it."""
    open_calls: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            open_calls.remove(str(message["tool_call_id"]))
        else:
            if open_calls:
                raise SystemExit("a tool call stands without its result")
            open_calls = {str(call["id"]) for call in message.get("tool_calls") or []}  # type: ignore[attr-defined]


def check_coverage(coverage: dict[str, int]) -> None:
    """Fail unless summarised, window and trimmed add up to the total."""
    parts = coverage["summarized"] + coverage["window"] + coverage["trimmed"]
    if parts != coverage["total"]:
        raise SystemExit(f"coverage does not add up: {coverage}")


async def compare_loads(
    http: httpx.AsyncClient, short: str, long: str, rounds: int = 100
) -> tuple[float, float]:
    """Return the median load time in milliseconds of two threads, measured in turns."""
    times: dict[str, list[float]] = {short: [], long: []}
    for _ in range(rounds):
        for thread_id in (short, long):
            began = time.perf_counter()
            await post(http, "/v1/context", {"thread_id": thread_id})
            times[thread_id].append((time.perf_counter() - began) * 1000)
    return statistics.median(times[short]), statistics.median(times[long])


async def post(http: httpx.AsyncClient, path: str, body: object) -> dict:  # type: ignore[type-arg]
    """Post JSON and return the answer's JSON; an error answer ends the example."""
    try:
        response = await http.post(path, json=body)
    except httpx.ConnectError:
        raise SystemExit(f"nothing answers at {http.base_url}: is ./dev run up?") from None
    if response.is_error:
        raise SystemExit(f"{path}: {response.status_code} {response.text}")
    return response.json()  # type: ignore[no-any-return]


async def replay_each(
    http: httpx.AsyncClient, conversations: list[tuple[str, list[Message]]]
) -> Tally:
    """Replay every conversation as a thread of its own, several at once, and check each."""
    tally = Tally()
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(name: str, messages: list[Message]) -> None:
        async with gate:
            await replay(http, name, messages, tally)
            await check_thread(http, name, messages)

    await asyncio.gather(*(one(name, messages) for name, messages in conversations))
    return tally


async def main(path: Path, url: str, api_key: str | None) -> None:
    """Replay, check and report."""
    conversations = read_conversations(path)
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30) as http:
        each = await replay_each(http, conversations)
        print(f"{len(conversations)} threads: {each.turns} turns, {each.messages} messages;")
        print(f"  stored now: {each.created} turns; read back in order, every call with its result")
        joined = [message for _, messages in conversations for message in messages]
        tally = Tally()
        await replay(http, "joined", joined, tally)
        print(f"joined thread: {tally.turns} turns, {tally.messages} messages;", end=" ")
        print(f"stored now: {tally.created} turns")
        await report_joined(http, conversations)


async def report_joined(
    http: httpx.AsyncClient, conversations: list[tuple[str, list[Message]]]
) -> None:
    """Print what a load of the joined thread gives, and its time beside that of a short thread."""
    loaded = await post(http, "/v1/context", {"thread_id": "joined"})
    check_coverage(loaded["coverage"])
    tokens, summary = loaded["tokens"], loaded["summary"]
    if tokens["total"] > tokens["budget"] or summary["state"] == "none":
        raise SystemExit(f"over the budget or without a summary: {tokens} {summary['state']}")
    print(f"  coverage {loaded['coverage']}")
    print(f"  tokens {tokens['total']} of {tokens['budget']}, summary {summary['state']}")
    short = min(conversations, key=lambda one: abs(len(one[1]) - 26))
    small, large = await compare_loads(http, short[0], "joined")
    print(f"  load, median: {small:.2f} ms for {len(short[1])} messages, {large:.2f} ms joined")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    arguments = parser.parse_args()
    asyncio.run(main(arguments.file, arguments.url, os.environ.get("THREADKEEP_API_KEY")))
