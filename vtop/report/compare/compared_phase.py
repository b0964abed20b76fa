"""One phase on every side: its numbers and the noise that their differences are held against (`find`); and, once it is
known how many intervals the whole comparison has, what may be said about each difference (`judge`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from string import ascii_uppercase
from typing import Final

from vtop.difference import judged
from vtop.metrics.histogram import Range
from vtop.report.compare import compared_numbers, noise, phase_blocks
from vtop.report.compare.compared_numbers import FIRST, NUMBERS, ComparedNumber
from vtop.report.compare.noise import StandardError
from vtop.report.compare.parts import Difference, NumberPart, PhasePart
from vtop.report.compare.phase_blocks import MOST, Blocks, RecordedPhase
from vtop.report.numbers import Percentile
from vtop.samples import student

SAME: Final = 1e-9  # relative: what sums of floats differ by

Group = list[list[RecordedPhase]]  # of one phase: of each side, of each of its runs that has it
_WORDS: Final = {"within": "within noise", "no interval": "noise not known"}
_REACH: Final = 1e6  # times as many requests: what would take more is not said


@dataclass(frozen=True, slots=True)
class FoundDifference:
    """A number of another side beside the first's, and the standard error of their difference: of the logarithm of
    their ratio where `log`, of the share at or below `edge` where they are known as buckets."""

    side: str
    first: Percentile
    other: Percentile
    error: StandardError | None
    log: bool = False
    shares: tuple[float, float] | None = None  # at or below the edge between two buckets, first and other
    per_block: float | None = None  # requests; None between runs

    @property
    def has_interval(self) -> bool:
        return self.error is not None and not _alike(self.first, self.other)


@dataclass(frozen=True, slots=True)
class FoundNumber:
    number: ComparedNumber
    part: NumberPart  # without its differences
    found: tuple[FoundDifference, ...]


@dataclass(frozen=True, slots=True)
class FoundPhase:
    part: PhasePart  # without its numbers
    numbers: tuple[FoundNumber, ...]

    @property
    def intervals(self) -> tuple[int, int]:
        """How many of the first numbers, and how many others."""
        names = [number.number.name for number in self.numbers for one in number.found if one.has_interval]
        first = sum(name in FIRST for name in names)
        return first, len(names) - first


def label(place: RecordedPhase) -> str:
    """A phase's short name; of a recording with one phase and no load on record the file's."""
    if place.phase.source == "activity":
        return place.of.report.file.partition(".jsonl")[0]
    return place.phase.label


def find(group: Group, by: Sequence[str | None], per_gpu: Sequence[int | None]) -> FoundPhase:
    labels = [label(side[0]) if side else None for side in group]
    own = all(place.phase.load is not None for side in group for place in side)
    sending = own and all(
        place.phase.load is not None and place.phase.load.output_per_s is not None for side in group for place in side
    )
    known = [(side, divide) for side, divide in zip(group, per_gpu, strict=True)]
    cuts = [_cut(group[0], side, own=own, sending=sending) if side else None for side in group[1:]]
    numbers = []
    for number in NUMBERS:
        mine = sending if number.scope == "sending" else own
        found = _number(number, known, cuts, own=mine)
        if any(value is not None for value in found.part.values):
            numbers.append(found)
    names = [place.phase.load is not None for side in group for place in side[:1]]
    part = PhasePart(
        label=next((label for label, load in zip(filter(None, labels), names, strict=True) if load), labels[0] or ""),
        phases=tuple(labels),
        paired=tuple(by),
        noise=tuple(_noise(group[0], side, cut) if side else "" for side, cut in zip(group[1:], cuts, strict=True)),
        numbers=(),
    )
    return FoundPhase(part, tuple(numbers))


def judge(phase: FoundPhase, first: float, other: float) -> PhasePart:
    """With the confidence of each interval of the first numbers, and of each other."""
    numbers = []
    for one in phase.numbers:
        confidence = first if one.number.name in FIRST else other
        differences = tuple(_difference(one.number, found, confidence) for found in one.found)
        numbers.append(replace(one.part, differences=differences))
    return replace(phase.part, numbers=tuple(numbers))


Cut = tuple[Blocks, Blocks]  # of the first side and of the other


def _cut(first: Sequence[RecordedPhase], other: Sequence[RecordedPhase], *, own: bool, sending: bool) -> Cut | None:
    """Both sides in equally many blocks; None where there are repeats, whose noise is better known."""
    if len(first) + len(other) > 2:
        return None
    counts = phase_blocks.counts((first[0], other[0]), own=own, sending=sending)
    a, b = (phase_blocks.cut(place, counts, own=own) for place in (first[0], other[0]))
    return a, b


def _noise(first: Sequence[RecordedPhase], other: Sequence[RecordedPhase], cut: Cut | None) -> str:
    if cut is None:
        return f"between runs: {len(first)} of one, {len(other)} of the other"
    both, blocks = (first[0], other[0]), cut[0]
    if any(phase_blocks.runs_s(place.phase) is None for place in both):
        return "not known: how long a request runs is not on record"
    many = blocks.requests.blocks if blocks.requests is not None else len(blocks.whole)
    steady = len(blocks.steady)
    if not many:
        return f"not known: fewer than {noise.LEAST_BLOCKS} rounds of requests{_more(both, 1)}"
    said = f"within a run: {many} blocks of each"
    if not steady:
        said += "; the steady part has too few rounds of requests"
    elif steady != many:
        said += f", of the steady part {steady}"
    fewest = min(many, steady or many)
    return said + (_more(both, fewest) if fewest < noise.FEW_BLOCKS else "")


def _more(both: Sequence[RecordedPhase], rounds: int) -> str:
    """How many requests would make the noise well known."""
    known = [count for place in both if (count := phase_blocks.requests_of(place.phase))]
    if len(known) < len(both):
        return "; let it run longer, or repeat it"
    asked = math.ceil(min(known) / max(1, rounds) * noise.FEW_BLOCKS)
    return f"; about {asked:,} requests make {noise.FEW_BLOCKS} blocks, or repeat it"


def _number(
    number: ComparedNumber,
    sides: Sequence[tuple[list[RecordedPhase], int | None]],
    cuts: Sequence[Cut | None],
    *,
    own: bool,
) -> FoundNumber:
    by = [float(divide) if divide is not None and number.extensive else 1.0 for _, divide in sides]
    runs = [[_divided(compared_numbers.value(number, one.phase, own=own), d) for one in side]
            for (side, _), d in zip(sides, by, strict=True)]  # fmt: skip
    values = tuple(map(_mean, runs))
    found = []
    for at, cut in enumerate(cuts, 1):
        if not runs[at]:
            continue
        first, other, side = values[0], values[at], ascii_uppercase[at]
        if isinstance(first, Range) and isinstance(other, Range):
            found.append(_of_buckets(number, side, (first, other), (sides[0][0], sides[at][0]), cut))
            continue
        log = number.unit != "ratio" and _above_zero(first) and _above_zero(other)
        error = (
            _between_runs(runs[0], runs[at], log=log)
            if cut is None
            else _between_blocks(number, cut, (by[0], by[at]), own=own, log=log)
        )
        places = (sides[0][0][0], sides[at][0][0])
        if log and error is not None and number.name == "finished_per_s":
            counts = [phase_blocks.requests_of(place.phase) for place in places]
            error = error.of_counts(*(max(1.0, count or 1.0) for count in counts))
        found.append(
            FoundDifference(
                side, first, other, error, log, None, _per_block(places, error) if cut is not None else None
            )
        )
    whose = ("own requests" if own else "server") if number.latency is not None else None
    part = NumberPart(
        name=number.name,
        label=number.label,
        unit=number.unit,
        better=number.better,
        whose=whose,
        per_gpu=number.extensive and any(divide is not None for _, divide in sides),
        values=values,
        counts=tuple(_counted(number, side, own=own) for side, _ in sides),
        differences=(),
    )
    return FoundNumber(number, part, tuple(found))


def _above_zero(value: Percentile) -> bool:
    return isinstance(value, float | int) and value > 0


def _per_block(both: Sequence[RecordedPhase], error: StandardError | None) -> float | None:
    known = [count for place in both if (count := phase_blocks.requests_of(place.phase))]
    return min(known) / (error.df + 1) if error is not None and len(known) == len(both) else None


def _of_buckets(
    number: ComparedNumber,
    side: str,
    values: tuple[Range, Range],
    places: tuple[Sequence[RecordedPhase], Sequence[RecordedPhase]],
    cut: Cut | None,
) -> FoundDifference:
    """Two percentiles of the server's histograms: they are apart where the shares at or below the bound between their
    buckets are."""
    first, other = values
    edge = min(bound for bound in (first.high, other.high) if bound is not None) if first != other else None
    if edge is None or number.latency is None:
        return FoundDifference(side, first, other, None)
    below = [[phase_blocks.at_or_below(one, number.latency[0], edge) for one in runs] for runs in places]
    known = [[share for share in runs if share is not None] for runs in below]
    if [len(runs) for runs in known] != [len(runs) for runs in below]:
        return FoundDifference(side, first, other, None)
    shares = (fmean(known[0]), fmean(known[1]))
    if cut is None:
        return FoundDifference(side, first, other, noise.between_runs(known[0], known[1]), shares=shares)
    blocks = min(len(one.whole) for one in cut)
    sums = [phase_blocks.sums_at_or_below(one[0], number.latency[0], edge, blocks) for one in places]
    if not blocks or any(len(one) < blocks for one in sums):
        return FoundDifference(side, first, other, None)
    a, b = (noise.of_sums(*zip(*one, strict=True)) for one in sums)
    error = noise.between_blocks(a, b, blocks)
    return FoundDifference(
        side, first, other, error, shares=shares, per_block=_per_block((places[0][0], places[1][0]), error)
    )


def _counted(number: ComparedNumber, side: Sequence[RecordedPhase], *, own: bool) -> float | None:
    known = [count for one in side if (count := compared_numbers.count(number, one.phase, own=own)) is not None]
    return sum(known) if known else None


def _divided(value: Percentile, by: float) -> Percentile:
    return value / by if isinstance(value, float | int) else value


def _mean(runs: Sequence[Percentile]) -> Percentile:
    """Over runs; a bucket or a failure only where every run says the same; None where a run says nothing."""
    known = [value for value in runs if isinstance(value, float | int)]
    if runs and len(known) == len(runs):
        return fmean(known) if len(known) > 1 else float(known[0])
    return runs[0] if runs and all(value == runs[0] for value in runs) else None


def _between_runs(a: Sequence[Percentile], b: Sequence[Percentile], *, log: bool) -> StandardError | None:
    floats = [[value for value in side if isinstance(value, float | int)] for side in (a, b)]
    if [len(side) for side in floats] != [len(a), len(b)]:
        return None
    return noise.between_runs(floats[0], floats[1], log=log)


def _between_blocks(
    number: ComparedNumber, cut: Cut, by: tuple[float, float], *, own: bool, log: bool
) -> StandardError | None:
    a, b = (phase_blocks.drawn(number, blocks, own=own) for blocks in cut)
    if a is None or b is None or a[0] != b[0]:
        return None
    return noise.between_blocks(a[1] / by[0], b[1] / by[1], a[0], log=log)


# --- what may be said ------------------------------------------------------------------------------------------------


def _difference(number: ComparedNumber, of: FoundDifference, confidence: float) -> Difference:
    a, b = of.first, of.other
    if isinstance(a, Range) and isinstance(b, Range):
        return _between_buckets(number, of, a, b, confidence)
    if not isinstance(a, float) or not isinstance(b, float):
        return Difference(of.side, None, None, None, None, None, None, _unequal(a, b))
    absolute = b - a if not _alike(a, b) else 0.0
    by = abs(a) if a and number.unit != "ratio" else None  # a ratio's difference is one in points
    low = high = low_ratio = high_ratio = None
    if of.error is not None:
        half = of.error.half(confidence)
        if of.log and by is not None:
            middle = math.log(b / a) if absolute else 0.0
            low_ratio, high_ratio = _growth(middle - half), _growth(middle + half)
            low, high = low_ratio * by, high_ratio * by
        else:
            low, high = absolute - half, absolute + half
            low_ratio, high_ratio = (low / by, high / by) if by is not None else (None, None)
    if of.error is not None and of.log and _useless(of.error.half(confidence), math.log(b / a)):
        low = high = low_ratio = high_ratio = None
    interval = (low, high) if low is not None and high is not None else None
    found = judged(absolute, interval, number.better)
    return Difference(
        side=of.side,
        absolute=absolute,
        low=low,
        high=high,
        ratio=absolute / by if by is not None else None,
        low_ratio=low_ratio,
        high_ratio=high_ratio,
        verdict=_WORDS.get(found, found),
        needed=_needed(of, math.log(b / a) if of.log else absolute, confidence)
        if found in ("within", "no interval")
        else None,
    )


def _between_buckets(number: ComparedNumber, of: FoundDifference, a: Range, b: Range, confidence: float) -> Difference:
    """Buckets that differ hold no value in common: which way they lie is known, how far between two bounds."""
    if a == b:
        return Difference(of.side, None, None, None, None, None, None, "same bucket")
    low = b.low - a.high if a.high is not None and math.isfinite(b.low) else None
    high = b.high - a.low if b.high is not None and math.isfinite(a.low) else None
    verdict, needed = "other bucket", None
    if of.error is not None and of.shares is not None:
        less, half = of.shares[0] - of.shares[1], of.error.half(confidence)  # fewer at or below: it is longer
        found = judged(less, (less - half, less + half), number.better)
        verdict = _WORDS.get(found, found) if found != "same" else "other bucket"
        needed = _needed(of, less, confidence) if found == "within" else None
    return Difference(
        side=of.side,
        absolute=None,
        low=low,
        high=high,
        ratio=None,
        low_ratio=b.low / a.high - 1 if a.high else None,
        high_ratio=b.high / a.low - 1 if b.high is not None and a.low > 0 else None,
        verdict=verdict,
        needed=needed,
    )


def _useless(half: float, middle: float) -> bool:
    """Whether an interval of a ratio says nothing: it holds 1 and reaches beyond a factor of 10."""
    return half > abs(middle) and half > math.log(10)


def _growth(logarithm: float) -> float:
    return math.expm1(min(logarithm, 700.0))


def _needed(of: FoundDifference, difference: float, confidence: float) -> int | None:
    """About how many requests on each side would show a difference this large, with as much noise from block to block;
    None where that is not to be told."""
    if of.error is None or of.per_block is None or not difference:
        return None
    blocks, more = of.error.df + 1, 1.0
    while more < _REACH:
        more *= 1.1
        half = student(min(MOST, int(blocks * more)) - 1, confidence) * of.error.value / math.sqrt(more)
        if half < abs(difference):
            return math.ceil(blocks * more * of.per_block)
    return None


def _alike(a: Percentile, b: Percentile) -> bool:
    return isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=SAME)


def _unequal(a: Percentile, b: Percentile) -> str:
    return "not known" if a is None or b is None else "not comparable"
