"""How a comparison's numbers are reported: a value, a difference with its interval, a side."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from vtop import units
from vtop.metrics.histogram import Range
from vtop.report.compare.parts import Comparison, Difference, NumberPart, SidePart
from vtop.report.numbers import Percentile

_EVEN: Final = 1.1  # an interval whose ends are so unlike far away is reported by its ends
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
    """How much more the other side has, in the number's unit: −1.2 ms, +0.4 points, +20 to +60 ms."""
    if of.absolute is None:
        return _to(of.low, of.high, lambda one: _sign(one) + _SAID[number.unit](abs(one)))
    if number.unit == "ratio":
        return f"{_signed(of.absolute * 100, _digits(of.absolute * 100))} points"
    return _sign(of.absolute) + _SAID[number.unit](abs(of.absolute))


def relative(number: NumberPart, of: Difference) -> str:
    """In per cent of the first side's value, or in points, with half the interval, or with both of its ends where they
    are not as far away: −1.58 ± 1.40 %; +6,856 % (+812 to +59,400)."""
    if of.verdict == "same":
        return units.UNKNOWN
    if of.absolute is None:
        said = _to(of.low_ratio, of.high_ratio, percent)
        return said if said == units.UNKNOWN else f"{said} %"
    half = (of.high - of.low) / 2 if of.low is not None and of.high is not None else None
    if number.unit == "ratio":
        return _percents(of.absolute, half) + " points"
    if of.ratio is not None:
        low, high = of.low_ratio, of.high_ratio
        if low is None or high is None:
            return percent(of.ratio) + " %"
        if max(high - of.ratio, of.ratio - low) > _EVEN * min(high - of.ratio, of.ratio - low):
            return f"{percent(of.ratio)} % ({percent(low)} to {percent(high)})"
        return _percents(of.ratio, (high - low) / 2) + " %"
    return f"± {_SAID[number.unit](half)}" if half is not None else units.UNKNOWN


def _to(low: float | None, high: float | None, say: Callable[[float], str]) -> str:
    """Between two bounds, the nearer to 0 first; more than one of them where the other is not known."""
    if low is None and high is None:
        return units.UNKNOWN
    if low is None or high is None:
        return f"beyond {say(low)}" if low is not None else f"beyond {say(high)}" if high is not None else ""
    near, far = (low, high) if low >= 0 else (high, low)
    return f"{say(near)} to {say(far)}"


def short(number: NumberPart, of: Difference) -> str:
    """All of it in one cell: −1.58 ± 1.40 %, better."""
    if of.verdict == "same" or (of.absolute is None and of.low is None and of.high is None):
        return of.verdict
    much = relative(number, of)
    if of.ratio is None and number.unit != "ratio" and (of.absolute is not None or much == units.UNKNOWN):
        much = change(number, of)
    return f"{much}, {of.verdict}"


def _percents(ratio: float, half: float | None) -> str:
    return percent(ratio) if half is None else f"{percent(ratio)} ± {_digits(half * 100)}"


def percent(ratio: float) -> str:
    return _signed(ratio * 100, _digits(ratio * 100))


def side(of: SidePart) -> str:
    """Its files; repeats apart by a comma, the parts of one run by a plus sign."""
    return ", ".join(" + ".join(files) for files in of.runs)


def confidence(of: Comparison) -> str:
    """Of all intervals together."""
    return f"{of.confidence * 100:.4g} %"


def each(of: Comparison) -> str:
    """Of each interval: each of the first numbers at 99.4 %, each other at 99.94 %."""
    return f"each of the first numbers at {_sure(of.first_confidence)}, each other at {_sure(of.other_confidence)}"


def _sure(share: float) -> str:
    """To the digit that tells it from 100 %, and one more."""
    digits = max(0, -math.floor(math.log10(1 - share)) - 2)
    return f"{share * 100:.{digits + 1}f} %"


def needed(of: Difference) -> str:
    """Requests on each side that would show it: 1,300."""
    if of.needed is None:
        return ""
    digits = max(0, len(str(of.needed)) - 2)
    return f"{-(-of.needed // 10**digits) * 10**digits:,}"


def _digits(percents: float) -> str:
    size = abs(percents)
    return f"{size:.2f}" if size < 9.995 else f"{size:.1f}" if size < 99.95 else f"{size:,.0f}"


def _signed(number: float, digits: str) -> str:
    return (_sign(number) if float(digits.replace(",", "")) else "") + digits


def _sign(number: float) -> str:
    return "+" if number > 0 else "−" if number < 0 else ""
