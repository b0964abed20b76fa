"""What several whole runs say together of a service level.

    floor (lowest of N) = the least attainment of N runs                       a rule fixed beforehand
    long-run attainment = mean over the runs, with Student's interval          a run is one observation

Requests of one run wait on one another, so they are no independent observations, and no interval is made of them. The
floor falls with more runs and with shorter ones, so it never goes without both numbers; it is no confidence bound. What
one run attained: session/load/attainment.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from vtop.samples import half_of_mean

CONFIDENCE: Final = 0.95  # of the interval of the mean over runs


@dataclass(frozen=True, slots=True)
class Runs:
    """N whole runs of about n requests each, by two rules that are never mixed."""

    runs: int
    requests_per_run: int
    floor_ratio: float  # the least
    highest_ratio: float
    mean_ratio: float
    interval_ratio: float | None  # half of the 95 % interval of the mean; None of one run

    def floor_name(self) -> str:
        """The rule with both of its numbers, as it is to stand beside the figure."""
        return f"lowest of {self.runs} runs of {self.requests_per_run:,} requests"


def together(ratios: Sequence[float], requests_per_run: int) -> Runs:
    """Runs by their attainments; there is at least one."""
    return Runs(
        runs=len(ratios),
        requests_per_run=requests_per_run,
        floor_ratio=min(ratios),
        highest_ratio=max(ratios),
        mean_ratio=fmean(ratios),
        interval_ratio=half_of_mean(ratios, CONFIDENCE),
    )
