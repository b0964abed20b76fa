"""What a table of an export is: a name, and columns that say what stands in them.

docs/export.md is made of these declarations, and the rows follow them, so that neither can say what the other does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Cell = float | int | bool | str | tuple[int, ...] | None  # None: not known, and never 0
Row = Sequence[Cell]
Kind = Literal["number", "count", "yes/no", "text", "counts"]  # a count is a whole number; counts are several


@dataclass(frozen=True, slots=True)
class TableColumn:
    """Its name carries the unit: _s, _us, _bytes, _w, _j, _c, _mhz, _ratio, _per_s; _total grows and never falls."""

    name: str
    kind: Kind
    says: str


@dataclass(frozen=True, slots=True)
class TableLayout:
    name: str
    row: str  # what a row is
    columns: tuple[TableColumn, ...]

    @property
    def header(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def records(self, rows: Iterable[Row]) -> Iterator[dict[str, Cell]]:
        """The rows by the names of their columns."""
        header = self.header
        for row in rows:
            yield dict(zip(header, row, strict=True))
