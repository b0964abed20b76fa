"""All figures of a report, in the order in which they are read, and why one of them is not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from vtop.report.figures import by_phase, kv_by_phase, latency_curves, side_by_side, timelines
from vtop.report.figures.figure import Figure
from vtop.report.like_phases import beside
from vtop.report.model import Report

# builder, and what it needs where it finds nothing
FIGURES: Final[tuple[tuple[str, Callable[[Report], Figure | None], str], ...]] = (
    ("The whole session", timelines.session, "no scrape was recorded"),
    ("TTFT stacked", by_phase.ttft, "no request finished"),
    ("Queue against prefill", by_phase.crossing, "it takes two or more loads of vtop's own"),
    ("What a step is made of", by_phase.iterations, "the server does not count tokens per step"),
    ("KV measured against expected", kv_by_phase.kv_expected, "the pool or the lengths of requests are not known"),
    ("Asked for, and resident", kv_by_phase.asked_and_resident, "the pool or the lengths of requests are not known"),
    ("Where the requests are", timelines.residents, "no request waited"),
    ("The preemption cycle", timelines.cycle, "fewer than two preemptions"),
    ("The staircase", timelines.staircase, "fewer than two preemptions"),
    ("Before and after", side_by_side.three, "there is one phase only"),
    (
        "FLOP a token against context",
        kv_by_phase.work,
        "it takes phases of different lengths and --enable-mfu-metrics",
    ),
    ("Where the wall clock went", by_phase.wall_clock, "the time of a step that only decodes is not known"),
    ("Power, clock and temperature", timelines.devices, "no GPU was read"),
    ("The tail of ITL", latency_curves.tail, "no gap between tokens was observed"),
)


def figures(report: Report) -> tuple[list[Figure], list[str]]:
    """(the figures that can be drawn, a line for each that cannot)."""
    found, missing = [], []
    for title, builder, needs in FIGURES:
        figure = builder(report)
        if figure is not None and figure.drawn and not figure.single:
            found.append(figure)
        elif figure is not None and figure.single:
            missing.append(f"{title}: there is one phase only, and the tables have its numbers.")
        else:
            missing.append(f"{title}: {needs}.")
    spread = [one for one in latency_curves.latencies(report) if one.drawn and not one.single]
    if not spread:
        missing.append("Distributions: no latency was observed.")
    return found + spread, missing


def across(reports: Sequence[Report]) -> list[Figure]:
    """Those that set several recordings side by side."""
    if len(reports) < 2:
        return []
    named = [(one.name, one.of) for one in beside(reports)]
    found = [
        side_by_side.across(named),
        side_by_side.three_of(named, "three-recordings") if len(named) > 1 else None,
        kv_by_phase.asked_of(named, "asked-recordings"),
        kv_by_phase.work_of(named, "work-recordings"),
    ]
    return [figure for figure in found if figure is not None and figure.drawn and not figure.single]
