"""Queue and residence: Little's law both ways, whether the queue grows, and how much of a request's life is waiting.

    present = arrivals per second x stay            (Little's law; exact in the long run for whatever neither piles
                                                     up nor runs dry)
    running: mean running  against  finished/s x mean inference time (prefill + decode) of the finished
    waiting: mean waiting  against  first tokens/s x mean queue time of the finished

    residual = (measured - expected) / expected

First tokens stand for first schedulings, which no counter tells. A residual far from 0 says that the window is no
steady state: running or waiting filled or emptied, requests left without finishing (aborted ones are in no
histogram), gauges stand still. Under preemption waiting lies above (to wait again is in waiting, and is not in queue
time) and running below (it is in inference time). Gaps are left out, on both sides.

Trend: Mann-Kendall on at most BATCHES means of waiting over equal spans, since the latest gap and the latest
change of vtop's own load (begun, warm, by hand); none in a server whose data are old, and none when nothing runs or
waits any more. Queues remember, so neighbours are not independent: the variance is widened to that of an AR(1) series
with the autocorrelation that is left when the best parabola is taken out (after Yue and Wang 2004; the bias of short
series put right after Marriott and Pope 1954), by the less the more the series is in order anyway (1 - tau^4: what a
smooth growth leaves is no noise). Growing or draining: p < ALPHA, Sen's slope times the span is at least RISE of the
mean and 1 request, and the later half goes on the same way, so that a step which is over is no growth.

Several servers: present and arrivals add up, stay is the mean over all. Requests, seconds. Source: vLLM
v1/metrics/stats.py; J. D. C. Little 1961; H. B. Mann 1945; P. K. Sen 1968.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Final

from vtop.metrics.quantity import Quantity
from vtop.session.frame.requests import Little, Queueing
from vtop.session.frame.vocabulary import QueueTrend
from vtop.session.history.window import ScrapeRange, Window

BATCHES: Final = 30
ENOUGH: Final = 12  # scrapes
ALPHA: Final = 0.01
RISE: Final = 0.1
GOES_ON: Final = 0.25  # of the whole slope, in the later half


@dataclass(frozen=True, slots=True)
class Trend:
    """A monotone trend of a series: Sen's slope per step, and the two-sided p of Mann-Kendall."""

    slope: float
    p_value: float


def queueing(window: Window, present: Window) -> Queueing:
    """present: what of the window is under the load of now and warm, that of the trend."""
    queue, e2e = window.sums(Quantity.QUEUE), window.sums(Quantity.E2E)
    share = queue[0] / e2e[0] if queue is not None and e2e is not None and e2e[0] > 0 else math.nan
    word, slope_per_s, p_value = _trend(present)
    return Queueing(
        running=_little(window, Quantity.RUNNING, Quantity.INFERENCE, Quantity.INFERENCE),
        waiting=_little(window, Quantity.WAITING, Quantity.TTFT, Quantity.QUEUE),
        trend=word,
        slope_per_s=slope_per_s,
        p_value=p_value,
        waiting_share=min(1.0, max(0.0, share)) if share == share else None,
    )


def _little(window: Window, place: Quantity, arrivals: Quantity, stay: Quantity) -> Little | None:
    """Over the servers that answer; None before anything finished."""
    present = per_s = stayed_s = left = 0.0
    for one in window.answering:
        found = _of_one(one, place, arrivals, stay)
        if found is not None:
            present, per_s = present + found[0], per_s + found[1]
            stayed_s, left = stayed_s + found[2], left + found[3]
    if left <= 0 or per_s <= 0 or stayed_s != stayed_s:
        return None
    stay_s = stayed_s / left
    expected = per_s * stay_s
    residual = (present - expected) / expected if expected > 0 else None
    return Little(present=present, per_s=per_s, stay_s=stay_s, expected=expected, residual_ratio=residual)


def _of_one(
    one: ScrapeRange, place: Quantity, arrivals: Quantity, stay: Quantity
) -> tuple[float, float, float, float] | None:
    """(mean present, arrivals per second, seconds stayed, by how many) in the pieces between gaps of one server."""
    gauge, arrived, stayed = one.server.total(place), one.server.histogram(arrivals), one.server.histogram(stay)
    if gauge is None or arrived is None or stayed is None:
        return None
    values: list[float] = []
    seconds = came = stayed_s = left = 0.0
    for piece in one.pieces:
        came_here, stayed_here = arrived.sums(piece.first, piece.last), stayed.sums(piece.first, piece.last)
        if piece.seconds <= 0 or came_here is None or stayed_here is None:
            continue
        values += gauge.each(piece.first, piece.last)
        seconds, came = seconds + piece.seconds, came + came_here[1]
        stayed_s, left = stayed_s + stayed_here[0], left + stayed_here[1]
    return (fmean(values), came / seconds, stayed_s, left) if values and seconds > 0 else None


# --- trend ------------------------------------------------------------------------------------------------------------


def _trend(window: Window) -> tuple[QueueTrend | None, float | None, float | None]:
    """(growing, draining or steady; Sen's slope per second; p); None where there is too little to tell."""
    window, since_s = Window(window.answering), -math.inf
    for one in window.ranges:
        pieces = one.pieces
        if len(pieces) > 1:
            since_s = max(since_s, one.server.at_s[pieces[-1].first])
    first = bisect_left(window.instants, since_s)
    held = window.each_together(Quantity.WAITING)[first:]
    waiting = [value for value in held if value == value]
    if len(waiting) < ENOUGH:
        return None, None, None
    means = batches(waiting, BATCHES)
    seconds = window.instants[-1] - window.instants[first]
    step_s = seconds / (len(held) - 1) * len(held) / len(means)
    if step_s <= 0:
        return None, None, None
    found = trend(means)
    per_s = found.slope / step_s
    grown = abs(per_s) * seconds
    word: QueueTrend = "steady"
    if found.p_value < ALPHA and grown >= max(1.0, RISE * fmean(means)):
        later = sen(means[len(means) // 2 :]) / found.slope
        if later >= GOES_ON:
            word = "growing" if found.slope > 0 else "draining"
    return word, per_s, found.p_value


def batches(values: Sequence[float], many: int) -> list[float]:
    """Means of at most so many spans of the series, as equal as can be."""
    count = min(many, len(values))
    edges = [len(values) * k // count for k in range(count + 1)]
    return [fmean(values[edges[k] : edges[k + 1]]) for k in range(count)]


def trend(values: Sequence[float]) -> Trend:
    """Of a series of ENOUGH or more, one value a step."""
    n = len(values)
    slope = sen(values)
    score = sum((values[j] > values[i]) - (values[j] < values[i]) for j in range(n) for i in range(j))
    if score == 0:
        return Trend(slope, 1.0)
    order = 2 * score / (n * (n - 1))  # Kendall's tau: 1 when it never falls
    ties = [values.count(value) for value in set(values)]
    variance = (n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)) / 18
    variance *= 1 + (_inflation(values) - 1) * (1 - order**4)
    return Trend(slope, math.erfc((abs(score) - 1) / math.sqrt(2 * variance)))


def sen(values: Sequence[float]) -> float:
    """Sen's slope: the median of the slopes between any two values."""
    n = len(values)
    return median((values[j] - values[i]) / (j - i) for j in range(n) for i in range(j))


def _inflation(values: Sequence[float]) -> float:
    """By how much the autocorrelation of a series without its curve widens the variance of Mann-Kendall's score."""
    n = len(values)
    off = _straightened(values)
    spread = sum(one * one for one in off)
    if spread <= 1e-12 * sum(value * value for value in values):
        return 1.0
    r = sum(a * b for a, b in pairwise(off)) / spread
    r = min(0.95, (n * r + 3) / (n - 5))  # short series show too little of it
    return 1 + 2 * sum((1 - k / n) * r**k for k in range(1, n)) if r > 0 else 1.0


def _straightened(values: Sequence[float]) -> list[float]:
    """What is left of a series without its best parabola."""
    n = len(values)
    line = [k - (n - 1) / 2 for k in range(n)]
    curve = [x * x - (n * n - 1) / 12 for x in line]
    mean = fmean(values)
    a = sum(x * value for x, value in zip(line, values, strict=True)) / sum(x * x for x in line)
    b = sum(x * value for x, value in zip(curve, values, strict=True)) / sum(x * x for x in curve)
    return [value - mean - a * x - b * y for value, x, y in zip(values, line, curve, strict=True)]
