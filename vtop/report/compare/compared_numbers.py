"""What a comparison compares: each number's name, unit, good direction, and where in a phase's numbers it stands.

Names are those of the report's JSON, below a phase's `whole` or `steady`: times are of all requests of a phase, rates
and levels of its steady part. Two are made here: failed_ratio (failed of sent) and preemptions_per_request (of those
that finished), as the counts themselves depend on how long a phase was. A latency is that of vtop's own requests where
every side has them, else the server's on every side: never one against the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from vtop.report.model import Phase
from vtop.report.numbers import Numbers, Percentile, Times
from vtop.session.load.attainment import BOUNDS

Sums = tuple[float, float]  # a number over a span is the first by the second
Ask = Callable[[Numbers], float | None]


@dataclass(frozen=True, slots=True)
class ComparedNumber:
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
    bound: str | None = None  # ttft, tpot, e2e: the share within this bound alone


QUANTILES: Final = {"p50_s": 0.5, "p90_s": 0.9, "p99_s": 0.99, "p999_s": 0.999, "p9999_s": 0.9999}
_SERVER: Final = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": "e2e"}


def times(of: Numbers, latency: str, *, own: bool) -> Times | None:
    """A latency of vtop's own requests, or the server's of the same span."""
    if own:
        found: Times | None = getattr(of, latency)
        return found if found is not None and found.whose == "own requests" else None
    return next((found for name, found in of.server if name == _SERVER[latency]), None)


def value(number: ComparedNumber, phase: Phase, *, own: bool) -> Percentile:
    """What a phase says about a number; None where it says nothing."""
    if number.scope == "own":
        found = phase.whole
        return None if found is None or not own else _own_value(number, found)
    if number.scope == "sending":
        return _own_rate(number, phase) if own else _busy_rate(number, phase)
    of = phase.whole if number.scope == "whole" else phase.steady
    if of is None:
        return None
    if number.latency is not None:
        latency = times(of, number.latency[0], own=own)
        answer: Percentile = getattr(latency, number.latency[1]) if latency is not None else None
        return answer
    return number.value(of) if number.value is not None else None


def count(number: ComparedNumber, phase: Phase, *, own: bool) -> float | None:
    """How many observations are behind it: requests, tokens, or scrapes."""
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
    return of.parts.n if number.name.startswith("parts.") else float(of.scrapes)


def _own_rate(number: ComparedNumber, phase: Phase) -> float | None:
    if phase.load is None:
        return None
    return phase.load.output_per_s if number.name == "output_per_s" else phase.load.ended_per_s


def _busy_rate(number: ComparedNumber, phase: Phase) -> float | None:
    """While requests were in the engine: idle edges have no other weight on one side than on the other. Of vtop's own
    load from its first request to its last token."""
    if phase.load is not None and phase.load.whole_output_per_s is not None:
        return phase.load.whole_output_per_s if number.name == "output_per_s" else phase.load.whole_ended_per_s
    if phase.whole is None:
        return None
    found: float | None = getattr(phase.whole.while_busy, number.name)
    return found


def _own_value(number: ComparedNumber, of: Numbers) -> float | None:
    if number.name.startswith("slo."):
        if of.slo is None:
            return None
        if number.bound is None:
            return of.slo.attainment_ratio
        return next((one.ratio for one in of.slo.by_bound if one.name == number.bound), None)
    return of.failed / of.sent if of.failed is not None and of.sent else None


# --- the table -------------------------------------------------------------------------------------------------------


def _mean(
    name: str, label: str, unit: str, better: str | None, scope: str, *, by: str, extensive: bool = False
) -> ComparedNumber:
    """A number whose value over a span is the mean of those over its parts, weighed by the number `by` of each."""
    value, weight = attrgetter(name), attrgetter(by)

    def sums(of: Numbers) -> Sums | None:
        known, weighs = value(of), weight(of)
        if not weighs:
            return 0.0, 0.0
        return (known * weighs, weighs) if known is not None else None

    return ComparedNumber(name, label, unit, better, scope, extensive, value, sums)


def _time(latency: str, of: str) -> ComparedNumber:
    def sums(found: Numbers) -> Sums | None:
        known = times(found, latency, own=False)
        if known is None or not known.n:
            return 0.0, 0.0
        return (known.mean_s * known.n, known.n) if known.mean_s is not None else None

    return ComparedNumber(
        name=f"{latency}.{of}",
        label=f"{_SERVER[latency]} {f'p{QUANTILES[of] * 100:g}' if of in QUANTILES else 'mean'}",
        unit="s",
        better="lower",
        scope="whole",
        sums=sums if of == "mean_s" else None,
        latency=(latency, of),
    )


def _finished(of: Numbers) -> Sums | None:
    return (of.finished, of.seconds) if of.finished is not None else None


def _preempted(of: Numbers) -> Sums | None:
    return (of.preemptions, of.finished) if of.preemptions is not None and of.finished is not None else None


def _generated(of: Numbers) -> Sums | None:
    return (of.generation_per_s * of.seconds, of.seconds) if of.generation_per_s is not None else None


NUMBERS: Final[tuple[ComparedNumber, ...]] = (
    ComparedNumber(
        "output_per_s",
        "output tokens/s",
        "per_s",
        "higher",
        "sending",
        True,
        sums=_generated,
    ),
    ComparedNumber(
        "finished_per_s",
        "requests/s",
        "per_s",
        "higher",
        "sending",
        True,
        sums=_finished,
    ),
    *(_time("ttft", of) for of in ("mean_s", "p50_s", "p90_s", "p99_s")),
    _mean("parts.queue_s", "queue, mean", "s", "lower", "whole", by="parts.n"),
    _mean("parts.prefill_s", "prefill, mean", "s", "lower", "whole", by="parts.n"),
    _mean("parts.frontend_s", "frontend, mean", "s", "lower", "whole", by="parts.n"),
    *(_time("itl", of) for of in ("mean_s", "p50_s", "p99_s", "p999_s", "p9999_s")),
    *(_time("tpot", of) for of in ("mean_s", "p99_s")),
    *(_time("e2e", of) for of in ("mean_s", "p99_s")),
    ComparedNumber("failed_ratio", "failed", "ratio", "lower", "own"),
    ComparedNumber("slo.attainment_ratio", "within SLO", "ratio", "higher", "own"),
    *(
        ComparedNumber(f"slo.{bound}_ratio", f"within {_SERVER[bound]} alone", "ratio", "higher", "own", bound=bound)
        for bound in BOUNDS
    ),
    _mean("running.mean", "running, mean", "count", None, "steady", by="running.n", extensive=True),
    _mean("waiting.mean", "waiting, mean", "count", "lower", "steady", by="waiting.n", extensive=True),
    _mean("kv.mean_ratio", "KV use, mean", "ratio", None, "steady", by="kv.n"),
    ComparedNumber(
        "preemptions_per_request",
        "preemptions/request",
        "count",
        "lower",
        "whole",
        value=lambda of: of.preemptions / of.finished if of.preemptions is not None and of.finished else None,
        sums=_preempted,
    ),
    _mean("recompute.ratio", "recomputed tokens", "ratio", "lower", "whole", by="recompute.least_tokens"),
    _mean("prefix_cache.hit_ratio", "prefix cache hits", "ratio", "higher", "whole", by="prefix_cache.asked_tokens"),
    _mean("power_w.mean", "power, mean", "W", None, "steady", by="power_w.n", extensive=True),
    _mean("energy.per_output_token_j", "energy/output token", "J", "lower", "steady", by="output_tokens"),
)

FIRST: Final = ("output_per_s", "ttft.mean_s", "ttft.p99_s", "itl.mean_s", "failed_ratio")  # what is asked first
BY_NAME: Final = {number.name: number for number in NUMBERS}
