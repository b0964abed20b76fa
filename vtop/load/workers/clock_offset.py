"""How far another host's clock is ahead of this one's, from round trips, as NTP does it: the shortest one says it best.

A clock that was read somewhere between two instants of this one is ahead of their middle by its reading less that
middle, and the error is at most half of what the round trip took, however unlike its two ways are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Offset:
    """The other clock less this one, and how long the round trip took that says so; seconds."""

    offset_s: float
    rtt_s: float


def measured(there: Callable[[], float], here: Callable[[], float] = time.monotonic, *, rounds: int = ROUNDS) -> Offset:
    """Of so many round trips. there: asks the other host for its clock."""

    def trips() -> Iterable[tuple[float, float, float]]:
        for _ in range(rounds):
            yield here(), there(), here()

    return best(trips())


def best(trips: Iterable[tuple[float, float, float]]) -> Offset:
    """Of round trips as (asked, the other clock, answered), at least one."""
    asked_s, other_s, answered_s = min(trips, key=lambda trip: trip[2] - trip[0])
    return Offset(other_s - (asked_s + answered_s) / 2, answered_s - asked_s)
