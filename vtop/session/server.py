"""What is known of one server: its pages, and over them every quantity that vtop reads.

Counters go on over a restart: what was counted before stays counted, so a difference between two pages is never
negative. Several engines and several API servers of one server are taken together as `metrics.vllm.Kind` says.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from vtop.metrics import vllm
from vtop.metrics.vllm import Kind, Quantity
from vtop.recording import HistogramCounts, Identity, Outage, Scrape, Target
from vtop.session.tracks import FactTrack, HistogramTrack, Track

GAP_INTERVALS = 2.5  # two pages further apart than this many intervals have a gap between them

_PER_ENGINE = frozenset({Quantity.RUNNING, Quantity.WAITING, Quantity.KV_USED, Quantity.GENERATION_TOKENS})
_NOT_THE_ENGINE = frozenset({Quantity.PROCESS_CPU, Quantity.HTTP_DURATION})


class _Cell:
    """The latest number of one series; for a counter, with what it had counted before restarts."""

    __slots__ = ("before", "counter", "group", "raw")

    def __init__(self, group: _Group, counter: bool) -> None:
        self.group = group
        self.counter = counter
        self.raw = math.nan
        self.before = 0.0

    @property
    def value(self) -> float:
        return self.raw + self.before if self.counter else self.raw


class _Group:
    """The series of one quantity (and part), and the tracks of their total and of each engine."""

    __slots__ = ("cells", "engines", "kind", "progress", "rank", "total")

    def __init__(self, kind: Kind, rank: int, progress: bool) -> None:
        self.kind = kind
        self.rank = rank
        self.progress = progress  # a change of it shows that the engine took a step
        self.cells: dict[str, list[_Cell]] = {}  # by engine; several when there are several API servers
        self.total = Track()
        self.engines: dict[str, Track] | None = None

    def close(self, page: int) -> None:
        """Put the values of a page, once all its numbers are in."""
        values = []
        for engine, cells in self.cells.items():
            value = cells[0].value if len(cells) == 1 else self._of_one_engine(cells)
            values.append(value)
            if self.engines is not None:
                self.engines.setdefault(engine, Track()).put(page, value)
        known = [value for value in values if value == value]
        if not known:
            self.total.put(page, math.nan)
        else:
            self.total.put(page, max(known) if self.kind is Kind.RATIO else sum(known))

    def _of_one_engine(self, cells: Sequence[_Cell]) -> float:
        """Several API servers tell of one engine: counters share it, of gauges all but one are left at zero."""
        known = [cell.value for cell in cells if cell.value == cell.value]
        if not known:
            return math.nan
        return sum(known) if self.kind is Kind.COUNTER else max(known)


class _HistogramCell:
    __slots__ = ("before", "raw")

    def __init__(self) -> None:
        self.raw: HistogramCounts | None = None
        self.before = HistogramCounts(sum=0.0, count=0.0, n=())


class _HistogramGroup:
    __slots__ = ("cells", "le", "rank", "total")

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.cells: list[_HistogramCell] = []
        self.le: tuple[float, ...] = ()
        self.total = HistogramTrack()

    def close(self, page: int) -> None:
        first = self.cells[0]
        if len(self.cells) == 1 and first.raw is not None and not first.before.count:
            raw = first.raw
            self.total.put(page, self.le, math.nan if raw.sum is None else raw.sum, raw.count, array("q", raw.n))
            return
        total, count, n = 0.0, 0.0, array("q")
        for cell in self.cells:
            if cell.raw is None:
                continue
            for counts in (cell.raw, cell.before):
                total += counts.sum if counts.sum is not None else math.nan
                count += counts.count
                n = _added(n, counts.n)
        self.total.put(page, self.le, total, count, n)


def _added(one: array[int], other: Sequence[int]) -> array[int]:
    if not other:
        return one
    if not one:
        return array("q", other)
    return array("q", (a + b for a, b in zip(one, other, strict=False)))


class ServerHistory:
    """One server's pages so far. Times are seconds of the session."""

    def __init__(self, target: Target, interval_s: float) -> None:
        self.target = target
        self.interval_s = interval_s
        self.t = array("d")  # when the line was written: from then on the page may be seen
        self.at_s = array("d")
        self.took_s = array("d")
        self.bytes = array("L")
        self.health: FactTrack[int | None] = FactTrack()
        self.bad_lines = Track()
        self.labels: dict[Quantity, FactTrack[tuple[str, ...]]] = {}  # series of Kind.INFO
        self.restarts: list[int] = []  # pages that are the first after a restart
        self.gaps: list[tuple[float, float]] = []  # (from, to): no page, or a restart, in between
        self.progress = array("I")  # pages that show that the engine took a step
        self.outages: list[Outage] = []
        self.broken_t = array("d")  # when each stretch without a page began
        self.identities: list[Identity] = []
        self._scalars: dict[str, _Cell | None] = {}
        self._histograms: dict[str, tuple[_HistogramGroup, _HistogramCell] | None] = {}
        self._groups: dict[tuple[Quantity, str], _Group] = {}
        self._histogram_groups: dict[tuple[Quantity, str], _HistogramGroup] = {}
        self.broken_since_s: float | None = None  # set while no page can be had
        self.model: FactTrack[str | None] = FactTrack()

    # --- what happened -------------------------------------------------------------------------------------------

    def apply_outage(self, outage: Outage) -> None:
        self.outages.append(outage)
        if self.broken_since_s is None:
            self.broken_since_s = outage.at_s
            self.broken_t.append(outage.t)

    def apply_scrape(self, scrape: Scrape) -> bool:
        """Take in a page; True when the server restarted since the page before."""
        page = len(self.t)
        restarted = scrape.full and page > 0 and self._restarted(scrape)
        self._note_gap(scrape, restarted)
        self.t.append(scrape.t)
        self.at_s.append(scrape.at_s)
        self.took_s.append(scrape.took_s)
        self.bytes.append(scrape.bytes)
        self.health.put(page, scrape.health)
        self.bad_lines.put(page, scrape.bad_lines)
        if restarted:
            self.restarts.append(page)
            self._carry_over()
        touched: set[_Group] = set()
        if scrape.full:
            touched |= self._forget_missing(scrape)
            self._read_labels(scrape, page)
            self.model.put(page, scrape.model)
        cells = self._scalars
        for series, value in scrape.values.items():
            if series in cells:
                cell = cells[series]
            else:
                cell = cells[series] = self._new_cell(series, page)
            if cell is None:
                continue
            number = math.nan if value is None else value
            if cell.counter and number < cell.raw:  # a counter that fell on a line that is not full
                cell.before += cell.raw
            cell.raw = number
            touched.add(cell.group)
        stepped = False
        for group in touched:
            group.close(page)
            stepped = stepped or (group.progress and bool(group.total.page) and group.total.page[-1] == page)
        stepped = self._apply_histograms(scrape, page) or stepped
        if stepped:
            self.progress.append(page)
        return restarted

    def _apply_histograms(self, scrape: Scrape, page: int) -> bool:
        touched: set[_HistogramGroup] = set()
        stepped = False
        for series, counts in scrape.hists.items():
            if series in self._histograms:
                known = self._histograms[series]
            else:
                known = self._histograms[series] = self._new_histogram(series)
            if known is None:
                continue
            group, cell = known
            if scrape.full:
                le = scrape.le.get(series.partition("{")[0], ())
                if le != group.le and group.le:
                    cell.before = HistogramCounts(sum=cell.before.sum, count=cell.before.count, n=())
                group.le = le
            stepped = stepped or cell.raw != counts
            cell.raw = counts
            touched.add(group)
        for group in touched:
            group.close(page)
        return stepped

    def _restarted(self, scrape: Scrape) -> bool:
        for series, value in scrape.values.items():
            cell = self._scalars.get(series)
            if cell is not None and value is not None and cell.counter and value < cell.raw:
                return True
        for series, counts in scrape.hists.items():
            known = self._histograms.get(series)
            if known is not None and known[1].raw is not None and counts.count < known[1].raw.count:
                return True
        started = self.total(Quantity.PROCESS_START)
        before = started.at(len(self.t) - 1) if started is not None else None
        now = scrape.values.get("process_start_time_seconds")
        return before is not None and now is not None and now > before + 1.0

    def _carry_over(self) -> None:
        """Keep what was counted before the restart."""
        for cell in self._scalars.values():
            if cell is not None and cell.counter and cell.raw == cell.raw:
                cell.before += cell.raw
                cell.raw = 0.0
        for known in self._histograms.values():
            if known is not None and known[1].raw is not None:
                cell_, old, raw = known[1], known[1].before, known[1].raw
                total = None if old.sum is None or raw.sum is None else old.sum + raw.sum
                n = tuple(_added(array("q", old.n), raw.n))
                cell_.before = HistogramCounts(sum=total, count=old.count + raw.count, n=n)
                cell_.raw = HistogramCounts(sum=0.0, count=0.0, n=tuple(0 for _ in raw.n))

    def _forget_missing(self, scrape: Scrape) -> set[_Group]:
        """A full line lacks a series: from here on it is not known."""
        touched = set()
        for series, cell in self._scalars.items():
            if cell is not None and series not in scrape.values and cell.raw == cell.raw:
                if cell.counter:
                    cell.before += cell.raw
                cell.raw = math.nan
                touched.add(cell.group)
        return touched

    def _note_gap(self, scrape: Scrape, restarted: bool) -> None:
        broken, self.broken_since_s = self.broken_since_s, None
        if not self.at_s:
            return
        before = self.at_s[-1]
        usual_s = self.interval_s
        if len(self.at_s) > 1 and not (self.gaps and self.gaps[-1][1] == before):
            usual_s = max(usual_s, before - self.at_s[-2])
        if broken is not None or restarted or scrape.at_s - before > GAP_INTERVALS * usual_s:
            self.gaps.append((before, scrape.at_s))

    def _new_cell(self, series: str, page: int) -> _Cell | None:
        meaning = vllm.meaning(series)
        if meaning is None or meaning.kind in (Kind.INFO, Kind.HISTOGRAM):
            return None
        key = (meaning.quantity, meaning.part)
        group = self._groups.get(key)
        if group is None or meaning.rank < group.rank:
            new = _Group(meaning.kind, meaning.rank, meaning.quantity not in _NOT_THE_ENGINE)
            new.progress = new.progress and meaning.kind is Kind.COUNTER
            if meaning.quantity in _PER_ENGINE:
                new.engines = {}
            if group is None and page > 0 and meaning.kind is Kind.COUNTER and self._groups:
                new.total.put(page - 1, 0.0)  # a counter that appears on a later page began at 0
            group = self._groups[key] = new
        elif meaning.rank > group.rank:
            return None
        cell = _Cell(group, meaning.kind is Kind.COUNTER)
        group.cells.setdefault(meaning.engine, []).append(cell)
        return cell

    def _new_histogram(self, series: str) -> tuple[_HistogramGroup, _HistogramCell] | None:
        meaning = vllm.meaning(series)
        if meaning is None or meaning.kind is not Kind.HISTOGRAM:
            return None
        key = (meaning.quantity, meaning.part)
        group = self._histogram_groups.get(key)
        if group is None or meaning.rank < group.rank:
            group = self._histogram_groups[key] = _HistogramGroup(meaning.rank)
        elif meaning.rank > group.rank:
            return None
        cell = _HistogramCell()
        group.cells.append(cell)
        return group, cell

    def _read_labels(self, scrape: Scrape, page: int) -> None:
        found: dict[Quantity, list[str]] = {}
        for series in scrape.values:
            meaning = vllm.meaning(series) if series.partition("{")[0].endswith("_info") else None
            if meaning is not None:
                found.setdefault(meaning.quantity, []).append(series)
        for quantity in {*found, *self.labels}:
            self.labels.setdefault(quantity, FactTrack()).put(page, tuple(found.get(quantity, ())))

    # --- questions: each names the last page it may look at --------------------------------------------------------

    def visible(self, now_s: float) -> int:
        """How many pages had been written by an instant."""
        return bisect_right(self.t, now_s)

    def window(self, now_s: float, window_s: float) -> tuple[int, int] | None:
        """(first, last) page of the window that ends with the latest page; None before the first."""
        pages = self.visible(now_s)
        if pages == 0:
            return None
        last = pages - 1
        first = bisect_left(self.at_s, self.at_s[last] - window_s - 1e-9, 0, pages)
        return min(first, last), last

    def total(self, quantity: Quantity, part: str = "") -> Track | None:
        group = self._groups.get((quantity, part))
        return group.total if group is not None else None

    def parts(self, quantity: Quantity) -> list[str]:
        return [part for known, part in self._groups if known is quantity]

    def engines(self, quantity: Quantity) -> dict[str, Track]:
        group = self._groups.get((quantity, ""))
        return group.engines or {} if group is not None else {}

    def histogram(self, quantity: Quantity) -> HistogramTrack | None:
        group = self._histogram_groups.get((quantity, ""))
        return group.total if group is not None else None

    def is_vllm(self, last: int) -> bool:
        """Whether the page had any of vLLM's own series."""
        running = self.total(Quantity.RUNNING)
        return running is not None and running.at(last) is not None

    def outages_by(self, now_s: float) -> int:
        return bisect_right(self.outages, now_s, key=lambda outage: outage.t)

    def identity(self, now_s: float) -> Identity | None:
        place = bisect_right(self.identities, now_s, key=lambda identity: identity.t) - 1
        return self.identities[place] if place >= 0 else None

    def models(self, last: int) -> tuple[str, ...]:
        """The model that the page itself names."""
        model = self.model.at(last) if last >= 0 else None
        return (model,) if model else ()

    def last_progress(self, last: int) -> int | None:
        place = bisect_right(self.progress, last) - 1
        return self.progress[place] if place >= 0 else None

    def gap_s(self, begin_s: float, end_s: float) -> list[tuple[float, float]]:
        """The parts of a stretch that lie in gaps."""
        place = bisect_left(self.gaps, begin_s, key=lambda gap: gap[1])
        overlaps = []
        for start, stop in self.gaps[place:]:
            if start >= end_s:
                break
            overlaps.append((max(start, begin_s), min(stop, end_s)))
        return [(start, stop) for start, stop in overlaps if stop > start]
