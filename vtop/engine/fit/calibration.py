"""How quick a recording's own host and GPU were, beside those that the profile was fitted on.

Two servers with the same flags differ by which machine they run on: GPUs by a per cent or two, but how long the
engine's thread needs to launch a step without a graph by a factor of two, and from minute to minute. No profile can
know that. The recording does: its prefill, decode and whole times say how far off the profile is, in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from vtop.engine.fit.fit import SPEEDS, misses
from vtop.engine.fit.least_squares import Vector, least_squares
from vtop.engine.fit.profile import Profile
from vtop.engine.runs.runs import Run

# how far a host and a GPU may well be from the profile's, as factors: what was seen of eight H200 servers
LAUNCH_FACTOR, GPU_FACTOR = 1.3, 1.015
STARTS = (1.0, 0.75, 1.4)  # of launches, where those of an open loop are looked for: its queue has no bound
ROUNDS = 4
GOOD = 5.0  # so little is off, in squares of what may well be, that no other valley is looked for
LAUNCHES = ("launch_pieces_s", "launch_eager_s", "launch_warm_s")


@dataclass(frozen=True, slots=True)
class HostFactors:
    """How many times as long as by the profile: launching a step without a whole graph, and the GPU's own work."""

    launch: float = 1.0
    gpu: float = 1.0


AS_FITTED = HostFactors()


def host_factors_of(run: Run, profile: Profile) -> HostFactors:
    """The factors with which the run's simulation is most like what is on record of it."""
    shape = run.shape or profile.shape
    scale = np.log([LAUNCH_FACTOR, GPU_FACTOR])

    def off(at: Vector) -> Vector:
        found = with_host_factors(profile, _host_factors(at))
        return np.concatenate([misses(run, found.timing, found.frontend, shape), at / scale])

    found: list[tuple[float, HostFactors]] = []
    for start in STARTS if run.load.concurrency is None else STARTS[:1]:
        at, _ = least_squares(off, np.array([log(start), 0.0]), scale, ROUNDS)
        found.append((float(np.sum(off(at) ** 2)), _host_factors(at)))
        if found[-1][0] < GOOD:
            break
    return min(found, key=lambda one: one[0])[1]


def with_host_factors(profile: Profile, factors: HostFactors) -> Profile:
    """The profile on such a host and GPU."""
    timing = profile.timing
    launches = {name: getattr(timing, name) * factors.launch for name in LAUNCHES}
    speeds = {name: getattr(timing, name) / factors.gpu for name in SPEEDS}
    return replace(profile, timing=replace(timing, **launches, **speeds))


def _host_factors(at: Vector) -> HostFactors:
    return HostFactors(launch=exp(at[0]), gpu=exp(at[1]))
