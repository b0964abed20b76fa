"""Whether a comparison passes: exit code 1 where a number got worse by more than a bound, its noise allowed for.

A number fails when its whole interval lies beyond the bound, so one that may as well be noise does not. Shares (failed,
within SLO) are held against the bound in points, all else in per cent of the first side's value. What has no interval
cannot be judged, and is reported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vtop.errors import VtopError
from vtop.report.compare import words
from vtop.report.compare.compared_numbers import BY_NAME
from vtop.report.compare.parts import Comparison, Difference, NumberPart

DEFAULT: Final = ("output_per_s", "ttft.mean_s", "itl.mean_s", "failed_ratio")


@dataclass(frozen=True, slots=True)
class Judged:
    """Sentences: what failed, and what could not be judged; and how many differences could be."""

    failed: tuple[str, ...]
    open: tuple[str, ...]
    judged: int


def names_of(text: str) -> tuple[str, ...]:
    """Of "output_per_s,ttft.mean_s". Raises VtopError for a name that is none, or of which no way is worse."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    good = [name for name, number in BY_NAME.items() if number.better is not None]
    for name in names:
        if name not in good:
            why = "neither more nor less of it is worse" if name in BY_NAME else "no such number"
            raise VtopError(f"--on {name}: {why}; there are {', '.join(good)}")
    if not names:
        raise VtopError(f"--on names no number; there are {', '.join(good)}")
    return names


def judge(comparison: Comparison, over: float, names: Sequence[str] = DEFAULT) -> Judged:
    """`over`: a ratio, 0.05 for 5 %. Raises VtopError where nothing at all can be judged."""
    failed, judged = [], 0
    open_ = [f"{phase} is in {side} only" for side, phase in comparison.left_out]
    for phase in comparison.phases:
        for number in phase.numbers:
            if number.name not in names:
                continue
            for one in number.differences:
                where = f"{phase.label}, {number.label}, {one.side} against {comparison.sides[0].name}"
                worse = _worse_by(number, one)
                if worse is None:
                    open_.append(f"{where}: {one.verdict}")
                    continue
                judged += 1
                if worse > over:
                    failed.append(f"{where}: worse by more than {over * 100:g} %: {words.short(number, one)}")
    if not judged:
        raise VtopError(
            f"--fail-over: no difference of {', '.join(names)} can be judged; run longer, or repeat: A1,A2 B1,B2"
        )
    return Judged(tuple(failed), tuple(open_), judged)


def _worse_by(number: NumberPart, of: Difference) -> float | None:
    """By how much at least, its noise allowed for; below 0 where it may be better. None where that is not known."""
    if of.verdict == "same":
        return 0.0
    if not of.judged or (of.low is None and of.high is None):
        return None
    if of.absolute is None and not of.beyond:  # buckets that may as well be one
        return 0.0
    low, high = (of.low, of.high) if number.unit == "ratio" else (of.low_ratio, of.high_ratio)
    if low is None or high is None:  # the first side has none of it
        return math.inf if of.verdict == "worse" else 0.0
    return low if number.better == "lower" else -high
