"""The stretch of session that numbers are about, over all its servers: the arithmetic that every analysis shares.

It ends with each server's latest page and reaches back as far as the window is long. Differences of counters are
exact, sums of several servers are sums of their differences, and a mean is a difference of sums over one of counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from vtop.metrics.histogram import Histogram
from vtop.metrics.vllm import Quantity
from vtop.session.frame import Count, Gauge
from vtop.session.server import ServerHistory


@dataclass(frozen=True, slots=True)
class Stretch:
    """The pages first to last of one server."""

    server: ServerHistory
    first: int
    last: int

    @property
    def seconds(self) -> float:
        return self.server.at_s[self.last] - self.server.at_s[self.first]


@dataclass(frozen=True, slots=True)
class Window:
    stretches: tuple[Stretch, ...]

    @property
    def seconds(self) -> float:
        """The longest stretch."""
        return max((one.seconds for one in self.stretches), default=0.0)

    def delta(self, quantity: Quantity, part: str = "") -> float | None:
        """How much a counter grew in the window; None when no server exports it."""
        return _sum(_grown(one.server, quantity, part, one.first, one.last) for one in self.stretches)

    def count(self, quantity: Quantity, part: str = "") -> Count:
        grown, rates, since = [], [], []
        for one in self.stretches:
            amount = _grown(one.server, quantity, part, one.first, one.last)
            grown.append(amount)
            rates.append(amount / one.seconds if amount is not None and one.seconds > 0 else None)
            since.append(_grown(one.server, quantity, part, 0, one.last))
        return Count(in_window=_sum(grown), per_s=_sum(rates), since_start=_sum(since))

    def now(self, quantity: Quantity, part: str = "") -> float | None:
        """The latest value of a gauge, of all servers together."""
        values = []
        for one in self.stretches:
            track = one.server.total(quantity, part)
            values.append(track.at(one.last) if track is not None else None)
        return _sum(values)

    def gauge(self, quantity: Quantity, *, largest: bool = False) -> Gauge:
        """A gauge over the pages of the window: added up over servers, or the largest of them."""
        tracks = [(one, one.server.total(quantity)) for one in self.stretches]
        present = [(one, track) for one, track in tracks if track is not None]
        if not present:
            return Gauge(now=None, mean=None, median=None, low=None, high=None, n=0)
        take = max if largest else sum
        latest = [value for one, track in present if (value := track.at(one.last)) is not None]
        if len(present) == 1:
            one, track = present[0]
            values = track.each(one.first, one.last)
        else:
            values = []
            main = max(self.stretches, key=lambda one: one.last - one.first)
            for page in range(main.first, main.last + 1):
                at_s = main.server.at_s[page]
                here = [track.at(_page_at(one, at_s)) for one, track in present]
                known = [value for value in here if value is not None]
                if known:
                    values.append(take(known))
        return gauge(take(latest) if latest else None, values)

    def histogram(self, quantity: Quantity) -> Histogram | None:
        """What was observed in the window; of servers with different buckets, only those like the first."""
        total: Histogram | None = None
        for one in self.stretches:
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
        found = [
            track.sums(one.first, one.last)
            for one in self.stretches
            if (track := one.server.histogram(quantity)) is not None
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


def _grown(server: ServerHistory, quantity: Quantity, part: str, first: int, last: int) -> float | None:
    track = server.total(quantity, part)
    if track is None:
        return None
    end = track.at(last)
    if end is None:
        return None
    begin = track.at(first)
    if begin is None:  # it was missing at the beginning: count from the first page that has it
        begin = track.first_known(last)
    return None if begin is None else end - begin


def _page_at(one: Stretch, at_s: float) -> int:
    """The page of another server that was the latest at an instant."""
    return max(one.first, bisect_right(one.server.at_s, at_s, 0, one.last + 1) - 1)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
