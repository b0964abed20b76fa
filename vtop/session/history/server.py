"""What is known of one server: its scrapes, and over them every quantity that vtop reads.

Counters go on over a restart: what was counted before stays counted, so a difference between two scrapes is never
negative.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from enum import StrEnum

from vtop.metrics.page_layout import OTHER
from vtop.metrics.quantity import Quantity, SeriesKind
from vtop.metrics.series_names import SeriesMeaning
from vtop.recording import GAP_INTERVALS, Identity, Outage, Scrape, Target
from vtop.server_kinds import registry
from vtop.server_kinds.kind import ServerKind
from vtop.session.history.quantities import Cell, HistogramCell, HistogramGroup, SeriesGroup, fell_a_little
from vtop.session.history.tracks import FactTrack, HistogramTrack, Track

FINE_S = 5.0  # from one scrape to the next; further apart they do not show what happens within seconds
PROCESS_START = "process_start_time_seconds"
FIRST_DATE_S = 1e9  # 2001: an earlier date is none
CLOCKS_APART_S = 120.0  # the server's and vtop's, at most
MOST_PROCESSES = 64  # that an address may lead to
MOST_RATIO = 1.001  # of the KV cache in use: the last digits of a float
HOLD = 4  # scrapes for which a series that comes and goes stands where it was
COMES_AND_GOES = 2  # times that it came back
ALTERNATES_S = 60.0
SWINGING = 2  # counters, at least: one may be made up again within a scrape
SWINGS_BACK_S = 60.0  # within which counters that fell stand beyond where they fell from, all at once
MOST_PARTS = 512  # of a quantity, such as reasons for which requests finish

_PER_ENGINE = frozenset(
    {Quantity.RUNNING, Quantity.WAITING, Quantity.KV_USED, Quantity.GENERATION_TOKENS}
    | {Quantity.PREEMPTIONS, Quantity.FINISHED}
)
# histograms that are asked for percentiles; of the others sum and count are enough
PERCENTILES = frozenset(
    {Quantity.TTFT, Quantity.ITL, Quantity.TPOT, Quantity.QUEUE, Quantity.PREFILL, Quantity.DECODE, Quantity.E2E}
    | {Quantity.REQUEST_PREEMPTIONS}
)
# these are in the recording, with a meaning, and in no frame: following them would cost every scrape for nothing
_IN_NO_FRAME = frozenset({Quantity.HTTP_DURATION})
# a request at the head of the queue is looked up at every step, whether or not anything comes of it
_NOT_THE_ENGINE = frozenset({Quantity.REJECTED, Quantity.PROCESS_CPU, Quantity.PREFIX_QUERIES, Quantity.PREFIX_HITS})
_ANY = (-math.inf, math.inf)
_POSSIBLE = {
    Quantity.RUNNING: (0.0, math.inf),
    Quantity.WAITING: (0.0, math.inf),
    Quantity.KV_USED: (0.0, 1.0 + 1e-9),
}


class Change(StrEnum):
    """What became of a server between two scrapes. Only after RESTARTED do counters begin at 0."""

    RESTARTED = "restarted"
    ANOTHER = "another"  # another process answers, which has been running for longer
    ALTERNATES = "alternates"  # one answers again that had answered before another did


class ServerHistory:
    """One server's scrapes so far. Times are seconds of the session."""

    def __init__(self, target: Target, interval_s: float, unix_s: float = 0.0) -> None:
        """unix_s: the wall clock at second 0 of the session."""
        self.target = target
        self.interval_s = target.interval_s if target.interval_s is not None else interval_s
        self._unix_s = unix_s
        self._alternated_s = array("d")  # when another process was seen to answer that had answered before
        self._seen: dict[float, float] = {}  # start time of each process that answered, and when it last did
        self.t = array("d")  # when the line was written: from then on the scrape may be seen
        self.at_s = array("d")
        self.took_s = array("d")
        self.bytes = Track()
        self.health: FactTrack[int | None] = FactTrack()
        self.bad_lines = Track()
        self.labels: dict[Quantity, FactTrack[tuple[str, ...]]] = {}  # series of SeriesKind.INFO
        self.adapters: FactTrack[str] = FactTrack()  # of the series of Quantity.LORA the one that was set last
        self._adapters_set: dict[str, float] = {}  # each of them, and when it was set
        self.restarts: list[int] = []  # scrapes that are the first after a restart
        self.gaps: list[tuple[float, float]] = []  # (from, to): no scrape, or a restart, in between
        self.progress = array("I")  # scrapes that show that the engine took a step
        self.outages: list[Outage] = []
        self.broken_t = array("d")  # when each span without a scrape began
        self.identities: list[Identity] = []
        self.finished: list[Track] = []  # one for each reason
        self._cells: dict[str, Cell | None] = {}  # by series; None: vtop does not read it
        self._histogram_cells: dict[str, HistogramCell | None] = {}
        self._parts: dict[Quantity, set[str]] = {}
        self._groups: dict[tuple[Quantity, str], SeriesGroup] = {}
        self._histogram_groups: dict[tuple[Quantity, str], HistogramGroup] = {}
        self._watched_t: list[float] = []  # when that changed
        self._watched: list[bool] = []
        self.forgotten = 0  # the first scrape whose numbers are all there
        self.held: set[Cell] = set()  # not on the latest scrape, and taken to be what they were
        self._held_from = 0  # the first scrape without them
        self._fell: dict[str, float] = {}  # counters that fell at the latest restart, from where
        self._fell_s = -math.inf
        self.broken_since_s: float | None = None  # set while no scrape can be had
        self.model: FactTrack[str | None] = FactTrack()
        self.kind = registry.DEFAULT  # of the latest line that says who answers
        self._own: FactTrack[bool] = FactTrack()  # whether a scrape had series of that kind

    # --- what happened -------------------------------------------------------------------------------------------

    def apply_identity(self, identity: Identity) -> None:
        self.identities.append(identity)
        if identity.kind == self.kind.name:
            return
        self.kind = registry.of(identity.kind)
        # what the kind before did not read may mean something to this one
        self._cells = {series: cell for series, cell in self._cells.items() if cell is not None}
        self._histogram_cells = {series: cell for series, cell in self._histogram_cells.items() if cell is not None}

    def apply_outage(self, outage: Outage) -> None:
        self.outages.append(outage)
        if self.broken_since_s is None:
            self.broken_since_s = outage.at_s
            self.broken_t.append(outage.t)

    def apply_scrape(self, scrape: Scrape) -> Change | None:
        """Take in a scrape; what became of the server, or of a part of it, since the scrape before."""
        index = len(self.t)
        # what an answer says that took long to come was so when it came, not when it was asked for
        at_s = scrape.at_s + (scrape.took_s if scrape.took_s > self.interval_s / 2 else 0.0)
        at_s = max(at_s, self.at_s[-1]) if index else at_s  # a hand may have joined two recordings
        another = self._another(scrape, at_s) or self._swings(scrape, at_s)
        if another is not None:
            self._rebase(scrape)
        restarted = self._restarted(scrape) if scrape.full and index and another is None else set()
        self._note_gap(at_s, bool(restarted) or another is not None)
        self.t.append(scrape.t)
        self.at_s.append(at_s)
        self.took_s.append(scrape.took_s)
        self.bytes.put(index, math.nan if scrape.bytes is None else float(scrape.bytes))
        self.health.put(index, scrape.health)
        self.bad_lines.put(index, scrape.bad_lines)
        if restarted:
            self.restarts.append(index)
            self._carry(restarted)
        touched: set[SeriesGroup] = set()
        stepped = False
        if self.held and index - self._held_from >= HOLD:
            touched |= self._let_go()
        if scrape.full:
            touched |= self._forget_missing(scrape, index)
            self._read_labels(scrape, index)
            adapters = self.labels.get(Quantity.LORA)
            self._adapters_set = dict.fromkeys(adapters.at(index) or (), 0.0) if adapters is not None else {}
            self.model.put(index, scrape.model)
            self._own.put(
                index,
                bool(self.held) or any(self.kind.series.family(series) for series in (*scrape.values, *scrape.hists)),
            )
        cells = self._cells
        for series, value in scrape.values.items():
            try:
                cell = cells[series]
            except KeyError:
                cell = cells[series] = self._new_cell(series, index)
            if cell is None:
                continue
            if value is None:
                cell.known = False
            else:
                if cell.group.kind is SeriesKind.RATIO and not 0.0 <= value <= MOST_RATIO:  # no share, and in no sum
                    cell.known = False
                    touched.add(cell.group)
                    continue
                if cell.counter and value < cell.raw:
                    if fell_a_little(cell.raw, value):
                        cell.rebase(value)
                    else:  # it began anew, on a line that is not full
                        cell.before += cell.raw
                cell.raw = value
                cell.known = not (value < cell.low or value > cell.high)
            group = cell.group
            if group.only is not cell:
                touched.add(group)
            elif group.close(index) and group.progress:
                stepped = True
        for group in touched:
            if group.close(index) and group.progress:
                stepped = True
        if self._adapters_set:
            self._adapters_set |= {one: at for one in self._adapters_set if (at := scrape.values.get(one)) is not None}
            self.adapters.put(index, max(self._adapters_set, key=self._adapters_set.__getitem__))
        if self._apply_histograms(scrape, index) or stepped:
            self.progress.append(index)
        return another or (Change.RESTARTED if restarted else None)

    def _apply_histograms(self, scrape: Scrape, index: int) -> bool:
        touched: set[HistogramGroup] = set()
        stepped = False
        cells = self._histogram_cells
        for series, counts in scrape.hists.items():
            try:
                cell = cells[series]
            except KeyError:
                cell = cells[series] = self._new_histogram(series, index)
            if cell is None:
                continue
            group = cell.group
            if scrape.full:
                group.put_bounds(scrape.le.get(series.partition("{")[0], ()))
            if cell.put(counts, full=scrape.full) and group.progress:
                stepped = True
            if group.only is cell:
                group.close(index)
            else:
                touched.add(group)
        for group in touched:
            group.close(index)
        return stepped

    @property
    def fine(self) -> bool:
        """Whether its scrapes lie close enough to tell what happens within seconds: what KV use and running were before
        a preemption, how fast the pool fills, which spans only decoded."""
        return self.interval_s <= FINE_S

    def _another(self, scrape: Scrape, at_s: float) -> Change | None:
        """Whether another process answers that has been running all along: it did not begin since the scrape before."""
        now = scrape.values.get(PROCESS_START)
        if now is None:
            return None
        started = self.total(Quantity.PROCESS_START)
        before = started.at(len(self.t) - 1) if started is not None and len(self.t) else None
        known, self._seen[now] = self._seen.get(now), at_s
        while len(self._seen) > MOST_PROCESSES:
            self._seen.pop(next(iter(self._seen)))
        if before is None or abs(now - before) <= 1.0:
            return None
        if known is not None:
            self._alternated_s.append(at_s)
            return Change.ALTERNATES
        since = self._unix_s + self.at_s[-1] - CLOCKS_APART_S
        dated = self._unix_s > FIRST_DATE_S and now > FIRST_DATE_S  # else the clocks are made up
        return Change.ANOTHER if now < before - 1.0 or (dated and now < since) else None

    def _swings(self, scrape: Scrape, at_s: float) -> Change | None:
        """Whether counters that fell stand all at once beyond where they fell from, or fall again soon after that:
        several processes answer in turn that do not say when they began."""
        alternates = self.alternates(at_s)
        if not alternates and (at_s - self._fell_s > SWINGS_BACK_S or len(self._fell) < SWINGING):
            return None
        now = {
            series: (cell.raw, value)
            for series, value in scrape.values.items()
            if value is not None and (cell := self._cells.get(series)) is not None and cell.counter
        }
        falls = alternates and any(value < raw and not fell_a_little(raw, value) for raw, value in now.values())
        back = len(self._fell) >= SWINGING and all(
            series in now and now[series][0] < before / 2 and now[series][1] >= before
            for series, before in self._fell.items()
        )  # in one leap: a server that did begin anew gets there step by step
        if not falls and not back:
            return None
        self._alternated_s.append(at_s)
        self._fell_s = at_s
        if falls:
            self._fell = {series: raw for series, (raw, value) in now.items() if value < raw}
        return Change.ALTERNATES

    def alternates(self, now_s: float) -> bool:
        """Whether several processes answered in turn within the minute before: their numbers are not one server's."""
        latest = bisect_right(self._alternated_s, now_s) - 1
        return latest >= 0 and now_s - self._alternated_s[latest] < ALTERNATES_S

    def _rebase(self, scrape: Scrape) -> None:
        """Another process's counters: go on from them, without having counted what it did before."""
        for series, value in scrape.values.items():
            cell = self._cells.get(series)
            if cell is not None and cell.counter and value is not None:
                cell.rebase(value)
                cell.raw = value
        for series, counts in scrape.hists.items():
            known = self._histogram_cells.get(series)
            if known is not None:
                known.rebase(counts)

    def _restarted(self, scrape: Scrape) -> set[str]:
        """Whose counters began anew: engines as `SeriesMeaning.engine` names them, "" for all of the server."""
        started = self.total(Quantity.PROCESS_START)
        before = started.at(len(self.t) - 1) if started is not None else None
        now = scrape.values.get(PROCESS_START)
        from_where: dict[str, float] = {}
        owners = {""} if before is not None and now is not None and now > before + 1.0 else set()
        for series, value in scrape.values.items():
            cell = self._cells.get(series)
            if cell is not None and value is not None and cell.counter and value < cell.raw:
                if fell_a_little(cell.raw, value):
                    continue
                owners.add(cell.owner)
                from_where[series] = cell.raw
        for series, counts in scrape.hists.items():
            known = self._histogram_cells.get(series)
            fell = known is not None and known.raw is not None and counts.count < known.raw.count
            if fell and known is not None and known.raw is not None:
                begun = not fell_a_little(known.raw.count, counts.count)
                owners |= {known.owner} if begun else set()
        if owners:
            self._fell, self._fell_s = from_where, self.at_s[-1]
        return owners

    def _carry(self, owners: set[str]) -> None:
        """Keep what was counted before a restart."""
        for cell in self._cells.values():
            if cell is not None and cell.counter and ("" in owners or cell.owner in owners):
                cell.carry()
        for known in self._histogram_cells.values():
            if known is not None and ("" in owners or known.owner in owners):
                known.carry()

    def _forget_missing(self, scrape: Scrape, index: int) -> set[SeriesGroup]:
        """A full line lacks a series: from here on it is not known. One that has come back before may do so again: it
        stands for a few scrapes."""
        touched = set()
        held: set[Cell] = set()
        for series, cell in self._cells.items():
            if cell is None:
                continue
            if series in scrape.values:
                cell.returned += not cell.known and cell.raw == cell.raw
            elif cell.known and cell.returned >= COMES_AND_GOES:
                held.add(cell)
            elif cell.known:
                cell.known = False
                touched.add(cell.group)
        for series, known in self._histogram_cells.items():
            if known is not None and series not in scrape.hists:
                known.known = False
        if not self.held:
            self._held_from = index
        self.held = held
        return touched

    def _let_go(self) -> set[SeriesGroup]:
        """What has been gone for a while is not known any more."""
        for cell in self.held:
            cell.known = False
        touched = {cell.group for cell in self.held}
        self.held = set()
        return touched

    def down_s(self, first: int, last: int) -> float:
        """Seconds between two scrapes in which it was down and came back anew: what was done in them no counter
        kept."""
        lost = 0.0
        for index in self.restarts[bisect_right(self.restarts, first) : bisect_right(self.restarts, last)]:
            passed_s = self.at_s[index] - self.at_s[index - 1]
            lost += passed_s if passed_s > self.patience_s(index - 1) else 0.0
        return lost

    def _note_gap(self, at_s: float, restarted: bool) -> None:
        broken, self.broken_since_s = self.broken_since_s, None
        if not self.at_s:
            return
        before = self.at_s[-1]
        if broken is None and not restarted and at_s - before <= GAP_INTERVALS * self.interval_s:
            return  # the usual case: no patience is shorter
        if broken is not None or restarted or at_s - before > self.patience_s(len(self.at_s) - 1):
            self.gaps.append((before, at_s))

    def _usual_s(self, last: int) -> float:
        """How far apart scrapes lie, as of scrape last: the interval asked for, or longer where the server is slow."""
        at_s = self.at_s[last]
        place = bisect_left(self.gaps, at_s, key=lambda gap: gap[1])
        after_gap = place < len(self.gaps) and self.gaps[place][1] == at_s
        return self.interval_s if last == 0 or after_gap else max(self.interval_s, at_s - self.at_s[last - 1])

    def _new_cell(self, series: str, index: int) -> Cell | None:
        meaning = self.kind.series.meaning(series)
        if (
            meaning is None
            or meaning.kind in (SeriesKind.INFO, SeriesKind.HISTOGRAM)
            or meaning.quantity in _IN_NO_FRAME
        ):
            return None
        key = (meaning.quantity, self._part(meaning))
        if key not in self._groups:
            counter = meaning.kind is SeriesKind.COUNTER
            self._groups[key] = SeriesGroup(
                meaning.kind,
                index,
                progress=counter and meaning.quantity not in _NOT_THE_ENGINE,
                per_engine=meaning.quantity in _PER_ENGINE,
                began=0.0 if counter and self._was_own(index) else None,
                bounds=_POSSIBLE.get(meaning.quantity, _ANY),
            )
            if meaning.quantity is Quantity.FINISHED:
                self.finished.append(self._groups[key].total)
        return self._groups[key].add(meaning.engine, meaning.rank, index)

    def _new_histogram(self, series: str, index: int) -> HistogramCell | None:
        meaning = self.kind.series.meaning(series)
        if meaning is None or meaning.kind is not SeriesKind.HISTOGRAM or meaning.quantity in _IN_NO_FRAME:
            return None
        key = (meaning.quantity, self._part(meaning))
        if key not in self._histogram_groups:
            self._histogram_groups[key] = HistogramGroup(
                progress=meaning.quantity not in _NOT_THE_ENGINE,
                began=self._was_own(index),
                split=meaning.quantity in PERCENTILES or meaning.quantity is Quantity.ITERATION_TOKENS,
            )
        return self._histogram_groups[key].add(meaning.engine, meaning.rank)

    def _part(self, meaning: SeriesMeaning) -> str:
        """The part that a series is of; beyond MOST_PARTS of a quantity all are one part."""
        parts = self._parts.setdefault(meaning.quantity, set())
        if meaning.part not in parts and len(parts) >= MOST_PARTS:
            return OTHER
        parts.add(meaning.part)
        return meaning.part

    def _was_own(self, index: int) -> bool:
        """Whether the scrape before was one of its kind, and whole: then a counter that it lacked stood at 0."""
        return index > 0 and self.has_own_series(index - 1) and not self.bad_lines.at(index - 1)

    def _read_labels(self, scrape: Scrape, index: int) -> None:
        found: dict[Quantity, list[str]] = {}
        for series in scrape.values:
            meaning = self.kind.series.meaning(series) if series.partition("{")[0].endswith("_info") else None
            if meaning is not None:
                found.setdefault(meaning.quantity, []).append(series)
        for quantity in {*found, *self.labels}:
            self.labels.setdefault(quantity, FactTrack()).put(index, tuple(found.get(quantity, ())))

    def watch(self, t: float, *, on: bool) -> None:
        """From an instant on it is watched, or is not any more."""
        self._watched_t.append(t)
        self._watched.append(on)

    def watched(self, now_s: float) -> bool:
        """Whether it is watched at an instant; one that came later is not before that."""
        place = bisect_right(self._watched_t, now_s) - 1
        return self._watched[place] if place >= 0 else not self._watched or not self._watched[0]

    def forget(self, before_s: float) -> None:
        """Give up the numbers of scrapes before an instant: of so many servers that memory would grow without end.
        What is asked from there on stays as it was."""
        first = bisect_right(self.at_s, before_s) - 1
        if first <= self.forgotten:
            return
        self.forgotten = first
        for group in self._groups.values():
            for track in (group.total, *(group.engines or {}).values()):
                track.forget(first)
        for counted in self._histogram_groups.values():
            counted.total.forget(first)
        for track in (self.bytes, self.bad_lines):
            track.forget(first)
        kept = bisect_right(self.progress, first) - 1
        del self.progress[: max(0, kept)]

    # --- questions: each names the last scrape it may look at --------------------------------------------------------

    def visible(self, now_s: float) -> int:
        """How many scrapes had been written by an instant."""
        return bisect_right(self.t, now_s)

    def patience_s(self, last: int) -> float:
        """How old scrape last may become before the server counts as silent."""
        return GAP_INTERVALS * self._usual_s(last) + self.took_s[last]

    def total(self, quantity: Quantity, part: str = "") -> Track | None:
        group = self._groups.get((quantity, part))
        return group.total if group is not None else None

    def value(self, quantity: Quantity, scrape: int, part: str = "") -> float | None:
        """What a scrape says about a gauge or a counter; None where it does not."""
        track = self.total(quantity, part)
        return track.at(scrape) if track is not None else None

    def grown(self, quantity: Quantity, first: int, last: int, part: str = "") -> float | None:
        """How much a counter grew after scrape first and up to scrape last; None where that is not known."""
        track = self.total(quantity, part)
        return track.grown(first, last) if track is not None else None

    def sums(self, quantity: Quantity, first: int, last: int) -> tuple[float, float] | None:
        """(sum, count) of what a histogram observed after scrape first and up to scrape last."""
        track = self.histogram(quantity)
        return track.sums(first, last) if track is not None else None

    def parts(self, quantity: Quantity) -> list[str]:
        return [part for known, part in self._groups if known is quantity]

    def engines(self, quantity: Quantity, last: int) -> dict[str, Track]:
        """The engines that scrape last tells of."""
        group = self._groups.get((quantity, ""))
        engines = group.engines or {} if group is not None else {}
        return {engine: track for engine, track in engines.items() if track.at(last) is not None}

    def engine_tracks(self, quantity: Quantity, part: str = "") -> Mapping[str, Track]:
        """Every engine that ever told of a quantity, whatever its latest scrape says."""
        group = self._groups.get((quantity, part))
        return group.engines or {} if group is not None else {}

    def histogram(self, quantity: Quantity) -> HistogramTrack | None:
        group = self._histogram_groups.get((quantity, ""))
        return group.total if group is not None else None

    def has_own_series(self, last: int) -> bool:
        """Whether the scrape had any of its kind's own series. Gauges may lack: with several API servers they appear
        with the first engine step."""
        return bool(self._own.at(last))

    def outages_by(self, now_s: float) -> int:
        return bisect_right(self.outages, now_s, key=lambda outage: outage.t)

    def began_s(self, now_s: float, unix_s: float) -> float:
        """When the process of the latest scrape began, at the earliest; unix_s: the wall clock at second 0."""
        last = self.visible(now_s) - 1
        restart = bisect_right(self.restarts, last) - 1
        before_s = self.at_s[self.restarts[restart] - 1] if restart >= 0 else -math.inf
        started = self.total(Quantity.PROCESS_START)
        began = started.at(last) if started is not None and last >= 0 else None
        return max(before_s, began - unix_s) if began is not None else before_s

    def identity(self, now_s: float) -> Identity | None:
        place = bisect_right(self.identities, now_s, key=lambda identity: identity.t) - 1
        return self.identities[place] if place >= 0 else None

    def kind_at(self, now_s: float) -> ServerKind:
        """What kind of server it was known to be at an instant."""
        identity = self.identity(now_s)
        return registry.of(identity.kind) if identity is not None else registry.DEFAULT

    def models(self, last: int) -> tuple[str, ...]:
        """The model that the scrape itself names."""
        model = self.model.at(last) if last >= 0 else None
        return (model,) if model else ()

    def last_progress(self, last: int) -> int | None:
        place = bisect_right(self.progress, last) - 1
        return self.progress[place] if place >= 0 else None

    def gap_s(self, begin_s: float, end_s: float) -> list[tuple[float, float]]:
        """The parts of a span that lie in gaps."""
        place = bisect_left(self.gaps, begin_s, key=lambda gap: gap[1])
        overlaps = []
        for start, stop in self.gaps[place:]:
            if start >= end_s:
                break
            overlaps.append((max(start, begin_s), min(stop, end_s)))
        return [(start, stop) for start, stop in overlaps if stop > start]
