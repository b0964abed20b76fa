"""Requests in a frame: how many run, wait and were preempted, and Little's law over them."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.session.frame.values import Count, Gauge
from vtop.session.frame.vocabulary import DatedBy, QueueTrend


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    running: Gauge
    waiting: Gauge
    waiting_by_reason: tuple[tuple[str, float], ...]  # now, where exported
    finished: Count
    finished_by_reason: tuple[tuple[str, float], ...]  # in the window, those that happened
    rejected: Count
    answers_each: float | None = None  # mean n of the users' requests that finished; each answer counts as a request
    users_per_s: float | None = None  # of those requests


@dataclass(frozen=True, slots=True, eq=False)
class PreemptionEvent:
    """One fall of the stair (preemption.py): the scrape on which it shows, and the scrape before it."""

    at_s: float
    server: int
    count: float  # requests put back in this step of the stair
    dated_by: DatedBy
    kv_before_ratio: float | None
    kv_after_ratio: float | None
    freed_ratio: float | None  # fall of KV use, all of `count` together
    freed_tokens: float | None
    running_before: float | None
    running_after: float | None
    waiting_before: float | None
    waiting_after: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Preemption:
    count: Count
    latest_at_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Staircase:
    """The preemptions of the window, what triggers them and how regularly they come (preemption.py)."""

    events: tuple[PreemptionEvent, ...] = ()  # in the window, the latest 1,000, oldest first
    unconfirmed: int = 0  # seen by the gauges and not yet in the counter
    trigger_mean_ratio: float | None = None  # KV use on the scrape before
    trigger_low_ratio: float | None = None
    freed_mean_tokens: float | None = None  # a preemption
    interval_mean_s: float | None = None  # seconds of the window ÷ preemptions in it
    per_minute: float | None = None  # preemptions in the window ÷ its minutes
    cycle_s: float | None = None  # from event to event, mean; an event may be several preemptions
    cycle_spread_s: float | None = None  # standard deviation
    slope_per_s: float | None = None  # of the straight line through the stair, from its first event to its last
    straightness: float | None = None  # R² of that line
    steady: bool = False  # regular enough to be called a cycle
    cycle: str | None = None  # the phrase for it
    per_request: float | None = None  # preemptions of a finished request, where exported
    thrashing: float | None = None  # finished requests that were preempted more than 5 times, where exported
    by_reason: tuple[tuple[str, float], ...] = ()  # where exported


@dataclass(frozen=True, slots=True, eq=False)
class Little:
    """Little's law for one place: how many are there = how many come per second x how long each stays."""

    present: float  # mean measured
    per_s: float
    stay_s: float  # mean measured
    expected: float  # per_s x stay_s
    residual_ratio: float | None  # (present - expected) / expected


@dataclass(frozen=True, slots=True, eq=False)
class Queueing:
    """Queue and residence over the window (queueing.py)."""

    running: Little | None = None
    waiting: Little | None = None
    trend: QueueTrend | None = None  # None: too little to tell
    slope_per_s: float | None = None  # Sen's slope of waiting
    p_value: float | None = None  # Mann-Kendall, two-sided
    waiting_share: float | None = None  # of a finished request's life
