"""Measure what the strip rules take out of assistants' texts, in characters and in tokens.

    python -m examples.cleaning

Needs no service. The recorded answers carry no marks of their own; so each is cited, sentence by
sentence, the way providers do it, and measured before and after. Tokens are o200k_base.
"""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import quicktok

from app.core.markup import strip_text
from examples.replay import read_conversations

DATA = Path(__file__).parents[1] / "tests" / "data"
_SENTENCE_END = re.compile(r"(?<=[a-z])([.!?])(?=\s|$)")
_THOUGHT = (
    "The user wants this changed. Check the policy first: basic economy cannot be modified, and"
    " the refund goes to the original payment method within five to seven days. Ask before acting."
)

count = quicktok.get_encoding("o200k_base").count


def recorded() -> list[str]:
    """Return the assistant texts of the recorded conversations."""
    conversations = read_conversations(DATA / "airline_support.jsonl")
    said = (message for _, messages in conversations for message in messages)
    return [str(one["content"]) for one in said if one["role"] == "assistant" and one["content"]]


def pairs() -> list[str]:
    """Return the texts that the tests strip."""
    lines = (DATA / "strip_pairs.jsonl").read_text("utf-8").strip().split("\n")
    return [json.loads(line)["before"] for line in lines]


def cite(mark: Callable[[int], str]) -> list[str]:
    """Return the recorded texts with a mark before each end of a sentence."""
    return [
        _SENTENCE_END.sub(lambda end: mark(end.start() % 20) + end[1], text) for text in recorded()
    ]


def samples() -> dict[str, Sequence[str]]:
    """Return the texts to measure, by name."""
    texts = recorded()
    return {
        "recorded answers, as they are": texts,
        "… with dagger citations": cite(lambda at: f"【{at}:0†policy.pdf】"),
        "… with private-use runs": cite(lambda at: f" \ue200cite\ue202turn0search{at}\ue201"),
        "… with content references": cite(
            lambda at: f" :contentReference[oaicite:{at}]{{index={at}}}"
        ),
        "… with bracket citations": cite(lambda at: f" [cite: {at}, {at + 1}]"),
        "… each in an interface element": [
            f'<div class="bubble" data-ui="message">{text}</div>' for text in texts
        ],
        "… each with 40 words of reasoning": [
            f"<think>\n{_THOUGHT}\n</think>\n\n{text}" for text in texts
        ],
        "the pairs of the tests": pairs(),
    }


def table() -> str:
    """Return the measurements as a table in Markdown."""
    lines = [
        "| texts | number | characters | after | tokens | after | saved |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, texts in samples().items():
        stripped = [strip_text(text) for text in texts]
        sizes = [sum(map(measure, some)) for measure in (len, count) for some in (texts, stripped)]
        saved = 100 * (sizes[2] - sizes[3]) / sizes[2]
        cells = " | ".join(f"{size:,}" for size in sizes)
        lines.append(f"| {name} | {len(texts):,} | {cells} | {saved:.1f} % |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
