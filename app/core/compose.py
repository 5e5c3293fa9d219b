"""From everything that could be sent to the answer: trimmed, marked, rendered, accounted for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from app.core.dialects.neutral import Dialect
from app.core.exchanges import Entry, Exchange, Rules, place
from app.core.explanation import Stripped, StrippedMessage
from app.core.final_turn import fit_final_turn
from app.core.formats.format import Sections
from app.core.marker import marker_message, summary_message
from app.core.messages import is_injected, role_of, text_of
from app.core.model import Body, Context, Coverage, Summary, SummaryState, TokenSections
from app.core.opening import open_with_user
from app.core.trim import Costs, Kept, trim


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything that could be sent.

    window: exchanges before the final turn, oldest first.
    total:  messages that coverage accounts for.
    recap:  what a caller's own messages say of what came before them, as a load once put it in.
    """

    window: Sequence[Exchange]
    final: Exchange
    total: int
    pinned: Body | None = None
    summary: Summary | None = None
    state: SummaryState = "none"
    recap: Body | None = None
    warnings: tuple[Mapping[str, object], ...] = ()

    @property
    def told(self) -> Body | None:
        """The message that stands for what came before the window."""
        return summary_message(self.summary.text) if self.summary else self.recap


@dataclass(frozen=True, slots=True)
class Choice:
    """What of a draft is sent, as messages of the answer and as exchanges they came from."""

    kept: Kept
    window: Sequence[Exchange]
    final: Exchange
    sections: Sections

    @property
    def entries(self) -> Iterator[Entry]:
        """Yield the messages of the history that are sent, in their order."""
        for exchange in (*self.window, self.final):
            yield from exchange.entries


@dataclass(frozen=True, slots=True)
class Composed:
    """A context with what it was made from. stripped: what cleaning cut, message by message."""

    context: Context
    draft: Draft
    choice: Choice
    stripped: tuple[StrippedMessage, ...]


def draft_of(exchanges: Sequence[Exchange], *, total: int) -> Draft:
    """Return the draft of a history whose last exchange is the final turn."""
    if not exchanges:
        return Draft((), Exchange(), total)
    return Draft(exchanges[:-1], exchanges[-1], total)


def newest(exchanges: Sequence[Exchange], number: int) -> Sequence[Exchange]:
    """Return the last so many exchanges."""
    return exchanges[len(exchanges) - number :]


def costs_of(draft: Draft, rules: Rules) -> Costs:
    """Return what each section of the draft would cost."""
    marked = rules.marker and draft.final.entries
    return Costs(
        fixed=rules.format.reply_overhead + framed_cost(draft.pinned, rules),
        pinned=draft.pinned is not None,
        final=draft.final.cost,
        marker=framed_cost(marker_message(), rules) if marked else 0,
        summary=framed_cost(draft.told, rules),
        exchanges=[exchange.cost for exchange in draft.window],
    )


def compose(whole: Draft, rules: Rules) -> Composed:
    """Trim the draft to the budget and write it.

    Shape: an exchange with a missing value cannot be sent, nor can those before it: trimmed.
    """
    draft = replace(whole, window=sendable(whole.window))
    costs = costs_of(draft, rules)
    choice = _choose(draft, costs, rules)
    output = rules.format.render(choice.sections)
    tokens = _count(costs, choice, output, rules)
    stripped = tuple(_stripped(choice, rules))
    context = Context(
        output=output,
        summary=draft.summary if choice.kept.summary else None,
        summary_state=draft.state if choice.kept.summary else "none",
        coverage=_cover(draft, choice),
        tokens=tokens,
        warnings=tuple(_warnings(draft, choice, tokens, rules)),
        stripped=Stripped(
            rules.profile.version if rules.profile else None,
            len(stripped),
            sum(message.characters for message in stripped),
            sum(message.tokens for message in stripped),
        ),
    )
    return Composed(context, whole, choice, stripped)


def sendable(exchanges: Sequence[Exchange]) -> Sequence[Exchange]:
    """Return the exchanges behind the last one of which a value is missing."""
    barrier = max((i for i, exchange in enumerate(exchanges) if exchange.missing), default=-1)
    return exchanges[barrier + 1 :]


def _choose(draft: Draft, costs: Costs, rules: Rules) -> Choice:
    kept = trim(costs, rules.budget)
    window, final = newest(draft.window, kept.exchanges), draft.final
    if costs.least > rules.budget:
        allowed = rules.budget - (costs.least - costs.final)
        entries, notes = fit_final_turn(final.entries, allowed, rules)
        final = replace(final, entries=entries, warnings=(*final.warnings, *notes))
    if rules.format.opens_with_user:
        *window, final = open_with_user([*window, final], rules)
    # Where nothing of the final turn can be sent, or nothing before it, there is nothing to mark.
    before = draft.pinned or kept.summary or any(exchange.sent for exchange in window)
    kept = replace(kept, marker=kept.marker and bool(before) and bool(final.sent))
    sections = Sections(
        pinned=_framed(draft.pinned, rules),
        summary=_framed(draft.told if kept.summary else None, rules),
        window=tuple(body for exchange in window for body in exchange.sent),
        marker=_framed(marker_message() if kept.marker else None, rules),
        final=final.sent,
    )
    return Choice(kept, window, final, sections)


def _framed(body: Body | None, rules: Rules) -> Body | None:
    return rules.format.frame(body) if body else None


def framed_cost(body: Body | None, rules: Rules) -> int:
    """Return what a system message costs, 0 for none."""
    return rules.cost(rules.format.frame(body)) if body else 0


def _count(
    costs: Costs, choice: Choice, output: Mapping[str, object], rules: Rules
) -> TokenSections:
    summary = costs.summary if choice.kept.summary else 0
    window = sum(exchange.cost for exchange in choice.window)
    marker = costs.marker if choice.kept.marker else 0
    added = costs.fixed + summary + window + marker + choice.final.cost
    added -= rules.format.saved(choice.sections)
    total = rules.format.total(output, added, rules.count)
    return TokenSections(
        budget=rules.budget,
        total=total,
        summary=summary,
        window=window,
        marker=marker,
        message=choice.final.cost,
        encoding=rules.encoding,
        over_budget=total > rules.budget,
    )


def _stripped(choice: Choice, rules: Rules) -> Iterator[StrippedMessage]:
    for entry in choice.entries:
        if entry.cleaning and entry.sent:
            before, after = entry.cleaning
            cost = entry.cost if entry.body is after else _cost(after, entry.dialect, rules)
            yield StrippedMessage(
                entry.position or None,
                entry.message_id or None,
                characters=len(text_of(before)) - len(text_of(after)),
                tokens=_cost(before, entry.dialect, rules) - cost,
            )


def _cost(body: Body, dialect: Dialect, rules: Rules) -> int:
    if is_injected(body):
        return framed_cost(body, rules)
    return rules.cost_all(rules.format.translate(body, dialect).bodies)


def _cover(draft: Draft, choice: Choice) -> Coverage:
    summary = draft.summary if choice.kept.summary else None
    reaches, begins = (summary.boundary.position, summary.begins) if summary else (0, 0)
    window = sum(exchange.size for exchange in choice.window) + choice.final.size
    between = draft.total - reaches - window
    if between < 0:
        raise ValueError("the summary reaches into the window")
    return Coverage(
        total=draft.total,
        summarized=reaches - begins,
        window=window,
        trimmed=between + begins,
        from_position=draft.total - window + 1 if window else None,
    )


def _warnings(
    draft: Draft, choice: Choice, tokens: TokenSections, rules: Rules
) -> Iterator[Mapping[str, object]]:
    yield from draft.warnings
    for exchange in (*choice.window, choice.final):
        yield from exchange.warnings
        for entry in exchange.entries:
            yield from entry.warnings
    if draft.told and not choice.kept.summary:
        yield {
            "code": "summary-left-out",
            "detail": "the summary did not fit the token budget; what it covers counts as trimmed",
        }
    if tokens.over_budget:
        yield _over_budget(draft, choice, rules)


def _over_budget(draft: Draft, choice: Choice, rules: Rules) -> Mapping[str, object]:
    """Name the message that is too long: the largest of those that are never left out."""
    entries = list(choice.final.entries)
    if draft.pinned is not None:
        cost = framed_cost(draft.pinned, rules)
        entries.append(Entry(draft.pinned, "openai", (), cost))
    longest = max(entries, key=lambda entry: entry.cost, default=Entry({}, "openai", (), 0))
    return {
        "code": "over-budget",
        "detail": "what is never left out is over the token budget; this is its longest message",
        "role": role_of(longest.body) or None,
        "tokens": longest.cost,
        **place(longest.position, longest.message_id),
    }
