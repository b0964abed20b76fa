"""Percentiles: which of n observations one is, and how many it needs before it is worth being told.

A percentile p of n observations is meant as a bound: "p of all such requests take no longer". Even the longest of all n
is one only if at least one of them lies above the true percentile. None does with probability p^n, so with confidence c

    1 - p^n >= c, which is n >= ln(1 - c) / ln(p)

With c = 99 %: 44 for p90, 90 for p95, 459 for p99, 4,603 for p99.9 (MLPerf LoadGen's early stopping with no tolerance
and no failure, `loadgen/early_stopping.cc`).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

CONFIDENCE = 0.99


def nearest_rank(percentile: float, n: float) -> int:
    """Which of n values in ascending order is the percentile (0 to 1), from 1: the smallest with at least
    ceil(percentile * n) values at or below it, the first for 0. Exact: in floats 0.07 * 100 is a little over 7."""
    return min(max(1, math.ceil(_exact(percentile) * _whole(n))), max(1, math.ceil(n)))


@lru_cache(maxsize=256)
def _exact(value: float) -> Fraction:
    return Fraction(str(value))


def _whole(n: float) -> Fraction | int:
    return n if isinstance(n, int) else int(n) if n.is_integer() else Fraction(n)


def samples_needed(percentile: float) -> int:
    """The least number of observations for a percentile, which is between 0 and 1."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(percentile))
