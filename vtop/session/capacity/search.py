"""The largest rate of arrivals that keeps a service level: a search that ends in a bracket, never in a point.

Two rules, never mixed, each fixed before the first run:

    floor      the lowest attainment of N runs of n requests is at least the target; a rate ends at its first run below
    long-run   the mean attainment over runs is, with Student's interval (a run is one observation)

The floor falls with more runs and with shorter ones: it is compared only at the same N, n and seeds. Each rate is PASS,
FAIL or UNDECIDED; an undecided one gets more runs, up to MOST_FACTOR x N, and never moves the bracket. Runs of a seed
share their gaps, lengths and prompts, scaled by the rate, so that neighbouring rates differ by load alone.

The search doubles from its first rate until one fails, or halves until one passes, then halves the bracket on a log
scale until fails / passes <= 1 + precision; around an undecided rate it goes on, on either side. Where a simulated
search came before, its bracket, corrected by what was measured, says where to look first (foretold.py). At the end the
passing rate is held for one long run: a failure there makes it a failing rate, and the search goes on below.

A rate that passes above one that fails: both are run once more with the same seeds, the failing one first. A rate
whose two verdicts differ is UNDECIDED; where both stand, the bracket is widened over them.

Sources: aiperf's named ends, guidellm's `resolved`, MLPerf's confirmation of what was found; here by whole runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import fmean, stdev
from typing import Final, get_args

from vtop.recording import SimulatedSearch
from vtop.samples import half_of_mean
from vtop.session.capacity.foretold import next_rate
from vtop.session.frame.load import BoundAttainment, LengthAttainment
from vtop.session.frame.vocabulary import RateVerdict, SearchEnd, SearchRule
from vtop.session.load.attainment import Attainment

MOST_FACTOR: Final = 3  # so many times N runs at most for an undecided rate
MOST_REFUSED: Final = 3  # runs in a row that are no evidence
GROWN: Final = 8  # requests
LEAST_RUNS: Final = 4  # of the long-run rule, before a rate is judged
HOLD_FACTOR: Final = 4  # the long run at the end is so many times n

LEAST_ALONE: Final = 20  # requests, for the attainment at no load
Z: Final = 2.326  # of a normal number: 1 % beyond
CONFIDENCE: Final = 0.99  # of the interval of a mean: several rates are judged, each several times


@dataclass(frozen=True, slots=True)
class Plan:
    """What is searched, fixed before the first run. Rates in requests/s; requests: measured, in each run."""

    rule: SearchRule
    target_ratio: float
    runs: int
    requests: int
    seeds: tuple[int, ...]
    first_per_s: float = 1.0
    least_per_s: float = 0.01
    most_per_s: float = 10_000.0
    precision_ratio: float = 0.05
    hold: bool = True
    simulated: SimulatedSearch | None = None  # before

    @property
    def name(self) -> str:
        """The rule with what it depends on, as it stands beside every figure of it."""
        if self.rule == "floor":
            return f"floor (lowest of {self.runs} runs of {self.requests:,} requests)"
        return f"long-run capacity (mean of {self.runs} or more runs of {self.requests:,} requests)"


@dataclass(frozen=True, slots=True)
class EnginePeak:
    """One of several engines behind an address during a run."""

    name: str
    running: float | None
    waiting: float | None


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
    running_peak: float | None = None
    waiting_peak: float | None = None
    kv_peak_ratio: float | None = None
    backlog: tuple[int, ...] = ()  # asked and not answered, at the ends of the quarters of the time in which they came
    client_queue_peak: float | None = None  # requests that waited in the client for a slot under a cap (max=)
    engines: tuple[EnginePeak, ...] = ()  # where there are several; the one with most waiting first
    alone: int = 0  # requests with no other in flight from due to end, and how many of them kept every bound
    alone_kept: int = 0
    residence_s: float | None = None  # of an answered request in the mean, from due to end
    sending_s: float = 0.0  # from the first that came to the last
    times: tuple[BoundAttainment, ...] = ()  # by bound
    by_length: tuple[LengthAttainment, ...] = ()  # where lengths differ by a factor of four
    why_not: str | None = None
    server_changed: bool = False  # that is why
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
    verdict: RateVerdict
    runs: tuple[RunResult, ...]
    lowest_ratio: float | None
    mean_ratio: float | None
    half_ratio: float | None
    growing: bool = False  # in most of its runs the backlog grew all along: a longer run may fail


@dataclass(frozen=True, slots=True)
class Bracket:
    """passes: the largest rate that passes, all below it passing; fails: the smallest that fails. None: there is none.

    Undecided rates lie between them. monotone: False where a rate passed above one that failed, which widened it.
    """

    passes_per_s: float | None
    fails_per_s: float | None
    undecided_per_s: tuple[float, ...]
    monotone: bool
    end: SearchEnd | None  # None: the search goes on


@dataclass(frozen=True, slots=True)
class Left:
    """rates and runs still to be made, and for how long requests will come, settling and drains left out."""

    rates: int
    runs: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Paired:
    """A rate with the same seeds on two servers: the second's attainment less the first's, a pair of runs an
    observation. half_ratio: half of its 99 % interval; None of fewer than two pairs."""

    rate_per_s: float
    pairs: int
    first_ratio: float
    second_ratio: float
    difference_ratio: float
    half_ratio: float | None


@dataclass(slots=True)
class Search:
    """Asks for run after run (`next`), is told of each (`tell`), and holds what is known so far (`bracket`)."""

    plan: Plan
    results: dict[float, list[RunResult]] = field(default_factory=dict)
    again: dict[float, list[RunResult]] = field(default_factory=dict)  # with seeds that a rate has had before
    held: dict[float, RunResult] = field(default_factory=dict)
    refused: list[RunResult] = field(default_factory=list)
    end: SearchEnd | None = None
    why: str | None = None  # in detail
    _in_a_row: int = 0  # refused, since the last that counted

    def stop(self, end: str, why: str | None = None) -> None:
        """The search is over, for a reason of the world's."""
        self.end, self.why = next((one for one in get_args(SearchEnd) if one == end), "stopped"), why

    def tell(self, result: RunResult) -> None:
        """A run was made. One that is no evidence is not counted; where the server changed, or after MOST_REFUSED in a
        row, it ends the search."""
        self._in_a_row = self._in_a_row + 1 if result.why_not is not None else 0
        if result.why_not is not None:
            self.refused.append(result)
            if result.server_changed:
                self.stop("server changed", result.why_not)
            elif self._in_a_row >= MOST_REFUSED:
                self.stop("no evidence", result.why_not)
        elif result.hold:
            self.held[result.rate_per_s] = result
        else:
            runs = self.results.setdefault(result.rate_per_s, [])
            if any(one.seed == result.seed for one in runs):
                runs = self.again.setdefault(result.rate_per_s, [])
            runs.append(result)

    @property
    def made(self) -> int:
        """Runs so far, those that are no evidence among them."""
        counted = sum(len(runs) for of in (self.results, self.again) for runs in of.values())
        return counted + len(self.held) + len(self.refused)

    def go_on(self, found: Search) -> None:
        """With what an interrupted search of the same plan found."""
        self.results, self.again, self.held, self.refused = found.results, found.again, found.held, found.refused
        self.end = self.why = None

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
            if rate == "nothing passed" and (zero := self.zero_load) is not None:
                self.why = f"{zero[1]:,} of {zero[0]:,} requests that were alone on the server kept it"
            return None
        of = self.results if self._judged(self.results.get(rate, ())) == "more" else self.again
        made = len(of.get(rate, ()))
        seeds = self.plan.seeds
        seed = seeds[made] if made < len(seeds) else seeds[-1] + 1 + made - len(seeds)
        return Next(rate, seed, self.plan.requests)

    @property
    def zero_load(self) -> tuple[int, int] | None:
        """Requests that were alone on the server, and how many of them kept every bound, over all runs; None: too few
        to tell."""
        runs = [run for of in self.results.values() for run in of]
        alone, kept = sum(run.alone for run in runs), sum(run.alone_kept for run in runs)
        return (alone, kept) if alone >= LEAST_ALONE else None

    def _never_passes(self) -> bool:
        """Whether requests that were alone miss the target for certain, so that no lower rate can keep it."""
        if (zero := self.zero_load) is None:
            return False
        many, share = zero[0], zero[1] / zero[0]
        root = math.sqrt(share * (1 - share) / many + (Z / (2 * many)) ** 2)
        return (share + Z * Z / (2 * many) + Z * root) / (1 + Z * Z / many) < self.plan.target_ratio  # Wilson 1927

    def verdict(self, rate: float) -> RateVerdict:
        """Of a rate by its runs so far, by the same once more where they were, and by its long run."""
        if self._did_not_hold(rate):
            return "fail"
        first, second = (self._judged(of.get(rate, ())) for of in (self.results, self.again))
        return first if first == "more" or second in ("more", first) else "undecided"

    def _did_not_hold(self, rate: float) -> bool:
        held = self.held.get(rate)
        return held is not None and (held.attained.ratio or 0.0) < self.plan.target_ratio

    def _judged(self, runs: Sequence[RunResult]) -> RateVerdict:
        ratios = [one.attained.ratio for one in runs]
        known = [one for one in ratios if one is not None]
        return (_floor if self.plan.rule == "floor" else _long_run)(self.plan, known)

    def rates(self) -> tuple[RateResult, ...]:
        """Every rate tried, the lowest first."""
        found = []
        for rate in sorted(self.results):
            runs = [*self.results[rate], *self.again.get(rate, ())]
            ratios = [one.attained.ratio for one in runs if one.attained.ratio is not None]
            found.append(
                RateResult(
                    rate,
                    self.verdict(rate),
                    tuple(runs),
                    min(ratios, default=None),
                    fmean(ratios) if ratios else None,
                    half_of_mean(ratios, CONFIDENCE),
                    2 * sum(grows(one.backlog) for one in runs) > len(runs),
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

    def left(self) -> Left:
        """About what is still to be done, if every rate takes its N runs and none is undecided."""
        plan, now = self.plan, self.bracket()
        low, high = now.passes_per_s, now.fails_per_s
        middle = math.sqrt(low * high) if low and high else low or high or plan.first_per_s
        told = plan.simulated
        foretold = told.fails_per_s / told.passes_per_s if told and told.fails_per_s and told.passes_per_s else 2.0
        ratio = high / low if low and high else foretold
        halvings = max(0, math.ceil(math.log2(max(1.0, math.log(ratio) / math.log1p(plan.precision_ratio)))))
        rates = halvings + (2 if low is None and high is None else 1 if low is None or high is None else 0)
        requests = rates * plan.runs * plan.requests + (HOLD_FACTOR * plan.requests if plan.hold else 0)
        return Left(rates, rates * plan.runs + plan.hold, requests / middle)

    def _rate(self) -> float | SearchEnd:
        """The rate that needs a run; or how the search ends, all being judged and the bracket no narrower to be had."""
        plan = self.plan
        for rate in self.results:
            if self.verdict(rate) == "more":
                return rate
        if (twice := self._to_be_repeated()) is not None:
            return twice
        now = self.bracket()
        low, high = now.passes_per_s, now.fails_per_s
        if low is None and high is None and not now.undecided_per_s:
            return min(max(plan.first_per_s, plan.least_per_s), plan.most_per_s)
        if low is None:
            lowest = min(self.results)
            lower = self._foretold(None, lowest) or lowest / 2
            on = lowest > plan.least_per_s and not self._never_passes()
            return max(lower, plan.least_per_s) if on else "nothing passed"
        if high is None:
            highest = max(self.results)
            higher = self._foretold(highest, None) or highest * 2
            return min(higher, plan.most_per_s) if highest < plan.most_per_s else "nothing failed"
        marks = [low, *(rate for rate in now.undecided_per_s if low < rate < high), high]
        gaps = [(b / a, a, b) for a, b in pairwise(marks) if b / a > 1 + plan.precision_ratio]
        if len(marks) > 2:  # only beside a judged rate can the bracket still move
            gaps = [gap for gap in gaps if gap[1] == low or gap[2] == high]
        if not gaps:
            return "undecided" if len(marks) > 2 else "reached"
        _, a, b = max(gaps)
        foretold = self._foretold(a, b) if len(marks) == 2 else None
        return foretold or float(f"{math.sqrt(a * b):.4g}")

    def _to_be_repeated(self) -> float | None:
        """A rate that failed below one that passed, or passed above one that failed, and was not run once more."""
        by = {rate: self.verdict(rate) for rate in self.results}
        failed = [rate for rate in by if by[rate] == "fail"]
        passed = [rate for rate in by if by[rate] == "pass"]
        apart = [rate for rate in failed if rate < max(passed, default=0.0) and not self._did_not_hold(rate)]
        apart += [rate for rate in passed if rate > min(failed, default=math.inf)]
        return next((rate for rate in apart if self._judged(self.again.get(rate, ())) == "more"), None)

    def _foretold(self, low: float | None, high: float | None) -> float | None:
        if self.plan.simulated is None:
            return None
        measured = [(one.rate_per_s, one.mean_ratio) for one in self.rates() if one.mean_ratio is not None]
        return next_rate(self.plan.simulated, measured, self.plan.target_ratio, (low, high), self.plan.precision_ratio)


def grows(backlog: Sequence[int]) -> bool:
    """Whether the requests that had come and were not answered grew from quarter to quarter of a run, to twice as many
    and by GROWN at least. A straight line through a backlog is blind near rho = 1, where it grows like the root of the
    time; how often this is wrong is counted by bench/capacity_coverage.py."""
    if len(backlog) < 4:
        return False
    rising = all(a < b for a, b in pairwise(backlog))
    return rising and backlog[-1] >= 2 * max(1, backlog[0]) and backlog[-1] - backlog[0] >= GROWN


def by_the_other_rule(search: Search) -> tuple[Plan, Bracket]:
    """What the same runs say by the rule that was not asked for: of each rate the first N."""
    plan = search.plan
    other = Search(replace(plan, rule="floor" if plan.rule == "long-run" else "long-run"))
    other.results = {rate: runs[: plan.runs] for rate, runs in search.results.items()}
    return other.plan, other.bracket()


def goodput_of(search: Search) -> float | None:
    """Requests a second that kept the service level at the passing rate, in the mean of its runs."""
    passes = search.bracket().passes_per_s
    mean = next((one.mean_ratio for one in search.rates() if one.rate_per_s == passes), None)
    return passes * mean if passes is not None and mean is not None else None


def paired(first: Search, second: Search) -> tuple[Paired, ...]:
    """Every rate at which both made runs with a common seed; gaps, lengths and prompts are then alike, so that what is
    between two runs of a pair is the server."""
    found = []
    for rate in sorted(set(first.results) & set(second.results)):
        one, other = ({run.seed: run.attained.ratio for run in of.results[rate]} for of in (first, second))
        both = [(a, b) for seed, a in one.items() if a is not None and (b := other.get(seed)) is not None]
        if both:
            apart = [b - a for a, b in both]
            means = fmean(a for a, _ in both), fmean(b for _, b in both)
            found.append(Paired(rate, len(both), *means, fmean(apart), half_of_mean(apart, CONFIDENCE)))
    return tuple(found)


def _floor(plan: Plan, ratios: Sequence[float]) -> RateVerdict:
    if any(ratio < plan.target_ratio for ratio in ratios):
        return "fail"
    return "pass" if len(ratios) >= plan.runs else "more"


def _long_run(plan: Plan, ratios: Sequence[float]) -> RateVerdict:
    if len(ratios) < min(LEAST_RUNS, plan.runs):
        return "more"
    looks = {plan.runs, 2 * plan.runs, MOST_FACTOR * plan.runs}  # each look is another chance to be wrong
    half = half_of_mean(ratios, CONFIDENCE)
    least = 1 / (plan.requests * len(ratios))  # equal runs are not certain beyond one request of all
    if half is not None:
        half *= _at_target(fmean(ratios), plan.target_ratio)
        mean, half = fmean(ratios) - _lean(ratios), max(half, least)
        if mean - half >= plan.target_ratio and len(ratios) in looks:
            return "pass"
        if mean + half < plan.target_ratio:
            return "fail"
    return "more" if len(ratios) < MOST_FACTOR * plan.runs else "undecided"


def _at_target(mean: float, target: float) -> float:
    """How many times as widely runs would be spread if their mean were the target: a share varies as mean (1 - mean)
    (Wilson 1927). A pass must be sure against that, and runs near 1 vary least."""
    return math.sqrt(target * (1 - target) / (mean * (1 - mean))) if 0 < mean < 1 and 0 < target < 1 else 1.0


def _lean(values: Sequence[float]) -> float:
    """What the mean of few runs is too high by, as runs that miss their target miss it by much (Johnson 1978)."""
    spread = stdev(values)
    if not spread:
        return 0.0
    mean, many = fmean(values), len(values)
    third = sum((one - mean) ** 3 for one in values) / many
    return max(0.0, -third / (spread * spread) * 9 / (6 * many))
