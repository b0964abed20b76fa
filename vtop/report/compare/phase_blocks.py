"""The blocks of a phase, over which the noise within a run is estimated.

Rates, levels and the server's means: spans of equal time, each a frame of its own, so that a block's numbers are
made where all others are. vtop's own requests: as many of them in each, in the order they were sent. A block is at
least as long as a request runs (e2e without its queue): requests that run together share every step and tell the
same story, and after that time the batch is made of others. So a phase has as many blocks as rounds of requests, at
most MOST; of fewer than `compare_noise.LEAST_BLOCKS` rounds the noise is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from vtop.metrics.quantity import Quantity
from vtop.report.compare import noise
from vtop.report.compare.compared_numbers import QUANTILES, ComparedNumber
from vtop.report.model import Phase, Report
from vtop.report.numbers import Numbers, numbers
from vtop.report.phases import Pages, Question
from vtop.session.frame.frame import View
from vtop.session.history.window import window
from vtop.session.load.attainment import AttainmentCount
from vtop.session.load.closed_loop import Round, requests_per_s, tokens_per_s
from vtop.session.load.exact_histogram import ExactHistogram
from vtop.session.load.request_stats import RequestStats, seen_of
from vtop.session.session import Session

MOST: Final = 20  # blocks: more add little to what is known of the noise
_EVERY: Final = 10**9  # points of a curve
_OBSERVED: Final = {"ttft": Quantity.TTFT, "itl": Quantity.ITL, "tpot": Quantity.TPOT, "e2e": Quantity.E2E}


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A recording read to its end, and its report."""

    session: Session
    report: Report


@dataclass(frozen=True, slots=True, eq=False)
class RecordedPhase:
    """A phase and the recording that it is of."""

    of: Recorded
    phase: Phase


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """How many blocks each part of a phase is cut into, the same on both sides; 0 where rounds are too few."""

    whole: int
    steady: int
    own: int
    sending: int


def counts(both: Sequence[RecordedPhase], *, own: bool, sending: bool) -> BlockCounts:
    def most(scope: str) -> int:
        found = min(rounds(place, scope, own=sending if scope == "sending" else own) for place in both)
        return min(MOST, found) if found >= noise.LEAST_BLOCKS else 0

    return BlockCounts(most("whole"), most("steady"), most("own"), most("sending"))


@dataclass(frozen=True, slots=True, eq=False)
class DrawnLatency:
    """One latency of the own requests over the blocks, drawn anew."""

    mean_s: noise.Numbers
    distribution: noise.DrawnDistribution


@dataclass(frozen=True, slots=True, eq=False)
class Own:
    """vtop's own requests over so many blocks, drawn anew."""

    blocks: int
    failed_ratio: noise.Numbers
    attainment_ratio: noise.Numbers
    bounds: dict[str, noise.Numbers]  # the share within each bound alone
    ttft: DrawnLatency
    itl: DrawnLatency
    tpot: DrawnLatency
    e2e: DrawnLatency

    def of(self, number: ComparedNumber) -> noise.Numbers:
        if number.latency is None:
            if number.bound is not None:
                return self.bounds[number.bound]
            return self.failed_ratio if number.name == "failed_ratio" else self.attainment_ratio
        name, of = number.latency
        latency = {"ttft": self.ttft, "itl": self.itl, "tpot": self.tpot, "e2e": self.e2e}[name]
        return latency.mean_s if of == "mean_s" else latency.distribution.quantile(QUANTILES[of])


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """A phase in blocks: of each scope, as many on every side of a comparison; none where they would be too few."""

    whole: tuple[Numbers, ...]
    steady: tuple[Numbers, ...]
    requests: Own | None
    rates: dict[str, tuple[float, ...]]  # of vtop's own load, by number


def rounds(place: RecordedPhase, scope: str, *, own: bool) -> int:
    """How many rounds of requests ran in a part of a phase; 0 where that is not known or too few scrapes tell of it."""
    run_s = runs_s(place.phase)
    if run_s is None or run_s <= 0:
        return 0
    if own and scope == "sending" and (found := _closed(place)):
        return len(found)
    if scope == "own" or (own and scope == "sending"):
        span = _sending(place) if scope == "sending" else (place.phase.begin_s, place.phase.end_s)
        return int((span[1] - span[0]) / run_s) if span is not None else 0
    of = _numbers(place.phase, scope)
    return min(int(of.seconds / run_s), of.scrapes - 1) if of is not None else 0


def runs_s(phase: Phase) -> float | None:
    """How long a request of a phase runs: the mean from being scheduled to its end."""
    if phase.whole is None:
        return None
    server = dict(phase.whole.server)
    e2e, queue = server.get("e2e"), server.get("queue")
    if e2e is not None and e2e.mean_s is not None:
        queue_s = queue.mean_s if queue is not None else None
        return max(0.0, e2e.mean_s - (queue_s or 0.0))
    return phase.whole.e2e.mean_s if phase.whole.e2e is not None else None


def cut(place: RecordedPhase, counts: BlockCounts, *, own: bool) -> Blocks:
    """A phase in so many blocks."""
    whole, steady = _ranges(place, "whole", counts.whole), _ranges(place, "steady", counts.steady)
    asked = sorted({*whole, *steady}, key=lambda question: (question.now_s, question.window_s))  # forward is cheap
    found = {question: _ask(place.of.session, question) for question in asked}
    return Blocks(
        whole=tuple(found[question] for question in whole),
        steady=tuple(found[question] for question in steady),
        requests=_own(_requests(place, counts.own)) if own else None,
        rates=_rates(place, counts.sending) if own else {},
    )


def requests_of(phase: Phase) -> float | None:
    """How many requests a phase has: those sent of vtop's own load, else those that finished."""
    if phase.whole is None:
        return None
    return phase.whole.sent if phase.whole.sent is not None else phase.whole.finished


def at_or_below(place: RecordedPhase, latency: str, edge: float) -> float | None:
    """The share of a phase's observations at or below a bound of the server's buckets; None where it is no bound."""
    found = _sums_below(place.of.session, _ranges(place, "whole", 1), latency, edge)
    return found[0][0] / found[0][1] if found and found[0][1] else None


def sums_at_or_below(place: RecordedPhase, latency: str, edge: float, count: int) -> list[tuple[float, float]]:
    """The same of each of so many blocks: how many at or below, of how many."""
    return _sums_below(place.of.session, _ranges(place, "whole", count), latency, edge)


def _sums_below(session: Session, asked: Sequence[Question], latency: str, edge: float) -> list[tuple[float, float]]:
    found = []
    for question in asked:
        histogram = window(session.servers, question.now_s, question.window_s).histogram(_OBSERVED[latency])
        if histogram is None:
            found.append((0.0, 0.0))
        elif edge in histogram.le:
            found.append((sum(histogram.n[: histogram.le.index(edge) + 1]), histogram.count))
    return found


def drawn(number: ComparedNumber, blocks: Blocks, *, own: bool) -> tuple[int, noise.Numbers] | None:
    """(how many blocks, the number over them drawn anew); None where the noise is not known."""
    if number.scope == "own" or (own and number.latency is not None):
        own_requests = blocks.requests
        if own_requests is None or (number.bound is not None and number.bound not in own_requests.bounds):
            return None
        return own_requests.blocks, own_requests.of(number)
    if own and number.scope == "sending":
        rates = blocks.rates.get(number.name, ())
        return (len(rates), noise.of_sums(rates, [1.0] * len(rates))) if rates else None
    if number.sums is None:
        return None
    sums = [number.sums(of) for of in (blocks.whole if number.scope == "whole" else blocks.steady)]
    known = [one for one in sums if one is not None]
    if not known or len(known) < len(sums):
        return None
    return len(known), noise.of_sums(*zip(*known, strict=True))


def _own(requests: Sequence[RequestStats]) -> Own | None:
    if not requests:
        return None
    failed = [float(sum(seen.errors.values())) for seen in requests]
    return Own(
        blocks=len(requests),
        failed_ratio=noise.of_sums(failed, [_sent(seen) for seen in requests]),
        attainment_ratio=noise.of_sums(
            [float(seen.good) for seen in requests], [float(seen.judged) for seen in requests]
        ),
        bounds=_bounds([seen.slo for seen in requests]),
        ttft=_latency([seen.service for seen in requests]),
        itl=_latency([seen.itl for seen in requests]),
        tpot=_latency([seen.tpot for seen in requests]),
        e2e=_latency([seen.e2e for seen in requests]),
    )


def _bounds(counts: Sequence[AttainmentCount | None]) -> dict[str, noise.Numbers]:
    known = [one for one in counts if one is not None]
    if len(known) < len(counts):
        return {}
    return {
        name: noise.of_sums(
            [float(one.kept[name]) for one in known],
            [float(one.times[name].n + one.times[name].failed) for one in known],
        )
        for name in known[0].times
    }


def _latency(spreads: Sequence[ExactHistogram]) -> DrawnLatency:
    totals = [float(one.n + one.failed) for one in spreads]
    curves = [
        np.asarray(one.curve(_EVERY)).reshape(-1, 2) * (1.0, total) for one, total in zip(spreads, totals, strict=True)
    ]
    return DrawnLatency(
        mean_s=noise.of_sums([one.total_us / 1e6 for one in spreads], [float(one.n) for one in spreads]),
        distribution=noise.of_curves(curves, totals),
    )


def _sent(seen: RequestStats) -> float:
    return float(seen.done + seen.unfinished + sum(seen.errors.values()))


def _numbers(phase: Phase, scope: str) -> Numbers | None:
    return phase.whole if scope == "whole" else phase.steady


def _ranges(place: RecordedPhase, scope: str, count: int) -> list[Question]:
    """Neighbours share a scrape: what is counted between two scrapes belongs to one block only."""
    of = _numbers(place.phase, scope)
    if of is None or not count:
        return []
    scrapes = Pages(place.of.session.servers)
    at_s = [at_s for at_s in scrapes.at_s if of.begin_s <= at_s <= of.end_s]
    edges = [at_s[round(k * (len(at_s) - 1) / count)] for k in range(count + 1)]
    asked = [scrapes.within(begin_s, end_s) for begin_s, end_s in pairwise(edges)]
    return [question for question in asked if question is not None]


def _ask(session: Session, question: Question) -> Numbers:
    view = View(window_s=question.window_s, columns=1, whole=True)
    return numbers(session.frame(question.now_s, view), None, question.begin_s, question.end_s)


def _requests(place: RecordedPhase, count: int) -> tuple[RequestStats, ...]:
    load = place.phase.load
    if load is None or not count:
        return ()
    phase = place.of.session.load.phases[load.phase]
    order = sorted(
        (one for one in phase.ended if not one.warmup),
        key=lambda one: (one.sent_s if one.sent_s is not None else one.t, one.id),
    )
    edges = [round(k * len(order) / count) for k in range(count + 1)]
    return tuple(seen_of(order[first:last], phase.begin.slo) for first, last in pairwise(edges))


def _sending(place: RecordedPhase) -> tuple[float, float] | None:
    load = place.phase.load
    if load is None:
        return None
    phase = place.of.session.load.phases[load.phase]
    _, end = phase.state(place.of.session.end_s)
    return phase.steady(end) if end is not None else None


def _closed(place: RecordedPhase) -> tuple[Round, ...]:
    """The rounds of a closed loop."""
    load = place.phase.load
    return place.of.session.load.phases[load.phase].rounds(place.of.session.end_s) if load is not None else ()


def _rates(place: RecordedPhase, count: int) -> dict[str, tuple[float, ...]]:
    """Tokens and requests a second of each block: of whole rounds, else of equal times."""
    sending, load = _sending(place), place.phase.load
    if sending is None or load is None or not count:
        return {}
    if turns := _closed(place):
        cuts = [round(k * len(turns) / count) for k in range(count + 1)]
        blocks = [turns[first:last] for first, last in pairwise(cuts)]
        return {
            "output_per_s": tuple(map(tokens_per_s, blocks)),
            "finished_per_s": tuple(map(requests_per_s, blocks)),
        }
    phase = place.of.session.load.phases[load.phase]
    tokens_in, (begin_s, end_s) = phase.seen(place.of.session.end_s).tokens_in, sending
    edges = list(pairwise(begin_s + k * (end_s - begin_s) / count for k in range(count + 1)))
    tokens = [rate for edge in edges if (rate := tokens_in.per_s(*edge)) is not None]
    if len(tokens) < count:
        return {}
    ended = [phase.ended_between(*edge) / (edge[1] - edge[0]) for edge in edges]
    return {"output_per_s": tuple(tokens), "finished_per_s": tuple(ended)}
