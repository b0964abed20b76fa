"""What cells of several tables are made of: percentiles, spans, signs; and a table with a phase a row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from vtop import units
from vtop.report.labels import best, percentile_words
from vtop.report.model import Phase, Report
from vtop.report.numbers import Numbers, Times
from vtop.report.render.document import Table

Cell = Callable[[Numbers, Numbers], str]  # of the whole phase, of its steady part (or the whole where there is none)
Columns = Sequence[tuple[str, Cell]]


def by_phase(title: str, report: Report, columns: Columns, notes: Sequence[str] = ()) -> Table | None:
    """A phase a row; a column of which nothing is known is left out, and a table without a column is none."""
    known = [(phase, phase.whole, phase.steady or phase.whole) for phase in report.phases if phase.whole is not None]
    cells = [(head, [cell(whole, steady) for _, whole, steady in known]) for head, cell in columns]
    kept = [(head, column) for head, column in cells if {*column} - {units.UNKNOWN}]
    if not kept:
        return None
    rows = zip((phase.label for phase, _, _ in known), *(column for _, column in kept), strict=True)
    return Table(title, ("phase", *(head for head, _ in kept)), tuple(rows), tuple(notes))


def of_phases(report: Report) -> list[tuple[Phase, Numbers]]:
    return [(phase, phase.whole) for phase in report.phases if phase.whole is not None]


def percentile(of: Numbers, name: str, quantile: str) -> str:
    return percentile_words(best(of, name, quantile))


def samples(of: Times | None) -> str:
    return units.count(of.n) if of is not None else units.UNKNOWN


def span(begin_s: float, end_s: float) -> str:
    return f"{units.clock(begin_s)}–{units.clock(end_s)}"


def times(ratio: float | None) -> str:
    """A ratio as so many times: 6.03 ×."""
    return units.UNKNOWN if ratio is None else f"{units.number(ratio)} ×"


def known_columns(table: Table) -> Table:
    """The same without the columns of which nothing is known."""
    kept = [at for at in range(len(table.head)) if at == 0 or {row[at] for row in table.rows} - {units.UNKNOWN}]
    rows = tuple(tuple(row[at] for at in kept) for row in table.rows)
    words = tuple(place for place, at in enumerate(kept) if at in table.words)
    return replace(table, head=tuple(table.head[at] for at in kept), rows=rows, words=words)


def signed(value: float | None) -> str:
    """A number with a minus that is one."""
    return units.UNKNOWN if value is None else units.number(value).replace("-", "−")


def points(ratio: float | None) -> str:
    """Points of a per cent, with their sign."""
    return units.UNKNOWN if ratio is None else f"{plus(ratio * 100)} pp"


def plus(value: float) -> str:
    """With its sign, one decimal; what rounds to nothing has none."""
    shown = f"{abs(value):.1f}"
    return shown if shown == "0.0" else f"{'+' if value > 0 else '−'}{shown}"
