"""Figures in a terminal, by plotext: panels one below the other, without colours, so that they can be piped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from math import log10
from typing import Final

import plotext

from vtop import units
from vtop.report.figures.figure import Figure, FigurePanel, Series

ROWS: Final = 11
_BARS: Final = ("█", "▒", "░", "▓")
_MARKERS: Final = ("●", "○", "+", "×", "◆", "◇", "▲", "△")
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;]*m")
_LABEL: Final = 24  # columns of a category's name, at most


def plot(figure: Figure, width: int) -> str:
    """Lines of at most `width` columns."""
    return "\n".join(_panel(figure, panel, width) for panel in figure.panels if _known(panel))


def _known(panel: FigurePanel) -> bool:
    return any(value is not None for series in panel.series for _, value in series.points)


def _panel(figure: Figure, panel: FigurePanel, width: int) -> str:
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)
    if any(series.style == "bar" for series in panel.series):
        signs = _bars(panel, width)
    else:
        plotext.plot_size(width, ROWS)
        signs = _lines(figure, panel)
    drawn = _ESCAPE.sub("", plotext.build())
    named = [f"{sign} {_short(series.name)}" for sign, series in zip(signs, panel.series, strict=True)]
    head = [panel.title, *(named if len(named) > 1 else ()), *(f"── {_short(rule.name)}" for rule in panel.rules)]
    return "\n".join(("   ".join(head), *(line.rstrip() for line in drawn.splitlines())))


def _bars(panel: FigurePanel, width: int) -> list[str]:
    """A bar lies; the first category is the uppermost. Returns the sign of each series."""
    names = [str(x) for x, _ in panel.series[0].points][::-1]
    heights = [[value or 0.0 for _, value in series.points][::-1] for series in panel.series]
    each = 1 if panel.stacked else len(heights)
    plotext.plot_size(width, len(names) * (each + 1) + 3)
    labels = [_short(name) for name in names]
    signs = [_BARS[at % len(_BARS)] for at in range(len(heights))]
    if panel.stacked:
        plotext.stacked_bar(labels, heights, orientation="h", marker=signs, width=0.5)
    else:
        plotext.multiple_bar(labels, heights, orientation="h", marker=signs, width=0.7)
    return signs


def _lines(figure: Figure, panel: FigurePanel) -> list[str]:
    """Returns the sign of each series."""
    places = _places(panel) if figure.x_kind == "category" else {}
    alone = len(panel.series) == 1
    signs = []
    for at, series in enumerate(panel.series):
        fine = series.style != "points" and (alone or (figure.x_kind == "time" and series.style != "area" and at == 0))
        sign = _MARKERS[at % len(_MARKERS)]
        signs.append("⠒" if fine else sign)
        for run in _runs(series, places):
            xs, ys = _stairs(run) if series.style == "step" else ([x for x, _ in run], [y for _, y in run])
            draw = plotext.scatter if series.style == "points" else plotext.plot
            draw(xs, ys, marker="braille" if fine else sign)
    for rule in panel.rules:
        plotext.hline(rule.at)
    if panel.log:
        plotext.yscale("log")
    elif panel.top is not None or panel.bottom is not None:
        known = [y for one in panel.series for _, y in one.points if y is not None]
        plotext.ylim(panel.bottom or 0, panel.top if panel.top is not None else max(known, default=1))
    else:
        plotext.ylim(0, max((y for one in panel.series for _, y in one.points if y is not None), default=1) or 1)
    if figure.x_kind == "log":
        plotext.xscale("log")
    _ticks(figure, panel, places)
    return signs


def _places(panel: FigurePanel) -> dict[str, float]:
    names = dict.fromkeys(str(x) for series in panel.series for x, _ in series.points)
    return {name: float(at) for at, name in enumerate(names, start=1)}


def _runs(series: Series, places: dict[str, float]) -> Iterator[list[tuple[float, float]]]:
    """The spans between gaps."""
    run: list[tuple[float, float]] = []
    for x, y in series.points:
        if y is None:
            if run:
                yield run
            run = []
        else:
            run.append((places[x] if isinstance(x, str) else x, y))
    if run:
        yield run


def _stairs(run: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    xs, ys = [run[0][0]], [run[0][1]]
    for x, y in run[1:]:
        xs += [x, x]
        ys += [ys[-1], y]
    return xs, ys


def _ticks(figure: Figure, panel: FigurePanel, places: dict[str, float]) -> None:
    known = [x for series in panel.series for x, y in series.points if y is not None]
    if figure.x_kind == "category":
        plotext.xticks(list(places.values()), [_short(name) for name in places])
        return
    numbers = [float(x) for x in known if not isinstance(x, str)]
    if not numbers:
        return
    low, high = min(numbers), max(numbers)
    if figure.x_kind == "time":
        marks = [low + (high - low) * part / 6 for part in range(7)]
        plotext.xticks(marks, [units.clock(mark) for mark in marks])
    elif figure.x_kind == "log":
        marks = [10 ** (log10(low) + (log10(high) - log10(low)) * part / 6) for part in range(7)]
        form = units.seconds if figure.x_title == "seconds" else units.number
        plotext.xticks(marks, [form(mark) for mark in marks])


def _short(name: str) -> str:
    clean = "".join(letter if letter.isprintable() else "?" for letter in name)
    return clean if len(clean) <= _LABEL else clean[: _LABEL - 1] + "…"
