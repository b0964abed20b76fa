"""Figures that set runs side by side: phases of one recording, or several recordings."""

from __future__ import annotations

from collections.abc import Sequence

from vtop import units
from vtop.report.figures.figure import Figure, FigurePanel, Series
from vtop.report.labels import PARTS, best, part, percentile_words, ttft_words, upper
from vtop.report.model import Report
from vtop.report.numbers import Numbers, Percentile


def three(report: Report) -> Figure | None:
    """Throughput, tail of ITL and preemptions side by side."""
    phases = [(phase, phase.whole) for phase in report.phases if phase.whole is not None]
    return three_of([(phase.label, of) for phase, of in phases]) if len(phases) > 1 else None


def three_of(named: Sequence[tuple[str, Numbers]], key: str = "three") -> Figure:
    """The same of any spans, each with its name."""
    panels = [
        FigurePanel(
            "output tokens/s",
            (Series("output", "decode", tuple((name, of.output_per_s) for name, of in named), "bar"),),
        ),
        FigurePanel(
            "p99 ITL",
            (Series("p99 ITL", "prefill", tuple((name, upper(_tail(of))) for name, of in named), "bar"),),
            unit="s",
        ),
        FigurePanel(
            "preemptions",
            (Series("preemptions", "preemption", tuple((name, of.preemptions) for name, of in named), "bar"),),
        ),
    ]
    fell = any(of.preemptions for _, of in named)
    none = all(of.preemptions == 0 for _, of in named)
    return Figure(
        key=key,
        title="Before and after: throughput, tail of ITL, preemptions",
        caption="Each panel has a scale of its own. p99 of ITL is the upper bound of its bucket where that is all."
        + (" Nothing was preempted." if none else ""),
        alt="; ".join(
            f"{name}: {units.number(of.output_per_s)} output tokens/s, p99 ITL {percentile_words(_tail(of))}"
            + (f", {units.count(of.preemptions)} preemptions" if of.preemptions is not None else "")
            for name, of in named
        )
        + ".",
        x_title="",
        x_kind="category",
        panels=tuple(panels if fell else panels[:-1]),
    )


def across(named: Sequence[tuple[str, Numbers]]) -> Figure | None:
    """The parts of TTFT of the phases of several recordings, on a logarithmic axis."""
    known = [(name, of) for name, of in named if of.parts.total_s is not None]
    if len(known) < 2:
        return None
    return Figure(
        key="across",
        title="What TTFT is made of, across recordings",
        caption="Means of the requests that finished in a phase, on a logarithmic axis; what is 0 has no point.",
        alt="; ".join(f"{name}: {ttft_words(of)}" for name, of in known) + ".",
        x_title="",
        x_kind="category",
        panels=(
            FigurePanel(
                "time",
                tuple(
                    Series(name, role, tuple((where, part(of, name) or None) for where, of in known), "points")
                    for name, role in PARTS
                    if any(part(of, name) for _, of in known)
                ),
                log=True,
                unit="s",
            ),
        ),
    )


def _tail(of: Numbers) -> Percentile:
    return best(of, "ITL", "p99_s")
