"""A search of capacity in a frame: what it knows so far, and the run that is under way."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.session.frame.vocabulary import RateVerdict, SearchEnd, SearchRule


@dataclass(frozen=True, slots=True, eq=False)
class CapacityRate:
    """A rate that was tried. Ratios: of the requests that kept every bound, over its runs."""

    rate_per_s: float
    verdict: RateVerdict
    runs: int
    lowest_ratio: float | None
    mean_ratio: float | None
    half_ratio: float | None  # of the 99 % interval of the mean, by which the long-run rule judges


@dataclass(frozen=True, slots=True, eq=False)
class CapacityRun:
    """The run that is under way. number: from 1, among those of its rate."""

    rate_per_s: float
    seed: int | None
    number: int
    hold: bool  # the long one at the passing rate


@dataclass(frozen=True, slots=True, eq=False)
class SimulatedCapacity:
    """What the simulated engine found before. speed: of the measured capacity / the simulated one, as far as both
    brackets bound it."""

    by: str  # the profile
    passes_per_s: float | None
    fails_per_s: float | None
    hosts: int  # other plausible ones that were simulated too
    least_per_s: float | None  # that passes on any of them
    most_per_s: float | None  # that fails on any of them
    speed_least_ratio: float | None
    speed_most_ratio: float | None


@dataclass(frozen=True, slots=True, eq=False)
class CapacityPart:
    """The search that goes on, or the last one. passes, fails: its bracket; None: no such rate is known yet."""

    server: int
    rule: SearchRule
    target_ratio: float
    bounds: tuple[tuple[str, float], ...]  # ttft, tpot, e2e; seconds
    spec: str  # of each request
    planned_runs: int  # a rate
    requests: int  # a run
    rates: tuple[CapacityRate, ...]  # the lowest first
    passes_per_s: float | None
    fails_per_s: float | None
    undecided_per_s: tuple[float, ...]
    monotone: bool  # False: a rate passed above one that failed
    runs: int  # made so far
    not_counted: int  # of them, as they are no evidence
    not_counted_why: str | None  # of the last of these
    left_runs: int | None  # about; None at the end
    left_s: float | None  # of load, about
    running: CapacityRun | None
    simulated: SimulatedCapacity | None
    end: SearchEnd | None
    why: str | None  # it ended, in detail
