"""Pattern A: a LangGraph graph that needs a checkpointer uses the service instead of a database.

    ./dev example pattern_a [--url http://127.0.0.1:8080]

Two searches run side by side; one finishes, the other crashes, and with it the process could have.
Resumed, only the one that crashed runs again. Then the graph asks, waits as long as it takes, and
goes on with the answer. With an API key in THREADKEEP_API_KEY where the service wants one.
"""

import argparse
import operator
import os
import secrets
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from threadkeep_client.langgraph import ThreadkeepSaver


class Trip(TypedDict):
    """What the graph works on."""

    found: Annotated[list[str], operator.add]
    booked: str


class Crashed(Exception):
    """The process would have died here."""


def make_graph(saver: ThreadkeepSaver, ran: list[str], *, crash: bool) -> Any:
    """Compile the graph as a process does at its start. ran: which nodes did, in this one."""

    def flight(_: Trip) -> dict[str, list[str]]:
        ran.append("flight")
        return {"found": ["LX 8"]}

    def hotel(_: Trip) -> dict[str, list[str]]:
        ran.append("hotel")
        if crash:
            raise Crashed
        return {"found": ["Hotel du Lac"]}

    def book(state: Trip) -> dict[str, str]:
        ran.append("book")
        found = " and ".join(sorted(state["found"]))
        answer = interrupt(f"Book {found}?")
        return {"booked": found if answer == "yes" else ""}

    builder = StateGraph(Trip)
    for name, node in (("flight", flight), ("hotel", hotel)):
        builder.add_node(name, node)
        builder.add_edge(START, name)
        builder.add_edge(name, "book")
    builder.add_node("book", book)
    builder.add_edge("book", END)
    return builder.compile(checkpointer=saver)


def main(url: str, api_key: str | None) -> None:
    """Crash, resume, be asked, answer: every time with a graph compiled anew."""
    config = {"configurable": {"thread_id": f"pattern-a-{secrets.token_hex(4)}"}}
    with ThreadkeepSaver.from_url(url, api_key=api_key) as saver:
        ran: list[str] = []
        try:
            make_graph(saver, ran, crash=True).invoke({"found": [], "booked": ""}, config)
        except Crashed:
            print("crashed after:", sorted(ran))
        ran.clear()
        asked = make_graph(saver, ran, crash=False).invoke(None, config)
        print("resumed, ran:", ran)
        print("it asks:", asked["__interrupt__"][0].value)
        ran.clear()
        done = make_graph(saver, ran, crash=False).invoke(Command(resume="yes"), config)
        print("answered, ran:", ran)
        print("booked:", done["booked"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    main(parser.parse_args().url, os.environ.get("THREADKEEP_API_KEY"))
