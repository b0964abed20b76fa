"""Prometheus histograms as values: add them, subtract two moments, ask for the mean and for where a quantile lies.

Counts in buckets say between which two bounds a value lay and no more, so a quantile is a range and is never
interpolated. The mean is exact, because the sum is. Observations are taken to be zero or more, as times and sizes are.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Range:
    """A value above `low` and at most `high`, in the unit of the histogram. `high` None: no bucket says how large."""

    low: float
    high: float | None


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations counted in buckets, since the server started or within a window.

    Bucket i holds the values above `le[i - 1]` and at most `le[i]`; the last, one more than there are bounds, holds
    those above every bound (Prometheus calls it +Inf). Raises ValueError for bounds that are not finite and ascending,
    for a number of counts other than len(le) + 1, and for a count below 0 or NaN.
    """

    le: tuple[float, ...]  # finite upper bounds, ascending
    n: tuple[float, ...]  # observations in each bucket, not cumulative
    sum: float  # of the observed values; NaN when not known

    def __post_init__(self) -> None:
        if len(self.n) != len(self.le) + 1:
            raise ValueError(f"{len(self.le)} bounds need {len(self.le) + 1} counts, not {len(self.n)}")
        if not all(map(math.isfinite, self.le)) or any(a >= b for a, b in zip(self.le, self.le[1:], strict=False)):
            raise ValueError(f"bucket bounds must be finite and ascending: {self.le}")
        if not all(n >= 0 for n in self.n):
            raise ValueError(f"a bucket holds 0 observations or more: {self.n}")

    @property
    def count(self) -> float:
        """How many values were observed."""
        return sum(self.n)

    @property
    def mean(self) -> float | None:
        """The exact mean; None without observations or without a known sum."""
        count = self.count
        mean = self.sum / count if count > 0 else math.nan
        return mean if math.isfinite(mean) else None

    def add(self, other: "Histogram") -> "Histogram":
        """The observations of both, as of two engines. Raises ValueError when the bounds differ."""
        self._require_same_bounds(other)
        return Histogram(self.le, tuple(a + b for a, b in zip(self.n, other.n, strict=True)), self.sum + other.sum)

    def subtract(self, earlier: "Histogram") -> "Histogram | None":
        """What was observed since `earlier`, of the same series. Raises ValueError when the bounds differ.

        None when the count fell: the server restarted, and what happened between is not known. A single bucket that
        fell while the count did not comes from a page that is no atomic snapshot, and is taken as 0. A sum that fell
        is not known (NaN).
        """
        self._require_same_bounds(earlier)
        if self.count < earlier.count:
            return None
        delta = self.sum - earlier.sum
        n = tuple(max(0.0, now - then) for now, then in zip(self.n, earlier.n, strict=True))
        return Histogram(self.le, n, math.nan if delta < 0 else delta)

    def quantile(self, q: float) -> Range | None:
        """The bucket that holds the q-quantile, q from 0 to 1; None without observations.

        Nearest rank: the quantile is the smallest observed value with at least ceil(q * count) observations at or
        below it (the smallest of all for q = 0). The first bucket begins at 0, or without end below when its bound is
        not above 0. Raises ValueError for a q outside 0 to 1.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile lies between 0 and 1, not {q}")
        at_or_below = list(accumulate(self.n))
        count = at_or_below[-1]
        if not 0 < count < math.inf:
            return None
        # In floats 0.07 * 100 is a little over 7, and would be rank 8.
        rank = min(max(1, math.ceil(Fraction(str(q)) * Fraction(count))), count)
        bucket = bisect_left(at_or_below, rank)
        high = self.le[bucket] if bucket < len(self.le) else None
        if bucket > 0:
            return Range(self.le[bucket - 1], high)
        return Range(0.0 if high is None or high > 0 else -math.inf, high)

    def _require_same_bounds(self, other: "Histogram") -> None:
        if self.le != other.le:
            raise ValueError(f"histograms with different bounds do not combine: {self.le} and {other.le}")


def from_cumulative(le: Iterable[float], cumulative: Sequence[float], sum: float) -> Histogram:
    """Make a histogram of the counts on a Prometheus page, where each bucket includes all below it.

    `le` are the finite bounds, ascending; `cumulative` has one count more, the last being that of +Inf. A count lower
    than one before it (a page is no atomic snapshot) adds nothing. Raises ValueError as Histogram does.
    """
    n: list[float] = []
    below = 0.0
    for count in cumulative:
        n.append(max(0.0, count - below))
        below = max(below, count)
    return Histogram(tuple(le), tuple(n), sum)
