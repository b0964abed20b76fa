"""The tables over vtop's own loads: from load to load, and the service levels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from vtop import units
from vtop.report.labels import percentile_words
from vtop.report.model import Phase, Report
from vtop.report.numbers import Percentile
from vtop.report.render.document import Table
from vtop.report.tables.cells import known_columns, signed
from vtop.session.frame.load import LoadHostPart, LoadPart, SloAttainment

_BOUNDS: Final = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "e2e"}


def levels(report: Report) -> Table | None:
    """What each step to a higher load did."""
    found = report.load_levels
    if len(found.levels) < 2:
        return None
    labels = {phase.load.phase: phase.label for phase in report.phases if phase.load is not None}
    rows = tuple(
        (
            labels.get(one.phase, units.plain(one.load)),
            units.number(one.output_per_s),
            units.number(one.output_factor),
            units.number(one.per_request_per_s),
            units.percent(one.efficiency_ratio),
            units.percent(one.queue_of_ttft_ratio),
            units.number(one.queue_of_prefill_ratio),
            signed(one.queue_slope),
            signed(one.prefill_slope),
            units.number(one.itl_tail_ratio),
        )
        for one in found.levels
    )
    head = (
        "load", "output tok/s", "× lowest", "tok/s a request", "efficiency", "queue of TTFT", "queue ÷ prefill",
        "slope of queue", "of prefill", "ITL p99 ÷ p50",
    )  # fmt: skip
    notes = [
        "Efficiency: output tokens/s of each request in flight, of that at the lowest load. Slope: of the logarithm "
        "against that of the load, from the row above; 1 is in proportion to it.",
    ]
    growth = report.growth
    if (crossed := growth.crossed) is not None:
        notes.append(f"{crossed[0].upper()}{crossed[1:]}.")
    elif growth.crossing is not None:
        at = f"≈ {units.number(growth.crossing)} {growth.crossing_unit}"
        notes.append(f"On the slopes of the last row the queue would overtake prefill at {at} (extrapolated).")
    return known_columns(Table("From load to load", head, rows, tuple(notes)))


def senders(report: Report) -> Table | None:
    """The hosts that sent the loads in place of vtop's own: their clocks, lateness and losses."""
    rows = tuple(
        (
            phase.label,
            host.name,
            f"{host.workers}",
            f"{host.sent:,}",
            units.seconds(host.late_p50_s),
            units.seconds(host.late_p99_s),
            f"{host.offset_s:.6f} s",
            f"± {units.seconds(host.offset_error_s)}",
            _drift(host),
            f"{host.lost:,}",
        )
        for phase in report.phases
        if phase.load is not None
        for host in phase.load.hosts
    )
    if not rows:
        return None
    head = ("phase", "host", "workers", "sent", "late p50", "p99", "clock ahead", "error", "drift", "lost")
    notes = (
        "Clock ahead: the host's monotonic clock less that of vtop's machine, taken off its stamps; the error is at "
        "most half of the shortest round trip. Drift: the offset after the phase less that before it. Lost: "
        "requests that failed because their worker was lost.",
    )
    return Table("Hosts of the load", head, rows, notes, words=(0, 1))


def _drift(host: LoadHostPart) -> str:
    drift = units.seconds(host.drift_s)
    return drift if host.drift_s is None else f"{drift} ± {units.seconds(host.drift_error_s)}"


def service_levels(report: Report) -> list[Table]:
    """Joint attainment of every bound; each bound alone with what is held against it; and requests of like lengths."""
    judged = [
        (phase, phase.load, phase.load.slo)
        for phase in report.phases
        if phase.load is not None and phase.load.slo is not None
    ]
    if not judged:
        return []
    return [_joint(judged), _alone(judged), *_by_length(judged)]


_Judged = Sequence[tuple[Phase, LoadPart, SloAttainment]]


def _joint(judged: _Judged) -> Table:
    asked_for = {name: bound_s for _, _, slo in judged for name, bound_s in slo.bounds}
    bounds = {name: asked_for[name] for name in _BOUNDS if name in asked_for}
    alone = [{one.name: one.ratio for one in slo.by_bound} for _, _, slo in judged]  # none where no request ended
    rows = tuple(
        (
            phase.label,
            units.number(load.rate_per_s),
            units.number(slo.answered_per_s),
            units.percent(slo.attainment_ratio),
            *(units.percent(ratios.get(name)) for name in bounds),
            f"{slo.good:,} of {slo.judged:,}",
            units.number(slo.good_per_s),
            f"{slo.errors:,}",
            f"{slo.timeouts:,}",
            f"{slo.rejected:,}",
            f"{slo.open:,}",
            f"{slo.single_token:,}",
        )
        for (phase, load, slo), ratios in zip(judged, alone, strict=True)
    )
    head = (
        "phase", "asked/s", "achieved/s", "attainment", *(f"{_BOUNDS[name]} alone" for name in bounds),
        "kept all bounds", "good/s", "errors", "timed out", "rejected", "open", "1 token",
    )  # fmt: skip
    asked = " and ".join(f"{_BOUNDS[name]} ≤ {units.seconds(bound_s)}" for name, bound_s in bounds.items())
    notes = [
        f"Bounds: {asked}, all of them at once, from the instant a request was due; one that failed, timed out or was "
        "open at the end kept none. Alone: of those that this bound can judge. Achieved and good: a second of the "
        "whole phase.",
    ]
    if any(slo.single_token for _, _, slo in judged):
        notes.append("1 token: answers without a TPOT, which its bound does not judge.")
    if undefined := sum(slo.undefined for _, _, slo in judged):
        notes.append(f"Left out, as TPOT is the only bound: {undefined:,} answers of one token.")
    if any(load.shape == "closed" for _, load, _ in judged):
        notes.append("A closed loop sends when an answer has come, so its attainment is no capacity for arrivals.")
    return known_columns(Table("Service levels", head, rows, tuple(notes), words=(0,)))


def _alone(judged: _Judged) -> Table:
    rows = tuple(
        (
            phase.label,
            _BOUNDS[one.name],
            units.seconds(one.bound_s),
            units.percent(one.ratio),
            f"{one.judged - one.kept:,} of {one.judged:,}",
            *(percentile_words(_exact(value)) for value in (one.times.p50_s, one.times.p95_s, one.times.p99_s)),
        )
        for phase, _, slo in judged
        for one in slo.by_bound
    )
    head = ("phase", "bound", "at most", "kept it", "did not", "p50", "p95", "p99")
    notes = ("TTFT and e2e from due, so a wait in the client is in them; percentiles with the failed as endless.",)
    return Table("Each bound alone", head, rows, notes, words=(0, 1))


def _by_length(judged: _Judged) -> list[Table]:
    rows = tuple(
        (
            phase.label,
            _range(one.input_tokens),
            _range(one.output_tokens),
            units.percent(one.ratio),
            f"{one.good:,} of {one.judged:,}",
            *(percentile_words(_exact(value)) for value in (one.ttft_p95_s, one.tpot_p95_s, one.e2e_p95_s)),
        )
        for phase, _, slo in judged
        for one in slo.by_length
    )
    if not rows:
        return []
    head = ("phase", "prompt", "output", "attainment", "kept all bounds", "TTFT p95", "TPOT p95", "e2e p95")
    notes = ("Requests by powers of four of their prompt and output tokens, as asked.",)
    return [known_columns(Table("By length", head, rows, notes, words=(0, 1, 2)))]


def _range(tokens: tuple[int, int]) -> str:
    return f"{tokens[0]:,}–{tokens[1]:,}"


def _exact(value: float | None) -> Percentile:
    return "failed" if value == math.inf else value
