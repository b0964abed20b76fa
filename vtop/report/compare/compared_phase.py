"""One phase on every side: its numbers, their differences, and the noise that these are held against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from string import ascii_uppercase
from typing import Final

from vtop.difference import judged
from vtop.metrics.histogram import Range
from vtop.report.compare import compared_numbers, noise, phase_blocks
from vtop.report.compare.compared_numbers import NUMBERS, Compared
from vtop.report.compare.parts import Difference, NumberPart, PhasePart
from vtop.report.compare.phase_blocks import Blocks, Place
from vtop.report.numbers import Percentile

SAME: Final = 1e-9  # relative: what sums of floats differ by

Group = list[list[Place]]  # of one phase: of each side, of each of its runs that has it


def label(place: Place) -> str:
    """A phase's short name; of a recording with one phase and no load on record the file's."""
    if place.phase.source == "activity":
        return place.of.report.file.partition(".jsonl")[0]
    return place.phase.label


def phase(group: Group, by: Sequence[str | None], per_gpu: Sequence[int | None], confidence: float) -> PhasePart:
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
        part = _number(number, known, cuts, own=mine, confidence=confidence)
        if any(value is not None for value in part.values):
            numbers.append(part)
    names = [place.phase.load is not None for side in group for place in side[:1]]
    return PhasePart(
        label=next((label for label, load in zip(filter(None, labels), names, strict=True) if load), labels[0] or ""),
        phases=tuple(labels),
        paired=tuple(by),
        noise=tuple(_noise(group[0], side, cut) if side else "" for side, cut in zip(group[1:], cuts, strict=True)),
        numbers=tuple(numbers),
    )


Cut = tuple[Blocks, Blocks]  # of the first side and of the other


def _cut(first: Sequence[Place], other: Sequence[Place], *, own: bool, sending: bool) -> Cut | None:
    """Both sides in equally many blocks; None where there are repeats, whose noise is better known."""
    if len(first) + len(other) > 2:
        return None
    counts = phase_blocks.counts((first[0], other[0]), own=own, sending=sending)
    a, b = (phase_blocks.cut(place, counts, own=own) for place in (first[0], other[0]))
    return a, b


def _noise(first: Sequence[Place], other: Sequence[Place], cut: Cut | None) -> str:
    if cut is None:
        return f"between runs: {len(first)} of one, {len(other)} of the other"
    both, blocks, least = (first[0], other[0]), cut[0], noise.LEAST_BLOCKS
    if any(phase_blocks.runs_s(place.phase) is None for place in both):
        return "not known: how long a request runs is not on record"
    many = blocks.requests.blocks if blocks.requests is not None else len(blocks.whole)
    steady = len(blocks.steady)
    if not many:
        rounds = min(phase_blocks.rounds(place, "whole", own=False) for place in both)
        return f"not known: {rounds} rounds of requests, and {least} are needed; let it run longer, or repeat it"
    if not steady:
        rounds = min(phase_blocks.rounds(place, "steady", own=False) for place in both)
        return (
            f"within a run: {many} blocks of each; the steady part has {rounds} rounds of requests, {least} are needed"
        )
    return f"within a run: {many} blocks of each" + (f", of the steady part {steady}" if steady != many else "")


def _number(
    number: Compared,
    sides: Sequence[tuple[list[Place], int | None]],
    cuts: Sequence[Cut | None],
    *,
    own: bool,
    confidence: float,
) -> NumberPart:
    by = [float(divide) if divide is not None and number.extensive else 1.0 for _, divide in sides]
    runs = [[_divided(compared_numbers.value(number, one.phase, own=own), d) for one in side]
            for (side, _), d in zip(sides, by, strict=True)]  # fmt: skip
    values = tuple(map(_mean, runs))
    differences = []
    for at, cut in enumerate(cuts, 1):
        if not runs[at]:
            continue
        half = None
        if cut is None:
            half = _between_runs(runs[0], runs[at], confidence)
        else:
            half = _between_blocks(number, cut, (by[0], by[at]), own=own, confidence=confidence)
        differences.append(_difference(number, ascii_uppercase[at], values[0], values[at], half))
    whose = ("own requests" if own else "server") if number.latency is not None else None
    return NumberPart(
        name=number.name,
        label=number.label,
        unit=number.unit,
        better=number.better,
        whose=whose,
        per_gpu=number.extensive and any(divide is not None for _, divide in sides),
        values=values,
        counts=tuple(_counted(number, side, own=own) for side, _ in sides),
        differences=tuple(differences),
    )


def _counted(number: Compared, side: Sequence[Place], *, own: bool) -> float | None:
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


def _between_runs(a: Sequence[Percentile], b: Sequence[Percentile], confidence: float) -> float | None:
    floats = [[value for value in side if isinstance(value, float | int)] for side in (a, b)]
    if [len(side) for side in floats] != [len(a), len(b)]:
        return None
    return noise.between_runs(floats[0], floats[1], confidence)


def _between_blocks(
    number: Compared, cut: Cut, by: tuple[float, float], *, own: bool, confidence: float
) -> float | None:
    a, b = (phase_blocks.drawn(number, blocks, own=own) for blocks in cut)
    if a is None or b is None or a[0] != b[0]:
        return None
    return noise.between_blocks(a[1] / by[0], b[1] / by[1], a[0], confidence)


def _difference(number: Compared, side: str, a: Percentile, b: Percentile, half: float | None) -> Difference:
    if not isinstance(a, float) or not isinstance(b, float):
        return Difference(side, None, None, None, None, None, None, _unequal(a, b))
    absolute = b - a if not math.isclose(a, b, rel_tol=SAME) else 0.0
    low, high = (absolute - half, absolute + half) if half is not None else (None, None)
    by = abs(a) if a and number.unit != "ratio" else None  # a ratio's difference is one in points
    return Difference(
        side=side,
        absolute=absolute,
        low=low,
        high=high,
        ratio=absolute / by if by is not None else None,
        low_ratio=low / by if low is not None and by is not None else None,
        high_ratio=high / by if high is not None and by is not None else None,
        verdict=_verdict(number.better, absolute, half),
    )


def _unequal(a: Percentile, b: Percentile) -> str:
    if isinstance(a, Range) and isinstance(b, Range):
        return "same bucket" if a == b else "other bucket"
    return "not known" if a is None or b is None else "not comparable"


def _verdict(better: str | None, absolute: float, half: float | None) -> str:
    found = judged(absolute, (absolute - half, absolute + half) if half is not None else None, better)
    return {"within": "within noise", "no interval": "noise not known"}.get(found, found)
