"""Remembering what was computed of values that never change, within a bound.

The answer is the same with and without: a memo holds the very objects it was asked about, so a key
made of their identities cannot come to mean others.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

_V = TypeVar("_V")
_O = TypeVar("_O")


class Memo(Generic[_O, _V]):
    """The values of the most recently used sequences of objects, at most `size` of them.

    Threads may share one: at worst a value is computed twice.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: dict[Hashable, tuple[Sequence[_O], _V]] = {}

    def get(self, variant: Hashable, objects: Sequence[_O], make: Callable[[], _V]) -> _V:
        """Return the value of these very objects, in this variant; made if it is not kept."""
        key = (variant, *map(id, objects))
        found = self._kept.pop(key, None) or (objects, make())
        self._kept[key] = found  # back in at the end: the first one is the longest unused
        if len(self._kept) > self._size:
            self._kept.pop(next(iter(self._kept)), None)
        return found[1]
