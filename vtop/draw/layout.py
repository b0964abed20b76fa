"""Where the panels stand on a screen of a given size, and the whole screen as lines.

One column below 110 cells: a line a chart, nothing boxed. From there two columns of equal width, so that one time axis
serves both; what height is over goes to the charts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.segment import Segment
from rich.style import Style

from vtop import units
from vtop.draw.panels.registry import PANELS, axis, chart_columns, latest_scrape_s, left_out, notes, stands
from vtop.draw.panels.story import header
from vtop.draw.text import Line, Phrase, blank, heading, phrases, width_of
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame

MARGIN: Final = 1
GUTTER: Final = 2
TWO_COLUMNS: Final = 110
TALL: Final = 46  # rows from which there is room for the reasons beside all else
BODY: Final = tuple(name for name in PANELS if name not in ("header", "status", "axis"))  # what can be hidden or chosen
KEYS: Final = (
    "q quit  w why  ␣ pause  ← → scrub  + − zoom  m mark  r record  s picture  t theme  ? what is this number  ^p all"
)
_DEAREST: Final = "q?w␣←+rm^st"  # the keys that stay longest, by their first signs
_CHARTED: Final = ("requests", "kv", "gpus", "tokens", "ttft")  # panels that a time axis belongs to


class Place(NamedTuple):
    """A panel's cells on the screen; with a heading its first line is a rule with its title."""

    panel: str
    x: int
    y: int
    width: int
    height: int
    heading: bool = False


class Want(NamedTuple):
    """A panel in a column: the fewest lines that are worth it, the most it can use, and its share of what is over."""

    panel: str
    least: int
    most: int
    share: int = 1


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
        axis = [Want("axis", 1, 1, 0)] if only in _CHARTED else []
        return top + _column([Want(only, 1, rows), *axis], (MARGIN, 2, inner, rows - 2))
    many = len(frame.engines)
    if width < TWO_COLUMNS:
        wants = [
            Want("requests", 3, 4),
            Want("kv", 1, 2),
            Want("gpus", 1, 2),
            Want("tokens", 2, 3),
            Want("axis", 1, 1, 0),
            Want("ttft", 2, 5),
            Want("load", 6, 10) if frame.load is not None else Want("load", 0, 0, 0),
            Want("engines", min(many, 4) + 1, many + 1) if many > 1 else Want("latencies", 3, 8),
            Want("events", 1, 40),
        ]
        shown = [want for want in wants if want.panel not in hidden]
        return top + _column(shown, (MARGIN, 2, inner, rows - 2), headings=False)
    each = (inner - GUTTER) // 2
    second = MARGIN + each + GUTTER
    devices = max(1, len(frame.gpus.devices))
    left = [Want("requests", 6, 21, 4), Want("kv", 4, 9, 2), Want("gpus", 2 + min(devices, 8), 8 + devices, 2)]
    right = [Want("ttft", 6, 14, 2), Want("tokens", 6, 21, 2)]
    engines = [Want("engines", min(many, 4) + 2, many + 2)] if many > 1 else []
    several = len(frame.servers)
    servers = [Want("servers", min(several, 4) + 2, several + 2)] if several > 1 else []
    load = [Want("load", 11, 13)] if frame.load is not None else []
    left, right, engines, servers, load, latencies, events = (
        [want for want in wants if want.panel not in hidden]
        for wants in (left, right, engines, servers, load, [Want("latencies", 9, 9, 0)], [Want("events", 3, 99)])
    )
    # The charts end in one line, the time axis; latencies, load and events have what is below.
    why = [Want("why", 6, 18)] if rows >= TALL and "why" not in hidden else []
    below = max(
        9 + sum(want.least for want in servers) + 6 * len(why),
        3 + sum(want.least for want in load),
        (rows - 2) * (4 if why else 3) // 10,
    )
    charts = max(0, min(rows - 3 - below, sum(want.most for want in right or left)))
    y = 2 + charts
    below = rows - 3 - charts
    return [
        *top,
        *_column(left, (MARGIN, 2, each, charts)),
        *_column(right, (second, 2, each, charts)),
        *(Place("axis", x, y, each, 1) for x in (MARGIN, second) if below >= 0),
        *_column([*latencies, *servers, *why], (MARGIN, y + 1, each, below)),
        *_column([*load, *engines, *events], (second, y + 1, each, below)),
    ]


def _column(wants: Sequence[Want], room: tuple[int, int, int, int], headings: bool = True) -> list[Place]:
    """Panels one below the other in a room (x, y, width, height): each its least first, then what is over by share."""
    x, y, width, over = room
    heights: list[int] = []
    for want in wants:
        heights.append(min(want.least, max(0, over)))
        over -= heights[-1]
    while over > 0:
        growing = [at for at, want in enumerate(wants) if 0 < heights[at] < want.most and want.share]
        if not growing:
            break
        heights[min(growing, key=lambda at: (heights[at] - wants[at].least + 1) / wants[at].share)] += 1
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
    before = _as_of(frame) if narrow else ""
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


def _as_of(frame: Frame) -> str:
    """What `stands` says, in the cells before an axis: the GPUs' numbers, which go on, stand above it too."""
    scrape_s = latest_scrape_s(frame)
    if scrape_s is None:
        return "server stands" if stands(frame) else ""
    said = units.clock(scrape_s)
    return f"server as of {said}" if len(said) < 6 else f"as of {said}"


def _panel(place: Place, frame: Frame, look: Look, *, before: str, state: str, chosen: bool, alone: bool) -> list[Line]:
    title, draw = PANELS[place.panel]
    if place.panel == "header":
        return header(frame, place.width, place.height, look, state)
    if place.panel == "axis":
        return axis(frame, place.width, place.height, look, before)
    if not place.heading:
        lines = draw(frame, place.width, place.height, look)
        return [_reversed(lines[0], 0), *lines[1:]] if chosen else lines
    said = notes(place.panel, frame)
    if place.panel == "why" and (more := left_out(frame, place.width, place.height - 1, look)):
        said.insert(0, f"{more} more" if alone else f"w {more} more")
    head = heading(look, place.width, title, said)
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


def screen(frame: Frame, width: int, height: int, look: Look, *, state: str = "", keys: str = KEYS) -> list[Line]:
    """The whole screen, for a terminal, a picture or a test."""
    return assembled(drawn(frame, width, height, look, state=state, keys=keys), width, height, look)
