"""Which phases of several recordings ran like loads: only those may be set beside each other as before and after.

Like are phases of as many in flight (or as many requests a second) with requests of as many tokens in and out. Of
vtop's own loads that is what was asked for, of a watched one what was seen: in flight within IN_FLIGHT, mean lengths
within LENGTHS of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vtop.report.labels import stem
from vtop.report.model import Phase, Report
from vtop.report.numbers import Numbers

LENGTHS: Final = 0.05  # a warm-up, a chance draw
IN_FLIGHT: Final = 0.10


@dataclass(frozen=True, slots=True)
class Named:
    """A phase with a name that says about which recording it is; `alone`: no other recording has one like it."""

    name: str
    of: Numbers
    alone: bool


def beside(reports: Sequence[Report]) -> tuple[Named, ...]:
    """The phases of several recordings, like loads next to each other, in the order of the first."""
    groups: list[list[tuple[Report, Phase, Numbers]]] = []
    for report in reports:
        for phase in report.phases:
            if phase.whole is None:
                continue
            group = next((one for one in groups if like((one[0][1], one[0][2]), (phase, phase.whole))), None)
            if group is None:
                groups.append(group := [])
            group.append((report, phase, phase.whole))
    return tuple(
        Named(f"{stem(report.file)} {phase.label}", of, len({id(one) for one, _, _ in group}) == 1)
        for group in groups
        for report, phase, of in group
    )


def like(first: tuple[Phase, Numbers], other: tuple[Phase, Numbers]) -> bool:
    """Whether two phases ran as much of the same; where neither the load nor the lengths are on record they did not."""
    (a, mine), (b, its) = first, other
    if a.load is not None and b.load is not None:
        asked = [(one.shape, one.concurrency, one.rate_per_s) for one in (a.load, b.load)]
        much = asked[0] == asked[1]
    else:
        much = _near(in_flight(a), in_flight(b), IN_FLIGHT)
    return much and all(
        _near(getattr(mine.account, name), getattr(its.account, name), LENGTHS)
        for name in ("input_tokens", "output_tokens")
    )


def in_flight(phase: Phase) -> float | None:
    """What a closed loop keeps in flight; of a watched load what its clients seem to."""
    if phase.load is not None:
        return phase.load.concurrency
    nominal = phase.whole.account.nominal if phase.whole is not None else None
    return nominal.concurrency if nominal is not None else None


def _near(one: float | None, other: float | None, share: float) -> bool:
    return one is not None and other is not None and abs(one - other) <= share * max(one, other)
