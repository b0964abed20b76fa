"""Marks that a person sets while looking at a recording: in a file beside it, for the recording itself only grows.

run.jsonl has its marks in run.jsonl.marks, a line each in the recording's own format: `{"type":"mark","t":61.0,…}`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from vtop import small_file, xdg
from vtop.errors import VtopError
from vtop.recording.events import AnyEvent, Mark, decode, encode
from vtop.shipped import folder

LIMIT_BYTES = 1 << 20


def path_beside(recording: Path) -> Path:
    """Of a recording that came with vtop in the state folder: vtop's folder is no place for it."""
    name = f"{recording.name}.marks"
    if recording.resolve().parent == folder("recordings"):
        return xdg.state_folder() / "marks" / name
    return recording.with_name(name)


def read_marks(recording: Path) -> list[Mark]:
    """By their instant; none where there is no such file. A line that is no mark is left out."""
    marks = []
    with contextlib.suppress(OSError):
        for line in small_file.read_bytes(path_beside(recording), LIMIT_BYTES, patience_s=0.2).splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                if isinstance(event := decode(line), Mark) and event.t >= 0:
                    marks.append(event)
    return sorted(marks, key=lambda mark: mark.t)


def add_mark(recording: Path, mark: Mark) -> Path:
    """Appends it; the file that has it. Raises VtopError."""
    path = path_beside(recording)
    try:
        if not path.parent.exists():
            path.parent.mkdir(parents=True, mode=0o700)
        with small_file.appending(path) as file:
            file.write(encode(mark) + b"\n")
    except OSError as error:
        raise VtopError(f"{path}: cannot be written ({error.strerror}); the mark is gone with this screen") from error
    return path


def interleaved(events: Sequence[AnyEvent], marks: list[Mark]) -> Iterator[AnyEvent]:
    """The events with the marks between them, each before the first event that is later. Takes from `marks`."""
    for event in events:
        while marks and marks[0].t < event.t:
            yield marks.pop(0)
        yield event
