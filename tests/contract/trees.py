"""Random trees of turns, saved as a client would make them, and what a store should say of them."""

from dataclasses import dataclass

from hypothesis import strategies as st

from app.core.model import Appended, ThreadKey
from app.core.ports import HistoryStore
from tests.factories import new_turn


@dataclass(frozen=True, slots=True)
class Tree:
    """parents: of each turn, by number of the turn, None for a first one. sizes: its messages."""

    parents: tuple[int | None, ...]
    sizes: tuple[int, ...]

    def branch(self, turn: int | None) -> list[int]:
        """The turn and its ancestors, newest first."""
        found = []
        while turn is not None:
            found.append(turn)
            turn = self.parents[turn]
        return found


@st.composite
def trees(draw: st.DrawFn, most: int = 9) -> Tree:
    """Trees of turns with forks, siblings of one length and several roots."""
    count = draw(st.integers(1, most))
    parents = tuple(
        draw(st.one_of(st.none(), st.integers(0, number - 1))) if number else None
        for number in range(count)
    )
    return Tree(parents, tuple(draw(st.integers(1, 3)) for _ in range(count)))


async def plant(store: HistoryStore, key: ThreadKey, tree: Tree) -> list[Appended]:
    """Save the tree's turns in their order, each on its own parent; the last one is the head."""
    saved: list[Appended] = []
    for number, (parent, size) in enumerate(zip(tree.parents, tree.sizes, strict=True)):
        texts = [f"turn {number}, message {index}" for index in range(size)]
        expected = None if parent is None else saved[parent].checkpoint_id
        turn = new_turn(*texts, expected=expected, on_conflict="branch")
        saved.append(await store.append(key, turn))
        assert saved[-1].outcome == "created"
    return saved
