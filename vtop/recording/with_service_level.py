"""A recording in a file whose load is judged by other bounds than it was recorded with."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from vtop.recording.events import AnyEvent, Load
from vtop.recording.with_model_shape import ShapedRecording


class JudgedRecording(ShapedRecording):
    """As ShapedRecording; after `judge` every phase of vtop's own load has the bounds given, in place of its own."""

    _bounds: dict[str, float] | None = None

    def judge(self, bounds: Mapping[str, float]) -> None:
        """bounds: ttft, tpot, e2e, in seconds. To be called before anything is taken."""
        self._bounds = dict(bounds)

    def take(self, limit: int = 1_000_000) -> list[AnyEvent]:
        events = super().take(limit)
        if self._bounds is None:
            return events
        return [msgspec.structs.replace(one, slo=self._bounds) if isinstance(one, Load) else one for one in events]
