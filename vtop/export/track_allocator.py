"""Lanes for things that overlap in time: each gets the lowest lane that is free when it begins."""

from __future__ import annotations

import heapq


class TrackAllocator:
    def __init__(self) -> None:
        self.count = 0
        self._free: list[int] = []
        self._free_from_s: list[float] = []  # by lane

    def take(self, begin_s: float) -> int:
        """A lane that nothing is on from `begin_s` on: the lowest, or a new one."""
        busy: list[int] = []
        track: int | None = None
        while self._free and track is None:
            lowest = heapq.heappop(self._free)
            if self._free_from_s[lowest] <= begin_s:
                track = lowest
            else:
                busy.append(lowest)
        for one in busy:
            heapq.heappush(self._free, one)
        if track is None:
            track, self.count = self.count, self.count + 1
            self._free_from_s.append(0.0)
        return track

    def free(self, track: int, end_s: float) -> None:
        self._free_from_s[track] = end_s
        heapq.heappush(self._free, track)
