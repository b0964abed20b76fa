"""A figure before it is drawn: panels over one horizontal axis, each with its series; for SVG and terminal alike."""

from __future__ import annotations

from dataclasses import dataclass, field

Point = tuple[float | str, float | None]  # where, how much; None: a gap


@dataclass(frozen=True, slots=True)
class Series:
    """style: line, dashed, step, points, bar, area. `role` names a colour of the theme."""

    name: str
    role: str
    points: tuple[Point, ...]
    style: str = "line"


@dataclass(frozen=True, slots=True)
class RuleLine:
    """A level that is drawn through a panel: a limit, a trigger."""

    name: str
    role: str
    at: float


@dataclass(frozen=True, slots=True)
class FigurePanel:
    """`title` names the quantity and its unit. Zero-based unless `log` or there is a `bottom`, below which nothing is
    drawn; bars and areas stand on one another if `stacked`."""

    title: str
    series: tuple[Series, ...]
    rules: tuple[RuleLine, ...] = ()
    log: bool = False
    stacked: bool = False
    top: float | None = None
    unit: str = ""  # of the axis: s, share, above (a share of what is longer, told as the percentile there)
    bottom: float | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """x_kind: time (seconds of the session), number, log, category. `alt` says in words what is to be seen."""

    key: str
    title: str
    caption: str
    alt: str
    x_title: str
    x_kind: str
    panels: tuple[FigurePanel, ...]
    shades: tuple[tuple[float, float, str], ...] = ()  # spans of the axis: from, to, what
    ticks: tuple[float, ...] = field(default=())  # instants marked on every panel: preemptions

    @property
    def drawn(self) -> bool:
        """Whether there is anything to draw."""
        return bool(self._places)

    @property
    def single(self) -> bool:
        """Whether all of it stands at one place of the axis: a table says that better."""
        return len(self._places) == 1

    @property
    def _places(self) -> set[float | str]:
        return {
            x for panel in self.panels for series in panel.series for x, value in series.points if value is not None
        }
