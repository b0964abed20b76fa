"""A track of a session as a column: one value for each scrape of a span, None where it was not known."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from vtop.export.tables.table import Cell
from vtop.session.history.tracks import HistogramTrack, Track

SCRAPES_AT_ONCE = 512

Values = list[Cell]


def spans(scrapes: int) -> Iterator[tuple[int, int]]:
    """(first, last) of all scrapes in turn, a few hundred at a time, so that a long session needs little room."""
    for first in range(0, scrapes, SCRAPES_AT_ONCE):
        yield first, min(first + SCRAPES_AT_ONCE, scrapes) - 1


def numbers(track: Track | None, first: int, last: int) -> Values:
    if track is None:
        return [None] * (last - first + 1)
    return _held(track.scrape, track.value, first, last, lambda value: value if value == value else None)


def counts(track: Track | None, first: int, last: int) -> Values:
    """Of a track that holds whole numbers."""
    if track is None:
        return [None] * (last - first + 1)
    return _held(track.scrape, track.value, first, last, whole)


def sums(track: HistogramTrack | None, first: int, last: int) -> tuple[Values, Values]:
    """The sum and the count of all that a histogram observed so far."""
    if track is None:
        return [None] * (last - first + 1), [None] * (last - first + 1)
    return (
        _held(track.scrape, track.sum, first, last, lambda value: value if value == value else None),
        _held(track.scrape, track.count, first, last, whole),
    )


def whole(value: float) -> Cell:
    """A number as a whole one where it is one; None for NaN."""
    if value != value:
        return None
    return int(value) if value == int(value) else value


def _held(scrape: array[int], value: Sequence[float], first: int, last: int, cell: Callable[[float], Cell]) -> Values:
    """Each value stands from its scrape to the next one's."""
    place = bisect_right(scrape, first) - 1
    end = bisect_right(scrape, last)
    column: Values = []
    if place < 0:
        column = [None] * ((scrape[0] if end else last + 1) - first)
        place = 0
    for at in range(place, end):
        until = scrape[at + 1] if at + 1 < end else last + 1
        column.extend([cell(value[at])] * (until - max(scrape[at], first)))
    return column
