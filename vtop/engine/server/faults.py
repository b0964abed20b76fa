"""Faults on request: a server that stalls, restarts, counts nonsense or freezes, at a second that one can wait for.

The words are WHAT[=HOW-LONG][@WHEN], separated by commas: stall=5s@30,restart@60,nan,freeze=20s@90.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from vtop import units
from vtop.errors import VtopError

FOREVER_S: Final = float("inf")
# how long each lasts when it is not said
LASTS_S: Final = {"stall": 5.0, "restart": 2.0, "nan": FOREVER_S, "freeze": FOREVER_S}


@dataclass(frozen=True, slots=True)
class Fault:
    """kind: stall (nothing is answered), restart (connections are cut, all counts begin anew; nothing is answered
    while it lasts), nan (gauges and sums are no number), freeze (gauges stay as they are). Seconds since the start."""

    kind: str
    at_s: float
    for_s: float

    @property
    def until_s(self) -> float:
        return self.at_s + self.for_s


@dataclass(frozen=True, slots=True)
class Faults:
    """All faults of a server, by their time."""

    all: tuple[Fault, ...] = ()

    def during(self, kind: str, now_s: float) -> Fault | None:
        """The fault of that kind that is on."""
        return next((fault for fault in self.all if fault.kind == kind and fault.at_s <= now_s < fault.until_s), None)

    def silent_until_s(self, now_s: float) -> float | None:
        """When the server answers again; None when it does now."""
        fault = self.during("stall", now_s)
        return fault.until_s if fault is not None else None

    def restarts(self) -> list[Fault]:
        return [fault for fault in self.all if fault.kind == "restart"]


def faults(words: str) -> Faults:
    """Raises VtopError for what cannot be understood."""
    found = [_fault(word.strip()) for word in words.split(",") if word.strip()]
    return Faults(tuple(sorted(found, key=lambda fault: fault.at_s)))


def _fault(word: str) -> Fault:
    what, at, when = word.partition("@")
    kind, lasts, how_long = what.partition("=")
    if kind not in LASTS_S:
        raise VtopError(f"--fault {word}: there are {', '.join(LASTS_S)}; write stall=5s@30")
    if not at and kind in ("stall", "restart"):
        raise VtopError(f"--fault {word}: say at which second, as in {kind}@30")
    try:
        at_s = units.duration(when) if at else 0.0
        for_s = units.duration(how_long) if lasts else LASTS_S[kind]
    except ValueError as error:
        raise VtopError(f"--fault {word}: {error}") from None
    if not (math.isfinite(at_s) and for_s > 0.0):
        raise VtopError(f"--fault {word}: write how long and when in seconds, as in stall=5s@30")
    return Fault(kind, at_s, for_s)
