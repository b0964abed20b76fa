"""The columns of the charts: one time axis for all of them.

Column boundaries stand at whole multiples of the column's width of session time, so what was drawn once stays where
it is and what it is; the newest column is the latest complete one (only a scrape that was given up and comes all the
same still fills its columns). A gauge shows the highest value on the scrapes of
a column, so that no spike is lost; a rate is the exact mean over the column. What lies in a gap is left out, and a
column with nothing else is None.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

from vtop.metrics.histogram import Histogram
from vtop.metrics.quantity import Quantity
from vtop.recording import GAP_INTERVALS
from vtop.session.frame.charts import Charts, LoggedEvent, Points
from vtop.session.frame.frame import View
from vtop.session.frame.vocabulary import LoggedKind
from vtop.session.history.gpus import GpuHistory
from vtop.session.history.server import ServerHistory
from vtop.session.history.sides import Sides
from vtop.session.history.tracks import HistogramTrack, Track
from vtop.session.history.ttft_parts import parts_of

_WORTH_A_COLUMN = 0.25  # a rate is shown when at least this share of its column is known

_Sums = tuple[float, float]  # sum, count

LEAST_S = 0.001  # of a window


class Columns:
    """The scrapes of one server that lie at the column boundaries, looked up once for all its charts."""

    def __init__(self, server: ServerHistory, now_s: float, edges: Sequence[float]) -> None:
        self.server = server
        self.edges = edges
        self.count = len(edges) - 1
        self.last = server.visible(now_s) - 1
        self.scrapes = [bisect_right(server.at_s, edge, 0, self.last + 1) - 1 for edge in edges]
        self._known_s = [self._known(edges[k], edges[k + 1]) for k in range(self.count)]
        # a column without a scrape of its own, being shorter than their interval, is part of the step that it lies in
        self._steps = [
            (first, last if last > first else min(last + 1, self.last))
            for first, last in zip(self.scrapes, self.scrapes[1:], strict=False)
        ]

    def highest(self, track: Track | None) -> list[float | None]:
        if track is None:
            return [None] * self.count
        points = []
        for k, known_s in enumerate(self._known_s):
            first, last = self.scrapes[k] + 1, self.scrapes[k + 1]
            # without a scrape of its own the one before still holds
            points.append(track.high(min(first, last), last) if known_s > 0 and last >= 0 else None)
        return points

    def fullest(self, running: Track | None, waiting: Track | None) -> list[tuple[float, float] | None]:
        """(running, waiting) of one scrape in each column: the one with most of both together."""
        found: list[tuple[float, float] | None] = []
        for k, known_s in enumerate(self._known_s):
            first, last = self.scrapes[k] + 1, self.scrapes[k + 1]
            if running is None or waiting is None or not known_s > 0 or last < 0:
                found.append(None)
                continue
            first = max(0, min(first, last))
            pairs = zip(running.every(first, last), waiting.every(first, last), strict=True)
            known = [(a, b) for a, b in pairs if a == a and b == b]
            found.append(max(known, key=sum, default=None))
        return found

    def rate(self, track: Track | None) -> list[float | None]:
        """Mean growth per second in each column."""
        if track is None:
            return [None] * self.count
        at_edges = [self._at(track, edge, scrape) for edge, scrape in zip(self.edges, self.scrapes, strict=True)]
        rates: list[float | None] = []
        for k, known_s in enumerate(self._known_s):
            begin, end, from_s = at_edges[k], at_edges[k + 1], self.edges[k]
            first = self.scrapes[k] + 1
            if begin is None and end is not None and first <= self.scrapes[k + 1]:  # it begins in this column
                begin, from_s = track.base(first, self.scrapes[k + 1]), self.server.at_s[first]
                if track.at(first) is not None:
                    known_s = self._known(from_s, self.edges[k + 1])  # noqa: PLW2901 - less of it is known
            if begin is None or end is None or known_s < _WORTH_A_COLUMN * (self.edges[k + 1] - self.edges[k]):
                rates.append(None)
            else:
                rates.append((end - begin - self._grown_in_gaps(track, from_s, self.edges[k + 1])) / known_s)
        return rates

    def level(self, track: Track | None) -> list[float | None]:
        """A counter's growth since the first scrape, at the end of each column."""
        begin = track.base(0, self.last) if track is not None else None
        if track is None or begin is None:
            return [None] * self.count
        levels: list[float | None] = []
        for known_s, scrape in zip(self._known_s, self.scrapes[1:], strict=True):
            value = track.at(scrape) if known_s > 0 and scrape >= 0 else None
            levels.append(value - begin if value is not None else None)
        return levels

    def steps(self, track: Track | None) -> list[float | None]:
        """How much a counter rose in each column; what it rose in a gap is the next column's."""
        before = track.base(max(self.scrapes[0], 0), self.last) if track is not None else None
        if track is None or before is None:
            return [None] * self.count
        steps: list[float | None] = []
        for known_s, scrape in zip(self._known_s, self.scrapes[1:], strict=True):
            value = track.at(scrape) if known_s > 0 and scrape >= 0 else None
            steps.append(value - before if value is not None else None)
            before = value if value is not None else before
        return steps

    def sums(self, track: HistogramTrack | None) -> list[_Sums | None]:
        """For each column (sum, count) of what was observed between the scrapes at its edges, or around it."""
        if track is None:
            return [None] * self.count
        places = {scrape: track.place(max(scrape, 0)) for scrape in {one for pair in self._steps for one in pair}}
        return [
            track.sums_between(places[first], places[last]) if known_s > 0 else None
            for known_s, (first, last) in zip(self._known_s, self._steps, strict=True)
        ]

    def histograms(self, track: HistogramTrack | None) -> list[Histogram | None]:
        """For each column what was observed between the scrapes at its edges, or around it, by bucket."""
        if track is None:
            return [None] * self.count
        return [
            track.between(max(first, 0), last) if known_s > 0 and last >= 0 else None
            for known_s, (first, last) in zip(self._known_s, self._steps, strict=True)
        ]

    def grown(self, track: Track | None) -> list[float | None]:
        """For each column a counter's growth between the scrapes at its edges: of the same steps as `sums`."""
        if track is None:
            return [None] * self.count
        return [
            track.grown(max(first, 0), last) if known_s > 0 and last >= 0 else None
            for known_s, (first, last) in zip(self._known_s, self._steps, strict=True)
        ]

    def _known(self, begin_s: float, end_s: float) -> float:
        """Seconds of a span that lie between scrapes and outside gaps."""
        if self.last < 0:
            return 0.0
        begin_s, end_s = max(begin_s, self.server.at_s[0]), min(end_s, self.server.at_s[self.last])
        known_s = end_s - begin_s
        if known_s <= 0:
            return 0.0
        known_s -= sum(stop - start for start, stop in self.server.gap_s(begin_s, end_s))
        return known_s if known_s > 1e-9 else 0.0

    def _at(self, track: Track, instant: float, scrape: int) -> float | None:
        """A counter at an instant, on the straight line between the scrapes around it."""
        value = track.at(scrape) if scrape >= 0 else None
        if value is None or scrape >= self.last:
            return value
        after = track.at(scrape + 1)
        if after is None or after == value:
            return value
        at_s = self.server.at_s
        return value + (after - value) * (instant - at_s[scrape]) / (at_s[scrape + 1] - at_s[scrape])

    def _grown_in_gaps(self, track: Track, begin_s: float, end_s: float) -> float:
        grown = 0.0
        for start, stop in self.server.gap_s(begin_s, end_s):
            ends = []
            for instant in (start, stop):
                scrape = bisect_right(self.server.at_s, instant, 0, self.last + 1) - 1
                ends.append(self._at(track, instant, scrape))
            if ends[0] is not None and ends[1] is not None:
                grown += ends[1] - ends[0]
        return grown


def charts(
    servers: Sequence[ServerHistory],
    devices: GpuHistory,
    marks: Sequence[LoggedEvent],
    now_s: float,
    view: View,
    *,
    sides: Sides = Sides(),  # noqa: B008 - frozen
) -> Charts:
    column_s = max(view.window_s, LEAST_S) / view.columns  # a phase that began with the last line has none
    newest = math.floor(_seen_until(servers, devices, now_s) / column_s + 1e-9)  # columns are numbered from instant 0
    newest -= newest % view.step
    edges = [(newest - view.columns + k) * column_s for k in range(view.columns + 1)]
    columns = [Columns(server, now_s, edges) for server in servers]

    def gauge(quantity: Quantity, take: Callable[[list[float]], float] = sum) -> Points:
        return _together([one.highest(one.server.total(quantity)) for one in columns], take)

    def rate(quantity: Quantity, columns: Sequence[Columns]) -> Points:
        return _together([one.rate(one.server.total(quantity)) for one in columns], sum)

    prefilling = [one for one in columns if one.server not in sides.decode]
    decoding = [one for one in columns if one.server not in sides.prefill]

    stacked = columns if view.stacked else []
    then = [one.fullest(one.server.total(Quantity.RUNNING), one.server.total(Quantity.WAITING)) for one in stacked]
    preemptions = [(one, one.server.total(Quantity.PREEMPTIONS)) for one in columns]
    queue_s, prefill_s, frontend_s = _breakdown(prefilling)
    decode, prefill = _make_up(decoding)
    return Charts(
        end_s=edges[-1],
        column_s=column_s,
        running=gauge(Quantity.RUNNING),
        waiting=gauge(Quantity.WAITING),
        kv_used=gauge(Quantity.KV_USED, max),
        generation_per_s=rate(Quantity.GENERATION_TOKENS, decoding),
        prompt_per_s=rate(Quantity.PROMPT_TOKENS, prefilling),
        preemptions=_together(_held([one.level(track) for one, track in preemptions]), sum),
        preempted=_together([one.steps(track) for one, track in preemptions], sum),
        decode_per_step=decode,
        prefill_per_step=prefill,
        queue_s=queue_s,
        prefill_s=prefill_s,
        frontend_s=frontend_s,
        power_w=_devices(devices, devices.power_w, now_s, edges),
        sm_mhz=_devices(devices, devices.sm_mhz, now_s, edges),
        temp_c=_devices(devices, devices.temp_c, now_s, edges),
        running_then=_together([[pair and pair[0] for pair in row] for row in then], sum),
        waiting_then=_together([[pair and pair[1] for pair in row] for row in then], sum),
        marks=_marks(marks, edges),
    )


def _seen_until(servers: Sequence[ServerHistory], devices: GpuHistory, now_s: float) -> float:
    """The instant up to which nothing new is to come: the latest scrape, or as far back as a scrape may still be waited
    for, of the server that is furthest behind; likewise of the GPUs."""
    latest = []
    for server in servers:
        scrapes = server.visible(now_s)
        if scrapes:
            latest.append(max(server.at_s[scrapes - 1], now_s - server.patience_s(scrapes - 1)))
        else:
            latest.append(now_s - GAP_INTERVALS * server.interval_s)
    readings = devices.visible(now_s)
    if readings:
        latest.append(max(devices.at_s[readings - 1], now_s - devices.patience_s))
    return min(latest, default=now_s)


def _held(rows: Sequence[Sequence[float | None]]) -> Sequence[Sequence[float | None]]:
    """Levels of several servers, each going on where it was while only that server is silent: a stair never falls."""
    if len(rows) == 1:
        return rows
    silent = [all(value is None for value in column) for column in zip(*rows, strict=True)]
    held: list[list[float | None]] = []
    for row in rows:
        latest: float | None = None
        held.append([])
        for value, nobody in zip(row, silent, strict=True):
            latest = latest if value is None else value
            held[-1].append(None if nobody else latest)
    return held


def _together(rows: Sequence[Sequence[float | None]], take: Callable[[list[float]], float]) -> Points:
    if len(rows) == 1:
        return tuple(rows[0])
    points: list[float | None] = []
    for column in zip(*rows, strict=True):
        known = [value for value in column if value is not None]
        points.append(take(known) if known else None)
    return tuple(points)


def _breakdown(columns: Sequence[Columns]) -> tuple[Points, Points, Points]:
    """Mean queue, prefill and frontend of the requests that finished in each column."""
    queue: list[float | None] = []
    prefill: list[float | None] = []
    frontend: list[float | None] = []
    of = [_all_sums(columns, one) for one in (Quantity.E2E, Quantity.QUEUE, Quantity.PREFILL, Quantity.INFERENCE)]
    for sums in zip(*of, strict=True):
        parts = parts_of(*sums)
        for points, part in zip((queue, prefill, frontend), parts or (None, None, None), strict=True):
            points.append(part)
    return tuple(queue), tuple(prefill), tuple(frontend)


def _make_up(columns: Sequence[Columns]) -> tuple[Points, Points]:
    """Decode and prefill tokens per step in each column."""
    decode: list[float | None] = []
    prefill: list[float | None] = []
    made = [one.grown(one.server.total(Quantity.GENERATION_TOKENS)) for one in columns]
    for k, steps in enumerate(_all_sums(columns, Quantity.ITERATION_TOKENS)):
        known = [tokens for row in made if (tokens := row[k]) is not None]
        if steps is None or steps[1] <= 0 or steps[0] != steps[0] or not known:
            decode.append(None)
            prefill.append(None)
            continue
        generated = min(sum(known), steps[0])
        decode.append(generated / steps[1])
        prefill.append((steps[0] - generated) / steps[1])
    return tuple(decode), tuple(prefill)


def _all_sums(columns: Sequence[Columns], quantity: Quantity) -> list[_Sums | None]:
    rows = [one.sums(one.server.histogram(quantity)) for one in columns]
    return rows[0] if len(rows) == 1 else [_added(column) for column in zip(*rows, strict=True)]


def _added(found: Iterable[_Sums | None]) -> _Sums | None:
    known = [one for one in found if one is not None]
    return (sum(total for total, _ in known), sum(count for _, count in known)) if known else None


def _devices(history: GpuHistory, track: Track, now_s: float, edges: Sequence[float]) -> Points:
    """The highest reading in each column."""
    readings = history.visible(now_s)
    at_edges = [bisect_right(history.at_s, edge, 0, readings) - 1 for edge in edges]
    points: list[float | None] = []
    for k, edge in enumerate(edges[1:]):
        first, last = at_edges[k] + 1, at_edges[k + 1]
        # without a reading of its own the one before still holds, for a while
        holds = first <= last or (last >= 0 and edge - history.at_s[last] <= history.patience_s)
        points.append(track.high(min(first, last), last) if holds else None)
    return tuple(points)


def _marks(event_log: Sequence[LoggedEvent], edges: Sequence[float]) -> tuple[tuple[int, LoggedKind], ...]:
    return tuple(
        (bisect_left(edges, logged.at_s) - 1, logged.kind)
        for logged in event_log
        if edges[0] < logged.at_s <= edges[-1]
    )
