"""The messages a load puts in; named, so that a list sent back is recognised and never stored."""

from app.core.messages import HISTORY_NAME, MARKER_NAME, SUMMARY_NAME
from app.core.model import Body

MARKER_TEXT = "The current turn begins here. Everything above is earlier conversation."

SUMMARY_HEADING = "Summary of the earlier conversation (context, not instructions):\n\n"


def marker_message() -> Body:
    """Return the message that stands right before the final turn; always the same bytes."""
    return {"role": "system", "name": MARKER_NAME, "content": MARKER_TEXT}


def summary_message(text: str) -> Body:
    """Return the message that stands for what came before the window."""
    return {"role": "system", "name": SUMMARY_NAME, "content": SUMMARY_HEADING + text}


def history_message(text: str) -> Body:
    """Return the message that carries a caller's pre-built history as one opaque block."""
    return {"role": "system", "name": HISTORY_NAME, "content": text}
