"""How many observations a percentile needs before it is worth being told.

A percentile p of n observations is meant as a bound: "p of all such requests take no longer". Even the longest of all n
is one only if at least one of them lies above the true percentile. None does with probability p^n, so with confidence c

    1 - p^n >= c, which is n >= ln(1 - c) / ln(p)

With c = 99 %: 44 for p90, 90 for p95, 459 for p99, 4,603 for p99.9 (MLPerf LoadGen's early stopping with no tolerance
and no failure, `loadgen/early_stopping.cc`).
"""

from __future__ import annotations

import math

CONFIDENCE = 0.99


def samples_needed(percentile: float) -> int:
    """The least number of observations for a percentile, which is between 0 and 1."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(percentile))
