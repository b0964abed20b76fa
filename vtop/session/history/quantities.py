"""The series of one quantity, taken together: over engines, API servers, old and new names, and restarts.

A counter goes on over a restart: what was counted before stays counted, also of a series that is gone, so a total never
falls. Of two names for one quantity the better known one on the scrape is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vtop.metrics.quantity import SeriesKind
from vtop.recording import HistogramCounts
from vtop.session.history.tracks import HistogramTrack, Track

_Sums = tuple[float, float, Sequence[int]]  # sum, count, count of each bucket


def fell_a_little(before: float, now: float) -> bool:
    """Whether a counter that fell did not begin anew: a process that did has counted next to nothing."""
    return before / 2 < now < before


class Cell:
    """The latest number of one series; for a counter, with what it had counted before restarts."""

    __slots__ = ("before", "counter", "group", "high", "known", "low", "owner", "raw", "returned")

    def __init__(self, group: SeriesGroup, owner: str) -> None:
        self.group = group
        self.low, self.high = group.bounds
        self.owner = owner
        self.counter = group.kind is SeriesKind.COUNTER
        self.raw = math.nan  # as last seen
        self.known = False  # on the latest scrape
        self.returned = 0  # times that it was gone from the page and came back
        self.before = 0.0

    @property
    def counted(self) -> float:
        return self.before + (self.raw if self.raw == self.raw else 0.0)

    def carry(self) -> None:
        """The server restarted: keep what was counted."""
        if self.raw == self.raw:
            self.before += self.raw
            self.raw = 0.0

    def rebase(self, value: float) -> None:
        """Go on from another number without having counted anything: another process's, or one that fell a little."""
        if self.raw == self.raw:
            self.before += self.raw - value


class SeriesGroup:
    """The series of one quantity (and part), and the tracks of their total and of each engine."""

    __slots__ = (
        "_cells", "_offset", "_rank", "_scrape", "_total_now", "bounds", "engines", "kind", "only", "progress", "total",
    )  # fmt: skip

    def __init__(
        self,
        kind: SeriesKind,
        scrape: int,
        *,
        progress: bool,
        per_engine: bool,
        began: float | None,
        bounds: tuple[float, float],
    ) -> None:
        self.kind = kind
        self.bounds = bounds  # what lies outside is no value of it
        self._scrape = scrape  # on which it appeared
        self.progress = progress  # a change of it shows that the engine took a step
        self.total = Track(began)
        self.engines: dict[str, Track] | None = {} if per_engine else None
        self._cells: dict[int, list[Cell]] = {}  # by rank of their name, the best first
        self.only: Cell | None = None  # the one series, where there is one
        self._rank: int | None = None
        self._offset = 0.0
        self._total_now = math.nan

    def add(self, owner: str, rank: int, scrape: int) -> Cell:
        cell = Cell(self, owner)
        only = self.only
        self.only, self._rank = (None, self._rank) if self._cells else (cell, rank)
        self._cells.setdefault(rank, []).append(cell)
        self._cells = dict(sorted(self._cells.items()))
        if self.engines is None:
            return cell
        if self.only is cell:  # as long as it is the only one, the total is its own
            self.engines[owner] = self.total
        elif only is not None:
            self.engines[only.owner] = self.total.copy()
        if owner not in self.engines:
            self.engines[owner] = Track(0.0 if scrape > self._scrape else self.total.began)
        return cell

    def close(self, scrape: int) -> bool:
        """Put the values of a scrape, once all its numbers are in. True when the total changed."""
        only = self.only
        if only is None:
            return self.total.put(scrape, self._together(scrape))
        if not only.known:
            return self.total.put(scrape, math.nan)
        self._total_now = value = only.raw + only.before
        return self.total.put(scrape, value)

    def _together(self, scrape: int) -> float:
        rank = next((rank for rank, cells in self._cells.items() if any(cell.known for cell in cells)), None)
        cells = self._cells[rank] if rank is not None else []
        by_engine: dict[str, list[Cell]] = {engine: [] for engine in self.engines or ()}
        for cell in cells:
            by_engine.setdefault(cell.owner, []).append(cell)
        values = {engine: self._of_one_engine(mine) for engine, mine in by_engine.items()}
        if self.engines is not None:
            for engine, value in values.items():
                self.engines[engine].put(scrape, value)
        known = [value for value in values.values() if value == value]
        if not known:
            return math.nan
        if self.kind is not SeriesKind.COUNTER:
            return max(known) if self.kind is SeriesKind.RATIO else sum(known)
        total = sum(cell.counted for cell in cells)
        if rank != self._rank:  # another name: it goes on from where the one before stood
            self._offset = self._total_now - total if self._total_now == self._total_now else 0.0
            self._rank = rank
        self._total_now = total + self._offset
        return self._total_now

    def _of_one_engine(self, cells: Sequence[Cell]) -> float:
        """Several API servers tell of one engine: counters share it, of gauges all but one are left at zero."""
        if not any(cell.known for cell in cells):
            return math.nan
        if self.kind is SeriesKind.COUNTER:
            return sum(cell.counted for cell in cells)
        return max(cell.raw for cell in cells if cell.known)


class HistogramCell:
    """The latest counts of one series, and what it had counted before restarts."""

    __slots__ = ("_last_sum", "count_before", "group", "known", "n_before", "owner", "raw", "sum_before")

    def __init__(self, group: HistogramGroup, owner: str) -> None:
        self.group = group
        self.owner = owner
        self.raw: HistogramCounts | None = None
        self.known = False
        self.sum_before = 0.0
        self.count_before = 0.0
        self.n_before: Sequence[int] = ()
        self._last_sum = 0.0

    def put(self, counts: HistogramCounts, *, full: bool) -> bool:
        """True when this changed it, as it does on every line that is not full."""
        raw = self.raw
        if raw is not None and counts.count < raw.count and fell_a_little(raw.count, counts.count):
            self.rebase(counts)
            raw = self.raw
        changed = not full or not self.known or (counts != raw if raw is not None else bool(counts.count))
        if raw is not None and counts.count < raw.count:  # it fell on a line that is not full
            self.carry()
        self.raw, self.known = counts, True
        if counts.sum is not None:
            self._last_sum = counts.sum
        return changed

    def carry(self) -> None:
        """The server restarted: keep what was counted."""
        if self.raw is not None:
            self.sum_before += self._last_sum
            self.count_before += self.raw.count
            self.n_before = _added(self.n_before, self.raw.n)
            self.raw, self._last_sum = None, 0.0

    def rebase(self, counts: HistogramCounts) -> None:
        """Go on from other counts without having observed anything."""
        if self.raw is None:
            return
        now_sum = counts.sum if counts.sum is not None else self._last_sum
        self.sum_before += self._last_sum - now_sum
        self.count_before += self.raw.count - counts.count
        lengths = {len(self.raw.n), len(counts.n), len(self.n_before) or len(counts.n)}
        then = self.n_before or [0] * len(counts.n)
        self.n_before = (
            [a + b - c for a, b, c in zip(then, self.raw.n, counts.n, strict=True)] if len(lengths) == 1 else ()
        )
        self.raw = counts


class HistogramGroup:
    """The series of one histogram quantity, and the track of their total."""

    __slots__ = ("_cells", "_more", "_rank", "le", "only", "progress", "total")

    def __init__(self, *, progress: bool, began: bool, split: bool) -> None:
        self.progress = progress
        self.le: tuple[float, ...] = ()
        self.total = HistogramTrack(began, split=split)
        self._cells: dict[int, list[HistogramCell]] = {}  # by rank of their name, the best first
        self.only: HistogramCell | None = None  # the one series, where there is one
        self._rank: int | None = None
        self._more: _Sums = (0.0, 0.0, ())  # what the name before had counted more

    def add(self, owner: str, rank: int) -> HistogramCell:
        cell = HistogramCell(self, owner)
        self.only, self._rank = (None, self._rank) if self._cells else (cell, rank)
        self._cells.setdefault(rank, []).append(cell)
        self._cells = dict(sorted(self._cells.items()))
        return cell

    def put_bounds(self, le: tuple[float, ...]) -> None:
        if le == self.le:
            return
        if self.le:  # other buckets: what the old ones held cannot be told in them
            self._more = (*self._more[:2], ())
            for cells in self._cells.values():
                for cell in cells:
                    cell.n_before = ()
        self.le = le

    def close(self, scrape: int) -> None:
        """Put the counts of a scrape, once all its numbers are in."""
        only = self.only
        if only is not None and not only.count_before and only.raw is not None:
            raw = only.raw
            self.total.put(scrape, self.le, math.nan if raw.sum is None else raw.sum, raw.count, raw.n)
            return
        rank = next((rank for rank, cells in self._cells.items() if any(cell.known for cell in cells)), None)
        if rank is None:
            return
        total, count, n = _summed(self._cells[rank])
        if rank != self._rank:  # another name: it goes on from where the one before stood
            self._more, self._rank = self.total.ahead_of(total, count, n), rank
        self.total.put(scrape, self.le, total + self._more[0], count + self._more[1], _added(n, self._more[2]))


def _summed(cells: Sequence[HistogramCell]) -> _Sums:
    total, count = 0.0, 0.0
    n: Sequence[int] = ()
    for cell in cells:
        total, count, n = total + cell.sum_before, count + cell.count_before, _added(n, cell.n_before)
        if cell.raw is not None:
            total += math.nan if cell.raw.sum is None else cell.raw.sum
            count, n = count + cell.raw.count, _added(n, cell.raw.n)
    return total, count, n


def _added(one: Sequence[int], other: Sequence[int]) -> Sequence[int]:
    if not other:
        return one
    if not one:
        return other
    return [a + b for a, b in zip(one, other, strict=False)]
