"""What a comparison compares: each number's name, unit, good direction, and where in a phase's numbers it stands.

Names are those of the report's JSON, below a phase's `whole` or `steady`: times are of all requests of a phase, rates
and levels of its steady part. Two are made here: failed_ratio (failed of sent) and preemptions_per_request (of those
that finished), as the counts themselves depend on how long a phase was. A latency is that of vtop's own requests where
every side has them, else the server's on every side: never one against the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vtop.report.model import Phase
from vtop.report.numbers import Level, Numbers, Percentile, Times

Sums = tuple[float, float]  # a number over a stretch is the first by the second
Ask = Callable[[Numbers], float | None]


@dataclass(frozen=True, slots=True)
class Compared:
    """better: higher, lower, or None where neither is. unit: per_s, s, ratio, count, W, J."""

    name: str
    label: str
    unit: str
    better: str | None
    scope: str  # whole, steady, own (requests of vtop's own load), sending (what of it has neither ramp nor drain)
    extensive: bool = False  # twice as much on two GPUs
    value: Ask | None = None
    sums: Callable[[Numbers], Sums | None] | None = None
    latency: tuple[str, str] | None = None  # ttft, itl, tpot, e2e; which of its Times


QUANTILES: Final = {"p50_s": 0.5, "p90_s": 0.9, "p99_s": 0.99, "p999_s": 0.999}
_SERVER: Final = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": "e2e"}
_WORDS: Final = {"mean_s": "mean", "p50_s": "p50", "p90_s": "p90", "p99_s": "p99", "p999_s": "p99.9"}


def times(of: Numbers, latency: str, *, own: bool) -> Times | None:
    """A latency of vtop's own requests, or the server's of the same stretch."""
    if own:
        found = {"ttft": of.ttft, "itl": of.itl, "tpot": of.tpot, "e2e": of.e2e}[latency]
        return found if found is not None and found.whose == "own requests" else None
    return next((found for name, found in of.server if name == _SERVER[latency]), None)


def value(number: Compared, phase: Phase, *, own: bool) -> Percentile:
    """What a phase says of a number; None where it says nothing."""
    if number.scope == "own":
        found = phase.whole
        return None if found is None or not own else _own_value(number, found)
    if number.scope == "sending":
        return _output(phase, own=own)
    of = phase.whole if number.scope == "whole" else phase.steady
    if of is None:
        return None
    if number.latency is not None:
        latency = times(of, number.latency[0], own=own)
        answer: Percentile = getattr(latency, number.latency[1]) if latency is not None else None
        return answer
    return number.value(of) if number.value is not None else None


def count(number: Compared, phase: Phase, *, own: bool) -> float | None:
    """How many observations are behind it: requests, tokens, or pages."""
    of = phase.steady if number.scope in ("steady", "sending") else phase.whole
    if of is None:
        return None
    if number.latency is not None:
        latency = times(of, number.latency[0], own=own)
        return latency.n if latency is not None else None
    if number.scope == "own":
        return of.sent
    if number.scope == "sending" and own:
        return None
    return of.parts.n if number.name.startswith("parts.") else float(of.pages)


def _output(phase: Phase, *, own: bool) -> float | None:
    if own:
        return phase.load.output_per_s if phase.load is not None else None
    return phase.steady.generation_per_s if phase.steady is not None else None


def _own_value(number: Compared, of: Numbers) -> float | None:
    if number.name == "slo.attainment_ratio":
        return of.slo.attainment_ratio if of.slo is not None else None
    return of.failed / of.sent if of.failed is not None and of.sent else None


# --- the table -------------------------------------------------------------------------------------------------------


def _mean(ask: Ask, weight: Ask) -> Callable[[Numbers], Sums | None]:
    """The sums of a number whose value over a stretch is a mean of those over its parts, each with its weight."""

    def sums(of: Numbers) -> Sums | None:
        known, weighs = ask(of), weight(of)
        if not weighs:
            return 0.0, 0.0
        return (known * weighs, weighs) if known is not None else None

    return sums


def _time(latency: str, of: str) -> Compared:
    def sums(found: Numbers) -> Sums | None:
        known = times(found, latency, own=False)
        if known is None or not known.n:
            return 0.0, 0.0
        return (known.mean_s * known.n, known.n) if known.mean_s is not None else None

    return Compared(
        name=f"{latency}.{of}",
        label=f"{_SERVER[latency]} {_WORDS[of]}",
        unit="s",
        better="lower",
        scope="whole",
        sums=sums if of == "mean_s" else None,
        latency=(latency, of),
    )


def _part(name: str) -> Compared:
    def ask(of: Numbers) -> float | None:
        return {"queue": of.parts.queue_s, "prefill": of.parts.prefill_s, "frontend": of.parts.frontend_s}[name]

    label, sums = f"{name}, mean", _mean(ask, lambda of: of.parts.n)
    return Compared(f"parts.{name}_s", label, "s", "lower", "whole", value=ask, sums=sums)


def _level(name: str, better: str | None) -> Compared:
    def level(of: Numbers) -> Level:
        return of.running if name == "running" else of.waiting

    def ask(of: Numbers) -> float | None:
        return level(of).mean

    sums = _mean(ask, lambda of: level(of).n)
    return Compared(f"{name}.mean", f"{name}, mean", "count", better, "steady", True, value=ask, sums=sums)


def _kv(of: Numbers) -> float | None:
    return of.kv.mean_ratio


def _finished(of: Numbers) -> Sums | None:
    return (of.finished, of.seconds) if of.finished is not None else None


def _preempted(of: Numbers) -> Sums | None:
    return (of.preemptions, of.finished) if of.preemptions is not None and of.finished is not None else None


def _generated(of: Numbers) -> Sums | None:
    return (of.generation_per_s * of.seconds, of.seconds) if of.generation_per_s is not None else None


NUMBERS: Final[tuple[Compared, ...]] = (
    Compared("output_per_s", "output tokens/s", "per_s", "higher", "sending", True, sums=_generated),
    Compared(
        "finished_per_s",
        "requests/s",
        "per_s",
        "higher",
        "steady",
        True,
        value=lambda of: of.finished_per_s,
        sums=_finished,
    ),
    *(_time("ttft", of) for of in ("mean_s", "p50_s", "p90_s", "p99_s")),
    _part("queue"),
    _part("prefill"),
    _part("frontend"),
    *(_time("itl", of) for of in ("mean_s", "p50_s", "p99_s", "p999_s")),
    *(_time("tpot", of) for of in ("mean_s", "p99_s")),
    *(_time("e2e", of) for of in ("mean_s", "p99_s")),
    Compared("failed_ratio", "failed", "ratio", "lower", "own"),
    Compared("slo.attainment_ratio", "within SLO", "ratio", "higher", "own"),
    _level("running", None),
    _level("waiting", "lower"),
    Compared("kv.mean_ratio", "KV use, mean", "ratio", None, "steady", value=_kv, sums=_mean(_kv, lambda of: of.kv.n)),
    Compared(
        "preemptions_per_request",
        "preemptions/request",
        "count",
        "lower",
        "whole",
        value=lambda of: of.preemptions / of.finished if of.preemptions is not None and of.finished else None,
        sums=_preempted,
    ),
    Compared(
        "recompute.ratio",
        "recomputed tokens",
        "ratio",
        "lower",
        "whole",
        value=lambda of: of.recompute.ratio,
        sums=_mean(lambda of: of.recompute.ratio, lambda of: of.recompute.least_tokens),
    ),
    Compared(
        "prefix_cache.hit_ratio",
        "prefix cache hits",
        "ratio",
        "higher",
        "whole",
        value=lambda of: of.prefix_cache.hit_ratio,
        sums=_mean(lambda of: of.prefix_cache.hit_ratio, lambda of: of.prefix_cache.asked_tokens),
    ),
    Compared(
        "power_w.mean",
        "power, mean",
        "W",
        None,
        "steady",
        True,
        value=lambda of: of.power_w.mean,
        sums=_mean(lambda of: of.power_w.mean, lambda of: of.power_w.n),
    ),
    Compared(
        "energy.per_output_token_j",
        "energy/output token",
        "J",
        "lower",
        "steady",
        value=lambda of: of.energy.per_output_token_j,
        sums=_mean(lambda of: of.energy.per_output_token_j, lambda of: of.output_tokens),
    ),
)

BY_NAME: Final = {number.name: number for number in NUMBERS}
