"""All tables of a recording at once, for a format that keeps tables: one pass over the lines, then over the session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, Protocol

from vtop.export.files import refuse_existing, table_path
from vtop.export.tables.events import EVENTS, events
from vtop.export.tables.machines import ENGINES, GPUS, engines, gpus
from vtop.export.tables.phases import PHASES, phases
from vtop.export.tables.requests import REQUESTS, JoinedRequests
from vtop.export.tables.samples import SAMPLES, samples
from vtop.export.tables.table import Row, Table
from vtop.recording import AnyEvent, Recording
from vtop.session.session import Session, read

OF_SESSION: Final[Mapping[Table, Callable[[Session], Iterator[Row]]]] = {
    SAMPLES: samples,
    ENGINES: engines,
    GPUS: gpus,
    PHASES: phases,
    EVENTS: events,
}
TABLES: Final = (SAMPLES, REQUESTS, PHASES, EVENTS, ENGINES, GPUS)


class Sheet(Protocol):
    """A table being written."""

    def add(self, row: Row) -> None: ...


# opens a file for a table, closes it when it is complete
Opener = Callable[[Path, Table, bool], AbstractContextManager[Sheet]]


def write(recording: Recording, out: Path, *, folder: bool, force: bool, suffix: str, opener: Opener) -> list[Path]:
    """Write every table to a file of its own; says where. Raises VtopError."""
    paths = {table: table_path(out, folder, table.name, suffix) for table in TABLES}
    if not force:
        refuse_existing(list(paths.values()))
    with opener(paths[REQUESTS], REQUESTS, force) as sheet:
        together = JoinedRequests(recording.start)

        def watching(event: AnyEvent) -> None:
            request = together.take(event)
            if request is not None:
                sheet.add(together.row(request))

        session = read(recording, watching)
        for request in together.unended():
            sheet.add(together.row(request))
    for table, rows in OF_SESSION.items():
        with opener(paths[table], table, force) as sheet:
            for row in rows(session):
                sheet.add(row)
    return [paths[table] for table in TABLES]
