"""Pattern B: a stateless LangGraph graph; the service keeps the turns, and only the turns.

    ./dev example pattern_b [--url http://127.0.0.1:8080]

The graph has working fields, documents and an intent, that are made anew for every question. It is
compiled without a checkpointer: what a question found never reaches the next one, and never the
store. With an API key in THREADKEEP_API_KEY where the service wants one.
"""

import argparse
import asyncio
import json
import os
import secrets
from itertools import pairwise
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph

from threadkeep_client import AsyncThreadkeep

LIBRARY = {"nile": "The Nile is 6,650 km long.", "amazon": "The Amazon is 6,400 km long."}


class State(TypedDict, total=False):
    """What one question works with. Only messages and reply concern the conversation."""

    messages: list[dict[str, Any]]
    intent: str
    documents: list[str]
    reply: str


def understand(state: State) -> State:
    """Tell what is asked, from the words of the question alone."""
    said = str(state["messages"][-1]["content"]).lower()
    return {"intent": next((name for name in LIBRARY if name in said), "talk")}


def retrieve(state: State) -> State:
    """Find what helps; a working field, never stored."""
    return {"documents": [LIBRARY[state["intent"]]] if state["intent"] in LIBRARY else []}


def answer(state: State) -> State:
    """Stand in for a model."""
    questions = sum(message["role"] == "user" for message in state["messages"])
    found = " ".join(state["documents"]) or "I have nothing on that."
    return {"reply": f"{found} (You have asked {questions} questions.)"}


def make_graph() -> Any:
    """Compile the graph, without a checkpointer."""
    builder = StateGraph(State)
    steps = {"understand": understand, "retrieve": retrieve, "answer": answer}
    for name, step in steps.items():
        builder.add_node(name, step)
    order = [START, *steps, END]
    for before, after in pairwise(order):
        builder.add_edge(before, after)
    return builder.compile()


async def ask(memory: AsyncThreadkeep, graph: Any, thread_id: str, question: str) -> State:
    """Load, run, save; return the state that the graph ended in."""
    async with memory.turn(thread_id, question) as turn:
        state: State = await graph.ainvoke({"messages": turn.messages})
        turn.reply(state["reply"])
    return state


async def main(url: str, api_key: str | None) -> None:
    """Ask three questions, and look at what is stored."""
    graph, thread_id = make_graph(), f"pattern-b-{secrets.token_hex(4)}"
    async with AsyncThreadkeep(url, api_key=api_key) as memory:
        for question in ("How long is the Nile?", "And the Amazon?", "Thank you!"):
            state = await ask(memory, graph, thread_id, question)
            print(f"{question}\n  {state['reply']}\n  worked with: {state['documents']}")
        stored = [message async for message in memory.messages(thread_id)]
    print(
        f"stored: {len(stored)} messages, with the members", sorted({m for s in stored for m in s})
    )
    leaked = [word for word in ("intent", "documents") if word in json.dumps(stored)]
    print("working fields in the store:", leaked or "none")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    asyncio.run(main(parser.parse_args().url, os.environ.get("THREADKEEP_API_KEY")))
