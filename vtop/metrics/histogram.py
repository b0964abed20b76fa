"""Prometheus histograms as values: add them, ask for the mean and for where a quantile lies.

Counts in buckets say between which two bounds a value lay and no more, so a quantile is a range and is never
interpolated. The mean is exact, because the sum is. Observations are taken to be zero or more, as times and sizes are.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate

from vtop.samples import nearest_rank


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

    def quantile(self, q: float) -> Range | None:
        """The bucket that holds the q-quantile, q from 0 to 1; None without observations.

        By nearest rank (`vtop.samples`). The first bucket begins at 0, or without end below when its bound is
        not above 0. Raises ValueError for a q outside 0 to 1.
        """
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile lies between 0 and 1, not {q}")
        at_or_below = list(accumulate(self.n))
        count = at_or_below[-1]
        if not 0 < count < math.inf:
            return None
        rank = min(nearest_rank(q, count), count)
        bucket = bisect_left(at_or_below, rank)
        high = self.le[bucket] if bucket < len(self.le) else None
        if bucket > 0:
            return Range(self.le[bucket - 1], high)
        return Range(0.0 if high is None or high > 0 else -math.inf, high)

    def _require_same_bounds(self, other: "Histogram") -> None:
        if self.le != other.le:
            raise ValueError(f"histograms with different bounds do not combine: {self.le} and {other.le}")
