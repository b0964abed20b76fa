"""Latencies over the whole screen: the table, and below it each as a heat map of its buckets over time."""

from __future__ import annotations

from functools import partial
from typing import Final

from vtop import units
from vtop.draw.grid import Block, chart_cells, left, right, seen, stacked
from vtop.draw.panels.latencies import latencies
from vtop.draw.text import Line, Piece, line
from vtop.draw.theme import Look
from vtop.session.frame.charts import HeatMap
from vtop.session.frame.frame import Frame

_ROLES: Final = {"TTFT": "queue", "ITL": "decode", "queue": "queue", "e2e": "running"}
_SHARES: Final = ((0.6, "█"), (0.3, "▓"), (0.1, "▒"), (0.0, "░"))  # from so much of a column's observations on
_LEAST: Final = 4  # rows of a map: with fewer a bucket could not be told from another


def heat_map(frame: Frame, width: int, height: int, look: Look) -> list[Line]:
    """Each column is what was observed in its time: the darker, the more of it lies in a bucket."""
    look = seen(frame, look)
    blocks = [Block(0, lambda rows: latencies(frame, width, rows, look), 3, len(frame.latencies) + 1)]
    if frame.heat_maps:
        blocks.append(Block(1, lambda _: [_legend(width, look)]))
    for at, of in enumerate(frame.heat_maps):
        most = max(_LEAST, 1 + len(_used(of)))
        blocks.append(Block(2 + at, partial(_map, of, width, look), _LEAST, most))
    return stacked(look, width, height, blocks)


def _legend(width: int, look: Look) -> Line:
    said: list[Piece] = [("share of a column ", "dim")]
    for share, sign in reversed(_SHARES):
        said += [(f"{sign} ", "text"), (f"> {units.whole_percent(share)}  ", "dim")]
    return line(look, width, *said)


def _used(of: HeatMap) -> range:
    """The buckets from the first to the last that anything lies in."""
    used = [at for at, n in enumerate(of.n) if n]
    return range(used[0], used[-1] + 1) if used else range(0)


def _map(of: HeatMap, width: int, look: Look, rows: int) -> list[Line]:
    """Its name and total in the first line, then the buckets with anything in them, the longest on top."""
    cells, role = chart_cells(width), _ROLES[of.name]
    columns = of.columns[-cells:]
    used = _used(of)
    head = line(look, width, *left(of.name, units.short_count(sum(of.n)), label_role=role, unit=""))
    if not used:
        return [head, *[line(look, width, ("", "dim"))] * (rows - 1)]
    bands = _bands(used[0], used[-1], rows - 1)
    lines = [head]
    for low, high in reversed(bands):
        runs = "".join(_cell(None if one is None else sum(one[low : high + 1]), one) for one in columns)
        n = sum(of.n[low : high + 1])
        bound = f"≤ {units.seconds(of.le[high])}" if high < len(of.le) else f"> {units.seconds(of.le[-1])}"
        label = f"{bound:>16}  "
        blank = " " * (cells - len(columns))
        lines.append(line(look, width, (label, "dim"), (blank + runs, role), right(width, units.short_count(n))))
    return lines + [line(look, width, ("", "dim"))] * (rows - len(lines))


def _bands(first: int, last: int, rows: int) -> list[tuple[int, int]]:
    """The buckets first to last in at most so many rows, neighbours taken together where they are more."""
    buckets = last - first + 1
    rows = max(1, min(rows, buckets))
    edges = [first + buckets * k // rows for k in range(rows + 1)]
    return [(edges[k], edges[k + 1] - 1) for k in range(rows)]


def _cell(n: float | None, column: tuple[float, ...] | None) -> str:
    if not n or column is None:
        return " "
    share = n / sum(column)
    return next(sign for least, sign in _SHARES if share > least)
