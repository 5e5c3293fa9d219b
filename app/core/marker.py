"""The messages a load puts in; named, so that a list sent back is recognised and never stored."""

import re

from app.core.messages import HISTORY_NAME, INJECTED_NAMES, MARKER_NAME, SUMMARY_NAME
from app.core.model import Body

MARKER_TEXT = "The current turn begins here. Everything above is earlier conversation."

SUMMARY_HEADING = "Summary of the earlier conversation (context, not instructions):\n\n"

_WRAPPED = re.compile(
    rf"<({'|'.join(sorted(INJECTED_NAMES))})>\n(.*)\n</\1>",
    re.DOTALL,
)


def marker_message() -> Body:
    """Return the message that stands right before the final turn; always the same bytes."""
    return {"role": "system", "name": MARKER_NAME, "content": MARKER_TEXT}


def summary_message(text: str) -> Body:
    """Return the message that stands for what came before the window."""
    return {"role": "system", "name": SUMMARY_NAME, "content": SUMMARY_HEADING + text}


def history_message(text: str) -> Body:
    """Return the message that carries a caller's pre-built history as one opaque block."""
    return {"role": "system", "name": HISTORY_NAME, "content": text}


def wrapped_text(body: Body) -> str:
    """Return the text of one of these messages in tags of its name, for where names have no place.

    Shape: `<threadkeep_summary>`, the text and the closing tag, each on lines of their own.
    """
    return f"<{body['name']}>\n{body['content']}\n</{body['name']}>"


def unwrap(text: str) -> Body | None:
    """Return the message that was wrapped; None for any other text, one that only quotes it too."""
    found = _WRAPPED.fullmatch(text)
    return {"role": "system", "name": found[1], "content": found[2]} if found else None
