"""The panel TTFT by load: the parts of the time to first token at each load of vtop's own, the lowest on top."""

from __future__ import annotations

from typing import Final

from vtop import units
from vtop.draw.grid import rows_of, seen
from vtop.draw.panels.sizes import Rows
from vtop.draw.text import Column, Line, Piece, line, table
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame
from vtop.session.frame.ttft import PhaseParts

_ENDS: Final = 4  # lines for the titles, both ends and how many are between
_TABLE = (
    Column("load", 12, right=False),
    Column("queue", 8),
    Column("prefill", 8, rank=1),
    Column("frontend", 8, rank=2),
    Column("network", 8, rank=4),
    Column("TTFT", 8),
    Column("n", 6, rank=3),
)


def by_load(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """A row a load. Where there is no room for all, those in the middle go: what is compared is the ends."""
    look, rows = seen(frame, look), [_row(of) for of in frame.growth.phases]
    over = len(rows) + 1 - height
    if over <= 0 or height < _ENDS:
        return rows_of(look, width, height, _TABLE, rows)
    lines = table(look, width, _TABLE, [rows[0], *rows[over + 2 :]])
    return [*lines[:2], line(look, width, (f"{over + 1} more", "dim")), *lines[2:]]


def rows(frame: Frame) -> Rows | None:
    """With a heading and titles; only from the second load on: there is nothing to compare one with."""
    loads = len(frame.growth.phases)
    return Rows(min(loads, 3) + 2, loads + 2) if loads > 1 else None


def _row(of: PhaseParts) -> list[Piece]:
    load = f"c={units.plain(of.concurrency)}" if of.concurrency is not None else f"{units.plain(of.rate_per_s)} /s"
    parts = ((of.queue_s, "queue"), (of.prefill_s, "prefill"), (of.frontend_s, "frontend"), (of.network_s, "network"))
    return [
        (load, "text"),
        *((units.seconds(value), role) for value, role in parts),
        (units.seconds(of.total_s), "number"),
        (units.short_count(of.finished), "dim"),
    ]
