"""Where the window begins: on a grid, so that consecutive loads share their prefix byte for byte.

Messages and tokens each have a grid; the window starts at the first exchange that begins at or
after the later of the two lines. Summaries take their boundaries from the same grids.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.core.messages import begins_exchange
from app.core.model import (
    History,
    LoadOptions,
    Pointer,
    Policy,
    Registry,
    StoredMessage,
    SummaryState,
)

RESERVED_TOKENS = 300
"""Room kept beside window and summary for the marker and the current message (design, rule 2)."""

MESSAGE_TOKENS = 200
"""How much of that is for the current message; what it has beyond moves the window on at once.

Else the trim would make room for it: a beginning of its own for that one load, and a hole between
summary and window.
"""

STALE_STRIDES = 2
"""How far a window may reach back to a summary that is behind (design, rule 3)."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The lines a window may begin at.

    window, stride:         in messages.
    token_span, token_step: the same in tokens of the default encoding.
    reach:  how many messages the window may reach back to a summary that is behind. 0 on a grid of
        a request's own: no build will ever put a summary there, so it would reach back for ever.
    """

    window: int
    stride: int
    token_span: int
    token_step: int
    reach: int = 0


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """What a load sends word for word, and which summary stands before it.

    start:   messages before the window; always the end of an exchange (or 0).
    pointer: the durable summary to read, None for none.
    gap:     messages from the pointer to start must be summarised extractively before assembling,
             from the branch's beginning if the turns read for it do not show the pointer on it.
    state:   of the summary, once a gap is filled.
    ahead:   where the window would begin if it did not have to reach back; 0 where it does not.
    """

    start: int
    pointer: Pointer | None
    gap: bool
    state: SummaryState
    ahead: int = 0


def default_stride(window: int) -> int:
    """Return a third of the window, rounded down to even, at least 2. Units: messages."""
    return max(2, window // 3 // 2 * 2)


def grid_for(policy: Policy, options: LoadOptions) -> tuple[Grid, int | None]:
    """Choose a load's grid, and the exact cap if it asks for a smaller window without a stride.

    A smaller window keeps the deployment's grid, hence its summaries; what lies between is trimmed.
    Units: the cap is in messages.
    """
    span, step = _token_span(policy, policy.token_budget), _token_step(policy)
    if options.token_budget is not None and options.token_budget > policy.token_budget:
        # With the same step a bigger budget's line never lies later than a smaller one's.
        span = max(span, _token_span(policy, options.token_budget))
    window = policy.window if options.window is None else options.window
    stride = policy.stride if window == policy.window else default_stride(window)
    stride = stride if options.stride is None else options.stride
    deployments = (window, stride) == (policy.window, policy.stride)
    if deployments or (options.stride is None and window < policy.window):
        grid = Grid(policy.window, policy.stride, span, step, STALE_STRIDES * policy.stride)
        return grid, None if deployments else window
    return Grid(window, stride, span, step), None


def exchange_starts(bodies: Sequence[Mapping[str, object]]) -> list[int]:
    """Return the indices at which exchanges begin; the first message always begins one."""
    return [index for index, body in enumerate(bodies) if not index or begins_exchange(body)]


def thresholds(grid: Grid, *, position: int, tokens: int) -> tuple[int, int]:
    """Return the lines that a window must not begin before, in messages and in cumulative tokens.

    Shape: (s, t), each a multiple of its step, 0 while all of the branch fits.
    """
    return (
        _line(position, grid.window, grid.stride),
        _line(tokens, grid.token_span, grid.token_step),
    )


def window_start(
    grid: Grid,
    messages: Sequence[StoredMessage],
    *,
    position: int,
    tokens: int,
    unsaved: int = 0,
) -> int | None:
    """Return how many messages stand before the window.

    Shape: messages are the newest of the branch up to position, oldest first, maybe not all.
    Units: position in messages, tokens cumulative at its end; unsaved: tokens of what is sent
        beside the messages and the room kept for it.
    None:  what was read does not show the start; read further back.
    """
    lines = thresholds(grid, position=position, tokens=tokens + unsaved)
    return _first_begin(messages, position=position, tokens=tokens, lines=lines)


def plan_window(grid: Grid, history: History, *, unsaved: int = 0) -> WindowPlan | None:
    """Choose the window's start and the summary before it: fresh, stale, none, or a gap to fill.

    Units: unsaved, what the current message costs beyond MESSAGE_TOKENS. The save of its turn will
        cross the same token lines, so the start moves no more often, only earlier.
    Stale reaches back to the summary only while that is at most two strides and still fits the
    token span; else the trim would leave a hole that no summary covers.
    None: the turns that were read do not reach back far enough.
    """
    messages = history.messages
    first = history.position - len(messages)
    start = window_start(
        grid, messages, position=history.position, tokens=history.tokens, unsaved=unsaved
    )
    if start is None:
        return None
    pointer = _usable_pointer(history, first, start)
    covered, spent = (pointer.position, pointer.tokens) if pointer else (0, 0)
    if covered == start:
        return WindowPlan(start, pointer, gap=False, state="fresh" if pointer else "none")
    if start - covered > grid.reach or history.tokens + unsaved - spent > grid.token_span:
        return WindowPlan(start, pointer, gap=True, state="fresh")
    if first > covered:
        return None
    state: SummaryState = "stale" if pointer else "none"
    return WindowPlan(covered, pointer, gap=False, state=state, ahead=start)


def is_due(grid: Grid, *, position: int, tokens: int, pointers: Sequence[Pointer]) -> bool:
    """Tell cheaply whether no summary stands where the window will begin half a stride from now.

    May say yes once too often (at the end of one very long exchange), never no in error:
    `boundaries_needed` has the last word.
    """
    messages_ahead, tokens_ahead = _lines_ahead(grid, position, tokens)
    newest = max(pointers, key=lambda pointer: pointer.position, default=None)
    if newest is None:
        return messages_ahead > 0 or tokens_ahead > 0
    return newest.position < messages_ahead or newest.tokens < tokens_ahead


def summary_state(grid: Grid, registry: Registry) -> SummaryState:
    """Tell from the registry alone whether a summary stands where the window begins now."""
    if not registry.summaries:
        return "none"
    messages, tokens = thresholds(grid, position=registry.position, tokens=registry.tokens)
    reaching = (p for p in registry.summaries if p.position >= messages and p.tokens >= tokens)
    return "fresh" if any(reaching) else "stale"


def boundaries_needed(
    grid: Grid, messages: Sequence[StoredMessage], *, position: int, tokens: int
) -> tuple[int, int]:
    """Return the boundaries at which summaries must stand: now, and half a stride from now.

    Shape: (now, ahead) as positions, each the end of an exchange. 0: none is needed, or the one
        needed lies at or before what was read, so messages should reach back to the newest summary.
    """
    now = thresholds(grid, position=position, tokens=tokens)
    ahead = _lines_ahead(grid, position, tokens)
    return (
        _first_begin(messages, position=position, tokens=tokens, lines=now) or 0,
        _first_begin(messages, position=position, tokens=tokens, lines=ahead) or 0,
    )


def _line(reached: int, span: int, step: int) -> int:
    return -(-(reached - span) // step) * step if reached > span else 0


def _lines_ahead(grid: Grid, position: int, tokens: int) -> tuple[int, int]:
    return thresholds(
        grid, position=position + grid.stride // 2, tokens=tokens + grid.token_step // 2
    )


def _token_span(policy: Policy, token_budget: int) -> int:
    return max(token_budget - policy.summary_tokens - RESERVED_TOKENS, token_budget // 4, 1)


def _token_step(policy: Policy) -> int:
    return max(_token_span(policy, policy.token_budget) // 3, 1)


def _first_begin(
    messages: Sequence[StoredMessage], *, position: int, tokens: int, lines: tuple[int, int]
) -> int | None:
    first = position - len(messages)
    spent = tokens - sum(message.tokens for message in messages)
    if first > lines[0] and spent >= lines[1]:
        return None
    last = None
    for before, cumulative in _begins(messages, first, spent):
        if before >= lines[0] and cumulative >= lines[1]:
            return before
        last = before
    return last


def _begins(messages: Sequence[StoredMessage], first: int, spent: int) -> Iterator[tuple[int, int]]:
    """Yield, for each exchange that begins, the messages and the tokens before it."""
    for before, message in enumerate(messages, start=first):
        if not before or begins_exchange(message.body):
            yield before, spent
        spent += message.tokens


def _usable_pointer(history: History, first: int, start: int) -> Pointer | None:
    """Return the newest summary pointer at or before start that can be of this branch."""
    fitting = (p for p in history.registry.summaries if 0 < p.position <= start)
    candidates = sorted(fitting, key=lambda pointer: pointer.position, reverse=True)
    return next((p for p in candidates if _may_be_on_branch(history, first, p)), None)


def _may_be_on_branch(history: History, first: int, pointer: Pointer) -> bool:
    if pointer.position < first or not history.turns:
        # Further back than was read: far enough to be a gap, whose turns will tell.
        return True
    if pointer.position == first:
        return pointer.checkpoint_id == history.turns[0].parent_id
    return any(turn.checkpoint_id == pointer.checkpoint_id for turn in history.turns)
