"""The preemption staircase of a window: what triggers the steps, what they free, and whether they are a steady cycle.

The steps, and how each of them is dated, are preemption_detector.py's. Over those of the window

    freed     = fall of KV use over the step's scrape; in tokens fall x pool + generated (by that the others grew
                meanwhile), where nobody finished or began meanwhile: what the victim held, rounded up to blocks
    trigger   = KV use on the scrape before, of those dated by the gauges
    interval  = seconds of the window / preemptions in it, whether an event shows them or not; per minute: its inverse
    cycle     = mean time from event to event; several preemptions between two scrapes are one event
    slope, straightness: least-squares line through (time, how many so far) and its R²

It is called a cycle when there are STEADY_EVENTS or more, the intervals vary by less than STEADY_SPREAD of their mean
(events that come by chance vary by 1), the line has R² >= STRAIGHT, the mean trigger is NEAR_FULL and the mean interval
spans APART scrapes (one an interval is how often vtop looks, not how often it happens). Times are those of scrapes:
right to one interval between scrapes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from operator import itemgetter
from statistics import fmean

from vtop import units
from vtop.metrics.quantity import Quantity
from vtop.session.frame.requests import PreemptionEvent, Staircase
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import Window
from vtop.session.kv.preemption_detector import GAUGES, NEAR_FULL, PreemptionDetector

EVENTS_SHOWN = 1000  # the latest; what they free is averaged over these, all else over all
STEADY_EVENTS = 6
STEADY_SPREAD = 0.7
STRAIGHT = 0.98
APART = 2.0
THRASHING = 5.0  # a bucket bound of vLLM's histogram


def staircase(window: Window, detectors: Mapping[ServerHistory, PreemptionDetector]) -> Staircase:
    found = [(detectors[one.server], one) for one in window.ranges if one.server in detectors]
    steps = [
        (detector.at_s(step), detector, step) for detector, one in found for step in detector.steps(one.first, one.last)
    ]
    steps.sort(key=itemgetter(0))
    triggers = [detector.trigger(step) for _, detector, step in steps if step.dated_by == GAUGES]
    known = [ratio for ratio in triggers if ratio == ratio]
    events = [detector.event(step) for _, detector, step in steps[-EVENTS_SHOWN:]]
    times = [at_s for at_s, _, _ in steps]
    cycle_s, spread_s = _intervals(times)
    count = window.delta(Quantity.PREEMPTIONS) or 0.0
    line = _line(times, [step.count for _, _, step in steps])
    finished = window.sums(Quantity.REQUEST_PREEMPTIONS)
    staircase = Staircase(
        events=tuple(events),
        unconfirmed=round(sum(detector.unconfirmed(one.last) for detector, one in found)),
        trigger_mean_ratio=fmean(known) if known else None,
        trigger_low_ratio=min(known, default=None),
        freed_mean_tokens=_mean_freed(events),
        interval_mean_s=window.counted_s / count if count else None,
        per_minute=60 * count / window.counted_s if count and window.counted_s > 0 else None,
        cycle_s=cycle_s,
        cycle_spread_s=spread_s,
        slope_per_s=line[0] if line is not None else None,
        straightness=line[1] if line is not None else None,
        per_request=finished[0] / finished[1] if finished is not None and finished[1] > 0 else None,
        thrashing=_thrashing(window),
        by_reason=window.by_part(Quantity.PREEMPTIONS_BY_REASON, window.delta),
    )
    scrapes = max((one.last - one.first for _, one in found), default=0)
    steady = scrapes > 0 and _steady(staircase, window.counted_s / scrapes)
    return replace(staircase, steady=steady, cycle=_cycle(staircase) if steady else None)


def _mean_freed(events: Sequence[PreemptionEvent]) -> float | None:
    """Per preemption, of the events that show it."""
    shown = [(event.freed_tokens, event.count) for event in events if event.freed_tokens is not None]
    count = sum(count for _, count in shown)
    return sum(tokens for tokens, _ in shown) / count if count else None


def _intervals(times: Sequence[float]) -> tuple[float | None, float | None]:
    """(mean, standard deviation) of the times between events."""
    gaps = [b - a for a, b in pairwise(times)]
    if not gaps:
        return None, None
    mean = fmean(gaps)
    square = sum([(gap - mean) ** 2 for gap in gaps])
    return mean, math.sqrt(square / (len(gaps) - 1)) if len(gaps) > 1 else None


def _line(times: Sequence[float], counts: Sequence[float]) -> tuple[float, float] | None:
    """(slope per second, R²) of the straight line through the stair; None for fewer than three steps."""
    if len(times) < 3 or times[0] == times[-1]:
        return None
    heights = list(accumulate(counts))
    middle, height = fmean(times), fmean(heights)
    across = sum([(t - middle) ** 2 for t in times])
    up = sum([(h - height) ** 2 for h in heights])
    both = sum([(t - middle) * (h - height) for t, h in zip(times, heights, strict=True)])
    return both / across, both * both / (across * up)


def _thrashing(window: Window) -> float | None:
    histogram = window.histogram(Quantity.REQUEST_PREEMPTIONS)
    if histogram is None or THRASHING not in histogram.le:
        return None
    return sum(histogram.n[histogram.le.index(THRASHING) + 1 :])


def _steady(staircase: Staircase, scrape_s: float) -> bool:
    mean, spread = staircase.cycle_s, staircase.cycle_spread_s
    return (
        len(staircase.events) >= STEADY_EVENTS
        and mean is not None
        and spread is not None
        and spread < STEADY_SPREAD * mean
        and mean >= APART * scrape_s
        and (staircase.straightness or 0.0) >= STRAIGHT
        and (staircase.trigger_mean_ratio or 0.0) >= NEAR_FULL
    )


def _cycle(staircase: Staircase) -> str:
    words = f"admit, fill, preempt, refill: every {staircase.cycle_s:.1f} s ± {staircase.cycle_spread_s:.1f}"
    words += f", at KV {units.percent(staircase.trigger_mean_ratio)}"
    freed = staircase.freed_mean_tokens
    return words + (f", {units.count(freed)} tokens freed each time" if freed is not None else "")
