"""What figures by phase share: the colours that tell phases apart, and which phases have a number to draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vtop.report.figures.figure import Point
from vtop.report.model import Phase, Report
from vtop.report.numbers import Numbers

HUES = ("prefill", "queue", "decode", "kv", "frontend", "preemption", "power", "running")


def known_of(report: Report, ask: Callable[[Numbers], float | None]) -> list[tuple[Phase, Numbers]]:
    """The phases of which a number is known."""
    return [(phase, phase.whole) for phase in report.phases if phase.whole is not None and ask(phase.whole) is not None]


def bars(phases: Sequence[tuple[Phase, Numbers]], ask: Callable[[Numbers], float | None]) -> tuple[Point, ...]:
    return tuple((phase.label, ask(of)) for phase, of in phases)
