"""The columns of the charts: one time axis for all of them.

Column boundaries stand at whole multiples of the column's width of session time, so what was drawn once stays where
it is and what it is; the newest column is the latest complete one. A gauge shows the highest value on the pages of
a column, so that no spike is lost; a rate is the exact mean over the column. What lies in a gap is left out, and a
column with nothing else is None.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence

from vtop.metrics.vllm import Quantity
from vtop.session.breakdown import parts_of
from vtop.session.cards import Card, CardHistory
from vtop.session.frame import Charts, Happening, Points, View
from vtop.session.server import GAP_INTERVALS, ServerHistory
from vtop.session.tracks import HistogramTrack, Track

_WORTH_A_COLUMN = 0.25  # a rate is shown when at least this share of its column is known


class Columns:
    """The pages of one server that lie at the column boundaries, looked up once for all its charts."""

    def __init__(self, server: ServerHistory, now_s: float, edges: Sequence[float]) -> None:
        self.server = server
        self.edges = edges
        self.last = server.visible(now_s) - 1
        self.pages = [bisect_right(server.at_s, edge, 0, self.last + 1) - 1 for edge in edges]
        self._known_s = [self._known(k) for k in range(len(edges) - 1)]

    def highest(self, track: Track | None) -> list[float | None]:
        if track is None:
            return [None] * (len(self.edges) - 1)
        return [None if known == 0 else track.high(*self._span(k)) for k, known in enumerate(self._known_s)]

    def rate(self, track: Track | None) -> list[float | None]:
        """Mean growth per second in each column."""
        if track is None:
            return [None] * (len(self.edges) - 1)
        at_edges = [self._between(track, k) for k in range(len(self.edges))]
        rates: list[float | None] = []
        for k, known in enumerate(self._known_s):
            begin, end = at_edges[k], at_edges[k + 1]
            width = self.edges[k + 1] - self.edges[k]
            if begin is None:  # the first page lies in this column
                first = self._first_in(k)
                begin = track.at(first) if first is not None else None
            if begin is None or end is None or known < _WORTH_A_COLUMN * width:
                rates.append(None)
            else:
                rates.append((end - begin - self._grown_in_gaps(track, k)) / known)
        return rates

    def level(self, track: Track | None) -> list[float | None]:
        """A counter's value at the end of each column, since the first page."""
        if track is None:
            return [None] * (len(self.edges) - 1)
        begin = track.first_known(self.last)
        levels: list[float | None] = []
        for k, known in enumerate(self._known_s):
            value = track.at(self.pages[k + 1]) if known and self.pages[k + 1] >= 0 else None
            levels.append(value - begin if value is not None and begin is not None else None)
        return levels

    def sums(self, track: HistogramTrack | None, k: int) -> tuple[float, float] | None:
        """(sum, count) of what was observed between the pages at the edges of column k."""
        first, last = self.pages[k], self.pages[k + 1]
        if track is None or last < 0 or self._known_s[k] == 0:
            return None
        return track.sums(max(first, 0), last)

    def grown(self, track: Track | None, k: int) -> float | None:
        """Growth of a counter between the pages at the edges of column k: of the same steps as `sums`."""
        first, last = self.pages[k], self.pages[k + 1]
        if track is None or last < 0 or self._known_s[k] == 0:
            return None
        begin, end = track.at(max(first, 0)), track.at(last)
        return end - begin if begin is not None and end is not None else None

    def _span(self, k: int) -> tuple[int, int]:
        """The pages in a column, or the one that still holds in it."""
        first, last = self.pages[k] + 1, self.pages[k + 1]
        return (first, last) if first <= last else (max(last, 0), last)

    def _first_in(self, k: int) -> int | None:
        return self.pages[k] + 1 if self.pages[k] + 1 <= self.pages[k + 1] else None

    def _known(self, k: int) -> float:
        """Seconds of a column between pages and outside gaps."""
        if self.last < 0:
            return 0.0
        server = self.server
        begin = max(self.edges[k], server.at_s[0])
        end = self.edges[k + 1]
        final = server.at_s[self.last]
        if end > final and end - final > GAP_INTERVALS * server.interval_s:
            end = final
        if end <= begin:
            return 0.0
        return end - begin - sum(stop - start for start, stop in server.gap_s(begin, end))

    def _between(self, track: Track, k: int) -> float | None:
        """A counter at an edge, on the straight line between the pages around it."""
        return self._at(track, self.edges[k], self.pages[k])

    def _at(self, track: Track, instant: float, page: int) -> float | None:
        value = track.at(page) if page >= 0 else None
        if value is None or page >= self.last:
            return value
        after = track.at(page + 1)
        if after is None or after == value:
            return value
        at_s = self.server.at_s
        return value + (after - value) * (instant - at_s[page]) / (at_s[page + 1] - at_s[page])

    def _grown_in_gaps(self, track: Track, k: int) -> float:
        grown = 0.0
        for start, stop in self.server.gap_s(self.edges[k], self.edges[k + 1]):
            ends = []
            for instant in (start, stop):
                page = bisect_right(self.server.at_s, instant, 0, self.last + 1) - 1
                ends.append(self._at(track, instant, page))
            if ends[0] is not None and ends[1] is not None:
                grown += ends[1] - ends[0]
        return grown


def charts(
    servers: Sequence[ServerHistory],
    cards: CardHistory,
    happenings: Sequence[Happening],
    now_s: float,
    view: View,
) -> Charts:
    column_s = view.window_s / view.columns
    end_s = math.floor(_seen_until(servers, cards, now_s) / column_s + 1e-9) * column_s
    edges = [end_s - (view.columns - k) * column_s for k in range(view.columns + 1)]
    columns = [Columns(server, now_s, edges) for server in servers]

    def gauge(quantity: Quantity, take: Callable[[list[float]], float] = sum) -> Points:
        return _together([one.highest(one.server.total(quantity)) for one in columns], take)

    def rate(quantity: Quantity) -> Points:
        return _together([one.rate(one.server.total(quantity)) for one in columns], sum)

    preemptions = _together([one.level(one.server.total(Quantity.PREEMPTIONS)) for one in columns], sum)
    queue_s, prefill_s, frontend_s = _breakdown(columns)
    decode, prefill = _make_up(columns)
    return Charts(
        end_s=end_s,
        column_s=column_s,
        running=gauge(Quantity.RUNNING),
        waiting=gauge(Quantity.WAITING),
        kv_used=gauge(Quantity.KV_USED, max),
        generation_per_s=rate(Quantity.GENERATION_TOKENS),
        prompt_per_s=rate(Quantity.PROMPT_TOKENS),
        preemptions=preemptions,
        preempted=_steps(preemptions),
        decode_per_step=decode,
        prefill_per_step=prefill,
        queue_s=queue_s,
        prefill_s=prefill_s,
        frontend_s=frontend_s,
        power_w=_cards(cards, now_s, edges, "power_w", sum),
        sm_mhz=_cards(cards, now_s, edges, "sm_mhz", max),
        marks=_marks(happenings, edges),
    )


def _seen_until(servers: Sequence[ServerHistory], cards: CardHistory, now_s: float) -> float:
    """The instant up to which columns can be complete: the latest page of the slowest server that still answers."""
    latest = []
    for server in servers:
        pages = server.visible(now_s)
        if pages and now_s - server.at_s[pages - 1] <= GAP_INTERVALS * server.interval_s:
            latest.append(server.at_s[pages - 1])
    readings = cards.visible(now_s)
    if not latest and readings and now_s - cards.at_s[readings - 1] <= GAP_INTERVALS:
        latest.append(cards.at_s[readings - 1])
    return min(latest, default=now_s)


def _together(rows: Sequence[Sequence[float | None]], take: Callable[[list[float]], float]) -> Points:
    if len(rows) == 1:
        return tuple(rows[0])
    points: list[float | None] = []
    for column in zip(*rows, strict=True):
        known = [value for value in column if value is not None]
        points.append(take(known) if known else None)
    return tuple(points)


def _steps(levels: Points) -> Points:
    """How much a level rose in each column; the column before the first known one counts as level."""
    steps: list[float | None] = []
    before: float | None = None
    for level in levels:
        steps.append(None if level is None else level - (before if before is not None else level))
        before = level if level is not None else before
    return tuple(steps)


def _breakdown(columns: Sequence[Columns]) -> tuple[Points, Points, Points]:
    """Mean queue, prefill and frontend of the requests that finished in each column."""
    queue: list[float | None] = []
    prefill: list[float | None] = []
    frontend: list[float | None] = []
    count = len(columns[0].edges) - 1 if columns else 0
    for k in range(count):
        sums = [
            _added(one.sums(one.server.histogram(quantity), k) for one in columns)
            for quantity in (Quantity.E2E, Quantity.QUEUE, Quantity.PREFILL, Quantity.INFERENCE)
        ]
        parts = parts_of(sums[0], sums[1], sums[2], sums[3])
        for points, part in zip((queue, prefill, frontend), parts or (None, None, None), strict=True):
            points.append(part)
    return tuple(queue), tuple(prefill), tuple(frontend)


def _make_up(columns: Sequence[Columns]) -> tuple[Points, Points]:
    """Decode and prefill tokens per step in each column."""
    decode: list[float | None] = []
    prefill: list[float | None] = []
    count = len(columns[0].edges) - 1 if columns else 0
    for k in range(count):
        steps = _added(one.sums(one.server.histogram(Quantity.ITERATION_TOKENS), k) for one in columns)
        made = [one.grown(one.server.total(Quantity.GENERATION_TOKENS), k) for one in columns]
        if steps is None or steps[1] <= 0 or steps[0] != steps[0]:
            decode.append(None)
            prefill.append(None)
            continue
        generated = min(sum(tokens for tokens in made if tokens is not None), steps[0])
        decode.append(generated / steps[1])
        prefill.append((steps[0] - generated) / steps[1])
    return tuple(decode), tuple(prefill)


def _added(found: Iterable[tuple[float, float] | None]) -> tuple[float, float] | None:
    known = [one for one in found if one is not None]
    return (sum(total for total, _ in known), sum(count for _, count in known)) if known else None


def _cards(
    history: CardHistory,
    now_s: float,
    edges: Sequence[float],
    name: str,
    take: Callable[[list[float]], float],
) -> Points:
    readings = history.visible(now_s)
    if not readings:
        return (None,) * (len(edges) - 1)
    numbers = [bisect_right(history.at_s, edge, 0, readings) - 1 for edge in edges]
    counted = cards_counted(history, readings - 1)
    rows: list[list[float | None]] = []
    for card in counted:
        track = card.numbers[name]
        row: list[float | None] = []
        for k in range(len(edges) - 1):
            first, last = numbers[k] + 1, numbers[k + 1]
            if first > last:  # no reading in this column: the one before holds for a while
                fresh = last >= 0 and edges[k + 1] - history.at_s[last] <= max(GAP_INTERVALS, edges[k + 1] - edges[k])
                row.append(track.at(last) if fresh else None)
            else:
                row.append(track.high(first, last))
        rows.append(row)
    return _all_known(rows, take)


def cards_counted(history: CardHistory, last: int) -> list[Card]:
    """The cards in use by a watched server where NVML tells, else all of the host."""
    cards = list(history.cards.values())
    serving = [card for card in cards if (fact := card.facts.at(last)) is not None and fact.serving]
    return serving or cards


def _all_known(rows: Sequence[Sequence[float | None]], take: Callable[[list[float]], float]) -> Points:
    """A total of cards is known only where every card is."""
    points: list[float | None] = []
    for column in zip(*rows, strict=True):
        known = [value for value in column if value is not None]
        points.append(take(known) if known and len(known) == len(column) else None)
    return tuple(points)


def _marks(happenings: Sequence[Happening], edges: Sequence[float]) -> tuple[tuple[int, str], ...]:
    marks = []
    for happening in happenings:
        if happening.kind in ("restart", "outage", "mark") and edges[0] < happening.at_s <= edges[-1]:
            marks.append((bisect_left(edges, happening.at_s) - 1, happening.kind))
    return tuple(marks)
