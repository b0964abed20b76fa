"""Service levels: which requests of a run kept them all, and what several whole runs say together.

    attainment of a run = requests that succeeded and kept every bound / requests
    floor (lowest of N) = the least attainment of N runs                       a rule fixed beforehand
    long-run attainment = mean over the runs, with Student's interval          a run is one observation

A request that failed, timed out or was still open at the end stands in the denominator. TPOT of an answer of one token
does not exist: it cannot break that bound, and where TPOT is the only bound such a request is judged by nothing, left
out and counted. A time equal to its bound keeps it. Requests of one run wait on one another, so they are no independent
observations, and no interval is made of them. The floor falls with more runs and with shorter ones, so it never goes
without both numbers; it is no confidence bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from vtop.engine.runs.measured import Bounds
from vtop.session.load.request_latency import RequestLatency

ERROR, TIMEOUT, OPEN = "error", "timeout", "open"
BOUNDS: Final = ("ttft", "tpot", "e2e")

# Student's t for a two-sided 95 % interval, by degrees of freedom
_T: Final = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attainment:
    """Of one run. by_bound: the share that kept one bound alone, of those that can be judged by it."""

    requests: int
    passed: int
    errors: int
    timeouts: int
    open: int
    undefined: int  # left out: TPOT was the only bound and the answer had one token
    by_bound: tuple[tuple[str, float], ...]

    @property
    def ratio(self) -> float | None:
        return self.passed / self.requests if self.requests else None


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


def attainment(outcomes: Iterable[RequestLatency | str], bounds: Bounds) -> Attainment:
    """outcomes: an answer, or how there was none: error, timeout, open."""
    answers: list[RequestLatency] = []
    failed = {ERROR: 0, TIMEOUT: 0, OPEN: 0}
    for one in outcomes:
        if isinstance(one, str):
            failed[one] += 1
        else:
            answers.append(one)
    only_tpot = set(bounds) == {"tpot"}
    judged = [one for one in answers if not only_tpot or one.tpot_s is not None]
    lost = sum(failed.values())
    by_bound = []
    for name in BOUNDS:
        bound = bounds.get(name)
        if bound is None:
            continue
        times = [value for one in answers if (value := one.judged_s[name]) is not None]
        if times or lost:
            by_bound.append((f"{name}_s", sum(value <= bound for value in times) / (len(times) + lost)))
    return Attainment(
        requests=len(judged) + lost,
        passed=sum(one.keeps(bounds) for one in judged),
        errors=failed[ERROR],
        timeouts=failed[TIMEOUT],
        open=failed[OPEN],
        undefined=len(answers) - len(judged),
        by_bound=tuple(by_bound),
    )


def together(ratios: Sequence[float], requests_per_run: int) -> Runs:
    """Runs by their attainments; there is at least one."""
    return Runs(
        runs=len(ratios),
        requests_per_run=requests_per_run,
        floor_ratio=min(ratios),
        highest_ratio=max(ratios),
        mean_ratio=fmean(ratios),
        interval_ratio=interval(ratios),
    )


def interval(values: Sequence[float]) -> float | None:
    """Half of the two-sided 95 % interval of the mean of independent observations."""
    if len(values) < 2:
        return None
    t = _T[len(values) - 2] if len(values) - 2 < len(_T) else 1.96 + 2.4 / (len(values) - 1)
    return t * stdev(values) / math.sqrt(len(values))


def nearest_rank(ordered: Sequence[float], share: float) -> float:
    """The smallest value that so many of all do not exceed. `ordered` is not empty."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
