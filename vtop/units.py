"""The only formatting of numbers for people. Inside vtop: seconds, bytes, ratios, always.

Three significant figures, thousands separated, the unit beside; None is "–", never 0.
"""

from __future__ import annotations

import math

UNKNOWN = "–"
_BEYOND = "∞"
_MOST = 1e15  # a number beyond it is written with an exponent: no column has room for its digits


def _odd(value: float | None) -> str | None:
    """What stands for a number that cannot be written with all its digits; None for every other."""
    if value is None or value != value:
        return UNKNOWN
    size = abs(value)
    if size < _MOST:
        return None
    return f"{value:.0e}" if size < 1e300 else _BEYOND if value > 0 else f"−{_BEYOND}"


def significant(value: float) -> str:
    """Three significant figures, no exponent below 10^15: 0.0421, 4.21, 42.1, 421, 4,210."""
    if (odd := _odd(value)) is not None:
        return odd
    size = abs(value)
    if size >= 99.95:
        return f"{value:,.0f}"
    if size >= 9.995:
        return f"{value:.1f}"
    if size >= 0.9995 or size == 0:
        return f"{value:.2f}" if size else "0"
    return f"{value:.3f}" if size >= 0.0995 else f"{value:.2g}"


def count(value: float | None) -> str:
    """A whole number of things: 86,896."""
    return _odd(value) or f"{value:,.0f}"


def number(value: float | None) -> str:
    """A number that need not be whole: 10.6, 1,592."""
    return UNKNOWN if value is None else significant(value)


def percent(ratio: float | None) -> str:
    """A ratio as per cent with one decimal: 94.9 %."""
    return _times_100(ratio, ".1f")


def seconds(value: float | None) -> str:
    """A duration with the unit that suits it: 7.6 µs, 473 ms, 48.1 s, 3:20."""
    if (odd := _odd(value)) is not None or value is None:
        return odd or UNKNOWN
    size = abs(value)
    if 0 < size < 0.00009995:
        return f"{significant(value * 1e6)} µs"
    if size < 0.9995:
        return f"{significant(value * 1000)} ms"
    if size < 120:
        return f"{significant(value)} s"
    return span(value)


def clock(value: float | None) -> str:
    """An instant of a session: 2:31, 1:02:31."""
    if (odd := _odd(value)) is not None or value is None:
        return odd or UNKNOWN
    whole = int(abs(value))
    sign = "−" if value < 0 and whole else ""
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}:{minutes:02}:{rest:02}" if hours else f"{sign}{minutes}:{rest:02}"


def span(value: float | None) -> str:
    """How long a span was that other numbers are about, rounded and never cut off: 4.2 s, 55 s, 1:37, 1:02:31."""
    if (odd := _odd(value)) is not None or value is None:
        return odd or UNKNOWN
    if abs(value) < 9.95:
        return f"{value:.1f} s"
    return f"{value:.0f} s" if abs(value) < 59.5 else clock(round(value))


def plain(value: float | None) -> str:
    """A number as it was asked for, without digits that say nothing: 64, 2.5."""
    return count(value) if _odd(value) or value == int(value or 0) else number(value)


def uptime(value: float | None) -> str:
    """How long something has been up: 41 s, 12 min, 3 h 05, 2 d 4 h."""
    if (odd := _odd(value)) is not None or value is None:
        return odd or UNKNOWN
    whole = int(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min"
    if whole < 86400:
        return f"{whole // 3600} h {whole % 3600 // 60:02}"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def bytes_(value: float | None) -> str:
    """A size in binary units: 4.64 GiB."""
    if (odd := _odd(value)) is not None or value is None:
        return odd or UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1023.5:
            return f"{significant(value)} {unit}"
        value /= 1024
    return f"{significant(value)} TiB"


def gib(value: float | None) -> str:
    """A size in GiB without its unit, for pairs: 24.1."""
    if (odd := _odd(value)) is not None or value is None:
        return odd or UNKNOWN
    return f"{value / 2**30:,.1f}"


def short(value: float | None) -> str:
    """A number in at most six characters: 10.6, 82,470, 258k, 1.23M."""
    if (odd := _odd(value)) is not None or value is None:
        return odd or UNKNOWN
    size = abs(value)
    if size < 99_999.5:
        return significant(value)
    for letter, scale in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if size < scale * 999.5:
            return f"{significant(value / scale)}{letter}"
    return f"{value:.0e}"


def short_count(value: float | None) -> str:
    """A whole number of things in at most six characters: 14, 82,470, 258k, 1.23M."""
    return short(value) if value is None or not abs(value) < 99_999.5 else f"{value:,.0f}"


def whole_percent(ratio: float | None) -> str:
    """A ratio that is only known to the whole per cent: 98 %."""
    return _times_100(ratio, ".0f")


def bounds(low: float, high: float | None) -> str:
    """A time known only to lie between two bounds, in seconds: 250–500 ms, < 300 ms, > 60 s."""
    if high is not None and not abs(high) < _MOST:
        high = None
    if not abs(low) < _MOST:
        return UNKNOWN if high is None else f"< {seconds(high)}"
    scale, unit = (1e3, "ms") if (low if high is None else high) < 0.9995 else (1.0, "s")
    if high is None:
        return f"> {_round(low * scale)} {unit}" if low >= 0 else UNKNOWN
    if low <= 0:
        return f"< {_round(high * scale)} {unit}"
    return f"{_round(low * scale)}–{_round(high * scale)} {unit}"


def _times_100(ratio: float | None, form: str) -> str:
    if (odd := _odd(ratio)) is not None or ratio is None:
        return odd or UNKNOWN
    return f"{ratio * 100:{form}} %"


def _round(value: float) -> str:
    return _odd(value) or (f"{value:,.0f}" if value >= 1000 else f"{value:.3g}")


def ago(value: float | None) -> str:
    """The age of something: 0.4 s ago, 41 s ago, 12:05 ago."""
    return UNKNOWN if value is None else f"{span(value)} ago"


def watts(value: float | None) -> str:
    """A power: 527 W, 5,600 W, 11.2 kW."""
    if (odd := _odd(value)) is not None or value is None:
        return odd or UNKNOWN
    return f"{value:,.0f} W" if value < 9999.5 else f"{significant(value / 1000)} kW"


def joules(value: float | None) -> str:
    """An energy: 840 J, 150 kJ, 1.23 MJ."""
    if (odd := _odd(value)) is not None or value is None:
        return odd or UNKNOWN
    for unit in ("J", "kJ"):
        if abs(value) < 999.5:
            return f"{significant(value)} {unit}"
        value /= 1000
    return f"{significant(value)} MJ"


def duration(text: str) -> float:
    """Seconds of "90", "90s", "2m30s", "1h", "2:30" or "1:02:30". Raises ValueError with what was expected."""
    words = text.strip().lower()
    try:
        if ":" in words:
            parts = [float(part) for part in words.split(":")]
            if len(parts) > 3 or any(part < 0 for part in parts):
                raise ValueError
            total = float(sum(part * 60.0**power for power, part in enumerate(reversed(parts))))
            if not math.isfinite(total):
                raise ValueError
            return total
        total, digits = 0.0, ""
        for character in words:
            if character in "hms":
                total += float(digits) * {"h": 3600, "m": 60, "s": 1}[character]
                digits = ""
            else:
                digits += character
        total += float(digits) if digits else 0.0
    except ValueError:
        raise ValueError(f"{text!r} is not a time: write 90, 90s, 2m30s or 2:30") from None
    if not words or not 0 <= total < math.inf:
        raise ValueError(f"{text!r} is not a time: write 90, 90s, 2m30s or 2:30")
    return total
