"""A pile of durations, exact to the microsecond, that can be asked for any percentile.

Percentiles are by nearest rank over all that was observed, the failed ones as longer than everything. A percentile
that the pile is too small for is not given: below 459 observations nothing can be said about p99 with 99 %
confidence (MLPerf's early-stopping bound; p90 needs 44, p99.9 4,603).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

NEEDED = ((0.5, 1), (0.9, 44), (0.99, 459), (0.999, 4603), (0.9999, 46050))


class Spread:
    """Counts per microsecond. Adding is cheap; asking sorts what is new."""

    __slots__ = ("_counts", "_keys", "_sorted", "failed", "n", "total_us")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._keys: list[int] = []
        self._sorted = True
        self.n = 0  # observed, the failed ones not among them
        self.failed = 0
        self.total_us = 0

    def add(self, seconds: float, weight: int = 1) -> None:
        self.add_us(round(seconds * 1e6), weight)

    def add_us(self, us: int, weight: int = 1) -> None:
        known = self._counts.get(us)
        if known is None:
            self._keys.append(us)
            self._sorted = False
            known = 0
        self._counts[us] = known + weight
        self.n += weight
        self.total_us += us * weight

    def add_all_us(self, values: Iterable[int]) -> None:
        for us in values:
            self.add_us(us)

    @property
    def mean_s(self) -> float | None:
        return self.total_us / self.n / 1e6 if self.n else None

    def quantiles(self, asked: Iterable[float], *, however_few: bool = False) -> list[float | None]:
        """Seconds per asked quantile (ascending); inf where a failed one stands, None where n is too small."""
        if not self._sorted:
            self._keys.sort()
            self._sorted = True
        everyone = self.n + self.failed
        found: list[float | None] = []
        keys = iter(self._keys)
        below, us = 0, 0
        for q in asked:
            if everyone < (1 if however_few else needed(q)):
                found.append(None)
                continue
            rank = max(1, math.ceil(q * everyone - 1e-9))
            if rank > self.n:
                found.append(math.inf)
                continue
            while below < rank:
                us = next(keys)
                below += self._counts[us]
            found.append(us / 1e6)
        return found


def needed(q: float) -> int:
    """How many observations a percentile needs before it is given."""
    return max((n for known, n in NEEDED if q >= known - 1e-12), default=1)
