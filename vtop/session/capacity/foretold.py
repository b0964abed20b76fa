"""What a simulated search tells a measured one: where to look, and by how much the engine differs from its model.

    speed, from brackets     from passes / simulated fails to fails / simulated passes: each lies in its own
    speed, from a rate       rate / the simulated rate with the same mean attainment, at the rate nearest to the target

Runs of both have the same seeds. The first is what is said; the second, one value, only chooses the next rate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from vtop import units
from vtop.recording import SimulatedSearch

FORETOLD: Final = 6  # rates at most that the simulation chooses: a wrong one costs no more than so many


def speed(simulated: SimulatedSearch, passes: float | None, fails: float | None) -> tuple[float | None, float | None]:
    """(least, most) of the measured capacity / the simulated one; None: nothing bounds it there."""
    least = passes / simulated.fails_per_s if passes and simulated.fails_per_s else None
    most = fails / simulated.passes_per_s if fails and simulated.passes_per_s else None
    return least, most


def speed_words(least: float | None, most: float | None) -> str | None:
    """The measured capacity as a share of the simulated one; None where nothing is known."""
    if least is not None and most is not None:
        return f"{units.percent(least)} to {units.percent(most)}"
    if least is not None:
        return f"over {units.percent(least)}"
    return f"under {units.percent(most)}" if most is not None else None


def next_rate(
    simulated: SimulatedSearch,
    measured: Sequence[tuple[float, float]],
    target: float,
    bracket: tuple[float | None, float | None],
    precision: float,
) -> float | None:
    """The rate to try within a bracket (passes, fails): an edge of the simulated bracket, corrected by what was
    measured, (rate, mean attainment). None: the simulation tells nothing that is not known."""
    if len(measured) >= FORETOLD:
        return None
    by = _speed_at(simulated, measured, target)
    low, high = bracket
    apart = math.sqrt(1 + precision)
    edges = (simulated.passes_per_s, simulated.fails_per_s)
    for edge in edges if high is not None else reversed(edges):
        rate = edge * by if edge is not None else None
        if rate is not None and (low or 0.0) * apart < rate < (high or math.inf) / apart:
            return float(f"{rate:.4g}")
    return None


def _speed_at(simulated: SimulatedSearch, measured: Sequence[tuple[float, float]], target: float) -> float:
    """1 where no measured attainment lies on the slope of the simulated curve."""
    curve, lowest = [], math.inf
    for rate, share in sorted(simulated.attained):  # it falls with the rate, but for noise
        lowest = min(lowest, share)
        curve.append((rate, lowest))
    found = []
    for rate, share in measured:
        for (slow, above), (fast, below) in pairwise(curve):
            if above > share >= below:
                at = slow * (fast / slow) ** ((above - share) / (above - below))
                found.append((abs(share - target), rate / at))
    return min(found, default=(0.0, 1.0))[1]
