"""Where windows begin, which summary stands before them, and when the next one is due."""

import dataclasses
import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.model import (
    Body,
    History,
    LoadOptions,
    Pointer,
    Policy,
    Registry,
    StoredMessage,
    Turn,
)
from app.core.window import (
    Grid,
    WindowPlan,
    boundaries_needed,
    default_stride,
    exchange_starts,
    grid_for,
    is_due,
    plan_window,
    summary_state,
    thresholds,
    window_start,
)
from tests.unit.strategies import (
    NOW,
    assistant,
    calling,
    plain_thread,
    result,
    stored,
    threads,
    tool_results,
    tool_use,
    unhurried,
    user,
)

GRID = Grid(window=60, stride=20, token_span=10**6, token_step=10**5, reach=40)


def start_of(grid: Grid, messages: list[StoredMessage], *, read: int | None = None) -> int | None:
    spent = sum(message.tokens for message in messages)
    newest = messages if read is None else messages[-read:]
    return window_start(grid, newest, position=len(messages), tokens=spent)


def plan(
    messages: list[StoredMessage],
    *pointers: Pointer,
    grid: Grid = GRID,
    read: int | None = None,
    unsaved: int = 0,
) -> WindowPlan | None:
    """Plan a window over a thread of one turn a message, of which the newest were read."""
    newest = messages if read is None else messages[-read:]
    turns = [
        Turn(m.checkpoint_id, f"{m.position - 1:010}-x", m.position, 0, 0, NOW, (m,))
        for m in newest
    ]
    spent = sum(message.tokens for message in messages)
    registry = plan_registry(len(messages), pointers)
    history = History(registry, registry.head, len(messages), spent, tuple(turns))
    return plan_window(grid, history, unsaved=unsaved)


def plan_registry(position: int, pointers: Sequence[Pointer]) -> Registry:
    """The registry row of a thread of one turn a message, five tokens each."""
    head, spent = f"{position:010}-x", 5 * position
    known = tuple(pointers)
    return Registry("t1", "", head, position, 0, spent, 0, None, {}, NOW, NOW, None, known, 0)


def pointer(position: int, tokens: int | None = None) -> Pointer:
    """A pointer into the threads above, whose messages cost five tokens each."""
    return Pointer(f"{position:010}-x", position, 5 * position if tokens is None else tokens)


@pytest.mark.parametrize(
    ("window", "stride"), [(60, 20), (50, 16), (10, 2), (4, 2), (1, 2), (100, 32), (7, 2)]
)
def test_stride_defaults_to_a_third_rounded_down_to_even(window: int, stride: int) -> None:
    """The default stride is even, so that a thread of pairs loses whole pairs."""
    assert stride == default_stride(window)


def test_an_exchange_begins_with_a_user_message_that_is_no_result() -> None:
    """Tool results in role user go on with the exchange; the first message always begins one."""
    bodies = [
        assistant("Hello"),
        user("q"),
        tool_use(["c"]),
        tool_results(["c"]),
        assistant("a"),
        user("q2"),
    ]

    assert exchange_starts(bodies) == [0, 1, 5]
    assert exchange_starts([]) == []


def test_deployment_grid() -> None:
    """Without wishes the grid is the deployment's, its token span what summary and marker leave."""
    grid, cap = grid_for(Policy(), LoadOptions())

    assert (grid, cap) == (Grid(60, 20, 14_700, 4_900, 40), None)


def test_tiny_token_budget_leaves_a_quarter_to_the_window() -> None:
    """A budget below the summary's ceiling still gives a span above zero."""
    grid, _ = grid_for(Policy(token_budget=400), LoadOptions())

    assert (grid.token_span, grid.token_step) == (100, 33)


@pytest.mark.parametrize(
    ("options", "window", "stride", "cap"),
    [
        (LoadOptions(window=4), 60, 20, 4),
        (LoadOptions(window=60), 60, 20, None),
        (LoadOptions(window=90), 90, 30, None),
        (LoadOptions(window=40, stride=2), 40, 2, None),
        (LoadOptions(stride=2), 60, 2, None),
    ],
)
def test_a_request_s_own_window(
    options: LoadOptions, window: int, stride: int, cap: int | None
) -> None:
    """A smaller window alone caps the deployment's grid; any other wish is a grid of its own."""
    grid, found = grid_for(Policy(), options)

    assert (grid.window, grid.stride, found) == (window, stride, cap)


def test_bigger_budget_widens_the_span_on_the_same_steps() -> None:
    """A bigger budget moves the token line back by whole steps; a smaller one leaves it."""
    usual, bigger, smaller = (
        grid_for(Policy(), LoadOptions(token_budget=budget))[0] for budget in (None, 50_000, 500)
    )

    assert (bigger.token_span, bigger.token_step) == (48_700, usual.token_step)
    assert smaller == usual


@pytest.mark.parametrize(
    ("position", "line"),
    [(0, 0), (60, 0), (61, 20), (80, 20), (81, 40), (100, 40), (200, 140)],
)
def test_message_line_moves_by_strides(position: int, line: int) -> None:
    """s = stride * ceil((T - window) / stride), 0 while everything fits."""
    assert thresholds(GRID, position=position, tokens=0) == (line, 0)


def test_load_newest_not_oldest() -> None:
    """load-newest-not-oldest: 200 plain messages give exactly the last 60."""
    assert start_of(GRID, stored(plain_thread(200))) == 140


@pytest.mark.parametrize("stride", [2, 20])
def test_load_starts_with_user(stride: int) -> None:
    """load-starts-with-user: the window opens with a user message, at m17 when the stride is 2."""
    grid = dataclasses.replace(GRID, stride=stride)

    assert start_of(grid, stored(plain_thread(75))) == {2: 16, 20: 20}[stride]


def test_token_line_moves_the_start_of_long_messages() -> None:
    """The window holds no more tokens than the span, though there are few messages."""
    messages = stored(plain_thread(20, "w " * 97))  # 100 tokens each
    grid = Grid(60, 20, token_span=1000, token_step=300, reach=40)

    assert start_of(grid, messages) == 12


def test_one_exchange_too_long_for_the_window_stays_whole() -> None:
    """Where no exchange begins late enough the window starts with the last one."""
    steps = [m for n in range(50) for m in (calling([f"c{n}"]), result(f"c{n}", "ok"))]
    messages = stored([*plain_thread(4), user("import all"), *steps])

    assert start_of(GRID, messages) == 4


@pytest.mark.parametrize(("read", "start"), [(60, 140), (70, 140), (59, None), (200, 140)])
def test_too_little_read_is_said(read: int, start: int | None) -> None:
    """A start that lies before what was read cannot be told from it."""
    assert start_of(GRID, stored(plain_thread(200)), read=read) == start


def test_no_exchange_in_what_was_read() -> None:
    """The middle of one long exchange does not show where it begins."""
    steps = [m for n in range(50) for m in (calling([f"c{n}"]), result(f"c{n}", "ok"))]
    messages = stored([*plain_thread(4), user("import all"), *steps])

    assert start_of(GRID, messages, read=90) is None


def test_nothing_stored() -> None:
    """An empty thread has an empty window."""
    assert (start_of(GRID, []) or 0) == 0


@unhurried
@given(threads(max_size=30), st.integers(1, 12), st.integers(5, 300))
def test_window_holds_no_more_than_asked(thread: list[Body], window: int, span: int) -> None:
    """A window is within both spans, and whole exchanges, unless one exchange alone is not."""
    grid = Grid(window, default_stride(window), span, max(span // 3, 1))
    messages = stored(thread)
    start = start_of(grid, messages) or 0
    inside = messages[start:]
    last = exchange_starts(thread)[-1] if thread else 0

    assert start in {0, *exchange_starts(thread)}
    if start != last:
        assert len(inside) <= window
        assert sum(message.tokens for message in inside) <= span


def test_start_moves_at_most_once_a_stride() -> None:
    """Over 200 turns of two messages the start stays for ten turns, then moves by twenty."""
    thread = stored(plain_thread(400))
    starts = [start_of(GRID, thread[: 2 * turns]) or 0 for turns in range(1, 201)]
    moves = [turns for turns, (old, new) in enumerate(itertools.pairwise(starts)) if new != old]

    assert starts == sorted(starts)
    assert all(later - earlier >= 10 for earlier, later in itertools.pairwise(moves))


def test_no_summary_while_all_fits() -> None:
    """A short thread needs none."""
    assert plan(stored(plain_thread(40))) == WindowPlan(0, None, gap=False, state="none")


def test_fresh_summary_at_the_start() -> None:
    """Of two pointers the one at the window's start is taken, not the one built ahead."""
    found = plan(stored(plain_thread(200)), pointer(160), pointer(140))

    assert found == WindowPlan(140, pointer(140), gap=False, state="fresh")


def test_stale_summary_is_reached_back_to() -> None:
    """A summary two strides behind is kept, and the window begins where it ends."""
    found = plan(stored(plain_thread(200)), pointer(100))

    assert found == WindowPlan(100, pointer(100), gap=False, state="stale", ahead=140)


def test_without_summary_the_window_reaches_back_to_the_beginning() -> None:
    """Within two strides of the beginning nothing needs to be summarised."""
    found = plan(stored(plain_thread(90)))

    assert found == WindowPlan(0, None, gap=False, state="none", ahead=40)


def test_gap_beyond_two_strides() -> None:
    """Further back than two strides the gap is to be filled, and the state is fresh then."""
    thread = stored(plain_thread(200))

    assert plan(thread, pointer(98)) == WindowPlan(140, pointer(98), gap=True, state="fresh")
    assert plan(thread) == WindowPlan(140, None, gap=True, state="fresh")


def test_gap_where_the_tokens_would_not_fit() -> None:
    """Reaching back over more tokens than the span would only be trimmed again: a hole."""
    grid = dataclasses.replace(GRID, token_span=90 * 5, token_step=150)
    found = plan(stored(plain_thread(200)), pointer(100), grid=grid)

    assert found is not None
    assert (found.start, found.gap) == (140, True)


@pytest.mark.parametrize(
    ("unsaved", "start"), [(0, 0), (249, 0), (251, 20), (349, 20), (351, 40), (10_000, 98)]
)
def test_a_long_current_message_moves_the_start_as_its_save_will(unsaved: int, start: int) -> None:
    """What it costs over its room counts to the line; the last exchange stays whatever it costs."""
    grid = dataclasses.replace(GRID, window=1000, token_span=750, token_step=100)
    found = plan(stored(plain_thread(100)), pointer(20), pointer(40), grid=grid, unsaved=unsaved)

    assert found is not None
    assert found.start == start


def test_a_long_current_message_leaves_no_room_to_reach_back() -> None:
    """A window that its message would not let fit is not stretched: the trim would leave a hole."""
    grid = dataclasses.replace(GRID, token_span=90 * 5, token_step=150)
    thread = stored(plain_thread(100))
    near, far = (plan(thread, pointer(20), grid=grid, unsaved=unsaved) for unsaved in (0, 100))

    assert near is not None
    assert (near.start, near.state) == (20, "stale")
    assert far is not None
    assert far.gap


def test_pointer_of_another_branch_is_not_used() -> None:
    """A pointer whose turn is not on the chain that was read belongs to another branch."""
    other = Pointer("0000000140-other", 140, 700)

    assert plan(stored(plain_thread(200)), other, pointer(120)) == WindowPlan(
        120, pointer(120), gap=False, state="stale", ahead=140
    )


def test_pointer_at_the_edge_of_what_was_read() -> None:
    """The parent of the oldest turn that was read is on the chain; another one there is not."""
    thread = stored(plain_thread(200))
    other = Pointer("0000000140-other", 140, 700)

    assert plan(thread, pointer(140), read=60) == WindowPlan(
        140, pointer(140), gap=False, state="fresh"
    )
    assert plan(thread, other, read=60) == WindowPlan(140, None, gap=True, state="fresh")


def test_plan_asks_for_more() -> None:
    """Neither the start nor the stale summary's end may lie before what was read."""
    thread = stored(plain_thread(200))

    assert plan(thread, read=30) is None
    assert plan(thread, pointer(110), read=70) is None


@pytest.mark.parametrize(
    ("position", "pointers", "due"),
    [
        (40, [], False),
        (50, [], False),
        (51, [], True),
        (62, [pointer(20)], False),
        (71, [pointer(20)], True),
        (71, [pointer(40), pointer(20)], False),
    ],
)
def test_due_half_a_stride_ahead(position: int, pointers: list[Pointer], due: bool) -> None:
    """A summary is due when none stands where the window will begin ten messages on."""
    assert is_due(GRID, position=position, tokens=0, pointers=pointers) is due


def test_due_by_tokens() -> None:
    """Few but long messages make one due as well."""
    reached = {"position": 10, "tokens": 960_000}

    assert is_due(GRID, **reached, pointers=[])
    assert not is_due(GRID, **reached, pointers=[pointer(4, tokens=100_000)])


@pytest.mark.parametrize(
    ("pointers", "state"), [([], "none"), ([pointer(20)], "stale"), ([pointer(40)], "fresh")]
)
def test_summary_state(pointers: list[Pointer], state: str) -> None:
    """The registry alone tells whether a summary reaches where the window begins."""
    head = plan_registry(100, pointers)

    assert summary_state(GRID, head) == state


@pytest.mark.parametrize(("number", "needed"), [(40, (0, 0)), (52, (0, 20)), (75, (20, 40))])
def test_boundaries_needed(number: int, needed: tuple[int, int]) -> None:
    """The one needed now and the one half a stride ahead, both at the ends of exchanges."""
    messages = stored(plain_thread(number))
    spent = sum(message.tokens for message in messages)

    assert boundaries_needed(GRID, messages, position=number, tokens=spent) == needed


def test_boundaries_at_or_before_what_was_read_are_not_needed() -> None:
    """Read from the newest summary on, what it covers already is not asked for again."""
    messages = stored(plain_thread(75))[40:]

    assert boundaries_needed(GRID, messages, position=75, tokens=75 * 5) == (0, 40)


@unhurried
@given(threads(max_size=30), st.integers(2, 12), st.integers(5, 300))
def test_due_never_misses(thread: list[Body], window: int, span: int) -> None:
    """Whenever a boundary is needed beyond the newest summary, the cheap test says so too."""
    grid = Grid(window, default_stride(window), span, max(span // 3, 1))
    messages = stored(thread)
    spent = sum(message.tokens for message in messages)
    reached = {"position": len(messages), "tokens": spent}
    _, ahead = boundaries_needed(grid, messages, **reached)
    short = [at for at in (0, *exchange_starts(thread)) if at < ahead]
    pointers = [pointer(at, sum(m.tokens for m in messages[:at])) for at in short[-1:]]

    assert not ahead or is_due(grid, **reached, pointers=[p for p in pointers if p.position])


@pytest.mark.parametrize(
    ("total", "options"),
    [
        (62, LoadOptions(window=60, stride=2)),
        (70, LoadOptions(window=60, stride=6)),
        (10, LoadOptions(window=4, stride=4)),
        (120, LoadOptions(window=90)),
    ],
)
def test_a_grid_of_its_own_is_never_reached_back_from(total: int, options: LoadOptions) -> None:
    """No build puts a summary on a request's own grid, so what lies before its window is a gap."""
    grid, _ = grid_for(Policy(), options)
    found = plan(stored(plain_thread(total)), grid=grid)

    assert found is not None
    assert found.gap
    assert 0 < total - found.start <= grid.window
