"""Where the panels stand on a screen of a given size, and the whole screen as lines.

One column below 110 cells: a line a chart, nothing boxed. From there two columns of equal width, so that one time axis
serves both; what height is over goes to the charts. On a very wide screen what stands below the charts has four.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from rich.segment import Segment
from rich.style import Style

from vtop.draw import chart
from vtop.draw.grid import chart_columns
from vtop.draw.panels.axis import axis
from vtop.draw.panels.fleet import fleet_status, strip_cells, table_lines
from vtop.draw.panels.freshness import as_of
from vtop.draw.panels.header import header
from vtop.draw.panels.registry import PANELS, Panel, heading_notes
from vtop.draw.panels.sizes import Rows
from vtop.draw.panels.timeline import Timeline, timeline
from vtop.draw.panels.verdict_line import status
from vtop.draw.panels.waiting import LEAST_ROWS, awaited, unasked, waiting
from vtop.draw.text import Line, Phrase, blank, heading, phrases
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame

MARGIN: Final = 1
GUTTER: Final = 2
TWO_COLUMNS: Final = 110
FOUR_COLUMNS: Final = 300  # below the charts, where tables and lists stand
_DRIVES: Final = 20  # rows that one panel below the charts may take from them; a list uses more where they are over
TWO_LINES: Final = 22  # rows from which the verdict has a second line
TIME_CELLS: Final = 44  # of the row of time of a recording, at most
Key = tuple[str, str]  # its face and what it does, in a word or two
KEYS: Final[tuple[Key, ...]] = (  # the first stay longest
    ("q", "quit"), ("?", "numbers"), ("w", "why"), ("␣", "pause"), ("+ −", "zoom"), ("tab", "choose"), ("^p", "all"),
)  # fmt: skip


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
_CARD: Final = Want("waiting", Rows(LEAST_ROWS, 99, 4))


def body() -> tuple[str, ...]:
    """The panels that can be hidden, chosen and enlarged, by name."""
    return tuple(PANELS)


def title(panel: str) -> str:
    """What a panel is called on the screen."""
    return PANELS[panel].title


def arrange(
    width: int, height: int, frame: Frame, hidden: frozenset[str] = frozenset(), only: str | None = None
) -> list[Place]:
    """Every panel's place on `width` x `height` cells, but for those `hidden`; `only` one has all of the body.

    The last line is left to the keys.
    """
    inner = width - 2 * MARGIN
    rows = max(1, height - 1)
    said = 2 if rows >= TWO_LINES else 1
    top = [Place("header", MARGIN, 0, inner, 1), Place("status", MARGIN, 1, inner, said)][:rows]
    y = 1 + said
    if only is not None:
        axis = [_AXIS] if "alone" in PANELS[only].charted else []
        return top + _column([Want(only, Rows(1, rows)), *axis], (MARGIN, y, inner, rows - y))
    shown = [panel for panel in PANELS.values() if panel.name not in hidden]
    if (awaited(frame) or unasked(frame)) and rows - y >= LEAST_ROWS:  # no server's numbers to leave room for
        going_on = [panel for panel in shown if not (panel.of_servers or panel.charted)]
        card = [_CARD] if awaited(frame) else []
        return top + _column([*card, *_wants(going_on, frame)], (MARGIN, y, inner, rows - y))
    if width < TWO_COLUMNS:
        charts = _wants([panel for panel in shown if "narrow" in panel.charted], frame, "narrow")
        others = _wants([panel for panel in shown if "narrow" not in panel.charted], frame, "narrow")
        return top + _column([*charts, _AXIS, *others], (MARGIN, y, inner, rows - y), headings=False)
    each = (inner - GUTTER) // 2
    x = {"left": MARGIN, "right": MARGIN + each + GUTTER}
    columns = {at: [panel for panel in shown if panel.column == at] for at in x}
    over = {at: _wants([one for one in columns[at] if "wide" in one.charted], frame) for at in x}
    under = {at: [one for one in columns[at] if "wide" not in one.charted] for at in x}
    reserved = {at: _wants([one for one in under[at] if rows >= one.from_rows], frame) for at in x}
    # The charts end in one line, the time axis; what has none stands below.
    share = 4 if any(0 < one.from_rows <= rows for one in shown) else 3  # tenths of the screen
    halves = 2 if width >= FOUR_COLUMNS else 1
    used = max(_used(wants, halves) for wants in reserved.values())
    least = max(sum(want.rows.least for want in wants) for wants in reserved.values())
    below = max(min((rows - y) * share // 10, used), least)
    most = sum(want.rows.most for want in over["left"] or over["right"])
    above = max(0, min(rows - y - 1 - below, most))
    axis_y, below = y + above, rows - y - 1 - above
    for at in x:  # rows that nothing would use go to what has no place of its own on a screen of this height
        free = below - sum(want.rows.most for want in reserved[at])
        spare = _wants([one for one in under[at] if rows < one.from_rows], frame)
        reserved[at] += [want for want in spare if want.rows.least <= free]
    return [
        *top,
        *(place for at in x for place in _column(over[at], (x[at], y, each, above))),
        *(Place("axis", x[at], axis_y, each, 1) for at in x if below >= 0),
        *(place for at in x for place in _below(reserved[at], (x[at], axis_y + 1, each, below), halves)),
    ]


def _split(wants: Sequence[Want], halves: int) -> list[Sequence[Want]]:
    """The panels of a column, or those of its two halves that are much the same in height."""
    if halves == 1 or len(wants) < 2:
        return [wants]
    parts = [(wants[:at], wants[at:]) for at in range(1, len(wants))]
    return list(min(parts, key=lambda both: max(_used(one, 1) for one in both)))


def _used(wants: Sequence[Want], halves: int) -> int:
    """Rows of the charts' that panels below them are worth."""
    return max(sum(min(want.rows.most, _DRIVES) for want in part) for part in _split(wants, halves))


def _below(wants: Sequence[Want], room: tuple[int, int, int, int], halves: int) -> list[Place]:
    parts = _split(wants, halves)
    x, y, width, height = room
    each = (width - GUTTER * (len(parts) - 1)) // len(parts)
    return [
        place for at, part in enumerate(parts) for place in _column(part, (x + at * (each + GUTTER), y, each, height))
    ]


def _wants(panels: Sequence[Panel], frame: Frame, screen: Literal["narrow", "wide"] = "wide") -> list[Want]:
    """The panels that are there and the rows they can use; what binds gets twice its share of what is over."""
    wants = []
    for panel in panels:
        rows = (panel.narrow if screen == "narrow" else panel.wide)(frame)
        if rows is not None:
            share = rows.share * 2 if frame.verdict.limit in panel.limits else rows.share
            wants.append(Want(panel.name, rows._replace(share=share)))
    return wants


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


def fleet_room(width: int, height: int) -> tuple[int, int]:
    """Of the table of servers with the whole body: lines for its rows, and cells of their heat strips."""
    rows = max(1, height - 1)
    said = 2 if rows >= TWO_LINES else 1
    return table_lines(rows - 1 - said - 1), strip_cells(width - 2 * MARGIN)


def columns_for(width: int, only: str | None = None) -> int:
    """What View.columns is to be on a screen of this width."""
    inner = width - 2 * MARGIN
    return chart_columns(inner if width < TWO_COLUMNS or only is not None else (inner - GUTTER) // 2)


def step_for(window_s: float, columns: int, least_s: float) -> int:
    """What View.step is to be: whole cells, and no new one more often than every so many seconds, or about so."""
    cell_s = window_s / columns * chart.POINTS
    return chart.POINTS * max(1, round(least_s / cell_s))


def drawn(
    frame: Frame,
    width: int,
    height: int,
    look: Look,
    *,
    state: str = "",
    keys: Sequence[Key] = KEYS,
    hidden: frozenset[str] = frozenset(),
    only: str | None = None,
    chosen: str | None = None,
    time: Timeline | None = None,
    holds: str = "",
) -> list[tuple[Place, list[Line]]]:
    """Every panel's place and its lines; the `chosen` one is marked, and the keys stand in the last line.

    `time`: of a recording, its row of time beside the keys, where there is room. `holds`: what the rows of the panel
    that has the body are to hold.
    """
    narrow = width < TWO_COLUMNS and only is None
    before = as_of(frame) if narrow else ""
    found = [
        (
            place,
            _panel(
                place,
                frame,
                look,
                before=before,
                state=state,
                chosen=place.panel == chosen,
                alone=only is not None,
                holds=holds,
            ),
        )
        for place in arrange(width, height, frame, hidden, only)
    ]
    if height > 1:
        inner = max(0, width - 2 * MARGIN)
        bar = min(TIME_CELLS, inner // 2) if time is not None and inner >= TIME_CELLS else 0
        last = Place("keys", MARGIN, height - 1, inner - bar, 1)
        found.append((last, [_keys(keys, last.width, look)]))
        if time is not None and bar:
            found.append((Place("timeline", MARGIN + last.width, height - 1, bar, 1), [timeline(time, bar, look)]))
    return found


def _keys(keys: Sequence[Key], width: int, look: Look) -> Line:
    """The keys that there is room for, each whole, the first longest."""
    known = [Phrase(at, ((face, "key"), (f" {does}", "dim"))) for at, (face, does) in enumerate(keys)]
    return phrases(look, width, known, between="  ")


def _panel(
    place: Place, frame: Frame, look: Look, *, before: str, state: str, chosen: bool, alone: bool, holds: str
) -> list[Line]:
    if place.panel == "header":
        return header(frame, place.width, place.height, look, state)
    if place.panel == "status" and frame.fleet is not None and alone:
        return fleet_status(frame, frame.fleet, place.width, place.height, look)
    if place.panel == "status":
        return status(frame, place.width, place.height, look)
    if place.panel == "axis":
        return axis(frame, place.width, place.height, look, before)
    if place.panel == "waiting":
        return [heading(look, place.width, "no answer yet"), *waiting(frame, place.width, place.height - 1, look)]
    panel = PANELS[place.panel]
    if not place.heading:
        lines = panel.draw(frame, place.width, place.height, look)
        return [_reversed(lines[0], 0), *lines[1:]] if chosen else lines
    said = heading_notes(panel, frame)
    if holds and alone:
        said.insert(0, f"with {holds!r}")
    if panel.left_out is not None and (more := panel.left_out(frame, place.width, place.height - 1, look)):
        said.insert(0, f"{more} more" if alone else f"w {more} more")
    binds = frame.verdict.limit in panel.limits and frame.status.fresh
    if binds:
        said.insert(0, "binds")
    head = heading(look, place.width, f"▌{panel.title}" if binds else panel.title, said, role=panel.role, binds=binds)
    draw = panel.alone if alone and panel.alone is not None else panel.draw
    return [_reversed(head, 1) if chosen else head, *draw(frame, place.width, place.height - 1, look)]


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


def screen(
    frame: Frame, width: int, height: int, look: Look, *, state: str = "", keys: Sequence[Key] = KEYS
) -> list[Line]:
    """The whole screen, for a terminal, a picture or a test."""
    return assembled(drawn(frame, width, height, look, state=state, keys=keys), width, height, look)
