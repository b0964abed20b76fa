"""A recording opened for a notebook: the session, its frames, and its tables as plain records.

import vtop

run = vtop.open("sweep.jsonl.gz")
run.frame(150.0).requests.waiting.now
pandas.DataFrame(run.requests())
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

from vtop.export.tables.events import EVENTS, events
from vtop.export.tables.machines import ENGINES, GPUS, engines, gpus
from vtop.export.tables.phases import PHASES, phases
from vtop.export.tables.requests import REQUESTS, requests
from vtop.export.tables.samples import SAMPLES, samples
from vtop.export.tables.table import Cell
from vtop.recording import AnyEvent, FileRecording, Start, events_of
from vtop.session.frame.frame import Frame, View
from vtop.session.session import Session, read

Record = dict[str, Cell]


class OpenedRecording:
    """A recording read to the end that it had when it was opened.

    The tables are lists of dicts with the columns of docs/export.md; None is not known, and never 0.
    """

    def __init__(self, path: Path) -> None:
        """Raises VtopError for a file that is no recording."""
        self.path = path
        recording = FileRecording(path)
        try:
            self.session: Session = read(recording)
        finally:
            recording.close()

    def __repr__(self) -> str:
        return f"<recording {self.path}: {self.end_s:.1f} s, {len(self.session.servers)} servers>"

    @property
    def start(self) -> Start:
        """Its first line: when, by whom, which servers."""
        return self.session.start

    @property
    def end_s(self) -> float:
        """Its length in seconds."""
        return self.session.end_s

    def frame(self, at_s: float | None = None, window_s: float = 300.0) -> Frame:
        """All that the screen shows at an instant (the end when None), as `vtop show --json` has it."""
        return self.session.frame(self.end_s if at_s is None else at_s, View(window_s=window_s))

    def samples(self) -> list[Record]:
        """A record for each scrape of a server."""
        return list(SAMPLES.records(samples(self.session)))

    def engines(self) -> list[Record]:
        """A record for each engine on each scrape."""
        return list(ENGINES.records(engines(self.session)))

    def gpus(self) -> list[Record]:
        """A record for each GPU in each reading."""
        return list(GPUS.records(gpus(self.session)))

    def phases(self) -> list[Record]:
        """A record for each phase of vtop's own load."""
        return list(PHASES.records(phases(self.session)))

    def events(self) -> list[Record]:
        """A record for each thing that happened."""
        return list(EVENTS.records(events(self.session)))

    def requests(self) -> list[Record]:
        """A record for each request of vtop's own load; reads the file again."""
        return list(REQUESTS.records(requests(self.start, self.lines())))

    def lines(self) -> Iterator[AnyEvent]:
        """The recording's own events, as docs/recording-format.md has them; reads the file again."""
        recording = FileRecording(self.path)
        try:
            for event in events_of(recording):
                if event.t > self.end_s:  # it has grown
                    break
                yield event
        finally:
            recording.close()


def open_recording(path: str | PathLike[str]) -> OpenedRecording:
    """Open a recording: .jsonl, .jsonl.gz or .jsonl.zst, also one that is still being written or was broken off."""
    return OpenedRecording(Path(path))
