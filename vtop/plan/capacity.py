"""The largest rate of arrivals that keeps a service level: a search that ends in a bracket, never in a point.

Two rules, never mixed, each fixed before the first run:

    floor      the lowest attainment of N runs of n requests is at least the target; a rate ends at its first run below
    long-run   the mean attainment over runs is, with Student's interval (a run is one observation)

The floor falls with more runs and with shorter ones: it is compared only at the same N, n and seeds. Each rate is PASS,
FAIL or UNDECIDED; an undecided one gets more runs, up to MOST_FACTOR x N, and never moves the bracket. Runs of a seed
share their gaps, lengths and prompts, scaled by the rate, so that neighbouring rates differ by load alone.

The search doubles from its first rate until one fails, or halves until one passes, then halves the bracket on a log
scale until fails / passes <= 1 + precision; around an undecided rate it goes on, on either side. At the end the passing
rate is held for one long run: a failure there makes it a failing rate, and the search goes on below.

Sources: aiperf's named ends, guidellm's `resolved`, MLPerf's confirmation of what was found; here by whole runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean, stdev
from typing import Final, Literal

from vtop.samples import half_of_mean
from vtop.session.load.attainment import Attainment

Verdict = Literal["pass", "fail", "undecided", "more"]  # more: it takes further runs to tell
End = Literal[
    "reached",
    "nothing passed",
    "nothing failed",
    "undecided",
    "deadline",
    "server changed",
    "client limited",
    "stopped",
]
RuleName = Literal["floor", "long-run"]

MOST_FACTOR: Final = 3  # so many times N runs at most for an undecided rate
LEAST_RUNS: Final = 4  # of the long-run rule, before a rate is judged
HOLD_FACTOR: Final = 4  # the long run at the end is so many times n

CONFIDENCE: Final = 0.99  # of the interval of a mean: several rates are judged, each several times


@dataclass(frozen=True, slots=True)
class Plan:
    """What is searched, fixed before the first run. Rates in requests/s; requests: measured, in each run."""

    rule: RuleName
    target_ratio: float
    runs: int
    requests: int
    seeds: tuple[int, ...]
    first_per_s: float = 1.0
    least_per_s: float = 0.01
    most_per_s: float = 10_000.0
    precision_ratio: float = 0.05
    hold: bool = True

    @property
    def name(self) -> str:
        """The rule with what it depends on, as it stands beside every figure of it."""
        if self.rule == "floor":
            return f"floor (lowest of {self.runs} runs of {self.requests:,} requests)"
        return f"long-run capacity (mean of {self.runs} or more runs of {self.requests:,} requests)"


@dataclass(frozen=True, slots=True)
class RunResult:
    """One whole run. why_not: why it is no evidence (a warm cache, a restarted server); such a run is not counted."""

    rate_per_s: float
    seed: int
    attained: Attainment
    achieved_per_s: float  # (requests - 1) / (last - first arrival)
    requests: int
    open_at_last: int | None = None  # asked and not answered when the last request came
    drain_s: float | None = None  # from the last request that came to the last answer
    preemptions: float | None = None
    waiting_peak: float | None = None
    kv_peak_ratio: float | None = None
    why_not: str | None = None
    hold: bool = False


@dataclass(frozen=True, slots=True)
class Next:
    """The run to make."""

    rate_per_s: float
    seed: int
    requests: int
    hold: bool = False


@dataclass(frozen=True, slots=True)
class RateResult:
    """A rate as its runs judge it. half_ratio: half of the 99 % interval of the mean; None of fewer than two runs."""

    rate_per_s: float
    verdict: Verdict
    runs: tuple[RunResult, ...]
    lowest_ratio: float | None
    mean_ratio: float | None
    half_ratio: float | None


@dataclass(frozen=True, slots=True)
class Bracket:
    """passes: the largest rate that passes, all below it passing; fails: the smallest that fails. None: there is none.

    Undecided rates lie between them. monotone: False where a rate passed above one that failed, which widened it.
    """

    passes_per_s: float | None
    fails_per_s: float | None
    undecided_per_s: tuple[float, ...]
    monotone: bool
    end: End | None  # None: the search goes on


@dataclass(slots=True)
class Search:
    """Asks for run after run (`next`), is told of each (`tell`), and holds what is known so far (`bracket`)."""

    plan: Plan
    results: dict[float, list[RunResult]] = field(default_factory=dict)
    held: dict[float, RunResult] = field(default_factory=dict)
    refused: list[RunResult] = field(default_factory=list)
    end: End | None = None

    def tell(self, result: RunResult) -> None:
        if result.why_not is not None:
            self.refused.append(result)
        elif result.hold:
            self.held[result.rate_per_s] = result
        else:
            self.results.setdefault(result.rate_per_s, []).append(result)

    def next(self) -> Next | None:
        """The run to make; None where the search is at its end."""
        if self.end is not None:
            return None
        rate = self._rate()
        if not isinstance(rate, float):
            passes = self.bracket().passes_per_s
            if self.plan.hold and passes is not None and passes not in self.held:
                return Next(passes, self.plan.seeds[0] + 1_000_000, HOLD_FACTOR * self.plan.requests, hold=True)
            self.end = rate
            return None
        made = len(self.results.get(rate, ()))
        seeds = self.plan.seeds
        seed = seeds[made] if made < len(seeds) else seeds[-1] + 1 + made - len(seeds)
        return Next(rate, seed, self.plan.requests)

    def verdict(self, rate: float) -> Verdict:
        """Of a rate by its runs so far, and by its long run where there was one."""
        if (held := self.held.get(rate)) is not None and (held.attained.ratio or 0.0) < self.plan.target_ratio:
            return "fail"
        ratios = [one.attained.ratio for one in self.results.get(rate, ())]
        known = [one for one in ratios if one is not None]
        return (_floor if self.plan.rule == "floor" else _long_run)(self.plan, known)

    def rates(self) -> tuple[RateResult, ...]:
        """Every rate tried, the lowest first."""
        found = []
        for rate in sorted(self.results):
            runs = self.results[rate]
            ratios = [one.attained.ratio for one in runs if one.attained.ratio is not None]
            found.append(
                RateResult(
                    rate,
                    self.verdict(rate),
                    tuple(runs),
                    min(ratios, default=None),
                    fmean(ratios) if ratios else None,
                    half_of_mean(ratios, CONFIDENCE),
                )
            )
        return tuple(found)

    def bracket(self) -> Bracket:
        by = {rate: self.verdict(rate) for rate in self.results}
        failed = sorted(rate for rate, verdict in by.items() if verdict == "fail")
        passed = sorted(rate for rate, verdict in by.items() if verdict == "pass")
        below = [rate for rate in passed if not failed or rate < failed[0]]
        undecided = tuple(sorted(rate for rate, verdict in by.items() if verdict == "undecided"))
        above = [rate for rate in passed if failed and rate > failed[0]]
        fails = next((rate for rate in failed if not above or rate > max(above)), None)
        return Bracket(max(below, default=None), fails, undecided, not above, self.end)

    def _rate(self) -> float | End:
        """The rate that needs a run; or how the search ends, all being judged and the bracket no narrower to be had."""
        plan = self.plan
        for rate in self.results:
            if self.verdict(rate) == "more":
                return rate
        now = self.bracket()
        low, high = now.passes_per_s, now.fails_per_s
        if low is None and high is None and not now.undecided_per_s:
            return min(max(plan.first_per_s, plan.least_per_s), plan.most_per_s)
        if low is None:
            lowest = min(self.results)
            return max(lowest / 2, plan.least_per_s) if lowest > plan.least_per_s else "nothing passed"
        if high is None:
            highest = max(self.results)
            return min(highest * 2, plan.most_per_s) if highest < plan.most_per_s else "nothing failed"
        marks = [low, *(rate for rate in now.undecided_per_s if low < rate < high), high]
        gaps = [(b / a, a, b) for a, b in pairwise(marks) if b / a > 1 + plan.precision_ratio]
        if len(marks) > 2:  # only beside a judged rate can the bracket still move
            gaps = [gap for gap in gaps if gap[1] == low or gap[2] == high]
        if not gaps:
            return "undecided" if len(marks) > 2 else "reached"
        _, a, b = max(gaps)
        return float(f"{math.sqrt(a * b):.4g}")


def _floor(plan: Plan, ratios: Sequence[float]) -> Verdict:
    if any(ratio < plan.target_ratio for ratio in ratios):
        return "fail"
    return "pass" if len(ratios) >= plan.runs else "more"


def _long_run(plan: Plan, ratios: Sequence[float]) -> Verdict:
    if len(ratios) < min(LEAST_RUNS, plan.runs):
        return "more"
    looks = {plan.runs, 2 * plan.runs, MOST_FACTOR * plan.runs}  # each look is another chance to be wrong
    half = half_of_mean(ratios, CONFIDENCE)
    least = 1 / (plan.requests * len(ratios))  # equal runs are not certain beyond one request of all
    if half is not None:
        mean, half = fmean(ratios) - _lean(ratios), max(half, least)
        if mean - half >= plan.target_ratio and len(ratios) in looks:
            return "pass"
        if mean + half < plan.target_ratio:
            return "fail"
    return "more" if len(ratios) < MOST_FACTOR * plan.runs else "undecided"


def _lean(values: Sequence[float]) -> float:
    """What the mean of few runs is too high by, as runs that miss their target miss it by much (Johnson 1978)."""
    spread = stdev(values)
    if not spread:
        return 0.0
    mean, many = fmean(values), len(values)
    third = sum((one - mean) ** 3 for one in values) / many
    return max(0.0, -third / (spread * spread) * 9 / (6 * many))
