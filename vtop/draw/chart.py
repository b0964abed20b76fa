"""Charts as strings: numbers in columns of characters, and nothing else.

Zero is the floor unless a chart says otherwise. A gap (None) is a blank column, a true zero is a baseline, and
whatever is above zero is seen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from vtop import units
from vtop.draw.text import Piece
from vtop.draw.theme import UNICODE, Glyphs
from vtop.session.frame.charts import Charts, Points

Runs = list[Piece]  # one row of a chart: text, role
_SPANS: Final = re.compile(" +|[^ ]+")


def nice_maximum(points: Points, floor: float) -> float:
    """A scale's top: `floor`, or when something is above it the next of 1, 2, 5 times a power of ten."""
    highest = max((point for point in points if point is not None and math.isfinite(point)), default=0.0)
    if highest <= floor or highest <= 0:
        return floor
    power: float = 10.0 ** math.floor(math.log10(highest))
    if not power:  # too small for a power of ten of its own
        return highest
    for step in (1, 2, 5, 10):
        if highest <= step * power * 1.000001:
            return step * power
    return 10 * power


def in_columns(points: Points, columns: int) -> Points:
    """The points in so many columns, the latest at the right: the oldest left out, or gaps before them."""
    missing = columns - len(points)
    return (None,) * missing + points if missing > 0 else points[-columns:] if columns > 0 else ()


def summed(*several: Points) -> Points:
    """The sum in each column of what is known; a gap where nothing is."""
    return tuple(
        None if all(value is None for value in column) else sum(value for value in column if value is not None)
        for column in zip(*several, strict=True)
    )


def levels(points: Points, maximum: float, steps: int) -> list[int | None]:
    """Each point in steps of the scale: None a gap, 0 a zero, and at least 1 for what is above zero."""
    found: list[int | None] = []
    scale = steps / maximum if maximum > 0 else 0.0
    for point in points:
        if point is None or math.isnan(point):
            found.append(None)
        elif point <= 0:
            found.append(0)
        else:
            level = point * scale
            found.append(steps if level >= steps else int(level + 0.5) or 1)
    return found


def spark(points: Points, maximum: float, height: int, glyphs: Glyphs = UNICODE) -> list[str]:
    """`height` rows, top first, of block columns from zero to `maximum`."""
    blocks, zero = glyphs.blocks, glyphs.zero
    if height == 1:
        return [
            "".join(" " if level is None else blocks[level] if level else zero for level in levels(points, maximum, 8))
        ]
    found = levels(points, maximum, height * 8)
    rows = []
    for floor in range((height - 1) * 8, 0, -8):
        rows.append("".join(" " if level is None else blocks[max(0, min(8, level - floor))] for level in found))
    rows.append("".join(" " if level is None else blocks[min(8, level)] if level else zero for level in found))
    return rows


def shaded(rows: Sequence[str], role: str) -> list[Runs]:
    """A chart's rows with its edge in the role's colour and what lies under it in the colour's quieter shade."""
    runs: list[Runs] = [[(rows[0], role)]] if rows else []
    for above, row in pairwise(rows):
        spans = [(span.start(), span.end(), span[0][0] != " ") for span in _SPANS.finditer(above)]
        runs.append([(row[start:end], f"{role} body" if inside else role) for start, end, inside in spans])
    return runs


class Stairs(NamedTuple):
    """A counter over time: the rows, a row of ticks under the columns where it rose, and what it says at its ends."""

    rows: list[str]
    ticks: str
    total: str  # at the right edge
    risen: str  # over what is visible


def stairs(counted: Points, risen: Points, height: int, glyphs: Glyphs = UNICODE, now: float | None = None) -> Stairs:
    """A counter that only grows, from its value at the left edge. `risen` is by how much in each column; `now` is what
    it has come to since the last column, which the scale has room for."""
    known = [(at, value) for at, value in enumerate(counted) if value is not None]
    ticks = "".join(glyphs.tick if rise and rise > 0 else " " for rise in risen)
    if not known:
        return Stairs([" " * len(counted)] * height, ticks, units.UNKNOWN, "")
    first_at, first = known[0]
    floor = first - (risen[first_at] or 0 if first_at < len(risen) else 0)
    above = tuple(None if value is None else value - floor for value in counted)
    rise = max(known[-1][1], now if now is not None else 0.0) - floor
    rows = spark(above, max(1.0, rise), height, glyphs)
    return Stairs(rows, ticks, units.count(known[-1][1]), f"+{units.count(rise)}")


def shares(values: Sequence[float], cells: int) -> list[int]:
    """Cells for each value that add up to `cells` exactly; what is above zero gets one where there are enough."""
    total = sum(values)
    if total <= 0 or cells <= 0:
        return [0] * len(values)
    exact = [value / total * cells for value in values]
    given = [int(share) for share in exact]
    for at in sorted(range(len(values)), key=lambda at: given[at] - exact[at])[: cells - sum(given)]:
        given[at] += 1
    for at, value in enumerate(values):
        if value > 0 and not given[at] and max(given) > 1:
            given[given.index(max(given))] -= 1
            given[at] = 1
    return given


def bar(parts: Sequence[tuple[float | None, str]], width: int, glyphs: Glyphs = UNICODE) -> Runs:
    """One stacked bar of exactly `width` cells: each part (value, role) in its colour and with its own glyph."""
    cells = shares([_known(value) for value, _ in parts], width)
    if not any(cells):
        return [(" " * width, "dim")]
    return [(glyphs.parts[role] * n, role) for n, (_, role) in zip(cells, parts, strict=True) if n]


def stack(
    parts: Sequence[tuple[Points, str]], maximum: float, height: int, glyphs: Glyphs = UNICODE, solid: bool = False
) -> list[Runs]:
    """`height` rows, top first, of columns that are made of parts (points, role), the first part at the bottom.

    Cells go to the part that fills most of them; a column's top cell is a block of its part's colour. A column is a
    gap when none of its parts is known. `solid` draws whole blocks for each part, where colour tells them apart.
    """
    width = len(parts[0][0]) if parts else 0
    grid = [[(" ", "dim")] * width for _ in range(height)]
    for column in range(width):
        values = [points[column] for points, _ in parts]
        if all(value is None for value in values):
            continue
        sizes = [_known(value) for value in values]
        level = levels((sum(sizes),), maximum, height * 8)[0] or 0
        if not level:
            grid[height - 1][column] = (glyphs.zero, "dim")
            continue
        whole, rest = divmod(level, 8)
        owners: list[str] = []
        for n, (_, role) in zip(_rounded(sizes, whole + bool(rest)), parts, strict=True):
            owners += [role] * n
        for row, role in enumerate(owners):
            sign = glyphs.blocks[rest] if row == whole else glyphs.blocks[8] if solid else glyphs.parts[role]
            grid[height - 1 - row][column] = (sign, role)
    return [_runs(row) for row in grid]


def _rounded(values: Sequence[float], cells: int) -> list[int]:
    """Like shares, but what is less than half a cell gets none: a column over time shows proportions."""
    total, given, before, sum_before = sum(values), [], 0, 0.0
    for value in values:
        sum_before += value
        upto = int(sum_before / total * cells + 0.5)
        given.append(upto - before)
        before = upto
    return given


def _runs(row: Sequence[Piece]) -> Runs:
    runs: Runs = []
    for text, role in row:
        if runs and runs[-1][1] == role:
            runs[-1] = (runs[-1][0] + text, role)
        else:
            runs.append((text, role))
    return runs


def _known(value: float | None) -> float:
    return value if value is not None and 0 < value < math.inf else 0.0


_STEPS_S: Final = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800,
)  # fmt: skip


def axis(
    charts: Charts, width: int, signs: Mapping[str, str] = UNICODE.signs, rule: str = "─", end: str = "now"
) -> Runs:
    """The time axis of every chart above it: how long before its `end`, and marks in their columns.

    A label begins in the column that it is about, and is left out where it would meet another or a mark.
    """
    cells: list[Piece] = [(rule, "border")] * width
    taken = [False] * width
    columns = len(charts.running)
    for column, kind in charts.marks:
        at = column + width - columns
        if 0 <= at < width:
            cells[at] = (signs.get(kind, signs["note"]), "bad" if kind == "outage" else "mark")
            taken[at] = True

    def write(at: int, label: str) -> None:
        first, end = max(0, at - 1), min(width, at + len(label) + 1)
        if at >= 0 and at + len(label) <= width and not any(taken[first:end]):
            spaced = f" {label} "[first - at + 1 :]
            for cell, character in zip(range(first, end), spaced, strict=False):
                cells[cell] = (character, "dim")
                taken[cell] = True

    write(width - len(end), end)
    if charts.column_s > 0:
        span_s = charts.column_s * width
        room = len(units.clock(-span_s)) + 4
        step_s = next((step for step in _STEPS_S if step / charts.column_s >= room), _STEPS_S[-1])
        for k in range(1, int(span_s // step_s) + 1):
            write(width - 1 - round(k * step_s / charts.column_s), units.clock(-k * step_s))
    return _runs(cells)
