"""A queue of requests that come by themselves, first come first served: what waiting does to a service level.

    b_i = max(a_i, f of the server that is free first)     f_i = b_i + s_i     w_i = b_i - a_i

Arrivals are an unconditioned Poisson process: independent exponential gaps, added up and never scaled. A closed loop of
one request in flight sends the next when the last one ends, a_i = f_(i-1), so w_i = 0: it measures 1 / E[s] and no
waiting at all. Each run has its own seed for services and for gaps; at another rate the same gaps are divided by the
rate, so that neighbouring rates differ by load alone. The first requests of a run are left out.

For one server the mean wait is known exactly (Pollaczek and Khinchine): w = rate x E[s^2] / (2 (1 - rho)).

The article's program lost a part of its text where it was published. Reconstructed here and checked against every digit
that it printed: service 20 ms where a draw of Random(seed) is below 0.8, else 180 ms; gaps by expovariate(rate) of
Random(seed + 10000); p95 by nearest rank; the rate that came of a run is (n - 1) / (last - first measured arrival).
Seconds, requests a second.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from statistics import fmean
from typing import Final

from vtop.errors import VtopError
from vtop.plan.attainment import Runs, together
from vtop.samples import nearest_rank

SEEDS: Final = tuple(range(101, 113))
REQUESTS, WARM = 50_000, 5_000
GAPS_SEED: Final = 10_000  # added to a run's seed
PASS, FAIL = "PASS", "FAIL"


@dataclass(frozen=True, slots=True)
class Services:
    """How long requests take: some times with their shares, or as many as were measured, all alike in share."""

    times_s: tuple[float, ...]
    shares: tuple[float, ...] = ()  # none: each alike
    origin: str = "given"

    @property
    def mean_s(self) -> float:
        if not self.shares:
            return fmean(self.times_s)
        return sum(time * share for time, share in zip(self.times_s, self.shares, strict=True))

    @property
    def mean_square(self) -> float:
        squares = [time * time for time in self.times_s]
        if not self.shares:
            return fmean(squares)
        return sum(square * share for square, share in zip(squares, self.shares, strict=True))

    def draw(self, seed: int, many: int) -> list[float]:
        """One draw of Random(seed) a request."""
        random = Random(seed).random
        if not self.shares:
            times, count = self.times_s, len(self.times_s)
            return [times[int(random() * count)] for _ in range(many)]
        if len(self.times_s) == 2:
            (short, long), bound = self.times_s, self.shares[0]
            return [short if random() < bound else long for _ in range(many)]
        bounds = list(accumulate(self.shares))
        last = self.times_s[-1]
        found = []
        for _ in range(many):
            at = random()
            found.append(next((time for time, most in zip(self.times_s, bounds, strict=True) if at < most), last))
        return found


@dataclass(frozen=True, slots=True)
class Queue:
    """What is asked: so many servers over one queue, and runs of so many requests, the first `warm` left out."""

    services: Services
    slo_s: float  # from arrival to end
    target: float  # share of the requests that are to keep it
    servers: int = 1
    requests: int = REQUESTS
    warm: int = WARM
    seeds: tuple[int, ...] = SEEDS


@dataclass(frozen=True, slots=True)
class Rate:
    """A rate: ranges over its runs. p95_wait_s: the worst run's. mean_wait_s: exact, of one server below rho 1."""

    rate_per_s: float
    rho: float
    least_rate_per_s: float  # that came of a run
    most_rate_per_s: float
    p95_wait_s: float
    mean_wait_s: float | None
    waited_mean_s: float  # of all runs
    attained: Runs
    verdict: str


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """As many in flight as there are servers, and nobody waits: why that is no capacity."""

    least_per_s: float
    most_per_s: float
    floor_ratio: float


@dataclass(frozen=True, slots=True)
class QueueAnswer:
    """passes: the largest rate that passes with all below it; fails: the smallest that fails. None: there is none."""

    queue: Queue
    closed: ClosedLoop
    rates: tuple[Rate, ...]
    passes_per_s: float | None
    fails_per_s: float | None
    monotone: bool  # no rate passes above one that fails
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Draws:
    """One run's services, and gaps of rate 1."""

    services_s: list[float]
    gaps: list[float]


def answer(
    queue: Queue, rates: Sequence[float], told: Callable[[int, int], None] | None = None, notes: Sequence[str] = ()
) -> QueueAnswer:
    """All rates, each with the same runs. told: called with (runs done, runs in all). Raises VtopError."""
    if queue.warm >= queue.requests:
        raise VtopError(f"{queue.warm} requests left out of {queue.requests}: none is left to measure")
    draws = [_draws(queue, seed) for seed in queue.seeds]
    asked = sorted(set(rates))
    found = []
    for at, rate in enumerate(asked):
        runs = []
        for one in draws:
            runs.append(_run(queue, one, rate))
            if told is not None:
                told(at * len(draws) + len(runs), len(asked) * len(draws))
        found.append(_rate(queue, rate, runs))
    failed = [one.rate_per_s for one in found if one.verdict == FAIL]
    passed = [one.rate_per_s for one in found if one.verdict == PASS]
    below = [rate for rate in passed if not failed or rate < min(failed)]
    return QueueAnswer(
        queue=queue,
        closed=_closed(queue, draws),
        rates=tuple(found),
        passes_per_s=max(below, default=None),
        fails_per_s=min(failed, default=None),
        monotone=not failed or max(passed, default=0.0) < min(failed),
        notes=tuple(notes),
    )


def usual_rates(queue: Queue) -> list[float]:
    """Where none are asked for: by how busy the servers would be."""
    most = queue.servers / queue.services.mean_s
    return [float(f"{most * rho:.2g}") for rho in (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)]


def _draws(queue: Queue, seed: int) -> _Draws:
    gap = Random(seed + GAPS_SEED).expovariate
    return _Draws(queue.services.draw(seed, queue.requests), [gap(1.0) for _ in range(queue.requests)])


@dataclass(frozen=True, slots=True)
class _Run:
    p95_wait_s: float
    mean_wait_s: float
    attained: float
    rate_per_s: float


def _run(queue: Queue, draws: _Draws, rate: float) -> _Run:
    waits, kept, first, last = (_one_server if queue.servers == 1 else _several)(queue, draws, rate)
    measured = queue.requests - queue.warm
    waits.sort()
    return _Run(
        waits[nearest_rank(0.95, len(waits)) - 1],
        fmean(waits),
        kept / measured,
        (measured - 1) / (last - first) if measured > 1 else rate,
    )


def _one_server(queue: Queue, draws: _Draws, rate: float) -> tuple[list[float], int, float, float]:
    arrival = free = 0.0
    waits: list[float] = []
    kept, slo_s, warm, first = 0, queue.slo_s, queue.warm, 0.0
    for at, (gap, service) in enumerate(zip(draws.gaps, draws.services_s, strict=True)):
        arrival += gap / rate
        begin = arrival if arrival > free else free
        free = begin + service
        if at >= warm:
            if at == warm:
                first = arrival
            waits.append(begin - arrival)
            if free - arrival <= slo_s:
                kept += 1
    return waits, kept, first, arrival


def _several(queue: Queue, draws: _Draws, rate: float) -> tuple[list[float], int, float, float]:
    free = [0.0] * queue.servers
    waits: list[float] = []
    arrival, first, kept = 0.0, 0.0, 0
    for at, (gap, service) in enumerate(zip(draws.gaps, draws.services_s, strict=True)):
        arrival += gap / rate
        begin = max(arrival, free[0])
        heapq.heapreplace(free, begin + service)
        if at >= queue.warm:
            first = arrival if at == queue.warm else first
            waits.append(begin - arrival)
            kept += begin + service - arrival <= queue.slo_s
    return waits, kept, first, arrival


def _rate(queue: Queue, rate: float, runs: Sequence[_Run]) -> Rate:
    rho = rate * queue.services.mean_s / queue.servers
    attained = together([run.attained for run in runs], queue.requests - queue.warm)
    exact = rate * queue.services.mean_square / (2 * (1 - rho)) if queue.servers == 1 and rho < 1 else None
    return Rate(
        rate_per_s=rate,
        rho=rho,
        least_rate_per_s=min(run.rate_per_s for run in runs),
        most_rate_per_s=max(run.rate_per_s for run in runs),
        p95_wait_s=max(run.p95_wait_s for run in runs),
        mean_wait_s=exact,
        waited_mean_s=fmean(run.mean_wait_s for run in runs),
        attained=attained,
        verdict=PASS if attained.floor_ratio >= queue.target else FAIL,
    )


def _closed(queue: Queue, draws: Sequence[_Draws]) -> ClosedLoop:
    """Of all requests of a run: a loop that never waits has nothing to warm up."""
    all_s = [one.services_s for one in draws]
    rates = [queue.servers * len(services_s) / sum(services_s) for services_s in all_s]
    kept = [sum(time <= queue.slo_s for time in services_s) / len(services_s) for services_s in all_s]
    return ClosedLoop(min(rates), max(rates), min(kept))
