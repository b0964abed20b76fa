"""A gauge and a counter over the window: the two kinds of number that other parts of a frame are made of."""

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
