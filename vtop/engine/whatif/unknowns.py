"""What nobody knows of a server that is to be predicted, as draws: plausible hosts, GPUs and chances, each simulated.

A host launches steps faster or slower than the profile's, and than itself a minute ago; a GPU is a per cent off; from
second to second the host drifts; and it is chance who meets whom in a step. Every draw is one such set. What the
simulations of all of them say is spread as widely as what may well come, in whatever way each number depends on the
host. On top of that comes what the model itself gets wrong. The sizes below were seen of eight H200 hosts, a few runs
each (bench/coverage.py, which also leaves each host out and counts how often the measured value lies in the interval).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from random import Random
from statistics import NormalDist, fmean, stdev
from typing import Final

from vtop.engine.fit.calibration import AS_FITTED, HostFactors
from vtop.engine.runs.measured import MeasuredNumber
from vtop.samples import student

DRAWS: Final = 8
CONFIDENCE: Final = 0.9
_NORMAL: Final = 1.645


@dataclass(frozen=True, slots=True)
class FactorSpread:
    """Standard deviations of logarithms: of a host's launches, of a GPU's speed, and of launches from second to
    second."""

    launch: float
    gpu: float
    drift: float = 0.2


ELSEWHERE: Final = FactorSpread(0.16, 0.015)  # another host than the profile's
AGAIN: Final = FactorSpread(0.2, 0.015)  # from one time to another on the recorded host
NONE: Final = FactorSpread(0.0, 0.0, 0.0)
# what the model itself is off, by number, as a share; where none is stated: OTHER. Root mean square over the recordings
# that the profile was not fitted on, with each one's own host factors, and a third more for having fitted those
MODEL: Final[Mapping[str, float]] = {
    "output_per_s": 0.01,
    "requests_per_s": 0.01,
    "ttft_s": 0.09,
    "ttft_p50_s": 0.22,
    "ttft_p90_s": 0.19,
    "ttft_p99_s": 0.19,
    "queue_s": 0.19,
    "prefill_s": 0.06,
    "frontend_s": 0.24,
    "tpot_s": 0.02,
    "tpot_p99_s": 0.03,
    "e2e_s": 0.01,
    "e2e_p99_s": 0.02,
    "running": 0.05,
    "kv_ratio": 0.05,
    "recomputed_ratio": 0.08,
}
OTHER: Final = 0.1
# and in the number's unit: the simulated engine admits at once or after a step, and counts no part of one
FLOOR: Final[Mapping[str, float]] = {"queue_s": 0.005, "preemptions": 0.5}


@dataclass(frozen=True, slots=True)
class Draw:
    """One plausible server. seed: of the host's drift, of the load's chance and of when scrapes fall."""

    factors: HostFactors
    drift: float
    seed: int


@dataclass(frozen=True, slots=True)
class Interval:
    """In the number's unit; so sure (CONFIDENCE) that the value lies in it."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def draws(around: HostFactors, spread: FactorSpread, count: int = DRAWS) -> tuple[Draw, ...]:
    """So many plausible servers: of each factor one from every one of `count` equally likely ranges."""
    launches, gpus = _strata(count, 1), _strata(count, 2)
    return tuple(
        Draw(
            HostFactors(
                launch=around.launch * exp(spread.launch * launch),
                gpu=around.gpu * exp(spread.gpu * gpu),
            ),
            spread.drift,
            seed,
        )
        for seed, (launch, gpu) in enumerate(zip(launches, gpus, strict=True))
    )


def by_chance_alone(factors: HostFactors = AS_FITTED, count: int = 3) -> tuple[Draw, ...]:
    """The same server several times: only who meets whom differs."""
    return draws(factors, NONE, count)


def interval(
    number: MeasuredNumber,
    values: Sequence[float | None],
    own_error: float | None = None,
    model: Mapping[str, float] = MODEL,
) -> Interval | None:
    """Where one more value may well lie, by those of the draws and what the model itself is off.

    own_error: of the model on the recording itself, as a share, where that is known; None where a value is not known.
    """
    known = [value for value in values if value is not None]
    if len(known) < 2 or len(known) < len(values):
        return None
    off = max(model.get(number.name, OTHER), abs(own_error or 0.0) / _NORMAL)
    least = FLOOR.get(number.name, 0.0)
    wider, t = sqrt(1.0 + 1.0 / len(known)), student(len(known) - 1, CONFIDENCE)
    if number.counted or number.unit == "ratio" or min(known) <= 0.0:
        mean = fmean(known)
        half = sqrt((t * wider * stdev(known)) ** 2 + (_NORMAL * off * abs(mean)) ** 2)
        return Interval(max(0.0, mean - half - least), mean + half + least)
    logs = [log(value) for value in known]
    half = sqrt((t * wider * stdev(logs)) ** 2 + (_NORMAL * off) ** 2)
    low, high = exp(fmean(logs) - half), exp(fmean(logs) + half)
    return Interval(max(0.0, low - least), high + least)


def paired_doubt(number: MeasuredNumber, one: Sequence[float | None], other: Sequence[float | None]) -> float | None:
    """Half the interval of what two sets of flags differ by, simulated with the same draws, in the number's unit."""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    if len(pairs) < 2 or len(pairs) < len(one):
        return None
    chance = student(len(pairs) - 1, CONFIDENCE) * sqrt(1.0 + 1.0 / len(pairs)) * stdev(b - a for a, b in pairs)
    size = max(abs(fmean(a for a, _ in pairs)), abs(fmean(b for _, b in pairs)))
    half = sqrt(chance**2 + (_NORMAL * MODEL.get(number.name, OTHER) * size) ** 2)
    return max(half, sqrt(size)) if number.counted else half


def ratio_doubt(name: str, changes: Sequence[float]) -> float | None:
    """The same of a ratio: half the interval of a logarithm, by those of the pairs. None of too few."""
    if len(changes) < 2:
        return None
    chance = student(len(changes) - 1, CONFIDENCE) * sqrt(1.0 + 1.0 / len(changes)) * stdev(changes)
    return sqrt(chance**2 + (_NORMAL * MODEL.get(name, OTHER)) ** 2)


def _strata(count: int, seed: int) -> list[float]:
    """The middles of `count` equally likely ranges of a normal number, in some order."""
    middles = [NormalDist().inv_cdf((number + 0.5) / count) for number in range(count)]
    Random(seed).shuffle(middles)
    return middles
