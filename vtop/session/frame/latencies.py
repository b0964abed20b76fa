"""Latencies in a frame: the server's histograms, and which percentile of ITL shows preemptions."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.metrics.histogram import Range
from vtop.session.frame.vocabulary import Cohort


@dataclass(frozen=True, slots=True, eq=False)
class Latency:
    """One latency over the window: the exact mean, and the bucket that each percentile lies in."""

    name: str
    mean_s: float | None
    p50: Range | None
    p90: Range | None
    p99: Range | None
    n: float
    cohort: Cohort
    p999: Range | None = None
    p9999: Range | None = None  # None for too few: its bucket would be that of the longest
    p95: Range | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """Which percentile of ITL could show a preemption at all (tail.py)."""

    samples: float = 0.0
    touched: float = 0.0  # one gap a preemption
    percentile: float | None = None  # e.g. 99.99: the first of 50, 90, 99, 99.9 … above which the touched ones lie
    sentence: str | None = None
