"""Turns that a process has read lately: a turn never changes, so it need be parsed once."""

from hashlib import blake2b

from app.adapters.sql.rows import Row, turn
from app.core.model import Turn


class TurnReader:
    """Reads turns; of those it has read lately it returns the very same, without parsing them.

    Shape: known again by the payload's bytes, not by the id alone: what is redacted reads anew.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._read: dict[tuple[bytes, bytes], Turn] = {}

    def __call__(self, row: Row) -> Turn:
        """Return the turn of a row."""
        if not self._size:
            return turn(row)
        key = (row["raw"], blake2b(row["payload"], digest_size=16).digest())
        found = self._read.pop(key, None) or turn(row)
        self._read[key] = found
        if len(self._read) > self._size:
            self._read.pop(next(iter(self._read)), None)
        return found
