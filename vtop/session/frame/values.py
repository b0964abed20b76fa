"""A gauge, a counter and a throughput over the window: the kinds of number that a frame's other parts are made of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Gauge:
    """A number that is looked at once per scrape: now, and over the n scrapes of the window."""

    now: float | None
    mean: float | None
    median: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True, eq=False)
class Count:
    """A number that only grows: how much in the window, per second there, and since vtop attached."""

    in_window: float | None
    per_s: float | None
    since_start: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Throughput:
    """What was done a second while requests were in the engine (history/busy.py); of several servers in any."""

    busy_s: float | None = None  # seconds in which requests were in the engine; of several servers in any
    output_per_s: float | None = None  # generated tokens
    prompt_per_s: float | None = None
    finished_per_s: float | None = None  # requests
