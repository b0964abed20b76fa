"""Tables as CSV: UTF-8, a header line, a point in numbers, an empty cell for what is not known."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from vtop import plain
from vtop.export.files import new_file
from vtop.export.tables.table import Cell, Row, TableLayout
from vtop.export.tables.tables import write as write_tables
from vtop.recording import Recording


def write(recording: Recording, out: Path, *, folder: bool, force: bool) -> list[Path]:
    """Write the tables of a recording; says where. Raises VtopError."""
    return write_tables(recording, out, folder=folder, force=force, suffix=".csv", opener=_open)


_FORMULA = tuple("=+-@")  # a spreadsheet would run such a text, which a server may have chosen


class CsvSheet:
    def __init__(self, file: IO[bytes], table: TableLayout) -> None:
        self.text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
        self._writer = csv.writer(self.text, lineterminator="\n")
        self._writer.writerow(table.header)
        # what the writer would not write as it is meant
        self._special = [
            place for place, column in enumerate(table.columns) if column.kind in ("yes/no", "counts", "text")
        ]

    def add(self, row: Row) -> None:
        cells = list(row)
        for place in self._special:
            cells[place] = _text(cells[place])
        self._writer.writerow(cells)


@contextmanager
def _open(path: Path, table: TableLayout, force: bool) -> Iterator[CsvSheet]:
    with new_file(path, force=force) as file:
        sheet = CsvSheet(file, table)
        yield sheet
        sheet.text.flush()
        sheet.text.detach()


def _text(cell: Cell) -> Cell:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, str):
        text = plain.line(cell)  # a line end within a cell is no line end to every reader
        return f"'{text}" if text.lstrip()[:1] in _FORMULA else text
    return " ".join(map(str, cell)) if isinstance(cell, tuple) else cell
