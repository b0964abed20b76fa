"""How fast the engine's own thread is from second to second: a factor that wanders around 1 and comes back.

On a stamped H200 host a launch without a graph took 13 ms for some seconds and 26 ms for others, whatever was in the
step, and launches of whole graphs went along.
"""

from __future__ import annotations

from math import exp, sqrt
from random import Random
from typing import Final

HOLD_S: Final = 2.0  # it changes every so often
MEMORY_S: Final = 6.0  # and forgets in so long


class HostDrift:
    """Called with an instant, how many times as long a launch takes then; instants must not go back.

    spread: the standard deviation of its logarithm, whose exponential is 1 on average.
    """

    __slots__ = ("_at", "_chance", "_keeps", "_now", "_spread", "_until_s")

    def __init__(self, spread: float, seed: int) -> None:
        self._chance = Random(seed)
        self._spread = spread
        self._keeps = exp(-HOLD_S / MEMORY_S)
        self._at = self._chance.gauss(0.0, 1.0)
        self._until_s = HOLD_S * self._chance.random()
        self._now = self._factor()

    def __call__(self, now_s: float) -> float:
        if now_s >= self._until_s:
            while now_s >= self._until_s:
                self._at = self._keeps * self._at + sqrt(1.0 - self._keeps**2) * self._chance.gauss(0.0, 1.0)
                self._until_s += HOLD_S
            self._now = self._factor()
        return self._now

    def _factor(self) -> float:
        return exp(self._spread * self._at - self._spread**2 / 2)
