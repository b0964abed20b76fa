"""How a comparison's numbers are said: a value, a difference with its interval, a side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vtop import units
from vtop.metrics.histogram import Range
from vtop.report.compare.parts import Comparison, Difference, NumberPart, SidePart
from vtop.report.numbers import Percentile

_SAID: Final[dict[str, Callable[[float | None], str]]] = {
    "per_s": units.number,
    "s": units.seconds,
    "ratio": units.percent,
    "count": units.number,
    "W": units.watts,
    "J": units.joules,
}


def value(unit: str, of: Percentile) -> str:
    """473 ms, 20–40 ms, failed, –."""
    if isinstance(of, Range):
        return units.bounds(of.low, of.high)
    return of if isinstance(of, str) else _SAID[unit](of)


def label(number: NumberPart) -> str:
    return f"{number.label} per GPU" if number.per_gpu else number.label


def change(number: NumberPart, of: Difference) -> str:
    """How much more the other side has, in the number's unit: −1.2 ms, +0.4 points."""
    if of.absolute is None:
        return units.UNKNOWN
    if number.unit == "ratio":
        return f"{_signed(of.absolute * 100, _digits(of.absolute * 100))} points"
    return _sign(of.absolute) + _SAID[number.unit](abs(of.absolute))


def relative(number: NumberPart, of: Difference) -> str:
    """In per cent of the first side's value, or in points, with half the interval: −1.58 ± 1.40 %."""
    if of.absolute is None or of.verdict == "same":
        return units.UNKNOWN
    half = (of.high - of.low) / 2 if of.low is not None and of.high is not None else None
    if number.unit == "ratio":
        return _percents(of.absolute, half) + " points"
    if of.ratio is not None:
        low, high = of.low_ratio, of.high_ratio
        return _percents(of.ratio, (high - low) / 2 if low is not None and high is not None else None) + " %"
    return f"± {_SAID[number.unit](half)}" if half is not None else units.UNKNOWN


def short(number: NumberPart, of: Difference) -> str:
    """All of it in one cell: −1.58 ± 1.40 %, better."""
    if of.absolute is None or of.verdict == "same":
        return of.verdict
    much = relative(number, of)
    return f"{much if of.ratio is not None or number.unit == 'ratio' else change(number, of)}, {of.verdict}"


def _percents(ratio: float, half: float | None) -> str:
    return percent(ratio) if half is None else f"{percent(ratio)} ± {_digits(half * 100)}"


def percent(ratio: float) -> str:
    return _signed(ratio * 100, _digits(ratio * 100))


def side(of: SidePart) -> str:
    """Its files; repeats apart by a comma, the parts of one run by a plus sign."""
    return ", ".join(" + ".join(files) for files in of.runs)


def confidence(of: Comparison) -> str:
    return f"{of.confidence * 100:.4g} %"


def _digits(percents: float) -> str:
    size = abs(percents)
    return f"{size:.2f}" if size < 9.995 else f"{size:.1f}" if size < 99.95 else f"{size:,.0f}"


def _signed(number: float, digits: str) -> str:
    return (_sign(number) if float(digits.replace(",", "")) else "") + digits


def _sign(number: float) -> str:
    return "+" if number > 0 else "−" if number < 0 else ""
