"""The figures by phase: what TTFT and a step are made of, how queue and prefill grow with the load, where time went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

from vtop import units
from vtop.report.figures.choices import bars, known_of
from vtop.report.figures.figure import Figure, FigurePanel, Point, Series
from vtop.report.labels import PARTS, levels_of, part, ttft_words
from vtop.report.model import Report
from vtop.report.numbers import Numbers


def ttft(report: Report) -> Figure | None:
    """TTFT stacked: queue, prefill, frontend, network."""
    phases = known_of(report, lambda one: one.parts.total_s)
    if not phases:
        return None
    series = tuple(
        Series(name, role, tuple((phase.label, part(of, name)) for phase, of in phases), "bar")
        for name, role in PARTS
        if any(part(of, name) is not None for _, of in phases)
    )
    return Figure(
        key="ttft",
        title="What the time to first token is made of",
        caption=(
            "Means of the requests that finished in a phase: parts of one set of requests, so they add up. "
            "Network is what vtop's own requests saw beyond the server's TTFT."
        ),
        alt="; ".join(f"{phase.label}: {ttft_words(of)}" for phase, of in phases) + ".",
        x_title="phase",
        x_kind="category",
        panels=(FigurePanel("time", series, stacked=True, unit="s"),),
    )


def crossing(report: Report) -> Figure | None:
    """Queue against prefill over the load, on logarithmic axes."""
    growth = report.growth
    known = [(one.load, part) for one, part in levels_of(report)]
    if len(known) < 2:
        return None
    queue: list[Point] = [(load, one.queue_s) for load, one in known if one.queue_s]
    prefill: list[Point] = [(load, one.prefill_s) for load, one in known if one.prefill_s]
    total: list[Point] = [(load, one.total_s) for load, one in known if one.total_s]
    series = [
        Series("queue", "queue", tuple(queue), "line"),
        Series("prefill", "prefill", tuple(prefill), "line"),
        Series("TTFT", "text", tuple(total), "dashed"),
    ]
    unit = growth.crossing_unit or "load"
    said = "The queue does not reach prefill here, and no crossing can be extrapolated."
    if (crossed := growth.crossed) is not None:
        said = f"{crossed[0].upper()}{crossed[1:]}: measured."
    elif growth.crossing is not None:
        said = f"The queue would overtake prefill at ≈ {units.number(growth.crossing)} {unit} (extrapolated)."
        series += _extrapolated(known[-1][0], queue, prefill, growth.crossing)
    return Figure(
        key="crossing",
        title="Queue against prefill",
        caption=f"Both axes logarithmic; what is 0 has no point. {said}",
        alt=(
            "; ".join(
                f"{units.number(load)}: queue {units.seconds(one.queue_s)}, prefill {units.seconds(one.prefill_s)}"
                for load, one in known
            )
            + f". {said}"
        ),
        x_title=unit,
        x_kind="log",
        panels=(FigurePanel("time", tuple(series), log=True, unit="s"),),
    )


def _extrapolated(latest: float, queue: Sequence[Point], prefill: Sequence[Point], at: float) -> list[Series]:
    """The last two points of each line carried on to the crossing, on logarithmic axes."""
    found = []
    for name, role, points in (("queue", "queue", queue), ("prefill", "prefill", prefill)):
        if len(points) < 2 or points[-1][0] != latest:
            return []
        (x0, y0), (x1, y1) = points[-2:]
        assert isinstance(x0, float)
        assert isinstance(x1, float)
        if not y0 or not y1:
            return []
        end = y1 * (at / x1) ** _log_slope(x0, y0, x1, y1)
        found.append(Series(f"{name}, extrapolated", role, ((x1, y1), (at, end)), "dashed"))
    return found


def _log_slope(x0: float, y0: float, x1: float, y1: float) -> float:
    return log(y1 / y0) / log(x1 / x0)


def iterations(report: Report) -> Figure | None:
    """Tokens of an engine step: decode and prefill."""
    phases = known_of(report, lambda one: one.decode_per_step)
    if not phases:
        return None
    return Figure(
        key="iterations",
        title="What an engine step is made of",
        caption=(
            "Tokens per step that gave output: one per running request decodes, the rest are prompts of others. "
            "Recomputed tokens are in none of them."
        ),
        alt="; ".join(
            f"{phase.label}: {units.number(of.decode_per_step)} decode and {units.number(of.prefill_per_step)} prefill"
            for phase, of in phases
        )
        + " tokens a step.",
        x_title="phase",
        x_kind="category",
        panels=(
            FigurePanel(
                "tokens a step",
                (
                    Series("decode", "decode", bars(phases, lambda one: one.decode_per_step), "bar"),
                    Series("prefill", "prefill", bars(phases, lambda one: one.prefill_per_step), "bar"),
                ),
                stacked=True,
            ),
        ),
    )


def wall_clock(report: Report) -> Figure | None:
    """Where the time of each phase went."""
    phases = known_of(report, lambda one: one.wallclock.decode_s)
    if not phases:
        return None
    parts: tuple[tuple[str, str, Callable[[Numbers], float | None]], ...] = (
        ("decode", "decode", lambda one: one.wallclock.decode_s),
        ("prefill", "prefill", lambda one: one.wallclock.prefill_s),
        ("recompute", "preemption", lambda one: one.wallclock.recompute_s),
        ("idle", "dim", lambda one: one.wallclock.idle_s),
    )
    return Figure(
        key="wall-clock",
        title="Where the wall clock went",
        caption="Seconds of each phase spent on decoding, prefill and recomputing, and those in which nothing ran.",
        alt="; ".join(
            f"{phase.label}: "
            + ", ".join(f"{name} {units.seconds(of_part(of))}" for name, _, of_part in parts if of_part(of) is not None)
            for phase, of in phases
        )
        + ".",
        x_title="phase",
        x_kind="category",
        panels=(
            FigurePanel(
                "time",
                tuple(Series(name, role, bars(phases, of_part), "bar") for name, role, of_part in parts),
                stacked=True,
                unit="s",
            ),
        ),
    )
