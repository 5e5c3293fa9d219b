"""What the service says about itself: one JSON object a line on standard error.

No line holds what a caller wrote: of an exception it has the types and the places it went through,
never the text, since drivers quote the values of a failed statement in theirs.
"""

import json
import logging
import sys
import traceback
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Set for the length of a request; every line logged meanwhile carries it."""

_OURS = ("app", "threadkeep", "uvicorn")
_PLAIN_MEMBERS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "color_message"}


class JsonFormatter(logging.Formatter):
    """Renders a record, with what was given as `extra`, as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        if current := request_id.get():
            line["request_id"] = current
        line |= {name: value for name, value in vars(record).items() if name not in _PLAIN_MEMBERS}
        if record.exc_info and record.exc_info[1]:
            line["error"] = describe_error(record.exc_info[1])
        return json.dumps(line, default=str)


def configure_logging(level: str) -> None:
    """Log our own and uvicorn's lines from this level up, everyone else's from warning up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in _OURS:
        logging.getLogger(name).setLevel(level.upper())


def describe_error(error: BaseException) -> str:
    """Return the error's types, causes included, and the places it went through; never its text."""
    return " <- ".join(_describe(error))


def _describe(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        places = ", ".join(f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames)
        yield f"{type(error).__module__}.{type(error).__qualname__} at {places}"
        error = error.__cause__ or error.__context__
