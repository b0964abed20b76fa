"""The tables over vtop's own loads: from load to load, and the service levels."""

from __future__ import annotations

from vtop import units
from vtop.report.labels import percentile_words
from vtop.report.model import Report
from vtop.report.numbers import Times
from vtop.report.render.document import Table
from vtop.report.tables.cells import known_columns, signed


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


def service_levels(report: Report) -> Table | None:
    """Joint attainment of every bound, and the bound that was broken."""
    rows = []
    for phase in report.phases:
        load, of = phase.load, phase.whole
        if load is None or load.slo is None or of is None:
            continue
        slo = load.slo
        broken = ", ".join(f"{name} {count:,}" for name, count in slo.broken) or "none"
        rows.append(
            (
                phase.label,
                units.number(load.rate_per_s),
                units.number(slo.answered_per_s),
                units.percent(slo.attainment_ratio),
                f"{slo.good:,} of {slo.judged:,}",
                units.number(slo.good_per_s),
                broken + (f", failed {load.failed:,}" if load.failed else ""),
                _p95(of.ttft),
                _p95(of.tpot),
                _p95(of.e2e),
            )
        )
    if not rows:
        return None
    head = (
        "phase", "asked/s", "achieved/s", "attainment", "kept all bounds", "good/s", "broken", "TTFT p95", "TPOT p95",
        "e2e p95",
    )  # fmt: skip
    bounds = next(phase.load.slo.bounds for phase in report.phases if phase.load is not None and phase.load.slo)
    asked = " and ".join(f"{name} ≤ {units.seconds(bound)}" for name, bound in bounds)
    notes = (
        f"Bounds: {asked}, all of them at once, from the instant a request was due; one that failed kept none. Broken: "
        "how many answered requests broke a bound. Achieved and good: a second of the whole phase.",
    )
    return known_columns(Table("Service levels", head, tuple(rows), notes, words=(0, 6)))


def _p95(of: Times | None) -> str:
    return percentile_words(of.p95_s) if of is not None else units.UNKNOWN
