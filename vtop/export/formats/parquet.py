"""Tables as Parquet, through pyarrow, a few thousand rows at a time."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from vtop.errors import VtopError
from vtop.export.files import new_file
from vtop.export.tables.table import Kind, Row, TableLayout
from vtop.export.tables.tables import write as write_tables
from vtop.recording import Recording

_ROWS_AT_ONCE = 8192
_TYPES: Final[dict[Kind, str]] = {"number": "float64", "count": "int64", "yes/no": "bool_", "text": "string"}


def write(recording: Recording, out: Path, *, folder: bool, force: bool) -> list[Path]:
    """Write the tables of a recording; says where. Raises VtopError, also where pyarrow is not there."""
    _pyarrow()
    return write_tables(recording, out, folder=folder, force=force, suffix=".parquet", opener=_open)


class ParquetSheet:
    def __init__(self, file: Any, table: TableLayout) -> None:
        arrow, parquet = _pyarrow()
        self._arrow = arrow
        self._schema = arrow.schema(
            [
                arrow.field(column.name, _type(arrow, column.kind), metadata={"says": column.says})
                for column in table.columns
            ]
        )
        self.writer = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[Row] = []

    def add(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) >= _ROWS_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        if not self._rows:
            return
        columns = [
            self._arrow.array(cells, type=field.type, from_pandas=False)
            for cells, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
        ]
        self.writer.write_batch(self._arrow.record_batch(columns, schema=self._schema))
        self._rows.clear()


@contextmanager
def _open(path: Path, table: TableLayout, force: bool) -> Iterator[ParquetSheet]:
    with new_file(path, force=force) as file:
        sheet = ParquetSheet(file, table)
        try:
            yield sheet
            sheet.flush()
        finally:
            sheet.writer.close()


def _type(arrow: Any, kind: Kind) -> Any:
    return arrow.list_(arrow.int32()) if kind == "counts" else getattr(arrow, _TYPES[kind])()


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise VtopError("parquet needs the package pyarrow: pip install 'vtop[parquet]'") from error
