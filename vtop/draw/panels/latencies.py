"""The panel latencies: exact means, and percentiles as honestly as their buckets know them."""

from __future__ import annotations

from vtop import units
from vtop.draw.grid import fixed, range_text, seen, stacked
from vtop.draw.text import Column, Line, Piece, line, table
from vtop.draw.theme import Look
from vtop.session.frame.frame import Frame

_FEW = 5  # fewer observations than this are few: their n stands out
_WIDE = (
    Column("server", 8, right=False),
    Column("mean", 8),
    Column("p50", 11, rank=2),
    Column("p90", 11, rank=4),
    Column("p99", 11, rank=1),
    Column("n", 6, rank=0),
    Column("of", 11, right=False, rank=5),
)
_NARROW = (Column("server", 7, right=False), Column("mean", 7), Column("p99", 10), Column("n", 6))


def latencies(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """Latencies over the window: exact means, percentiles as the bucket that they lie in, and how many there were."""
    look = seen(frame, look)
    if not frame.latencies:
        return stacked(look, width, height, [fixed(0, [line(look, width, ("no latency known yet", "dim"))])])
    narrow = width < 56
    rows: list[list[Piece]] = []
    for one in frame.latencies[: max(0, height - 1)]:
        mean = (units.seconds(one.mean_s), "number")
        n = (units.short_count(one.n), "warn" if 0 < one.n < _FEW else "dim")
        p50, p90, p99 = ((range_text(found), "text") for found in (one.p50, one.p90, one.p99))
        name = (one.name, one.name if one.name in look.glyphs.parts else "text")
        rows.append([name, mean, p99, n] if narrow else [name, mean, p50, p90, p99, n, (one.cohort, "dim")])
    lines = table(look, width, _NARROW if narrow else _WIDE, rows)
    return stacked(look, width, height, [fixed(0, lines[:height])])
