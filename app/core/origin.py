"""Where a forked thread comes from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ForkedFrom:
    """The thread and the turn in it that a thread was copied from; either may be gone since."""

    thread_id: str
    checkpoint_id: str
