"""Regenerate an answer, as a chat page does: both stay, the head says which one is read.

    ./dev example regenerate [--url http://127.0.0.1:8080]

With an API key in THREADKEEP_API_KEY where the service wants one.
"""

import argparse
import os
import secrets

from threadkeep_client import Threadkeep

QUESTION = "Name a river."


def draw(memory: Threadkeep, thread_id: str) -> None:
    """Print the tree, the branch that is read marked with a star."""
    for one in memory.checkpoints(thread_id):
        turn = memory.checkpoint(thread_id, one["checkpoint_id"])
        said = " / ".join(str(message["content"]) for message in turn["messages"])
        print(f"  {'*' if one['current'] else ' '} {one['checkpoint_id'][:14]}  {said}")


def main(url: str, api_key: str | None) -> None:
    """Answer, answer again from the same head, then go back to the first answer."""
    thread_id = f"regenerate-{secrets.token_hex(4)}"
    with Threadkeep(url, api_key=api_key) as memory:
        with memory.turn(thread_id, "Hello!") as turn:
            turn.reply("Hello.")
        before = turn.saved["checkpoint_id"]
        with memory.turn(thread_id, QUESTION) as turn:
            turn.reply("The Nile.")
        first = turn.saved["checkpoint_id"]
        with memory.turn(thread_id, QUESTION, checkpoint_id=before, on_conflict="branch") as turn:
            turn.reply("The Amazon.")
        second = turn.saved["checkpoint_id"]
        print("made anew:")
        draw(memory, thread_id)
        memory.set_head(thread_id, first, expected=second)
        print("the first one chosen again:")
        draw(memory, thread_id)
        loaded = memory.load(thread_id, marker="off")
        print("the model reads:", [message["content"] for message in loaded["messages"]])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    main(parser.parse_args().url, os.environ.get("THREADKEEP_API_KEY"))
