"""The figure of a comparison: the difference of each phase, and the noise that it is to be held against.

A point between the dashed lines of its colour is within the noise. It is the source of a claim such as "two runs agree
to 0.2 % over seven loads", which is reported for every number beside it.
"""

from __future__ import annotations

import tomllib
from typing import Final

from vtop import units
from vtop.report.compare import words
from vtop.report.compare.parts import Comparison, Difference, NumberPart, PhasePart
from vtop.report.figures.figure import Figure, FigurePanel, Point, Series
from vtop.shipped import folder

DRAWN: Final = ("output_per_s", "ttft.mean_s", "itl.mean_s")
_HUES: Final = ("decode", "prefill", "queue", "kv", "frontend", "preemption", "power", "running")


def figure(comparison: Comparison) -> Figure | None:
    """None where no number that is drawn is known on two sides."""
    panels = [panel for name in DRAWN if (panel := _panel(comparison, name)) is not None]
    if not panels:
        return None
    many = len(comparison.phases) > 1
    return Figure(
        key="differences",
        title="Differences, and the noise they stand in",
        caption=(
            f"Points: by how many per cent a side differs from {comparison.sides[0].name}. Dashed: how far noise alone "
            f"reaches either way, all together at {words.confidence(comparison)}; none where it is not known. "
            "Each panel has a scale of its own."
        ),
        alt=" ".join(_words(comparison, name) for name in DRAWN).strip(),
        x_title="phase" if many else "",
        x_kind="category",
        panels=tuple(panels),
    )


def svg(of: Figure) -> str:
    """The figure as a file of its own: its colours are in it, for light and dark."""
    from vtop.report.render import vega  # Altair loads 250 modules that a comparison as text does not need

    light, dark = (
        vega.palette(tomllib.loads((folder("themes") / f"{name}.toml").read_text(encoding="utf-8")))
        for name in ("light", "dark")
    )
    style = f"<style>:root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}</style>"
    return vega.svg(of).replace("</desc>", f"</desc>{style}", 1) + "\n"


def of_number(comparison: Comparison, name: str, side: str) -> list[tuple[PhasePart, NumberPart, Difference]]:
    """One number's differences of one side, over the phases."""
    return [
        (phase, number, one)
        for phase in comparison.phases
        for number in phase.numbers
        if number.name == name
        for one in number.differences
        if one.side == side
    ]


def _panel(comparison: Comparison, name: str) -> FigurePanel | None:
    series, label = [], ""
    for at, side in enumerate(comparison.sides[1:]):
        found = [one for one in of_number(comparison, name, side.name) if one[2].ratio is not None]
        if not found:
            continue
        label, hue = words.label(found[0][1]), _HUES[at % len(_HUES)]
        series.append(Series(f"{side.name} − {comparison.sides[0].name}", hue, _points(found, 0), "points"))
        series += [
            Series(
                f"noise {word}" if len(comparison.sides) == 2 else f"noise of {side.name} {word}", hue, points, "dashed"
            )
            for word, points in (("up", _points(found, 1)), ("down", _points(found, -1)))
            if any(value is not None for _, value in points)
        ]
    return FigurePanel(f"{label}, %", tuple(series)) if series else None


def _points(found: list[tuple[PhasePart, NumberPart, Difference]], way: int) -> tuple[Point, ...]:
    return tuple((phase.label, _height(one, way)) for phase, _, one in found)


def _height(of: Difference, way: int) -> float | None:
    """The difference itself (0), or the noise up (1) or down (-1), in per cent."""
    if way == 0:
        return of.ratio * 100 if of.ratio is not None else None
    if of.low_ratio is None or of.high_ratio is None or of.ratio is None:
        return None
    end = of.high_ratio if way > 0 else of.low_ratio
    return ((1 + end) / (1 + of.ratio) - 1) * 100 if of.ratio > -1 else (end - of.ratio) * 100


def _words(comparison: Comparison, name: str) -> str:
    said = []
    for side in comparison.sides[1:]:
        found = of_number(comparison, name, side.name)
        if found:
            each = "; ".join(f"{phase.label} {words.short(number, one)}" for phase, number, one in found)
            said.append(f"{found[0][1].label}, {side.name}: {each or units.UNKNOWN}.")
    return " ".join(said)
