"""How many tokens came when, counted in slices of a tenth of a second."""

from __future__ import annotations

import math
from array import array

PER_S = 10
SLICE_US = 1_000_000 // PER_S


class TokenTimeline:
    """How many in each slice of the session: a day of slices is a megabyte, and a stray instant costs one block."""

    __slots__ = ("_blocks",)
    _BLOCK = 1024

    def __init__(self) -> None:
        self._blocks: dict[int, array[int]] = {}

    def add(self, slice_: int, count: int) -> None:
        block, place = divmod(slice_, self._BLOCK)
        counts = self._blocks.get(block)
        if counts is None:
            counts = self._blocks[block] = array("q", bytes(8 * self._BLOCK))
        counts[place] += count

    def per_s(self, begin_s: float, end_s: float) -> float | None:
        """How many came within whole slices of a span, per second; None for less than a second."""
        first, last = math.ceil(begin_s * PER_S), math.floor(end_s * PER_S)
        if last - first < PER_S:
            return None
        return self._between(first, last) * PER_S / (last - first)

    def _between(self, first: int, last: int) -> int:
        """In the slices from first up to, not including, last."""
        total = 0
        for block, counts in self._blocks.items():
            begin = block * self._BLOCK
            if begin < last and begin + self._BLOCK > first:
                total += sum(counts[max(0, first - begin) : last - begin])
        return total
