"""Where the panels stand on a screen of a given size, and the whole screen as lines.

One column below 110 cells: a line a chart, nothing boxed. From there two columns of equal width, so that one time axis
serves both; what height is over goes to the charts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from rich.segment import Segment
from rich.style import Style

from vtop.draw.grid import chart_columns
from vtop.draw.panels.axis import axis
from vtop.draw.panels.freshness import as_of
from vtop.draw.panels.header import header
from vtop.draw.panels.registry import PANELS, Panel, heading_notes
from vtop.draw.panels.sizes import Rows
from vtop.draw.panels.verdict_line import status
from vtop.draw.text import Line, Phrase, blank, heading, phrases, width_of
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame

MARGIN: Final = 1
GUTTER: Final = 2
TWO_COLUMNS: Final = 110
KEYS: Final = (
    "q quit  w why  ␣ pause  ← → scrub  + − zoom  m mark  r record  s picture  t theme  ? what is this number  ^p all"
)
_DEAREST: Final = "q?w␣←+rm^st"  # the keys that stay longest, by their first signs


class Place(NamedTuple):
    """A panel's cells on the screen; with a heading its first line is a rule with its title."""

    panel: str
    x: int
    y: int
    width: int
    height: int
    heading: bool = False


class Want(NamedTuple):
    """A panel in a column, and the rows that it can use."""

    panel: str
    rows: Rows


_AXIS: Final = Want("axis", Rows(1, 1, 0))


def body() -> tuple[str, ...]:
    """The panels that can be hidden, chosen and enlarged, by name."""
    return tuple(PANELS)


def arrange(
    width: int, height: int, frame: Frame, hidden: frozenset[str] = frozenset(), only: str | None = None
) -> list[Place]:
    """Every panel's place on `width` x `height` cells, but for those `hidden`; `only` one has all of the body.

    The last line is left to the keys.
    """
    inner = width - 2 * MARGIN
    rows = max(1, height - 1)
    top = [Place("header", MARGIN, 0, inner, 1), Place("status", MARGIN, 1, inner, 1)][:rows]
    if only is not None:
        axis = [_AXIS] if "alone" in PANELS[only].charted else []
        return top + _column([Want(only, Rows(1, rows)), *axis], (MARGIN, 2, inner, rows - 2))
    shown = [panel for panel in PANELS.values() if panel.name not in hidden]
    if width < TWO_COLUMNS:
        over = _wants([panel for panel in shown if "narrow" in panel.charted], frame, "narrow")
        under = _wants([panel for panel in shown if "narrow" not in panel.charted], frame, "narrow")
        return top + _column([*over, _AXIS, *under], (MARGIN, 2, inner, rows - 2), headings=False)
    each = (inner - GUTTER) // 2
    x = {"left": MARGIN, "right": MARGIN + each + GUTTER}
    shown = [panel for panel in shown if rows >= panel.from_rows]
    charts = {at: _wants([one for one in shown if one.column == at and "wide" in one.charted], frame) for at in x}
    others = {at: _wants([one for one in shown if one.column == at and "wide" not in one.charted], frame) for at in x}
    # The charts end in one line, the time axis; what has none stands below.
    share = 4 if any(panel.from_rows for panel in shown) else 3  # tenths of the screen
    below = max((rows - 2) * share // 10, *(sum(want.rows.least for want in wants) for wants in others.values()))
    most = sum(want.rows.most for want in charts["left"] or charts["right"])
    above = max(0, min(rows - 3 - below, most))
    y, below = 2 + above, rows - 3 - above
    return [
        *top,
        *(place for column in x for place in _column(charts[column], (x[column], 2, each, above))),
        *(Place("axis", x[column], y, each, 1) for column in x if below >= 0),
        *(place for column in x for place in _column(others[column], (x[column], y + 1, each, below))),
    ]


def _wants(panels: Sequence[Panel], frame: Frame, screen: Literal["narrow", "wide"] = "wide") -> list[Want]:
    found = [(panel.name, (panel.narrow if screen == "narrow" else panel.wide)(frame)) for panel in panels]
    return [Want(name, rows) for name, rows in found if rows is not None]


def _column(wants: Sequence[Want], room: tuple[int, int, int, int], headings: bool = True) -> list[Place]:
    """Panels one below the other in a room (x, y, width, height): each its least first, then what is over by share."""
    x, y, width, over = room
    heights: list[int] = []
    for want in wants:
        heights.append(min(want.rows.least, max(0, over)))
        over -= heights[-1]
    while over > 0:
        growing = [at for at, want in enumerate(wants) if 0 < heights[at] < want.rows.most and want.rows.share]
        if not growing:
            break
        heights[min(growing, key=lambda at: (heights[at] - wants[at].rows.least + 1) / wants[at].rows.share)] += 1
        over -= 1
    places = []
    for want, lines in zip(wants, heights, strict=True):
        if lines:
            places.append(Place(want.panel, x, y, width, lines, headings and lines > 1))
            y += lines
    return places


def columns_for(width: int, only: str | None = None) -> int:
    """What View.columns is to be on a screen of this width."""
    inner = width - 2 * MARGIN
    return chart_columns(inner if width < TWO_COLUMNS or only is not None else (inner - GUTTER) // 2)


def drawn(
    frame: Frame,
    width: int,
    height: int,
    look: Look,
    *,
    state: str = "",
    keys: str = KEYS,
    hidden: frozenset[str] = frozenset(),
    only: str | None = None,
    chosen: str | None = None,
) -> list[tuple[Place, list[Line]]]:
    """Every panel's place and its lines; the `chosen` one is marked, and the keys stand in the last line."""
    narrow = width < TWO_COLUMNS and only is None
    before = as_of(frame) if narrow else ""
    found = [
        (
            place,
            _panel(
                place, frame, look, before=before, state=state, chosen=place.panel == chosen, alone=only is not None
            ),
        )
        for place in arrange(width, height, frame, hidden, only)
    ]
    if height > 1:
        last = Place("keys", MARGIN, height - 1, max(0, width - 2 * MARGIN), 1)
        found.append((last, [_keys(keys, last.width, look)]))
    return found


def _keys(keys: str, width: int, look: Look) -> Line:
    """The keys that there is room for, each whole."""
    if width_of(keys) > width:
        keys = keys.replace("what is this number", "numbers")
    known = [Phrase((_DEAREST + key[:1]).index(key[:1]), ((key, "dim"),)) for key in keys.split("  ")]
    return phrases(look, width, known, between="  ")


def _panel(place: Place, frame: Frame, look: Look, *, before: str, state: str, chosen: bool, alone: bool) -> list[Line]:
    if place.panel == "header":
        return header(frame, place.width, place.height, look, state)
    if place.panel == "status":
        return status(frame, place.width, place.height, look)
    if place.panel == "axis":
        return axis(frame, place.width, place.height, look, before)
    panel = PANELS[place.panel]
    if not place.heading:
        lines = panel.draw(frame, place.width, place.height, look)
        return [_reversed(lines[0], 0), *lines[1:]] if chosen else lines
    said = heading_notes(panel, frame)
    if panel.left_out is not None and (more := panel.left_out(frame, place.width, place.height - 1, look)):
        said.insert(0, f"{more} more" if alone else f"w {more} more")
    head = heading(look, place.width, panel.title, said)
    return [_reversed(head, 1) if chosen else head, *panel.draw(frame, place.width, place.height - 1, look)]


def _reversed(drawn: Line, at: int) -> Line:
    """The line with one of its segments, a title or a label, in reverse."""
    style = (drawn[at].style or Style.null()) + Style(reverse=True)
    return (*drawn[:at], Segment(drawn[at].text, style), *drawn[at + 1 :])


def assembled(panels: Sequence[tuple[Place, list[Line]]], width: int, height: int, look: Look) -> list[Line]:
    """Panels in their places: exactly `height` lines of `width` cells."""
    rows: list[list[tuple[int, int, Line]]] = [[] for _ in range(height)]
    for place, lines in panels:
        for offset, one in enumerate(lines):
            rows[place.y + offset].append((place.x, place.width, one))
    whole = []
    for parts in rows:
        segments: list[Segment] = []
        end = 0
        for x, wide, one in sorted(parts, key=lambda part: part[0]):
            segments += (*blank(look, x - end), *one)
            end = x + wide
        whole.append((*segments, *blank(look, width - end)))
    return whole


def screen(frame: Frame, width: int, height: int, look: Look, *, state: str = "", keys: str = KEYS) -> list[Line]:
    """The whole screen, for a terminal, a picture or a test."""
    return assembled(drawn(frame, width, height, look, state=state, keys=keys), width, height, look)
