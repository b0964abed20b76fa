"""The panel requests: how many run and wait, preemptions as a staircase, and what finished."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vtop import units
from vtop.draw import chart
from vtop.draw.grid import (
    LEFT,
    Block,
    chart_cells,
    chart_rows,
    growing,
    left,
    right,
    scale,
    seen,
    sparked,
    spread,
    stacked,
    top,
)
from vtop.draw.panels.sizes import Rows
from vtop.draw.text import Line, Phrase, line, phrases
from vtop.draw.theme import Look
from vtop.session.frame.charts import Points
from vtop.session.frame.frame import Frame
from vtop.session.frame.values import Count, Gauge

ONE_EACH: Final = 1.005  # answers a request, at most, that need no word
# How a request ended, by vLLM's finished_reason.
_BY: Final = {"length": "by length", "stop": "by stop", "abort": "aborted"}


def requests(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """Requests running and waiting, preemptions as a staircase with its ticks, and what finished."""
    look, charts, asked = seen(frame, look), frame.charts, frame.requests
    total = frame.preemption.count.since_start
    if height == 1:
        shown = [
            Phrase(0, (("running ", "dim"), (units.count(asked.running.now), "number"))),
            Phrase(1, (("waiting ", "dim"), (units.count(asked.waiting.now), "number"))),
            Phrase(2, (("preempted ", "dim"), (units.count(total), "number"))),
        ]
        return [phrases(look, width, shown)]

    def gauge(label: str, now: Gauge, points: Points, rows: int) -> list[Line]:
        maximum = chart.nice_maximum((*points, now.now), 4)  # a column is drawn once it is over
        head, drawn = left(label, units.short_count(now.now)), sparked(look, width, rows, points, (maximum, label))
        ends = scale(width, rows, top(units.short_count(maximum), width), spread(now, units.short_count))
        return chart_rows(look, width, head, drawn, ends)

    cells = chart_cells(width)
    risen = chart.in_cells(charts.preempted, cells)
    counted = chart.in_cells(charts.preemptions, cells)

    def preemptions(rows: int) -> list[Line]:
        steps = chart.stairs(counted, risen, rows, look.glyphs, total)
        shown = [[(row, "preemption")] for row in steps.rows]
        return chart_rows(look, width, left("preempt", units.short_count(total)), shown, [steps.risen])

    def ticks(_: int) -> list[Line]:
        marks = chart.stairs(counted, risen, 1, look.glyphs).ticks
        every = apart_s(frame)
        head = [(" " * LEFT, "dim")] if every is None else left("  every", units.seconds(every), "dim")
        return [line(look, width, *head, (marks, "preemption"), right(width, ""))]

    blocks = [
        growing(0, lambda rows: gauge("running", asked.running, charts.running, rows)),
        _chart(1, lambda rows: gauge("waiting", asked.waiting, charts.waiting, rows), charts.waiting),
        _chart(2, preemptions, risen),
        Block(4, lambda _: [_finished(frame, width, look)]),
    ]
    if _moves(risen):
        blocks.insert(3, Block(3, ticks))
    return stacked(look, width, height, blocks)


def _chart(rank: int, draw: Callable[[int], list[Line]], points: Points) -> Block:
    return growing(rank, draw) if _moves(points) else Block(rank, draw)


def rows_wide(frame: Frame) -> Rows:
    """With a heading; a chart that is nothing but zeros has one row, and leaves its share to others."""
    return Rows(6, 60, 2 + _moves(frame.charts.waiting) + _moves(frame.charts.preempted))


def _moves(points: Points) -> bool:
    return any(points)


def apart_s(frame: Frame) -> float | None:
    """The time from one preemption to the next, wherever it is reported."""
    return frame.staircase.interval_mean_s


def _finished(frame: Frame, width: int, look: Look) -> Line:
    asked = frame.requests
    shown = [
        Phrase(0, (("finished ", "dim"), (units.count(asked.finished.in_window), "number"))),
        Phrase(1, ((f"{units.number(asked.finished.per_s)} /s{_over(asked.finished, frame.window_s)}", "dim"),)),
    ]
    if asked.answers_each is not None and asked.answers_each > ONE_EACH:
        said = f"= {units.number(asked.users_per_s)} /s × n {units.number(asked.answers_each)}"
        shown.append(Phrase(1, ((said, "warn"),)))
    for reason, n in asked.finished_by_reason:
        role = "bad" if reason == "error" and n else "dim"
        shown.append(Phrase(2 if role == "bad" else 4, ((f"{_BY.get(reason, reason)} {units.count(n)}", role),)))
    if asked.rejected.in_window:
        shown.append(Phrase(2, ((f"rejected {units.count(asked.rejected.in_window)}", "warn"),)))
    for reason, n in asked.waiting_by_reason:
        if n:
            shown.append(Phrase(3, ((f"waiting for {reason} {units.count(n)}", "dim"),)))
    return phrases(look, width, shown)


def _over(of: Count, window_s: float) -> str:
    """The time that a rate is about, where that is not the window: while a server was down nothing was counted."""
    counted_s = of.in_window / of.per_s if of.in_window and of.per_s else window_s
    return f" over {units.span(counted_s)}" if counted_s < 0.95 * window_s else ""
