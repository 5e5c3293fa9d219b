"""What a way of sending history costs at the model: tokens, prompt cache, summariser.

The recorded conversations, joined to one thread of about 2,400 messages, are played turn by turn
through the service, and each turn's request is compared with the one before. Beside it: sending
everything, the last 60 messages, and a summary made anew at every request with the last 20.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

import httpx
import quicktok

from bench.servers import Server
from examples.prefix import MARKER, WINDOW, Figures, Message, Sent, recorded, sent
from examples.replay import post
from tests.model_server import ModelServer

SUMMARY_TOKENS = 400
RECENT = 20
CACHED_PRICE = 0.1
"""Of a token that the provider's prompt cache holds, over one that it does not."""
CHEAP_PRICE, CHEAP_OUTPUT_PRICE = 0.1, 0.4
"""Of a cheap tier's token in and out, over one of the main model's in."""

_count = quicktok.get_encoding("o200k_base").count
_SUMMARY = " ".join(["The customer asked and the airline's assistant answered."] * 44)


@dataclass(slots=True)
class Way:
    """One way of sending history, and what its summariser read and wrote. Units: tokens."""

    figures: Figures = field(default_factory=Figures)
    calls: int = 0
    read: int = 0
    wrote: int = 0

    def row(self, turns: int) -> dict[str, float]:
        """Return what it came to, a request and a thousand turns; prices in main-model tokens."""
        one = self.figures
        cheap = CHEAP_PRICE * self.read + CHEAP_OUTPUT_PRICE * self.wrote
        cached = one.uncached + CACHED_PRICE * (one.sent - one.uncached)
        return {
            "tokens_a_request": round(one.sent / turns),
            "prefix_kept": round(one.kept / one.turns, 3),
            "tokens_cached": round(1 - one.uncached / one.sent, 3),
            "summariser_calls": round(1000 * self.calls / turns),
            "summariser_tokens": round(1000 * (self.read + self.wrote) / turns),
            "price_without_cache": round((one.sent + cheap) / turns),
            "price_with_cache": round((cached + cheap) / turns),
        }


async def measure(server: Server, model: ModelServer) -> dict[str, dict[str, float]]:
    """Play the thread and figure the four ways. The service's summaries come from the model."""
    model.answer = lambda _prompt, _number: _SUMMARY
    turns = recorded()
    ways = {name: Way() for name in ("threadkeep", "everything", "last 60", "summary each time")}
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        await _play(http, turns, ways)
    ours = ways["threadkeep"]
    ours.calls = len(model.bodies)
    ours.read = sum(_prompt_tokens(body["messages"]) for body in model.bodies)
    ours.wrote = ours.calls * _count(_SUMMARY)
    return {name: way.row(len(turns)) for name, way in ways.items()}


async def _play(
    http: httpx.AsyncClient, turns: Sequence[list[Message]], ways: dict[str, Way]
) -> None:
    path = f"/v1/threads/{quote('the model')}"
    stored = sent([])
    for number, turn in enumerate(turns):
        question, *reply = sent(turn)
        loaded = await post(http, "/v1/context", {"thread_id": "the model", "message": turn[0]})
        names = [message.get("name") for message in loaded["messages"]]
        complete = names.index(MARKER) if MARKER in names else 0
        ways["threadkeep"].figures.add(sent(loaded["messages"]), complete)
        ways["everything"].figures.add([*stored, question], len(stored))
        recent = stored[-WINDOW:]
        ways["last 60"].figures.add([*recent, question], len(recent))
        _summarise_each_time(ways["summary each time"], stored, question, turn=number)
        await post(http, f"{path}/turns", {"key": f"turn-{number}", "messages": turn})
        stored += [question, *reply]


def _summarise_each_time(way: Way, stored: list[Sent], question: Sent, *, turn: int) -> None:
    """Send a summary that is new at every request, and what it does not cover."""
    recent = stored[-RECENT:]
    told = sent([{"role": "system", "content": f"{turn}: {_SUMMARY}"}]) if stored else []
    way.figures.add([*told, *recent, question], len(told) + len(recent))
    if len(stored) > RECENT:
        left = stored[-RECENT - 4 : -RECENT]
        way.calls += 1
        way.read += SUMMARY_TOKENS + sum(message.tokens for message in left)
        way.wrote += SUMMARY_TOKENS


def _prompt_tokens(messages: object) -> int:
    assert isinstance(messages, list)
    return sum(_count(str(message["content"])) for message in messages)


def table(rows: dict[str, dict[str, float]]) -> str:
    """Return the figures as a Markdown table."""
    names = list(next(iter(rows.values())))
    lines = [
        "| way | " + " | ".join(name.replace("_", " ") for name in names) + " |",
        "|---" * (len(names) + 1) + "|",
    ]
    for way, row in rows.items():
        lines.append(f"| {way} | " + " | ".join(f"{row[name]:,}" for name in names) + " |")
    return "\n".join(lines)
