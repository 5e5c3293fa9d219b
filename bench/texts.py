"""What is said in the benchmark: sentences of recorded conversations, from a fixed seed."""

import json
import random
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

RECORDED = Path(__file__).parents[1] / "tests" / "data" / "airline_support.jsonl"
SEED = 20_301
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]")

Message = dict[str, object]


class Writer:
    """Writes chat messages of `shortest` to `longest` characters; the same for the same seed."""

    def __init__(self, shortest: int = 300, longest: int = 1_500, *, seed: int = SEED) -> None:
        self._lengths = (shortest, longest)
        self._random = random.Random(seed)

    def turn(self) -> list[Message]:
        """Write a question and its answer."""
        return [
            {"role": "user", "content": self.text()},
            {"role": "assistant", "content": self.text()},
        ]

    def text(self) -> str:
        """Write one message: whole sentences that real people and a real assistant wrote."""
        length = self._random.randint(*self._lengths)
        said = sentences()
        text = ""
        while len(text) < length:
            text += self._random.choice(said) + " "
        return text[:length].rstrip()


@cache
def sentences() -> Sequence[str]:
    """Return the distinct sentences of the recorded conversations, system prompts left out."""
    lines = (json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines())
    texts = (
        message["content"]
        for line in lines
        for message in line["messages"]
        if message["role"] in {"user", "assistant"} and isinstance(message["content"], str)
    )
    return sorted({found.strip() for text in texts for found in _SENTENCE.findall(text)})
