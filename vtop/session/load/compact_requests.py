"""Requests that ended, kept small: the gaps between tokens of all of them lie in one array, four bytes each.

A request of a thousand tokens has a thousand gaps; as Python numbers they would take forty bytes each, and a day of
requests would not fit into memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import overload

import msgspec

from vtop.recording import Request

_LONGEST_US = (1 << 32) - 1  # over an hour: a gap beyond it is kept as that long


class Ended(Sequence[Request]):
    """The requests in the order in which they were added; each is given back as it was."""

    __slots__ = ("_end", "_gaps", "_requests")

    def __init__(self) -> None:
        self._requests: list[Request] = []
        self._gaps = array("I")
        self._end = array("Q", [0])  # of the gaps of each request

    def append(self, request: Request) -> None:
        gaps = request.gaps_us
        if gaps:
            request = msgspec.structs.replace(request, gaps_us=())
            try:
                self._gaps.extend(gaps)
            except OverflowError:
                del self._gaps[self._end[-1] :]
                self._gaps.extend(min(max(gap, 0), _LONGEST_US) for gap in gaps)
        self._requests.append(request)
        self._end.append(len(self._gaps))

    def __len__(self) -> int:
        return len(self._requests)

    @overload
    def __getitem__(self, place: int) -> Request: ...
    @overload
    def __getitem__(self, place: slice) -> list[Request]: ...
    def __getitem__(self, place: int | slice) -> Request | list[Request]:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        place = range(len(self))[place]
        first, last = self._end[place], self._end[place + 1]
        request = self._requests[place]
        return msgspec.structs.replace(request, gaps_us=tuple(self._gaps[first:last])) if last > first else request

    def bare(self, count: int) -> list[Request]:
        """The first so many without their gaps, which is cheap."""
        return self._requests[:count]

    def bare_one(self, place: int) -> Request:
        """One of them without its gaps."""
        return self._requests[place]

    def __iter__(self) -> Iterator[Request]:
        return (self[place] for place in range(len(self)))
