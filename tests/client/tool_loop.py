"""A tool loop of four nodes, to be killed: `tool_loop.py PATTERN URL KEY LOG [STOP...]`.

Each node leaves one line, its idempotency key and its name, in the log: its effect on the world. At
every boundary that is named the process says so and waits for a line on its standard input.
"""

import os
import sys
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from threadkeep_client import Threadkeep, TurnSaved

NODES = ("plan", "search", "book", "write")
THREAD = "trip"
QUESTION = "Book me a trip."
PATIENCE = 100
"""Tries of one call: as many as fit into its time, while the service is started anew."""


def say(what: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


class Boundaries:
    """Where this process stops, and the log of effects."""

    def __init__(self, log: str, stops: list[str]) -> None:
        self._log = log
        self._stops = stops

    def at(self, name: str) -> None:
        """Wait here, if this is a place to stop."""
        if name in self._stops:
            say(name)
            sys.stdin.readline()

    def effect(self, node: str, key: str) -> str:
        """Have the node's effect on the world, between two boundaries."""
        self.at(f"before {node}")
        with Path(self._log).open("a", encoding="utf-8") as log:
            log.write(f"{key} {node}\n")
            log.flush()
            os.fsync(log.fileno())
        self.at(f"effect {node}")
        return f"{node} done"


def pattern_b(url: str, api_key: str, boundaries: Boundaries) -> None:
    """Run the nodes as steps of a turn."""
    with Threadkeep(url, api_key=api_key, retries=PATIENCE) as memory:
        try:
            with memory.turn(THREAD, QUESTION, key="request-1") as turn:
                boundaries.at("loaded")
                for node in NODES:
                    turn.step(node, partial(boundaries.effect, node))
                    boundaries.at(f"staged {node}")
                turn.reply("Booked.")
                boundaries.at("unsaved")
        except TurnSaved:
            say("saved before")
        boundaries.at("saved")


def pattern_a(url: str, api_key: str, boundaries: Boundaries) -> None:
    """Run the nodes as a graph that is compiled with a checkpointer."""
    from langgraph.config import get_config  # noqa: PLC0415 - half a second that pattern b spares
    from langgraph.graph import END, START, StateGraph  # noqa: PLC0415

    from threadkeep_client.langgraph import ThreadkeepSaver  # noqa: PLC0415

    class State(TypedDict):
        done: list[str]

    def node_of(name: str) -> Any:
        def run(state: State) -> State:
            # The task's own name: the same for every try of one task, of no other.
            key = get_config()["metadata"]["langgraph_checkpoint_ns"]
            return {"done": [*state["done"], boundaries.effect(name, key)]}

        return run

    builder = StateGraph(State)
    for name in NODES:
        builder.add_node(name, node_of(name))
    chain = [START, *NODES, END]
    for before, after in pairwise(chain):
        builder.add_edge(before, after)
    config: Any = {"configurable": {"thread_id": THREAD}}
    with Threadkeep(url, api_key=api_key, retries=PATIENCE) as memory:
        saver = ThreadkeepSaver(memory)
        graph = builder.compile(checkpointer=saver)
        boundaries.at("loaded")
        state = graph.get_state(config)
        begun = state.created_at is not None
        if not begun or state.next:
            graph.invoke(None if begun else State(done=[]), config, durability="sync")
        boundaries.at("saved")


if __name__ == "__main__":
    pattern, url, api_key, log, *stops = sys.argv[1:]
    run = {"a": pattern_a, "b": pattern_b}[pattern]
    run(url, api_key, Boundaries(log, stops))
    say("end")
