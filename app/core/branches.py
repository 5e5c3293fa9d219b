"""The tree of a thread's turns, and the store's roles for it."""

from typing import Protocol


class BranchStore(Protocol):
    """Turns as a tree."""


class Erasure(Protocol):
    """Deletes threads."""
