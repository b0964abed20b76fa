"""Numbers over time, kept where they change: the memory of a session.

A track is about the scrapes of one server (or the readings of one host's GPUs), numbered from 0. It only grows, and
every question names the last scrape that may be looked at, so a session read to its end answers for any earlier
instant as if the rest had not happened.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import chain, compress, repeat
from operator import ne, sub
from typing import Generic, TypeVar

from vtop.metrics.histogram import Histogram

T = TypeVar("T")


class Track:
    """One number. Not known (None) until its first scrape, and where it was missing from a scrape.

    `began` is what it grew from when it appeared on a later scrape than the first; None when that is not known.
    """

    __slots__ = ("began", "scrape", "value")

    def __init__(self, began: float | None = None) -> None:
        self.began = began
        self.scrape = array("I")
        self.value = array("d")  # NaN: missing

    def put(self, scrape: int, value: float) -> bool:
        """True when this changed it."""
        values = self.value
        if values and (values[-1] == value or (value != value and values[-1] != values[-1])):
            return False
        self.scrape.append(scrape)
        values.append(value)
        return True

    def forget(self, first: int) -> None:
        """Give up what it was before scrape first; from there on every answer stays."""
        place = bisect_right(self.scrape, first) - 1
        if place > 0:
            self.began = None
            del self.scrape[:place], self.value[:place]

    def copy(self) -> Track:
        """One that goes its own way from here on."""
        track = Track(self.began)
        track.scrape, track.value = self.scrape[:], self.value[:]
        return track

    def at(self, scrape: int) -> float | None:
        place = bisect_right(self.scrape, scrape) - 1
        if place < 0:
            return None
        value = self.value[place]
        return value if value == value else None

    def base(self, first: int, last: int) -> float | None:
        """What growth over the scrapes first to last counts from: the value on scrape first; where that is missing,
        what the number began with, or its earliest value from there on."""
        value = self.at(first)
        if value is not None or first > last:
            return value
        place = max(bisect_right(self.scrape, first) - 1, 0)
        if self.began is not None and len(self.scrape) and first < self.scrape[0] <= last:
            return self.began
        for at in range(place, bisect_right(self.scrape, last)):
            if self.value[at] == self.value[at]:
                return self.value[at]
        return None

    def grown(self, first: int, last: int) -> float | None:
        """How much a counter grew after scrape first and up to scrape last."""
        end = self.at(last)
        begin = self.base(first, last) if end is not None else None
        return end - begin if end is not None and begin is not None else None

    def each(self, first: int, last: int) -> list[float]:
        """The known values on the scrapes first to last, one per scrape."""
        return [value for value in self.every(first, last) if value == value]

    def every(self, first: int, last: int) -> list[float]:
        """The value on each of the scrapes first to last, NaN where it is not known."""
        low, high = bisect_right(self.scrape, first) - 1, bisect_right(self.scrape, last)
        if low >= 0 and high - low == last - first + 1:  # another value on every scrape
            return list(self.value[low:high])
        begins = [first, *self.scrape[low + 1 : high]]
        scrapes = map(sub, [*begins[1:], last + 1], begins)
        values = [self.value[low] if low >= 0 else math.nan, *self.value[low + 1 : high]]
        return list(chain.from_iterable(map(repeat, values, scrapes)))

    def high(self, first: int, last: int) -> float | None:
        """The highest known value on the scrapes first to last."""
        low, high = bisect_right(self.scrape, first) - 1, bisect_right(self.scrape, last)
        known = [value for value in self.value[max(low, 0) : high] if value == value]
        return max(known, default=None)

    def changed_at(self, last: int) -> int | None:
        """The latest scrape, up to last, on which it was another than before."""
        place = bisect_right(self.scrape, last) - 1
        return self.scrape[place] if place >= 0 else None

    def last_rise(self, last: int) -> int | None:
        """The latest scrape, up to last, on which a counter was higher than before."""
        above: int | None = None  # an entry that was a rise if the known value before it is lower
        for place in range(bisect_right(self.scrape, last) - 1, -1, -1):
            value = self.value[place]
            if value != value:
                continue
            if above is not None and value < self.value[above]:
                return self.scrape[above]
            above = place
        return self.scrape[above] if above is not None and self.began is not None and self.value[above] else None


class HistogramTrack:
    """One histogram, as counted since the session began (a restart of the server goes on where it stood).

    `began`: it appeared on a later scrape than the first, so it began empty there. `split`: its buckets are kept too,
    not only sum and count.
    """

    __slots__ = ("_buckets", "_latest", "_le", "_le_scrape", "began", "count", "scrape", "split", "sum")

    def __init__(self, began: bool = False, *, split: bool = True) -> None:
        self.began = began
        self.split = split
        self.scrape = array("I")
        self.sum = array("d")
        self.count = array("d")
        self._le: list[tuple[float, ...]] = []  # bounds, and from which scrape on
        self._le_scrape = array("I")
        self._buckets: list[list[Track]] = []  # for each of these, the counts of its buckets
        self._latest: Sequence[int] = ()

    def put(self, scrape: int, le: tuple[float, ...], sum: float, count: float, n: Sequence[int]) -> None:
        self.scrape.append(scrape)
        self.sum.append(sum)
        self.count.append(count)
        if not self.split:
            self._latest = n
            return
        if not self._le or (self._le[-1] is not le and self._le[-1] != le):
            self._le.append(le)
            self._le_scrape.append(scrape)
            self._buckets.append([Track() for _ in range(len(le) + 1)])
            self._latest = [-1] * (len(le) + 1)
        if len(n) != len(self._latest):
            return  # no scrape of a server says so; what a hand wrote is not counted
        for bucket, now in compress(zip(self._buckets[-1], n, strict=True), map(ne, n, self._latest)):
            bucket.scrape.append(scrape)
            bucket.value.append(now)
        self._latest = n

    def forget(self, first: int) -> None:
        """Give up what was observed before scrape first."""
        place = self.place(first)
        if place > 0:
            self.began = False
            del self.scrape[:place], self.sum[:place], self.count[:place]
            for buckets in self._buckets:
                for bucket in buckets:
                    bucket.forget(first)

    def ahead_of(self, sum: float, count: float, n: Sequence[int]) -> tuple[float, float, Sequence[int]]:
        """How much more it has counted than these counts; nothing when it is empty."""
        if not self.scrape:
            return 0.0, 0.0, ()
        more = self.sum[-1] - sum
        same = len(n) == len(self._latest)
        n = [then - now for then, now in zip(self._latest, n, strict=True)] if same else ()
        return more if more == more else 0.0, self.count[-1] - count, n

    def sums(self, first: int, last: int) -> tuple[float, float] | None:
        """(sum, count) of what was observed after scrape first and up to scrape last; the sum NaN when not known.

        None when there was no such histogram by then.
        """
        return self.sums_between(self.place(first), self.place(last))

    def place(self, scrape: int) -> int:
        """Where the counts of a scrape stand, for `sums_between`; -1 before the first."""
        return bisect_right(self.scrape, scrape) - 1

    def sums_between(self, low: int, high: int) -> tuple[float, float] | None:
        if high < 0:
            return None
        if low >= 0:
            sum, count = self.sum[low], self.count[low]
        else:
            sum, count = (0.0, 0.0) if self.began else (self.sum[0], self.count[0])
        total = self.sum[high] - sum
        if total < 0:  # the last digits of a large sum; anything more is a sum that fell
            total = 0.0 if total > -1e-9 * abs(sum) else math.nan
        return total, self.count[high] - count

    def between(self, first: int, last: int) -> Histogram | None:
        """The histogram of what was observed after scrape first and up to scrape last.

        None where it got other bounds in between: what was counted in the old ones cannot be told in the new ones.
        """
        sums = self.sums(first, last)
        epoch = bisect_right(self._le_scrape, last) - 1
        if sums is None or epoch < 0 or (epoch > 0 and self._counted_before(epoch, first)):
            return None
        fresh = epoch > 0 or self.began  # what its buckets held on their first scrape was observed there
        n = []
        for bucket in self._buckets[epoch]:
            end = bucket.at(last) or 0.0
            begin = bucket.at(first)
            if begin is None:
                begin = 0.0 if fresh or not len(bucket.value) else bucket.value[0]
            n.append(max(0.0, end - begin))
        return Histogram(self._le[epoch], tuple(n), sums[0])

    def _counted_before(self, epoch: int, first: int) -> bool:
        """Whether anything was observed after scrape first in bounds that were given up since."""
        sums = self.sums(first, self._le_scrape[epoch] - 1) if self._le_scrape[epoch] > first else None
        return sums is not None and sums[1] > 0


class FactTrack(Generic[T]):
    """One fact that is not a number: words, a flag, an identity."""

    __slots__ = ("fact", "scrape")

    def __init__(self) -> None:
        self.scrape = array("I")
        self.fact: list[T] = []

    def put(self, scrape: int, fact: T) -> None:
        if not self.fact or self.fact[-1] != fact:
            self.scrape.append(scrape)
            self.fact.append(fact)

    def at(self, scrape: int) -> T | None:
        place = bisect_right(self.scrape, scrape) - 1
        return self.fact[place] if place >= 0 else None

    def over(self, first: int, last: int) -> Iterator[tuple[int, T]]:
        """The facts that held on the scrapes first to last, each with the scrape on which it began."""
        low, high = max(bisect_right(self.scrape, first) - 1, 0), bisect_right(self.scrape, last)
        return zip(self.scrape[low:high], self.fact[low:high], strict=True)
