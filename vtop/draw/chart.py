"""Charts as strings: numbers in half cells of characters, and nothing else.

A cell holds two points, one in each half. Zero is the floor unless a chart says otherwise. A gap (None) is blank, a
true zero is a baseline, and whatever is above the floor is seen.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from vtop import units
from vtop.draw.text import Piece
from vtop.draw.theme import SHADES, UNICODE, Glyphs
from vtop.session.frame.charts import Charts, Points

Runs = list[Piece]  # one row of a chart: text, role
POINTS: Final = 2  # in a cell
_STEPS: Final = (1, 1.5, 2, 3, 4, 5, 6, 8, 10)


def nice_maximum(points: Points, floor: float) -> float:
    """A scale's top: `floor`, or when something is above it the next of _STEPS times a power of ten."""
    highest = max((point for point in points if point is not None and math.isfinite(point)), default=0.0)
    if highest <= floor or highest <= 0:
        return floor
    power: float = 10.0 ** math.floor(math.log10(highest))
    if not power:  # too small for a power of ten of its own
        return highest
    return next((step * power for step in _STEPS if highest <= step * power * 1.000001), 10 * power)


def in_cells(points: Points, cells: int) -> Points:
    """The points of so many cells, the latest at the right: the oldest left out, or gaps before them."""
    wanted = cells * POINTS
    missing = wanted - len(points)
    return (None,) * missing + points if missing > 0 else points[-wanted:] if wanted > 0 else ()


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


def spark(points: Points, maximum: float, height: int, glyphs: Glyphs = UNICODE, floor: float = 0.0) -> list[str]:
    """`height` rows, top first, of columns from `floor` to `maximum`: a cell for every two points."""
    if floor:
        points = tuple(None if point is None else max(0.0, point - floor) for point in points)
    found = levels(points, maximum - floor, height * 8)
    filled = [level or 0 for level in found]
    most, least, cells = max(filled, default=0), min(filled, default=0), len(found) // POINTS
    rows = []
    for base in range((height - 1) * 8, -1, -8):
        if most <= base:
            rows.append(" " * cells)
        elif least >= base + 8:
            rows.append(glyphs.blocks[8] * cells)
        else:
            cut = [8 if level >= base + 8 else level - base if level > base else 0 for level in filled]
            halves = zip(cut[::2], cut[1::2], strict=True)
            rows.append("".join([glyphs.halves[left * 9 + right] for left, right in halves]))
    if 0 in found:
        pairs = zip(rows[-1], found[::2], found[1::2], strict=True)
        rows[-1] = "".join([glyphs.zero if sign == " " and 0 in pair else sign for sign, *pair in pairs])
    return rows


def shaded(rows: Sequence[str], role: str) -> list[Runs]:
    """A chart's rows in the shades of a colour, from the brightest at the top down: the same in every column."""
    last = len(rows) - 1
    steps = len(SHADES) - 1
    runs: list[Runs] = []
    for at, row in enumerate(rows):
        shade = round(at / last * steps) if last else 0
        runs.append([(row, f"{role} {shade}" if shade else role)])
    return runs


def meter(ratio: float | None, cells: int, glyphs: Glyphs = UNICODE) -> tuple[str, str]:
    """A bar of exactly `cells` cells, filled to a ratio of it: what is filled, and what is not."""
    if ratio is None or cells <= 0:
        return "", " " * max(0, cells)
    eighths = round(min(1.0, max(0.0, ratio)) * cells * 8)
    whole, rest = divmod(eighths, 8)
    filled = glyphs.blocks[8] * whole + (glyphs.meter[rest].strip() if rest else "")
    return filled, glyphs.rule * (cells - len(filled))


class Stairs(NamedTuple):
    """A counter over time: the rows, a row of ticks under the cells where it rose, and what it says at its ends."""

    rows: list[str]
    ticks: str
    total: str  # at the right edge
    risen: str  # over what is visible


def stairs(counted: Points, risen: Points, height: int, glyphs: Glyphs = UNICODE, now: float | None = None) -> Stairs:
    """A counter that only grows, from its value at the left edge. `risen` is by how much in each column; `now` is what
    it has come to since the last column, which the scale has room for."""
    known = [(at, value) for at, value in enumerate(counted) if value is not None]
    cells = zip(risen[::2], risen[1::2], strict=True)
    ticks = "".join(glyphs.tick if (left or 0) > 0 or (right or 0) > 0 else " " for left, right in cells)
    if not known:
        return Stairs([" " * (len(counted) // POINTS)] * height, ticks, units.UNKNOWN, "")
    first_at, first = known[0]
    floor = first - (risen[first_at] or 0 if first_at < len(risen) else 0)
    above = _paired(tuple(None if value is None else value - floor for value in counted))
    rise = max(known[-1][1], now if now is not None else 0.0) - floor
    rows = spark(above, max(1.0, rise), height, glyphs)
    return Stairs(rows, ticks, units.count(known[-1][1]), f"+{units.count(rise)}")


def _paired(points: Points) -> Points:
    """Both points of each cell at the higher one: half cells are drawn to the nearest half, and a stair never falls."""
    found: list[float | None] = []
    for left, right in zip(points[::2], points[1::2], strict=True):
        found += [left if right is None else right] * POINTS
    return tuple(found)


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

    A cell has the colour of the part that fills most of it. A column is a gap when none of its parts is known. `solid`
    draws whole blocks for each part, where colour tells them apart; else a cell has its part's own sign.
    """
    roles = [role for _, role in parts]
    columns = [_owners(values, roles, maximum, height) for values in zip(*(points for points, _ in parts), strict=True)]
    rows: list[list[Piece]] = [[] for _ in range(height)]
    for left, right in zip(columns[::2], columns[1::2], strict=True):
        high = max(len(left or ""), len(right or ""))
        for row in range(height):
            base = row * 8
            if high <= base:
                empty = row == 0 and (left is not None or right is not None)
                rows[row].append((glyphs.zero if empty else " ", "dim"))
                continue
            here, there = (left or [])[base : base + 8], (right or [])[base : base + 8]
            filling = here + there
            first = filling[0]
            role = first if filling.count(first) * 2 >= len(filling) else max(set(filling), key=filling.count)
            sign = glyphs.halves[len(here) * 9 + len(there)]
            rows[row].append((sign if solid or sign != glyphs.blocks[8] else glyphs.parts[role], role))
    return [_runs(row) for row in reversed(rows)]


def _owners(values: Sequence[float | None], roles: Sequence[str], maximum: float, height: int) -> list[str] | None:
    """Whose each eighth of a column is, from the bottom up; None for a gap."""
    if all(value is None for value in values):
        return None
    sizes = [_known(value) for value in values]
    level = levels((sum(sizes),), maximum, height * 8)[0] or 0
    owners: list[str] = []
    if level:
        for n, role in zip(_rounded(sizes, level), roles, strict=True):
            owners += [role] * n
    return owners


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
        at = (column + width * POINTS - columns) // POINTS
        if 0 <= at < width:
            cells[at] = (signs.get(kind, signs["note"]), "bad" if kind == "outage" else "mark")
            taken[at] = True
    cell_s = charts.column_s * POINTS

    def write(at: int, label: str) -> None:
        first, end = max(0, at - 1), min(width, at + len(label) + 1)
        if at >= 0 and at + len(label) <= width and not any(taken[first:end]):
            spaced = f" {label} "[first - at + 1 :]
            for cell, character in zip(range(first, end), spaced, strict=False):
                cells[cell] = (character, "dim")
                taken[cell] = True

    write(width - len(end), end)
    if cell_s > 0:
        span_s = cell_s * width
        room = len(units.clock(-span_s)) + 4
        step_s = next((step for step in _STEPS_S if step / cell_s >= room), _STEPS_S[-1])
        for k in range(1, int(span_s // step_s) + 1):
            write(width - 1 - round(k * step_s / cell_s), units.clock(-k * step_s))
    return _runs(cells)
