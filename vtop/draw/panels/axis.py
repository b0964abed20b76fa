"""The one time axis of the charts above it."""

from __future__ import annotations

from vtop import units
from vtop.draw import chart
from vtop.draw.grid import LEFT, chart_cells, right
from vtop.draw.text import Line, blank, line, padded, shorten
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame


def axis(frame: Frame, width: int, height: int, look: Look, before: str = "") -> list[Line]:
    """The one time axis of the charts above it. It ends now; at an instant of the session where there is no news.

    Before it stands what is to be said about all of them, where they have no headings to say it."""
    end = "now" if frame.status.fresh else units.clock(frame.charts.end_s)
    runs = chart.axis(frame.charts, chart_cells(width), look.glyphs.signs, look.glyphs.rule, end)
    ends = line(
        look, width, (padded(shorten(before, LEFT - 1, look.glyphs.ellipsis), LEFT), "warn"), *runs, right(width, "")
    )
    return [ends] + [blank(look, width)] * (height - 1)
