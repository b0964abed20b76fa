"""A track of a session as a column: one value for each page of a span, None where it was not known."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from vtop.export.tables.table import Cell
from vtop.session.history.tracks import HistogramTrack, Track

PAGES_AT_ONCE = 512

Values = list[Cell]


def spans(pages: int) -> Iterator[tuple[int, int]]:
    """(first, last) of all pages in turn, a few hundred at a time, so that a long session needs little room."""
    for first in range(0, pages, PAGES_AT_ONCE):
        yield first, min(first + PAGES_AT_ONCE, pages) - 1


def numbers(track: Track | None, first: int, last: int) -> Values:
    if track is None:
        return [None] * (last - first + 1)
    return _held(track.page, track.value, first, last, lambda value: value if value == value else None)


def counts(track: Track | None, first: int, last: int) -> Values:
    """Of a track that holds whole numbers."""
    if track is None:
        return [None] * (last - first + 1)
    return _held(track.page, track.value, first, last, whole)


def sums(track: HistogramTrack | None, first: int, last: int) -> tuple[Values, Values]:
    """The sum and the count of all that a histogram observed so far."""
    if track is None:
        return [None] * (last - first + 1), [None] * (last - first + 1)
    return (
        _held(track.page, track.sum, first, last, lambda value: value if value == value else None),
        _held(track.page, track.count, first, last, whole),
    )


def whole(value: float) -> Cell:
    """A number as a whole one where it is one; None for NaN."""
    if value != value:
        return None
    return int(value) if value == int(value) else value


def _held(page: array[int], value: Sequence[float], first: int, last: int, cell: Callable[[float], Cell]) -> Values:
    """Each value stands from its page to the next one's."""
    place = bisect_right(page, first) - 1
    end = bisect_right(page, last)
    column: Values = []
    if place < 0:
        column = [None] * ((page[0] if end else last + 1) - first)
        place = 0
    for at in range(place, end):
        until = page[at + 1] if at + 1 < end else last + 1
        column.extend([cell(value[at])] * (until - max(page[at], first)))
    return column
