"""How long an all-reduce takes: from a latency and a bandwidth, or from times measured at the sizes that are sent.

    S    = T x H x e_a                              bytes of one call; e_a is of the activations, not of the weights
    V    = 2 (p - 1) / p x S                        what each rank sends of it
    tau  = alpha_p + V / B_p                        a first guess; B_p is the bus bandwidth of that rank layout

Between measured sizes tau is a line from one to the next, and below the smallest it is that size's (a call costs its
latency). Beyond the largest it grows as the last two say, which is said. A line fitted through all sizes gives alpha
and B with how far off it is at most: NCCL changes its protocol with the size, so it is not good everywhere.
Source: nccl-tests doc/PERFORMANCE.md (bus bandwidth). Bytes, seconds, bytes a second.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from vtop.errors import VtopError

ACTIVATION_BYTES: Final = {"bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4}


@dataclass(frozen=True, slots=True)
class Link:
    """A latency and a bus bandwidth, of p ranks."""

    alpha_s: float
    bus_bytes_s: float
    origin: str = "given"

    def seconds(self, size: float, p: int) -> float:
        return self.alpha_s + sent_bytes(size, p) / self.bus_bytes_s


@dataclass(frozen=True, slots=True)
class Fitted:
    """A line through measured times. worst_ratio: how far it is from a measured time at most, as a share of it."""

    alpha_s: float
    bus_bytes_s: float | None  # None: the times do not grow with the size
    worst_ratio: float


@dataclass(frozen=True, slots=True)
class Measured:
    """Times by size, ascending, of p ranks. notes: what makes them weaker than they look."""

    p: int
    points: tuple[tuple[int, float], ...]
    origin: str
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.points:
            raise VtopError(f"{self.origin}: no size was measured")
        if self.p < 2:
            raise VtopError(f"{self.origin}: an all-reduce of {self.p} rank sends nothing")

    def seconds(self, size: float, p: int) -> float:
        """Raises VtopError for another number of ranks than was measured."""
        if p != self.p:
            raise VtopError(f"{self.origin}: measured with {self.p} ranks, not {p}")
        sizes = [at for at, _ in self.points]
        place = bisect_left(sizes, size)
        if place == 0:
            return self.points[0][1]
        if place == len(sizes):
            if len(sizes) < 2:
                return self.points[0][1]
            place = len(sizes) - 1
        (a, low), (b, high) = self.points[place - 1 : place + 1]
        return max(low, low + (high - low) * (size - a) / (b - a))

    def beyond(self, size: float) -> bool:
        return size > self.points[-1][0]

    def fitted(self) -> Fitted:
        """By least squares of the shares of error, so that small sizes count as much as large ones."""
        rows = [(sent_bytes(size, self.p), took) for size, took in self.points]
        if len(rows) < 2:
            return Fitted(rows[0][1], None, 0.0)
        w = [1 / (took * took) for _, took in rows]
        total = sum(w)
        x = sum(one * sent for one, (sent, _) in zip(w, rows, strict=True)) / total
        y = sum(one * took for one, (_, took) in zip(w, rows, strict=True)) / total
        across = sum(one * (sent - x) ** 2 for one, (sent, _) in zip(w, rows, strict=True))
        both = sum(one * (sent - x) * (took - y) for one, (sent, took) in zip(w, rows, strict=True))
        slope = both / across if across > 0 else 0.0
        alpha = y - slope * x
        worst = max(abs(alpha + slope * sent - took) / took for sent, took in rows)
        return Fitted(alpha, 1 / slope if slope > 0 else None, worst)

    def rising(self) -> bool:
        """Whether a larger size never takes much less time: else the times are noise."""
        return all(high >= 0.7 * low for (_, low), (_, high) in pairwise(self.points))


Cost = Link | Measured


def sent_bytes(size: float, p: int) -> float:
    """What each rank sends of one call of so many bytes."""
    return 2 * (p - 1) / p * size
