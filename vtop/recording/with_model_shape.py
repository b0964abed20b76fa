"""A recording in a file, with the model's shape that its reader knows and its writer could not read."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from vtop.recording.events import AnyEvent, Identity
from vtop.recording.recording import FileRecording


class ShapedRecording(FileRecording):
    """As FileRecording; from `know` on every server has the shape given, until one of its own is on record."""

    _shape: dict[str, int | str] | None = None
    _ahead: tuple[Identity, ...] = ()
    _told: frozenset[int] = frozenset()  # servers whose own shape is on record

    def know(self, shape: Mapping[str, int | str]) -> None:
        """To be called before anything is taken."""
        self._shape = dict(shape)
        self._ahead = tuple(
            Identity(t=0.0, server=number, shape=self._shape) for number in range(len(self.start.servers))
        )

    def take(self, limit: int = 1_000_000) -> list[AnyEvent]:
        if self._shape is None:
            return super().take(limit)
        ahead, self._ahead = self._ahead, ()
        return [*ahead, *(self._shaped(event) for event in super().take(limit))]

    def _shaped(self, event: AnyEvent) -> AnyEvent:
        if not isinstance(event, Identity):
            return event
        if event.shape is not None:
            self._told |= {event.server}
        if event.server in self._told:
            return event
        return msgspec.structs.replace(event, shape=self._shape)
