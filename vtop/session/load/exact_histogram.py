"""A pile of durations, exact to the microsecond, that can be asked for any percentile.

Percentiles are by nearest rank over all that was observed, the failed ones as longer than everything. A percentile
that the pile is too small for is not given (`vtop.samples` says why); the median is no bound, and always is.

A pile of more than EXACT_UP_TO different durations keeps each to 1 in 8,192 (0.012 %) of itself instead, so that a day
of requests takes no more memory than an hour of them. Number, mean and those below 8.192 ms stay exact.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import accumulate, islice
from typing import Final

from vtop.samples import nearest_rank, samples_needed

MEDIAN = 0.5
EXACT_UP_TO: Final = 32_768  # different durations
_BITS: Final = 13  # that are kept of each in a larger pile


class ExactHistogram:
    """Counts per microsecond. Adding is cheap; asking sorts what is new."""

    __slots__ = ("_below", "_counts", "_exact", "_keys", "failed", "n", "total_us")

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._exact = True
        self._keys: list[int] = []  # in order, once asked for
        self._below: list[int] = []  # how many up to each of them
        self.n = 0  # observed, the failed ones not among them
        self.failed = 0
        self.total_us = 0

    def add(self, seconds: float, weight: int = 1) -> None:
        self.add_us(round(seconds * 1e6), weight)

    def add_us(self, us: int, weight: int = 1) -> None:
        self._counts[us if self._exact else _rounded(us)] += weight
        self.n += weight
        self.total_us += us * weight
        if self._exact and len(self._counts) > EXACT_UP_TO:
            self._round()

    def add_all_us(self, values: Collection[int]) -> None:
        self._counts.update(values if self._exact else map(_rounded, values))
        self.n += len(values)
        self.total_us += sum(values)
        if self._exact and len(self._counts) > EXACT_UP_TO:
            self._round()

    def _round(self) -> None:
        exact, self._counts, self._exact = self._counts, Counter(), False
        for us, count in exact.items():
            self._counts[_rounded(us)] += count
        self._keys, self._below = [], []

    @property
    def mean_s(self) -> float | None:
        return self.total_us / self.n / 1e6 if self.n else None

    def quantiles(self, asked: Iterable[float], *, however_few: bool = False) -> list[float | None]:
        """Seconds per asked quantile; inf where a failed one stands, None where n is too small."""
        everyone = self.n + self.failed
        found: list[float | None] = []
        for q in asked:
            if everyone < (1 if however_few else needed(q)):
                found.append(None)
                continue
            rank = nearest_rank(q, everyone)
            if rank > self.n:
                found.append(math.inf)
                continue
            keys, below = self._in_order()
            found.append(keys[bisect_left(below, rank)] / 1e6)
        return found

    def curve(self, most: int) -> list[tuple[float, float]]:
        """(seconds, share of all at or below), failed ones among all: at most so many points, evenly over the ranks,
        the least and the greatest among them."""
        everyone = self.n + self.failed
        keys, below = self._in_order()
        places: Iterable[int] = range(len(keys))
        if most < len(keys):
            places = {bisect_left(below, max(1, math.ceil(k * self.n / (most - 1)))) for k in range(most)}
        return [(keys[place] / 1e6, below[place] / everyone) for place in sorted(places)]

    def tail(self, most: int) -> list[tuple[float, float]]:
        """(seconds, share of all above), failed ones among all, down to the second longest: at most so many points,
        evenly over the logarithm of the share, for the rare long ones to be seen."""
        everyone = self.n + self.failed
        keys, below = self._in_order()
        if not everyone or len(keys) < 2:
            return []
        least = max(1, self.failed)
        above = (everyone * (least / everyone) ** (k / (most - 1)) for k in range(1, most))
        places = {bisect_left(below, max(1, math.ceil(everyone - one - 1e-9))) for one in above}
        shares = ((place, 1 - below[place] / everyone) for place in sorted(places) if place < len(below))
        return [(keys[place] / 1e6, share) for place, share in shares if share > 0]

    def _in_order(self) -> tuple[list[int], list[int]]:
        """The values in order, and how many there are up to each."""
        if not self._below or self._below[-1] != self.n:
            if (fresh := len(self._counts) - len(self._keys)) > 0:  # the latest in the dictionary
                self._keys.extend(islice(reversed(self._counts), fresh))
                self._keys.sort()  # of what is nearly in order it makes short work
            self._below = list(accumulate(map(self._counts.__getitem__, self._keys)))
        return self._keys, self._below


def _rounded(us: int) -> int:
    """The middle of those that begin with the same _BITS bits."""
    spare = us.bit_length() - _BITS
    return us if spare <= 0 else (us >> spare << spare) + (1 << (spare - 1))


def needed(q: float) -> int:
    """How many observations a percentile needs before it is given."""
    return samples_needed(q) if MEDIAN < q < 1 else 1
