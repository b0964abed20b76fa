"""What one run amounted to, recorded or simulated alike: the numbers that a question of what if is about.

Times of a run on record are the server's own means and, where vtop's load was its client, the client's percentiles; a
simulated one is asked the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import ceil, nan
from statistics import fmean
from typing import Final

from vtop.engine.core.engine import Engine
from vtop.engine.core.request import EngineRequest
from vtop.engine.core.step import StepOutcome
from vtop.engine.runs.replay import Replayed, measures
from vtop.samples import nearest_rank, samples_needed
from vtop.session.load.request_latency import RequestLatency

Bounds = Mapping[str, float]  # what a request must keep to be a good one: ttft, tpot, e2e, in seconds


@dataclass(frozen=True, slots=True)
class RunNumbers:
    """None: not known. Times in seconds; those without a percentile are means over the requests, as a server's
    histograms have them. Rates are over all of the load, ramp and drain included. Levels are means over the time from
    the first request sent to the last answer."""

    output_per_s: float | None = None
    requests_per_s: float | None = None
    good_per_s: float | None = None  # requests that keep all bounds asked for
    good_ratio: float | None = None
    ttft_s: float | None = None
    ttft_p50_s: float | None = None
    ttft_p90_s: float | None = None
    ttft_p99_s: float | None = None
    queue_s: float | None = None
    prefill_s: float | None = None
    frontend_s: float | None = None
    tpot_s: float | None = None
    tpot_p99_s: float | None = None
    e2e_s: float | None = None
    e2e_p99_s: float | None = None
    running: float | None = None
    waiting: float | None = None
    kv_ratio: float | None = None  # of the pool
    preemptions: float | None = None
    recomputed_ratio: float | None = None  # tokens computed again, of those that the answers needed


@dataclass(frozen=True, slots=True)
class MeasuredNumber:
    """A field of `RunNumbers`. unit: per_s, s, ratio, count. residual: whose error a profile states for its like."""

    name: str
    label: str
    unit: str
    better: str | None = None  # higher, lower; None: neither is
    residual: str | None = None  # e2e, ttft, prefill, decode
    counted: bool = False  # a number of events


NUMBERS: Final = (
    MeasuredNumber("output_per_s", "output tokens/s, whole load", "per_s", "higher", "e2e"),
    MeasuredNumber("requests_per_s", "requests/s, whole load", "per_s", "higher", "e2e"),
    MeasuredNumber("good_per_s", "requests/s within SLO", "per_s", "higher"),
    MeasuredNumber("good_ratio", "within SLO", "ratio", "higher"),
    MeasuredNumber("ttft_s", "TTFT mean", "s", "lower", "ttft"),
    MeasuredNumber("ttft_p50_s", "TTFT p50", "s", "lower", "ttft"),
    MeasuredNumber("ttft_p90_s", "TTFT p90", "s", "lower", "ttft"),
    MeasuredNumber("ttft_p99_s", "TTFT p99", "s", "lower", "ttft"),
    MeasuredNumber("queue_s", "queue, mean", "s", "lower", "ttft"),
    MeasuredNumber("prefill_s", "prefill, mean", "s", "lower", "prefill"),
    MeasuredNumber("frontend_s", "frontend, mean", "s", "lower"),
    MeasuredNumber("tpot_s", "TPOT mean", "s", "lower", "decode"),
    MeasuredNumber("tpot_p99_s", "TPOT p99", "s", "lower", "decode"),
    MeasuredNumber("e2e_s", "e2e mean", "s", "lower", "e2e"),
    MeasuredNumber("e2e_p99_s", "e2e p99", "s", "lower", "e2e"),
    MeasuredNumber("running", "running, mean", "count"),
    MeasuredNumber("waiting", "waiting, mean", "count", "lower"),
    MeasuredNumber("kv_ratio", "KV use, mean", "ratio"),
    MeasuredNumber("preemptions", "preemptions", "count", "lower", counted=True),
    MeasuredNumber("recomputed_ratio", "recomputed tokens", "ratio", "lower"),
)


class Levels:
    """Watches a replay: how many ran and waited and how full the pool was, over time.

    scraped_s: when the first scrape falls and how far apart they are: the means are over them, as on record. None: over
    all of the time.
    """

    def __init__(self, engine: Engine, scraped_s: tuple[float, float] | None = None) -> None:
        self._engine = engine
        self._at_s = 0.0
        self._sums = [0.0, 0.0, 0.0]
        self._now = (0, 0, 0.0)
        self._scraped_s = scraped_s
        self._scrapes = 0
        self.most_running = self.most_waiting = 0
        self.most_kv_ratio = 0.0

    def __call__(self, outcome: StepOutcome) -> None:
        """After a step, as vLLM sets its gauges; they hold until the next."""
        self._hold(outcome.at_s)
        scheduler = self._engine.scheduler
        running = len(scheduler.running)
        self._now = running, len(scheduler.waiting), scheduler.pool.usage_ratio
        self.most_running = max(self.most_running, running)
        self.most_waiting = max(self.most_waiting, self._now[1])
        self.most_kv_ratio = max(self.most_kv_ratio, self._now[2])

    def _hold(self, until_s: float) -> None:
        sums, now = self._sums, self._now
        if self._scraped_s is None:
            times = until_s - self._at_s
        else:
            first_s, apart_s = self._scraped_s
            passed = max(0, ceil((until_s - first_s) / apart_s))
            times = float(passed - self._scrapes)
            self._scrapes = passed
        sums[0] += times * now[0]
        sums[1] += times * now[1]
        sums[2] += times * now[2]
        self._at_s = until_s

    def means(self, span_s: float) -> tuple[float, float, float]:
        """Over so many seconds. Of fewer than one scrape nothing is known: NaN."""
        over = span_s if self._scraped_s is None else float(self._scrapes)
        running, waiting, kv_ratio = (total / over if over else nan for total in self._sums)
        return running, waiting, kv_ratio


def latency_of(request: EngineRequest) -> RequestLatency:
    """Of a simulated request, finished; its client sends it when it is due."""
    assert request.sent_s is not None
    assert request.first_seen_s is not None
    assert request.answered_s is not None
    later = request.generated - 1
    return RequestLatency(
        ttft_s=request.first_seen_s - request.sent_s,
        tpot_s=(request.answered_s - request.first_seen_s) / later if later else None,
        e2e_s=request.answered_s - request.sent_s,
    )


def simulated(replayed: Replayed, levels: Levels, bounds: Bounds | None, counted: int | None = None) -> RunNumbers:
    """What a replay amounted to. It had at least one request that was not refused.

    counted: how many of the first to finish the server's own means are over; None: all.
    """
    requests = replayed.requests
    means = measures(requests[:counted])
    running, waiting, kv_ratio = levels.means(replayed.span_s)
    needed = sum(r.prompt_tokens - r.cached_tokens + r.generated - 1 for r in requests)
    return RunNumbers(
        output_per_s=replayed.output_tokens_per_s,
        requests_per_s=len(requests) / replayed.span_s,
        ttft_s=means["ttft_s"],
        queue_s=means["queue_s"],
        prefill_s=means["prefill_s"],
        frontend_s=means["frontend_s"],
        e2e_s=means["e2e_s"],
        running=_known(running),
        waiting=_known(waiting),
        kv_ratio=_known(kv_ratio),
        preemptions=float(replayed.preemptions),
        recomputed_ratio=replayed.recomputed_tokens / needed,
        **of_requests([latency_of(request) for request in requests], replayed.span_s, bounds),
    )


def _known(value: float) -> float | None:
    return value if value == value else None


def of_requests(
    requests: Sequence[RequestLatency], span_s: float | None, bounds: Bounds | None
) -> dict[str, float | None]:
    """What only the clients of a run know, as fields of `RunNumbers`."""
    if not requests:
        return {}
    ttft = sorted(one.ttft_s for one in requests if one.ttft_s is not None)
    tpot = sorted(one.tpot_s for one in requests if one.tpot_s is not None)
    e2e = sorted(one.e2e_s for one in requests if one.e2e_s is not None)
    found: dict[str, float | None] = {
        "ttft_p50_s": quantile(ttft, 0.5),
        "ttft_p90_s": quantile(ttft, 0.9),
        "ttft_p99_s": quantile(ttft, 0.99),
        "tpot_s": fmean(tpot) if tpot else None,
        "tpot_p99_s": quantile(tpot, 0.99),
        "e2e_p99_s": quantile(e2e, 0.99),
    }
    if bounds is not None:
        judged = [one for one in requests if one.judged_by(bounds)]
        good = sum(one.keeps(bounds) for one in judged)
        found["good_ratio"] = good / len(judged) if judged else None
        found["good_per_s"] = good / span_s if span_s else None
    return found


def quantile(ordered: Sequence[float], q: float) -> float | None:
    """The smallest value that a share q does not exceed; None of fewer than it takes to tell it (samples.py)."""
    if len(ordered) < samples_needed(q):
        return None
    return ordered[nearest_rank(q, len(ordered)) - 1]


def mean_of(several: Iterable[RunNumbers]) -> RunNumbers:
    """Of simulations that differ by chance alone: field by field; None where one does not know."""
    tries = tuple(several)
    found: dict[str, float | None] = {}
    for one in fields(RunNumbers):
        values = [getattr(measured, one.name) for measured in tries]
        known = [value for value in values if value is not None]
        found[one.name] = fmean(known) if len(known) == len(values) else None
    return RunNumbers(**found)
