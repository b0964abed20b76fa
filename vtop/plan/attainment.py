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

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from vtop.engine.runs.measured import Bounds
from vtop.samples import half_of_mean
from vtop.session.load.request_latency import RequestLatency

ERROR, TIMEOUT, OPEN = "error", "timeout", "open"
BOUNDS: Final = ("ttft", "tpot", "e2e")
CONFIDENCE: Final = 0.95  # of the interval of the mean over runs


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
        interval_ratio=half_of_mean(ratios, CONFIDENCE),
    )
