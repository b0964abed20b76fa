"""How much of a capacity may be planned with, stated from what takes it away in place of a rule of thumb.

While more servers are brought up, for T seconds, arrivals may grow by a share g and come in bursts. With gaps of
coefficient of variation c (Poisson: 1; gamma of shape k: 1 / sqrt(k)) the number of arrivals in T has the mean r T and,
for T well beyond a gap, the variance c^2 r T. The planned rate r is the largest that stays within what passes, C:

    r (1 + g) + z c sqrt(r (1 + g) / T) <= C            z = 2.326: one span of T in a hundred is above

    with x = sqrt(r (1 + g)):    x = (-z c / sqrt(T) + sqrt(z^2 c^2 / T + 4 C)) / 2

Source: the central limit theorem of renewal processes (Cox, Renewal Theory, 1962, section 3.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

Z: Final = 2.326  # of a normal number: 1 % above


@dataclass(frozen=True, slots=True)
class Headroom:
    """planned_per_s: the rate to plan with; ratio: of what passes."""

    passes_per_s: float
    scale_out_s: float
    growth_ratio: float
    variation: float  # of the gaps between arrivals
    planned_per_s: float
    ratio: float


def headroom(passes_per_s: float, scale_out_s: float, growth_ratio: float, arrival: str | None) -> Headroom:
    """arrival: as a load says it, poisson, constant or gamma:K."""
    variation = variation_of(arrival)
    noise = Z * variation / math.sqrt(scale_out_s)
    root = (-noise + math.sqrt(noise * noise + 4 * passes_per_s)) / 2
    planned = root * root / (1 + growth_ratio)
    return Headroom(passes_per_s, scale_out_s, growth_ratio, variation, planned, planned / passes_per_s)


def variation_of(arrival: str | None) -> float:
    """The coefficient of variation of the gaps."""
    if arrival == "constant":
        return 0.0
    if arrival is not None and arrival.startswith("gamma:"):
        return 1 / math.sqrt(float(arrival.removeprefix("gamma:")))
    return 1.0
