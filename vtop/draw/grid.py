"""The grid that panels share: label and number at the left, a chart on common columns, its scale at the right end.

A panel is blocks one below the other. When there is little room the least important are left out whole, and what
room is over goes to the charts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from vtop import units
from vtop.draw import chart
from vtop.draw.text import Column, Line, Piece, blank, line, padded, shorten, table, width_of
from vtop.draw.theme import Look
from vtop.metrics.histogram import Range
from vtop.session.frame.charts import Points
from vtop.session.frame.frame import Frame
from vtop.session.frame.values import Gauge

LEFT: Final = 18  # label and number in 14, a blank, a unit of two, a blank
_RIGHT_WIDE, _RIGHT_NARROW, _WIDE = 9, 7, 50  # of these one is a blank
_TALLEST: Final = 999  # rows of one chart: as many as its panel has room for


def _right(width: int) -> int:
    return _RIGHT_WIDE if width >= _WIDE else _RIGHT_NARROW


def chart_cells(width: int) -> int:
    """Cells of a chart in a panel of `width` cells."""
    return max(1, width - LEFT - _right(width))


def chart_columns(width: int) -> int:
    """Points of a chart in a panel of `width` cells; View.columns is to be set to this."""
    return chart_cells(width) * chart.POINTS


def parted(text: str) -> tuple[str, str]:
    """A formatted number and its unit: ("48.1", "s")."""
    number, _, unit = text.rpartition(" ")
    return (number, unit) if number else (unit, "")


def left(label: str, text: str, role: str = "number", label_role: str = "dim", unit: str | None = None) -> list[Piece]:
    """The first cells of a row: a label, and a number ending in one column with its unit behind it."""
    number, own = (text, unit) if unit is not None else parted(text)
    label = shorten(label, max(0, 13 - width_of(number)))  # the number's column stands whatever happens
    space = max(0, 14 - width_of(label) - width_of(number))
    return [(label + " " * space, label_role), (number, role), (" " + padded(own, 3), "dim")]


def flush(label: str, text: str, role: str = "number", label_role: str = "dim") -> list[Piece]:
    """The first cells of a row in a column of times: the number and its unit end in one column, whatever the unit."""
    label = shorten(label, max(0, LEFT - 2 - width_of(text)))
    space = max(1, LEFT - 1 - width_of(label) - width_of(text))
    number, unit = parted(text)
    return [(label + " " * space, label_role), (number, role), (f" {unit} " if unit else " ", "dim")]


def right(width: int, text: str, role: str = "dim") -> Piece:
    """The last cells of a row."""
    return (" " + padded(shorten(text, _right(width) - 1), _right(width) - 1), role)


def top(text: str, width: int, word: str = "↑") -> str:
    """What a chart's scale ends at: ↑ 2,000, of 700 W; without blanks where there is no room for them."""
    spaced = f"{word} {text}"
    if width_of(spaced) < _right(width):
        return spaced
    close = f"↑{text.replace(' ', '')}"
    return close if width_of(close) < _right(width) else close.replace(",000", "k")


class Spread(NamedTuple):
    """What a number was over the window, as text, for beside its chart."""

    low: str
    median: str
    high: str


def spread(gauge: Gauge, said: Callable[[float | None], str]) -> Spread | None:
    """Lowest, median and highest of a gauge, where they are known."""
    return None if gauge.median is None else Spread(said(gauge.low), said(gauge.median), said(gauge.high))


def scale(width: int, rows: int, top: str, of: Spread | None = None, bottom: str = "") -> list[str]:
    """What stands at the right end of a chart's rows: the end of its scale, and what was within it.

    `bottom`: where the scale begins, if that is not zero.
    """
    said = [] if of is None else _within(of, rows - 1 - bool(bottom), _right(width) - 1)
    return [top, *said, *[""] * rows][: rows - bool(bottom and rows > 1)] + [bottom] * bool(bottom and rows > 1)


def _within(of: Spread, rows: int, room: int) -> list[str]:
    """Lowest, median and highest in so many rows, all in one way of writing: with their unit, without it where it is
    that of the scale's top, without blanks."""
    numbers, units_ = zip(*(parted(text) for text in of), strict=True)
    alike = len(set(units_)) == 1
    ways = [of, *([Spread(*numbers)] if alike else []), Spread(*(text.replace(" ", "") for text in of))]
    for way in ways:
        extent = f"{numbers[0] if alike else way.low}–{way.high}"
        middle = f"med {way.median}"
        three = [f"max {way.high}", middle, f"min {way.low}"]
        said = three if rows >= 3 else [middle, extent] if rows == 2 else [extent]
        if all(width_of(one) <= room for one in said):
            return said
    shortest = [text for text in (of.high, of.median, of.low) if width_of(text) <= room]
    return shortest if rows >= 3 and len(shortest) == 3 else [of.median] if width_of(of.median) <= room else []


def chart_rows(
    look: Look,
    width: int,
    head: Sequence[Piece],
    rows: Sequence[Sequence[Piece]],
    scaled: Sequence[str],
    *,
    beside: Sequence[tuple[str, str]] = (),
) -> list[Line]:
    """The rows of a chart, its `head` before the first and its scale, a text a row, behind them.

    Before further rows stands what else there is to say: `beside`, (label, number) each.
    """
    lines = []
    for at, runs in enumerate(rows):
        before = head
        if at:
            said = beside[at - 1] if at <= len(beside) else ("", "")
            before = left(f"  {said[0]}", said[1], "dim")
        lines.append(line(look, width, *before, *runs, right(width, scaled[at] if at < len(scaled) else "")))
    return lines


def sparked(
    look: Look, width: int, height: int, points: Points, to: tuple[float, str], *, floor: float = 0.0
) -> list[chart.Runs]:
    """The rows of a spark chart on the columns of a panel. `to`: its maximum, and the role of its colour."""
    maximum, role = to
    found = chart.in_cells(points, chart_cells(width))
    return chart.shaded(chart.spark(found, maximum, height, look.glyphs, floor), role)


class Block(NamedTuple):
    """Lines that stand together. The highest rank is left out first; `grows` blocks take what room is over."""

    rank: int
    draw: Callable[[int], list[Line]]  # of so many lines
    least: int = 1
    most: int = 1


def growing(rank: int, draw: Callable[[int], list[Line]], least: int = 1) -> Block:
    """A chart: its least rows, or as many as there is room for."""
    return Block(rank, draw, least, _TALLEST)


def fixed(rank: int, lines: list[Line]) -> Block:
    """Lines that are already drawn."""
    return Block(rank, lambda _: lines, len(lines), len(lines))


def stacked(look: Look, width: int, height: int, blocks: Sequence[Block]) -> list[Line]:
    """Exactly `height` lines of the blocks, in the order given."""
    lines: list[Line] = []
    for block, rows in zip(blocks, shared(height, blocks), strict=True):
        if rows:
            lines += block.draw(rows)
    return lines[:height] + [blank(look, width)] * (height - len(lines))


def shared(height: int, blocks: Sequence[Block]) -> list[int]:
    """How many of `height` lines each of the blocks gets: 0 for one that is left out."""
    order = sorted(range(len(blocks)), key=lambda at: (blocks[at].rank, at))
    heights = [0] * len(blocks)
    over = height
    for at in order:
        if blocks[at].least > over:
            break
        heights[at] = blocks[at].least
        over -= blocks[at].least
    while over:
        before = over
        for at in order:
            if over and 0 < heights[at] < blocks[at].most:
                heights[at] += 1
                over -= 1
        if over == before:
            break
    return heights


def rows_of(look: Look, width: int, height: int, columns: tuple[Column, ...], rows: list[list[Piece]]) -> list[Line]:
    """A table in exactly `height` lines; of rows that there is no room for, how many there are."""
    titles = height > 1
    room = height - titles
    kept = rows if len(rows) <= room else rows[: max(1, room - 1)]
    lines = table(look, width, columns, kept, titles)
    if len(kept) < len(rows) and len(lines) < height:
        lines.append(line(look, width, (f"and {len(rows) - len(kept)} more", "dim")))
    return stacked(look, width, height, [fixed(0, lines[:height])])


def range_text(found: Range | None) -> str:
    """A quantile as honestly as its buckets know it."""
    return units.UNKNOWN if found is None else units.bounds(found.low, found.high)


def seen(frame: Frame, look: Look) -> Look:
    """The look for what a server says: faded when that is old."""
    return look if frame.status.fresh or look.faded is None else look.faded
