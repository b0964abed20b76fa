"""The span of session that numbers are about, over all its servers: the arithmetic that every analysis shares.

It ends with each server's latest scrape and reaches back as far as the window is long. Differences of counters are
exact, sums of several servers are sums of their differences, and a mean is a difference of sums over one of counts.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from vtop.metrics.histogram import Histogram
from vtop.metrics.quantity import Quantity
from vtop.session.frame.values import Count, Gauge
from vtop.session.history.server import ServerHistory
from vtop.session.history.tracks import Track


@dataclass(frozen=True, slots=True)
class ScrapeRange:
    """The scrapes first to last of one server; `silent` when it stopped answering while another went on."""

    server: ServerHistory
    first: int
    last: int
    silent: bool

    @property
    def seconds(self) -> float:
        return self.server.at_s[self.last] - self.server.at_s[self.first]

    @property
    def counted_s(self) -> float:
        """Its seconds without those in which the server was down and came back at 0: what rates are by."""
        return self.seconds - self.server.down_s(self.first, self.last)

    @property
    def pieces(self) -> tuple[ScrapeRange, ...]:
        """It without its gaps: the runs of scrapes between outages and restarts."""
        at_s, gaps = self.server.at_s, self.server.gaps
        firsts = [self.first]
        for _, stop in gaps[bisect_right(gaps, at_s[self.first], key=lambda gap: gap[1]) :]:
            if stop > at_s[self.last]:
                break
            firsts.append(bisect_left(at_s, stop, firsts[-1], self.last + 1))
        lasts = [first - 1 for first in firsts[1:]] + [self.last]
        return tuple(
            replace(self, first=first, last=last) for first, last in zip(firsts, lasts, strict=True) if last >= first
        )

    def latest(self, seconds: float) -> ScrapeRange:
        at_s = self.server.at_s
        first = bisect_left(at_s, at_s[self.last] - seconds - 1e-9, self.first, self.last + 1)
        return replace(self, first=min(first, self.last))

    def since(self, changed_s: float) -> ScrapeRange | None:
        """From an instant on, and since the latest restart: what stood on scrapes before it is another process's. None
        where no scrape is left."""
        restarts = self.server.restarts
        begun = bisect_right(restarts, self.last)
        first = max(self.first, restarts[begun - 1] if begun else 0)
        first = bisect_left(self.server.at_s, changed_s, first, self.last + 1)
        return replace(self, first=first) if first <= self.last else None

    def at_instant(self, track: Track, at_s: float) -> float | None:
        """The value that held at an instant; None before the first scrape and once the server had fallen silent."""
        scrape = bisect_right(self.server.at_s, at_s, 0, self.last + 1) - 1
        if scrape < 0 or at_s - self.server.at_s[scrape] > self.server.patience_s(scrape):
            return None
        return track.at(scrape)


@dataclass(frozen=True, slots=True)
class Window:
    ranges: tuple[ScrapeRange, ...]

    @property
    def seconds(self) -> float:
        """The longest span."""
        return max((one.seconds for one in self.ranges), default=0.0)

    @property
    def counted_s(self) -> float:
        """Of the span of which most is counted."""
        return max((one.counted_s for one in self.ranges), default=0.0)

    def since(self, changed_s: float) -> Window:
        """Its scrapes under one load and of one process: from an instant on, and since each server's latest restart."""
        later = [one.since(changed_s) for one in self.ranges]
        return Window(tuple(one for one in later if one is not None))

    def after(self, instant_s: float) -> Window:
        """Its scrapes from an instant on, whatever happened in between."""
        found = []
        for one in self.ranges:
            first = bisect_left(one.server.at_s, instant_s, one.first, one.last + 1)
            found += [replace(one, first=first)] if first <= one.last else []
        return Window(tuple(found))

    def latest(self, seconds: float) -> Window:
        """The end of this window, at most so long."""
        return Window(tuple(one.latest(seconds) for one in self.ranges))

    @property
    def answering(self) -> tuple[ScrapeRange, ...]:
        return tuple(one for one in self.ranges if not one.silent)

    @property
    def instants(self) -> Sequence[float]:
        """Of the scrapes of the server with most of them: where `each` looks."""
        main = self._main
        return main.server.at_s[main.first : main.last + 1] if main is not None else ()

    def each(self, one: ScrapeRange, track: Track) -> list[float]:
        """A gauge of one of the servers at each of the instants; NaN where it is not known."""
        if one == self._main:
            return track.every(one.first, one.last)
        held = [one.at_instant(track, at_s) for at_s in self.instants]
        return [math.nan if value is None else value for value in held]

    def each_together(self, quantity: Quantity) -> list[float]:
        """A gauge at each of the instants, added up over the servers of which it is known; NaN where of none."""
        tracks = [(one, one.server.total(quantity)) for one in self.ranges]
        rows = [self.each(one, track) for one, track in tracks if track is not None]
        if len(rows) == 1:
            return rows[0]
        known = [[value for value in column if value == value] for column in zip(*rows, strict=True)]
        return [sum(column) if column else math.nan for column in known] if rows else [math.nan] * len(self.instants)

    @property
    def _main(self) -> ScrapeRange | None:
        return max(self.ranges, key=lambda one: one.last - one.first, default=None)

    def delta(self, quantity: Quantity, part: str = "") -> float | None:
        """How much a counter grew in the window; None when no server exports it."""
        return sum_of_known(one.server.grown(quantity, one.first, one.last, part) for one in self.ranges)

    def count(self, quantity: Quantity, part: str = "") -> Count:
        grown, rates, since = [], [], []
        for one in self.ranges:
            amount = one.server.grown(quantity, one.first, one.last, part)
            grown.append(amount)
            if amount is not None and not one.silent and (seconds := one.counted_s) > 0:
                rates.append(amount / seconds)
            since.append(one.server.grown(quantity, 0, one.last, part) if not one.server.forgotten else None)
        return Count(in_window=sum_of_known(grown), per_s=sum_of_known(rates), since_start=sum_of_known(since))

    def by_part(
        self, quantity: Quantity, ask: Callable[[Quantity, str], float | None]
    ) -> tuple[tuple[str, float], ...]:
        """What `now` or `delta` says about each part that there is anything of."""
        found = [(part, ask(quantity, part)) for part in self._parts(quantity)]
        return tuple((part, value) for part, value in found if value)

    def count_of_parts(self, quantity: Quantity) -> Count:
        """A counter that is exported only by part."""
        counts = [self.count(quantity, part) for part in self._parts(quantity)]
        return Count(
            in_window=sum_of_known(count.in_window for count in counts),
            per_s=sum_of_known(count.per_s for count in counts),
            since_start=sum_of_known(count.since_start for count in counts),
        )

    def _parts(self, quantity: Quantity) -> list[str]:
        return sorted({part for one in self.ranges for part in one.server.parts(quantity)})

    def now(self, quantity: Quantity, part: str = "") -> float | None:
        """The latest value of a gauge, of all servers that answer together."""
        values = []
        for one in self.answering:
            values.append(one.server.value(quantity, one.last, part))
        return sum_of_known(values)

    def gauge(self, quantity: Quantity, *, largest: bool = False) -> Gauge:
        """A gauge over the scrapes of the window: added up over servers, or the largest of them."""
        take = max if largest else sum
        latest = [
            value
            for one, track in self._known(quantity)
            if not one.silent and (value := track.at(one.last)) is not None
        ]
        return gauge(take(latest) if latest else None, self.values(quantity, largest=largest))

    def values(self, quantity: Quantity, *, largest: bool = False) -> Sequence[float]:
        """The same on each scrape on which it is known."""
        take, present = max if largest else sum, self._known(quantity)
        if len(present) == 1:
            one, track = present[0]
            return track.each(one.first, one.last)
        values = []
        for at_s in _instants(present):
            known = [value for one, track in present if (value := one.at_instant(track, at_s)) is not None]
            if known:
                values.append(take(known))
        return values

    def _known(self, quantity: Quantity) -> list[tuple[ScrapeRange, Track]]:
        return [
            (one, track)
            for one in self.ranges
            if (track := one.server.total(quantity)) is not None and track.base(0, one.last) is not None
        ]

    def histogram(self, quantity: Quantity) -> Histogram | None:
        """What was observed in the window; of servers with different buckets, only those like the first."""
        total: Histogram | None = None
        for one in self.ranges:
            track = one.server.histogram(quantity)
            histogram = track.between(one.first, one.last) if track is not None else None
            if histogram is None:
                continue
            if total is None:
                total = histogram
            elif total.le == histogram.le:
                total = total.add(histogram)
        return total

    def sums(self, quantity: Quantity) -> tuple[float, float] | None:
        """(sum, count) of what was observed in the window; None when no server exports it."""
        tracks = [(one, one.server.histogram(quantity)) for one in self.ranges]
        found = [
            sums for one, track in tracks if track is not None and (sums := track.sums(one.first, one.last)) is not None
        ]
        if not found:
            return None
        return sum(total for total, _ in found), sum(count for _, count in found)

    def mean(self, quantity: Quantity) -> float | None:
        """The exact mean of what was observed in the window; None without observations."""
        sums = self.sums(quantity)
        if sums is None or sums[1] <= 0 or sums[0] != sums[0]:
            return None
        return sums[0] / sums[1]

    def observed(self, quantity: Quantity) -> float:
        """How many observations a histogram gained in the window."""
        sums = self.sums(quantity)
        return sums[1] if sums is not None else 0.0


def gauge(now: float | None, values: Sequence[float]) -> Gauge:
    if not values:
        return Gauge(now=now, mean=None, median=None, low=None, high=None, n=0)
    return Gauge(now=now, mean=fmean(values), median=median(values), low=min(values), high=max(values), n=len(values))


def window(servers: Sequence[ServerHistory], now_s: float, window_s: float) -> Window:
    """The window that ends with the latest scrape of any server. While several processes answer in turn it is that
    scrape alone, so that no rate is told: growth from one of them to another is nobody's."""
    seen = [(server, scrapes - 1) for server in servers if (scrapes := server.visible(now_s)) and server.watched(now_s)]
    end_s = max((server.at_s[last] for server, last in seen), default=0.0)
    ranges = []
    for server, last in seen:
        first = min(bisect_left(server.at_s, end_s - window_s - 1e-9, 0, last + 1), last)
        if server.alternates(now_s):
            first = last
        ranges.append(ScrapeRange(server, first, last, end_s - server.at_s[last] > server.patience_s(last)))
    return Window(tuple(ranges))


def between(servers: Sequence[ServerHistory], begin_s: float, end_s: float, now_s: float) -> Window:
    """The window of a given span of session, as known at an instant: from the first scrape at or after its begin to
    the first at or after its end, or the latest where that is still to come or lies beyond a gap."""
    ranges = []
    for server in servers:
        scrapes = server.visible(now_s)
        first = bisect_left(server.at_s, begin_s - 1e-9, 0, scrapes)
        if first == scrapes or server.at_s[first] > end_s:
            continue
        last = min(bisect_left(server.at_s, end_s - 1e-9, first, scrapes), scrapes - 1)
        if last > first and server.at_s[last] - end_s > server.patience_s(last - 1):
            last -= 1
        silent = min(end_s, now_s) - server.at_s[last] > server.patience_s(last)
        ranges.append(ScrapeRange(server, first, last, silent))
    return Window(tuple(ranges))


def _instants(present: Sequence[tuple[ScrapeRange, Track]]) -> Sequence[float]:
    """The instants of the scrapes of the server with most of them in the window."""
    if not present:
        return ()
    main = max((one for one, _ in present), key=lambda one: one.last - one.first)
    return main.server.at_s[main.first : main.last + 1]


def sum_of_known(values: Iterable[float | None]) -> float | None:
    """None where none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
