"""Following parents through the pages of a tree."""

from hypothesis import given
from hypothesis import strategies as st

from app.core.branches import mark_current


@given(
    st.lists(st.integers(0, 10**9), max_size=20),
    st.lists(st.integers(0, 20), max_size=20),
    st.integers(0, 20),
)
def test_marks_the_branch_of_the_head(links: list[int], cuts: list[int], head: int) -> None:
    """However a tree is cut into pages, exactly the head and its ancestors are marked."""
    ids = [f"{number:03}" for number in range(len(links))]
    parents = {
        ids[number]: ids[link % number] if number and link % 3 else None
        for number, link in enumerate(links)
    }
    chosen = ids[head % len(ids)] if ids else None
    branch, point = set(), chosen
    while point is not None:
        branch.add(point)
        point = parents[point]

    marked, wanted, start = set(), chosen, 0
    newest_first = ids[::-1]
    for end in [*sorted(cuts), len(ids)]:
        page = newest_first[start:end]
        marks, wanted = mark_current([(point, parents[point]) for point in page], wanted)
        marked |= {point for point, mark in zip(page, marks, strict=True) if mark}
        start = max(start, end)

    assert marked == branch
    assert wanted is None
