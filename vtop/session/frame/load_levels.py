"""How a server answers more and more load: a row for each load of vtop's own, against the lowest and the one before."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.session.frame.vocabulary import LoadUnit


@dataclass(frozen=True, slots=True, eq=False)
class LoadLevel:
    """One load (load_levels.py). A slope is of the logarithm against that of the load, from the load before."""

    phase: int
    load: float  # requests in flight, or per second
    queue_of_ttft_ratio: float | None
    queue_of_prefill_ratio: float | None
    queue_slope: float | None
    prefill_slope: float | None
    prefill_factor: float | None  # against the lowest load
    output_per_s: float | None
    output_factor: float | None  # against the lowest load
    load_factor: float
    per_request_per_s: float | None  # output_per_s / load, of a closed loop
    efficiency_ratio: float | None  # of per_request_per_s at the lowest load
    itl_p50_s: float | None
    itl_p99_s: float | None
    itl_tail_ratio: float | None  # p99 / p50


@dataclass(frozen=True, slots=True, eq=False)
class LoadLevels:
    """Those with the shape and the lengths of the latest load, lowest load first."""

    unit: LoadUnit | None = None
    levels: tuple[LoadLevel, ...] = ()
    tail_breaks_at: float | None = None  # the load at which p99 / p50 of ITL jumps
    tail_before: float | None = None  # that ratio at the load before
    tail_from: float | None = None  # which load that is
    tail_after: float | None = None
