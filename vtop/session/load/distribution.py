"""How a latency is distributed: which share of it took at most how long.

Of vtop's own requests every value is known, and failed ones count as longer than everything, so a curve may end below
1. Of the server's histograms the share is known at the bounds of the buckets and nowhere between them; what lies
above the last bound has no point. Seconds; shares from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from vtop.metrics.histogram import Histogram
from vtop.metrics.quantity import Quantity
from vtop.session.history.window import Window
from vtop.session.load.exact_histogram import ExactHistogram
from vtop.session.load.load import LoadHistory

POINTS = 200  # of an exact curve, at most

_OF_SERVER = (("TTFT", Quantity.TTFT), ("ITL", Quantity.ITL), ("TPOT", Quantity.TPOT), ("e2e", Quantity.E2E))


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    name: str  # TTFT, ITL, TPOT, e2e
    whose: str  # "own requests", "buckets"
    n: float  # observed, failed ones included
    points: tuple[tuple[float, float], ...]  # (seconds, share at or below), ascending
    tail: tuple[tuple[float, float], ...] = ()  # (seconds, share above), finer where few are


def of_load(load: LoadHistory, number: int, now_s: float) -> tuple[Distribution, ...]:
    """Of the own requests of one phase, as known at an instant; warm-up left out."""
    seen = load.seen(number, now_s)
    if seen is None:
        return ()
    named = (("TTFT", seen.service), ("ITL", seen.itl), ("TPOT", seen.tpot), ("e2e", seen.e2e))
    return tuple(_exact(name, spread) for name, spread in named if spread.n)


def of_window(window: Window) -> tuple[Distribution, ...]:
    """Of what the servers observed in a window."""
    found = ((name, window.histogram(quantity)) for name, quantity in _OF_SERVER)
    return tuple(_bucketed(name, one) for name, one in found if one is not None and one.count > 0)


def _exact(name: str, spread: ExactHistogram) -> Distribution:
    return Distribution(
        name, "own requests", spread.n + spread.failed, tuple(spread.curve(POINTS)), tuple(spread.tail(POINTS))
    )


def _bucketed(name: str, histogram: Histogram) -> Distribution:
    below = accumulate(histogram.n)
    shares = ((bound, count / histogram.count) for bound, count in zip(histogram.le, below, strict=False))
    points = tuple(_needed(shares))
    return Distribution(
        name, "buckets", histogram.count, points, tuple((at, 1 - share) for at, share in points if share < 1)
    )


def _needed(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """From the last point with nothing at or below it to the first with everything."""
    kept: list[tuple[float, float]] = []
    for point in points:
        if point[1] == 0:
            kept.clear()
        kept.append(point)
        if point[1] >= 1:
            break
    return kept
