"""The GPUs of several recordings as those of one host: each line of readings with the latest ones of the others.

A line tells of all GPUs there are, so a line of one recording alone would say that the GPUs of the others are gone.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from vtop.recording.events import GAP_INTERVALS, Gpu, GpuReading


class Devices:
    """`ends_s`: when each recording ends, on the common axis. A GPU keeps its index unless another has it."""

    def __init__(self, ends_s: Sequence[float], interval_s: float) -> None:
        self._ends_s = ends_s
        self._patience_s = GAP_INTERVALS * interval_s  # an older reading is not repeated
        self._latest: dict[int, Gpu] = {}  # by recording
        self._index: dict[str, int] = {}  # by uuid

    def with_others(self, recording: int, line: Gpu) -> Gpu | None:
        """The line with the readings of the others; None when another recording tells of the same GPUs."""
        self._latest[recording] = line
        own = {reading.uuid for reading in line.gpus}
        there, readings = set(own), list(line.gpus)
        for other, latest in self._latest.items():
            fresh = line.t - latest.t <= self._patience_s and line.t <= self._ends_s[other]
            if other == recording or not fresh:
                continue
            its = {reading.uuid for reading in latest.gpus}
            if other < recording and own and own <= its:
                return None
            readings += [reading for reading in latest.gpus if reading.uuid not in there]
            there |= its
        return msgspec.structs.replace(line, gpus=tuple(self._numbered(reading) for reading in readings))

    def _numbered(self, reading: GpuReading) -> GpuReading:
        index = self._index.get(reading.uuid)
        if index is None:
            taken = set(self._index.values())
            index = reading.index
            while index in taken:
                index += 1
            self._index[reading.uuid] = index
        return reading if index == reading.index else msgspec.structs.replace(reading, index=index)
