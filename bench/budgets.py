"""The budgets of the design, held against what was measured; the table, and the picture."""

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Figures = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One budget: what it is about, the most (or least) it allows, what was measured."""

    what: str
    allowed: float
    measured: float
    least: bool = False
    unit: str = "x"

    @property
    def held(self) -> bool:
        """Whether the budget is held."""
        return self.measured >= self.allowed if self.least else self.measured <= self.allowed

    def row(self) -> str:
        """Return the budget as a line of a table."""
        sign = "at least" if self.least else "at most"
        by = "yes" if self.held else "**no**"
        allowed = f"{sign} {self.allowed:g}{self.unit}"
        return f"| {self.what} | {allowed} | {self.measured:.2f}{self.unit} | {by} |"


def verdicts(measured: Mapping[str, object]) -> list[Verdict]:
    """Return the verdicts that the measured parts allow."""
    found: list[Verdict] = []
    cells = measured.get("matrix")
    if isinstance(cells, Sequence):
        found += _of_matrix(cells)
    for name, build in _SINGLE.items():
        value = measured.get(name)
        if isinstance(value, int | float):
            found.append(build(value))
    return found


_SINGLE: Mapping[str, Callable[[float], Verdict]] = {
    "tail": lambda value: Verdict("load, p99 over p50 at half of saturation", 4, value),
    "full": lambda value: Verdict("load, full store over empty store", 1.3, value),
    "disk": lambda value: Verdict("bytes stored over bytes of text", 1.6, value),
    "memory": lambda value: Verdict("memory of a worker at the end", 200, value, unit=" MB"),
    "growth": lambda value: Verdict("memory, last tenth over second", 1.05, value),
    "start": lambda value: Verdict("start to ready", 2, value, unit=" s"),
}


def _of_matrix(cells: Iterable[Figures]) -> Iterable[Verdict]:
    by = {(cell["what"], cell["length"], cell["at_once"]): cell for cell in cells}
    for (what, length, at_once), cell in by.items():
        if what == "load" and at_once == 1 and length in {200, 20_000}:
            name = f"load p50, {length:,} messages, 1 at once"
            yield Verdict(name, 2.0, _number(cell["p50_over_floor"]))
        if what in {"load", "save"} and at_once == 16 and length == 200:
            name = f"{what} throughput, 16 at once"
            yield Verdict(name, 0.5, _number(cell["rate_over_floor"]), least=True)
    long, short = by.get(("load", 20_000, 1)), by.get(("load", 200, 1))
    if long and short:
        name = "load p50, 20,000 messages over 200"
        yield Verdict(name, 1.15, _p50(long) / _p50(short))


def table(found: Sequence[Verdict]) -> str:
    """Return the verdicts as a Markdown table."""
    head = ["| what | budget | measured | held |", "|---|---|---|---|"]
    return "\n".join([*head, *(verdict.row() for verdict in found)])


def matrix_table(cells: Iterable[Figures]) -> str:
    """Return the matrix as a Markdown table. Units: microseconds; requests a second."""
    lines = [
        "| what | messages | at once | p50 | floor | ratio | p99 | a second | floor | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells:
        ours, floor = cell["service"], cell["floor"]
        assert isinstance(ours, Mapping)
        assert isinstance(floor, Mapping)
        lines.append(
            f"| {cell['what']} | {cell['length']:,} | {cell['at_once']} | {ours['p50_us']:.0f} |"
            f" {floor['p50_us']:.0f} | **{cell['p50_over_floor']}** | {ours['p99_us']:.0f} |"
            f" {ours['per_second']:.0f} | {floor['per_second']:.0f} |"
            f" **{cell['rate_over_floor']}** |"
        )
    return "\n".join(lines)


def machine() -> str:
    """Return one line about where this ran."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line for line in lines if line.startswith("model name")]
    model = names[0].partition(":")[2].strip() if names else platform.processor()
    return f"{len(names)} cores of {model}, {platform.system()}, Python {platform.python_version()}"


def _p50(cell: Figures) -> float:
    service = cell["service"]
    assert isinstance(service, Mapping)
    return _number(service["p50_us"])


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)
