"""What a comparison says, as plain frozen records: who was compared, and each number of each phase on every side."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.report.compare.unlike_runs import DifferingSetting, Unlike
from vtop.report.numbers import Percentile


@dataclass(frozen=True, slots=True)
class SidePart:
    """A side: its letter, and the files of each of its runs."""

    name: str
    runs: tuple[tuple[str, ...], ...]
    gpus: int | None  # counted; None where no GPU is on record or its runs have unlike many


@dataclass(frozen=True, slots=True)
class Difference:
    """Of another side from the first. Bounds and ratios are of other - first; ratios are by the first's value.

    Of two percentiles that are known as buckets the difference lies between low and high, and absolute is None.
    needed: requests on each side, about, with which a difference this large would be beyond the noise; of one within it
    or without an interval.
    verdict: same, within noise, better, worse, higher, lower (where neither is good), noise not known, same bucket,
    other bucket (whose noise is not known), not known (a side says nothing), not comparable (a failed request stands
    there).
    """

    side: str
    absolute: float | None
    low: float | None
    high: float | None
    ratio: float | None
    low_ratio: float | None
    high_ratio: float | None
    verdict: str
    needed: int | None = None

    @property
    def judged(self) -> bool:
        """Whether it was held against a noise, or is none."""
        return self.beyond or self.verdict in ("same", "within noise")

    @property
    def beyond(self) -> bool:
        """Whether it is a difference beyond the noise."""
        return self.verdict in ("better", "worse", "higher", "lower")


@dataclass(frozen=True, slots=True)
class NumberPart:
    """One number on every side: per GPU where `per_gpu`, a mean over runs where there are several."""

    name: str
    label: str
    unit: str  # per_s, s, ratio, count, W, J
    better: str | None  # higher, lower
    whose: str | None  # of a latency: own requests, server
    per_gpu: bool
    values: tuple[Percentile, ...]
    counts: tuple[float | None, ...]  # observations behind them, of all runs together
    differences: tuple[Difference, ...]  # of each side after the first that has the phase


@dataclass(frozen=True, slots=True)
class PhasePart:
    """One phase on every side that has it. paired: load, name, order; None for the first, and for a side without it."""

    label: str
    phases: tuple[str | None, ...]  # what each side calls it
    paired: tuple[str | None, ...]
    noise: tuple[str, ...]  # of each side after the first: what its noise was judged by, or why it is not known
    numbers: tuple[NumberPart, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    sides: tuple[SidePart, ...]
    confidence: float  # of all intervals together
    intervals: int  # how many there are
    first_confidence: float  # of each of the first numbers
    other_confidence: float  # of each other
    settings: tuple[DifferingSetting, ...]  # what differs, each side in its words
    unlike: tuple[Unlike, ...]  # compared all the same, as was asked
    left_out: tuple[tuple[str, str], ...]  # side and phase without a counterpart
    phases: tuple[PhasePart, ...]
