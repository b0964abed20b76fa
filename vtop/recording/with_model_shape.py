"""A recording in a file, with what its reader knows beside it: the model's shape, and marks that were set later."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from vtop.recording.events import AnyEvent, Identity
from vtop.recording.marks_beside import interleaved, read_marks
from vtop.recording.recording import FileRecording


class ShapedRecording(FileRecording):
    """As FileRecording, with the marks of the file beside it.

    From `know` on every server has the shape given, until one of its own is on record.
    """

    _shape: dict[str, int | str] | None = None
    _ahead: tuple[Identity, ...] = ()
    _told: frozenset[int] = frozenset()  # servers whose own shape is on record

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._marks = read_marks(path)

    def know(self, shape: Mapping[str, int | str]) -> None:
        """To be called before anything is taken."""
        self._shape = dict(shape)
        self._ahead = tuple(
            Identity(t=0.0, server=number, shape=self._shape) for number in range(len(self.start.servers))
        )

    def again(self) -> ShapedRecording:
        other = ShapedRecording(self.path)
        if self._shape is not None:
            other.know(self._shape)
        return other

    def take(self, limit: int = 1_000_000) -> list[AnyEvent]:
        events = super().take(limit)
        if self._marks:
            events = list(interleaved(events, self._marks))
        if self._shape is None:
            return events
        ahead, self._ahead = self._ahead, ()
        return [*ahead, *map(self._shaped, events)]

    def _shaped(self, event: AnyEvent) -> AnyEvent:
        if not isinstance(event, Identity):
            return event
        if event.shape is not None:
            self._told |= {event.server}
        if event.server in self._told:
            return event
        return msgspec.structs.replace(event, shape=self._shape)
