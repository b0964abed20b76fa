"""How latencies are distributed: a curve per phase, of every own request or of the server's buckets."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10

from vtop import units
from vtop.report.figures.choices import HUES
from vtop.report.figures.figure import Figure, Panel, Point, Series
from vtop.report.model import Report
from vtop.session.load.distribution import Distribution


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
                alt="; ".join(f"{phase.label}: {_quarters(one)}" for phase, one in curves) + ".",
                x_title="seconds",
                x_kind="log",
                panels=(Panel("share at or below", series, top=1.0, unit="share"),),
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
        alt="; ".join(f"{phase.label}: {_rare(one)}" for phase, one in curves) + ".",
        x_title="seconds",
        x_kind="log",
        panels=(
            Panel(
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


def _rare(of: Distribution) -> str:
    """How long the longest tenth, hundredth and thousandth took, at least."""
    found = []
    for name, share in (("p90", 0.1), ("p99", 0.01), ("p99.9", 0.001)):
        at = next((seconds for seconds, above in of.tail if above <= share + 1e-12), None)
        if at is not None:
            found.append(f"{name} {units.seconds(at)}")
    return ", ".join(found) or "too few gaps"


def _positive(points: Sequence[tuple[float, float]]) -> tuple[Point, ...]:
    return tuple((seconds, share) for seconds, share in points if seconds > 0)


def _quarters(of: Distribution) -> str:
    def at(share: float) -> str:
        return units.seconds(next((seconds for seconds, below in of.points if below >= share - 1e-9), None))

    return f"half within {at(0.5)}, nine of ten within {at(0.9)} (n {of.n:,.0f})"
