"""How often the bracket of a capacity search holds the true value of its own rule, and what the search costs.

    python bench/capacity_coverage.py [--searches 200] [--backlog] [--simulated 1.1]

Searched is a single-server queue whose capacity is known: services of 20 ms (80 %) and 180 ms, from arrival to end
within 800 ms for 95 % of the requests. The true long-run capacity comes of bisection over 4 x 1,000,000 requests. The
true floor of N runs of n requests is that of the search's own seeds: the rate at which the lowest of them leaves 95 %.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean, median

import numpy as np
from numpy.typing import NDArray

from vtop.recording import SimulatedSearch
from vtop.session.capacity.runs import backlog
from vtop.session.capacity.search import Next, Plan, RunResult, Search, grows
from vtop.session.frame.vocabulary import SearchRule
from vtop.session.load.attainment import Attainment

Times = NDArray[np.float64]
SLO_S, TARGET = 0.8, 0.95
MEAN_S = 0.8 * 0.02 + 0.2 * 0.18  # of a service
CASES: tuple[tuple[SearchRule, int, int, int], ...] = (  # rule, N, n, warm-up
    ("floor", 12, 500, 0),
    ("floor", 12, 2000, 0),
    ("floor", 12, 10_000, 0),
    ("long-run", 12, 500, 200),
    ("long-run", 6, 2000, 500),
    ("long-run", 12, 2000, 500),
    ("long-run", 12, 10_000, 1000),
)


def attained(rate_per_s: float, seed: int, requests: int, warm: int) -> float:
    """The share of a run's requests within the bound; one server, first come first served, empty at the start."""
    arrival_s, end_s = run_of(rate_per_s, seed, requests + warm)
    return float(np.mean((end_s - arrival_s <= SLO_S)[warm:]))


def run_of(rate_per_s: float, seed: int, many: int) -> tuple[Times, Times]:
    """When each request came and when it ended."""
    random = np.random.default_rng(seed)
    service_s = np.where(random.random(many) < 0.8, 0.02, 0.18)
    arrival_s = np.cumsum(random.exponential(1.0, many)) / rate_per_s
    done = np.cumsum(service_s)
    return arrival_s, done + np.maximum.accumulate(arrival_s - (done - service_s))


def threshold(low: float, high: float, kept: Callable[[float], bool]) -> float:
    """The rate at which `kept(rate)` ceases."""
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low


def floor_of(seeds: tuple[int, ...], requests: int, warm: int) -> float:
    """The rate at which the lowest of these runs ceases to keep the target."""
    return threshold(5.0, 18.0, lambda rate: min(attained(rate, one, requests, warm) for one in seeds) >= TARGET)


def searched(plan: Plan, warm: int, speed: float = 1.0) -> tuple[Search, int]:
    """speed: of the server, as a multiple; to it a rate is so many times smaller."""
    search, sent = Search(plan), 0
    while (run := search.next()) is not None:
        share = attained(run.rate_per_s / speed, run.seed, run.requests, warm)
        sent += run.requests + warm
        search.tell(_result(run, share))
    return search, sent


def foretold(plan: Plan, warm: int, speed: float) -> Plan:
    """The plan with what the same search finds on a model that is `speed` times as fast; its runs cost nothing."""
    search, _ = searched(plan, warm, speed)
    now = search.bracket()
    simulated = SimulatedSearch(
        by="the model",
        passes_per_s=now.passes_per_s,
        fails_per_s=now.fails_per_s,
        attained=tuple((one.rate_per_s, one.mean_ratio) for one in search.rates() if one.mean_ratio is not None),
    )
    return replace(plan, simulated=simulated, first_per_s=now.passes_per_s or plan.first_per_s)


def _result(run: Next, share: float) -> RunResult:
    kept = Attainment(run.requests, round(share * run.requests), 0, 0, 0, 0, ())
    return RunResult(run.rate_per_s, run.seed, kept, run.rate_per_s, run.requests, hold=run.hold)


def alarms(searches: int) -> None:
    """How often the backlog is said to grow: in one run, and in most of three."""
    print("| rho | n | one run | most of 3 |")
    print("|---|---|---|---|")
    for rho in (0.5, 0.8, 0.9, 1.0, 1.2, 1.5):
        for requests in (500, 2000):
            found = [grows(quarters(rho / MEAN_S, seed, requests)) for seed in range(3 * searches)]
            most = [sum(found[3 * k : 3 * k + 3]) >= 2 for k in range(searches)]
            print(f"| {rho} | {requests:,} | {fmean(found):.1%} | {fmean(most):.1%} |", flush=True)


def quarters(rate_per_s: float, seed: int, requests: int) -> tuple[int, ...]:
    """Requests that had come and were not answered, at the quarters of a run."""
    arrival_s, end_s = run_of(rate_per_s, seed, requests)
    return backlog(arrival_s.tolist(), end_s.tolist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=200)
    parser.add_argument("--simulated", type=float, help="First search a model of it that is so many times as fast.")
    parser.add_argument("--backlog", action="store_true", help="Only how often a backlog is said to grow.")
    asked = parser.parse_args()
    many = asked.searches
    if asked.backlog:
        alarms(many)
        return
    true = threshold(
        10.0, 18.0, lambda rate: fmean(attained(rate, 900_000 + k, 1_000_000, 10_000) for k in range(4)) >= TARGET
    )
    print(f"true long-run capacity {true:.3f} requests/s")
    print("| rule | N | n | holds | undecided | bracket | requests |")
    print("|---|---|---|---|---|---|---|")
    for rule, runs, requests, warm in CASES:
        began_s, holds, undecided, widths, costs = time.monotonic(), 0, 0, [], []
        for k in range(many):
            seeds = tuple(range(1000 * k, 1000 * k + runs))
            plan = Plan(rule, TARGET, runs, requests, seeds, first_per_s=3.7, hold=False)
            if asked.simulated is not None:
                plan = foretold(plan, warm, asked.simulated)
            search, sent = searched(plan, warm)
            now = search.bracket()
            low, high = now.passes_per_s or 0.0, now.fails_per_s or np.inf
            of = floor_of(seeds, requests, warm) if rule == "floor" else true
            holds += low <= of <= high
            undecided += now.end == "undecided"
            widths.append(high / low - 1)
            costs.append(sent)
        print(
            f"| {rule} | {runs} | {requests:,} | {holds / many:.1%} | {undecided / many:.0%} | "
            f"{median(widths):.1%} | {sum(costs) / many:,.0f} |  <!-- {time.monotonic() - began_s:.0f} s -->",
            flush=True,
        )


if __name__ == "__main__":
    main()
