"""The whole of a recording in one row: where the playhead stands in it, and what happened when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vtop import units
from vtop.draw.panels.events import EVENT_ROLES
from vtop.draw.text import Line, Piece, line
from vtop.draw.theme import Look
from vtop.session.frame.charts import LoggedEvent
from vtop.session.frame.vocabulary import LoggedKind

SHOWN: tuple[LoggedKind, ...] = ("phase", "outage", "restart", "mark")  # the later ones stand before the earlier


@dataclass(frozen=True, slots=True)
class Timeline:
    """now_s of end_s; the events of the whole recording."""

    now_s: float
    end_s: float
    events: Sequence[LoggedEvent]


def timeline(shown: Timeline, width: int, look: Look) -> Line:
    begin, cells = track(shown.end_s, width)
    if cells < 1 or shown.end_s <= 0:
        return line(look, width)
    here = min(cells - 1, int(shown.now_s / shown.end_s * cells))
    heavy, rule = look.glyphs.heavy, look.glyphs.rule
    row: list[Piece] = [(heavy, "mark") if at < here else (rule, "dim") for at in range(cells)]
    for kind in SHOWN:
        for event in shown.events:
            if event.kind == kind:
                sign = look.glyphs.signs.get(kind, look.glyphs.tick)
                row[min(cells - 1, int(event.at_s / shown.end_s * cells))] = (sign, EVENT_ROLES.get(kind, "text"))
    row[here] = (look.glyphs.signs["busy"], "title")
    first = units.clock(shown.now_s).rjust(begin - 1)
    return line(look, width, (f"{first} ", "text"), *row, (f" {units.clock(shown.end_s)}", "dim"))


def track(end_s: float, width: int) -> tuple[int, int]:
    """(first cell, number of cells) of the track in a row of this width."""
    label = len(units.clock(end_s)) + 1
    return label, max(0, width - 2 * label)


def instant_at(end_s: float, width: int, x: int) -> float | None:
    """The instant that a cell stands for; None beside the track."""
    begin, cells = track(end_s, width)
    return (x - begin + 0.5) / cells * end_s if begin <= x < begin + cells else None
