"""GPUs in a frame: each one now, their energy, and the engine's arithmetic against their peaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from vtop.recording.vocabulary import PowerKind
from vtop.session.frame.values import Gauge
from vtop.session.frame.vocabulary import EnergySource


@dataclass(frozen=True, slots=True, eq=False)
class GpuPart:
    """One GPU, now, and its power over the window."""

    index: int
    uuid: str
    name: str | None
    serving: bool | None
    lost: str | None
    util_ratio: float | None
    mem_used_bytes: int | None
    mem_total_bytes: int | None
    power: Gauge
    power_kind: PowerKind | None
    power_limit_w: float | None
    energy_j: float | None  # in the window
    temp_c: float | None
    sm_mhz: float | None
    sm_max_mhz: float | None
    mem_mhz: float | None
    mem_max_mhz: float | None
    throttle: tuple[str, ...] | None
    age_s: float
    temp_high_c: float | None = None  # in the window
    mig_instances: int | None = None  # of a card that MIG divides: the parts that its memory is of


@dataclass(frozen=True, slots=True, eq=False)
class Gpus:
    devices: tuple[GpuPart, ...]
    note: str | None  # why there are none, or what is wrong
    local: bool  # a watched server runs on this host, so the GPUs may be its own
    power_w: float | None  # of the GPUs in use by a server where that is known, else of all; None if one is not known
    power_limit_w: float | None
    counted: int  # how many GPUs power_w is about
    age_s: float | None
    powered: int = 0  # of the counted, those whose power is known
    least_power_w: float | None = None  # theirs together


class _Gpu(Protocol):
    @property
    def serving(self) -> bool | None: ...


_AnyGpu = TypeVar("_AnyGpu", bound=_Gpu)


def counted_of(gpus: Sequence[_AnyGpu]) -> Sequence[_AnyGpu]:
    """Those that power, energy, clocks and names are about: the GPUs in use by a watched server where NVML tells of
    any, else all of the host. One whose processes cannot be listed (serving: None) counts only in the second case."""
    return [gpu for gpu in gpus if gpu.serving] or gpus


@dataclass(frozen=True, slots=True, eq=False)
class Roofline:
    """What the counters of --enable-mfu-metrics say about the arithmetic, per GPU, over the window (roofline.py)."""

    flops_per_s: float | None = None
    bytes_per_s: float | None = None  # read and written
    intensity: float | None = None  # FLOP per byte
    mfu_ratio: float | None = None  # of the GPU's dense peak
    bandwidth_ratio: float | None = None
    gpu: str | None = None  # whose peaks
    peak_flops_per_s: float | None = None
    peak_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Energy:
    """Joules over the window, of the GPUs counted (energy.py)."""

    joules: float | None = None
    source: EnergySource | None = None
    per_output_token_j: float | None = None
    per_token_j: float | None = None  # prompt and output
    idle_w: float | None = None  # lowest power seen while nothing ran, in the session so far
    idle_share: float | None = None  # idle_w x window / joules
    near_limit_share: float | None = None  # of readings at 97 % of the power limit or more
    throttled_share: float | None = None  # of readings with a reason that holds the clock down, idle ones left out
    throttle: tuple[tuple[str, float], ...] = ()  # each reason with its share
    apart_ratio: float | None = None  # counters / integrated power - 1, where both tell of the same span
