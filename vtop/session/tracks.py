"""Numbers over time, kept where they change: the memory of a session.

A track is about the pages of one server (or the readings of one host's cards), numbered from 0. It only grows, and
every question names the last page that may be looked at, so a session read to its end answers for any earlier
instant as if the rest had not happened.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Generic, TypeVar

from vtop.metrics.histogram import Histogram

T = TypeVar("T")


class Track:
    """One number. Not known (None) until its first page, and where it was missing from a page."""

    __slots__ = ("page", "value")

    def __init__(self) -> None:
        self.page = array("I")
        self.value = array("d")  # NaN: missing

    def put(self, page: int, value: float) -> None:
        values = self.value
        if not values or (values[-1] != value and (value == value or values[-1] == values[-1])):
            self.page.append(page)
            values.append(value)

    def at(self, page: int) -> float | None:
        place = bisect_right(self.page, page) - 1
        if place < 0:
            return None
        value = self.value[place]
        return value if value == value else None

    def first_known(self, page: int) -> float | None:
        """The earliest value there is, not looking past `page`."""
        for place in range(bisect_right(self.page, page)):
            if self.value[place] == self.value[place]:
                return self.value[place]
        return None

    def each(self, first: int, last: int) -> list[float]:
        """The known values on the pages first to last, one per page."""
        low, high = bisect_right(self.page, first) - 1, bisect_right(self.page, last)
        values: list[float] = []
        for place in range(max(low, 0), high):
            value = self.value[place]
            if value == value:
                begin = max(self.page[place], first)
                end = self.page[place + 1] if place + 1 < high else last + 1
                values.extend([value] * (end - begin))
        return values

    def high(self, first: int, last: int) -> float | None:
        """The highest known value on the pages first to last."""
        low, high = bisect_right(self.page, first) - 1, bisect_right(self.page, last)
        known = [value for value in self.value[max(low, 0) : high] if value == value]
        return max(known, default=None)

    def changes(self, first: int, last: int) -> list[tuple[int, float]]:
        """(page, value) of the changes on the pages after first and up to last."""
        low, high = bisect_right(self.page, first), bisect_right(self.page, last)
        return [(self.page[place], self.value[place]) for place in range(low, high)]


class HistogramTrack:
    """One histogram, as counted since the session began (a restart of the server goes on where it stood)."""

    __slots__ = ("count", "le", "n", "page", "sum")

    def __init__(self) -> None:
        self.page = array("I")
        self.sum = array("d")
        self.count = array("d")
        self.n: list[Sequence[int]] = []
        self.le: list[tuple[float, ...]] = []

    def put(self, page: int, le: tuple[float, ...], sum: float, count: float, n: Sequence[int]) -> None:
        if self.page and self.page[-1] == page:
            self.sum[-1], self.count[-1], self.n[-1], self.le[-1] = sum, count, n, le
            return
        self.page.append(page)
        self.sum.append(sum)
        self.count.append(count)
        self.n.append(n)
        self.le.append(le)

    def sums(self, first: int, last: int) -> tuple[float, float]:
        """(sum, count) of what was observed after page first and up to page last; the sum NaN when not known."""
        low, high = bisect_right(self.page, first) - 1, bisect_right(self.page, last) - 1
        if high < 0:
            return 0.0, 0.0
        low = max(low, 0)  # a histogram that appeared within the stretch: what it began with is not of it
        return self.sum[high] - self.sum[low], self.count[high] - self.count[low]

    def between(self, first: int, last: int) -> Histogram | None:
        """The histogram of what was observed after page first and up to page last."""
        low, high = max(bisect_right(self.page, first) - 1, 0), bisect_right(self.page, last) - 1
        if high < 0:
            return None
        le = self.le[high]
        earlier: Sequence[int] = self.n[low] if self.le[low] == le else [0] * len(self.n[high])
        n = tuple(float(max(0, now - then)) for now, then in zip(self.n[high], earlier, strict=True))
        return Histogram(le, n, self.sum[high] - self.sum[low])


class FactTrack(Generic[T]):
    """One fact that is not a number: words, a flag, an identity."""

    __slots__ = ("fact", "page")

    def __init__(self) -> None:
        self.page = array("I")
        self.fact: list[T] = []

    def put(self, page: int, fact: T) -> None:
        if not self.fact or self.fact[-1] != fact:
            self.page.append(page)
            self.fact.append(fact)

    def at(self, page: int) -> T | None:
        place = bisect_right(self.page, page) - 1
        return self.fact[place] if place >= 0 else None
