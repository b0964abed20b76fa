"""How latencies are distributed: a curve per phase, of every own request or of the server's buckets."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from typing import Final

from vtop import units
from vtop.report.figures.choices import HUES
from vtop.report.figures.figure import Figure, FigurePanel, Point, Series
from vtop.report.labels import best, percentile_words
from vtop.report.model import Phase, Report
from vtop.session.load.distribution import Distribution

_USUAL: Final = (("p50", "p50_s"), ("p90", "p90_s"))
_RARE: Final = (("p90", "p90_s"), ("p99", "p99_s"), ("p99.9", "p999_s"))


def latencies(report: Report) -> list[Figure]:
    """A distribution each for TTFT, ITL and e2e, with a curve per phase."""
    found = []
    for name in ("TTFT", "ITL", "e2e"):
        curves = [(phase, one) for phase in report.phases for one in phase.distributions if one.name == name]
        if not curves:
            continue
        exact = all(one.whose == "own requests" for _, one in curves)
        said = "Every value is known: vtop's own requests."
        if not exact:
            said = "Known at the bounds of the server's buckets and nowhere between them."
        series = tuple(
            Series(phase.label, HUES[at % len(HUES)], _positive(one.points), "step" if exact else "points")
            for at, (phase, one) in enumerate(curves)
        )
        found.append(
            Figure(
                key=f"distribution-{name.lower()}",
                title=f"Distribution of {name}",
                caption=f"The share that took at most so long, the time on a logarithmic axis. {said}",
                alt="; ".join(_words(phase, one, name, _USUAL) for phase, one in curves) + ".",
                x_title="seconds",
                x_kind="log",
                panels=(FigurePanel("share at or below", series, top=1.0, unit="share"),),
            )
        )
    return found


def tail(report: Report) -> Figure | None:
    """The gaps between tokens that are longer than most: the share above on a logarithmic axis."""
    curves = [(phase, one) for phase in report.phases for one in phase.distributions if one.name == "ITL" and one.tail]
    if not curves:
        return None
    exact = all(one.whose == "own requests" for _, one in curves)
    said = "Every value is known: vtop's own requests."
    if not exact:
        said = "Known at the bounds of the server's buckets and nowhere between them."
    least = 10 ** floor(log10(min(share for _, one in curves for _, share in one.tail)))
    return Figure(
        key="tail-itl",
        title="The tail of ITL",
        caption=f"The share of the gaps that took longer, both axes logarithmic: p99 is where 1 % does. {said}",
        alt="; ".join(_words(phase, one, "ITL", _RARE) for phase, one in curves) + ".",
        x_title="seconds",
        x_kind="log",
        panels=(
            FigurePanel(
                "share of longer gaps",
                tuple(
                    Series(phase.label, HUES[at % len(HUES)], _positive(one.tail), "step" if exact else "points")
                    for at, (phase, one) in enumerate(curves)
                ),
                log=True,
                top=1.0,
                unit="above",
                bottom=least,
            ),
        ),
    )


def _positive(points: Sequence[tuple[float, float]]) -> tuple[Point, ...]:
    return tuple((seconds, share) for seconds, share in points if seconds > 0)


def _words(phase: Phase, of: Distribution, name: str, asked: Sequence[tuple[str, str]]) -> str:
    """The percentiles of the tables: a curve has only some of its points."""
    known = [] if phase.whole is None else [(said, best(phase.whole, name, field)) for said, field in asked]
    told = ", ".join(f"{said} {percentile_words(value)}" for said, value in known if value is not None)
    return f"{phase.label}: {told or 'no percentile'} (n {units.count(of.n)})"
