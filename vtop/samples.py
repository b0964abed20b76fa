"""What n observations tell: which of them a percentile is, how many it needs, and how wide the interval of a mean is.

A percentile p of n observations is meant as a bound: "p of all such requests take no longer". Even the longest of all n
is one only if at least one of them lies above the true percentile. None does with probability p^n, so with confidence c

    1 - p^n >= c, which is n >= ln(1 - c) / ln(p)

With c = 99 %: 44 for p90, 90 for p95, 459 for p99, 4,603 for p99.9 (MLPerf LoadGen's early stopping with no tolerance
and no failure, `loadgen/early_stopping.cc`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from statistics import stdev

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


def half_of_mean(values: Sequence[float], confidence: float) -> float | None:
    """Half of the two-sided interval of the mean of independent observations; None of fewer than two."""
    if len(values) < 2:
        return None
    return student(len(values) - 1, confidence) * stdev(values) / math.sqrt(len(values))


@lru_cache(maxsize=256)
def student(df: int, confidence: float) -> float:
    """The t that |T| stays below with so much confidence, for so many degrees of freedom."""
    low, high = 0.0, 1.0
    while _within(high, df) < confidence:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, df) < confidence else (low, middle)
    return high


def _within(t: float, df: int) -> float:
    """P(|T| < t). Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(df))
    cos2 = math.cos(angle) ** 2
    odd = df % 2
    term = total = 1.0
    for k in range(3 if odd else 2, df, 2):
        term *= cos2 * (k - 1) / k
        total += term
    if not odd:
        return math.sin(angle) * total
    if df == 1:
        return 2 * angle / math.pi
    return 2 / math.pi * (angle + math.sin(angle) * math.cos(angle) * total)
