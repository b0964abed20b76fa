"""Whole runs for a search of capacity on the simulated engine; measured ones are read from their recording
(capacity_record.py)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from vtop.engine.core.engine import Engine
from vtop.engine.core.flags import Flags
from vtop.engine.core.host_drift import HostDrift
from vtop.engine.core.model_shape import ModelShape
from vtop.engine.fit.calibration import AS_FITTED, with_host_factors
from vtop.engine.fit.profile import Profile
from vtop.engine.runs.measured import Levels
from vtop.engine.runs.measured import latency_of as simulated_latency_of
from vtop.engine.runs.replay import Ask, ReplayLoad, replay
from vtop.engine.whatif.unknowns import AGAIN, ELSEWHERE, Draw, draws
from vtop.load.workload.arrivals import due_times, lengths
from vtop.load.workload.phase import PlannedPhase
from vtop.session.capacity.runs import ClosedLoopRun, RunRequest, judged, rate_of
from vtop.session.capacity.search import Next, RunResult
from vtop.session.load.attainment import ERROR, attainment
from vtop.session.load.request_latency import RequestLatency


def phase_of(like: PlannedPhase, run: Next) -> PlannedPhase:
    """The load of a run: `like` in all but rate, seed and requests."""
    return replace(like, concurrency=None, rate_per_s=run.rate_per_s, seed=run.seed, requests=run.requests, for_s=None)


def closed_phase_of(like: PlannedPhase, concurrency: int, requests: int, seed: int) -> PlannedPhase:
    """The same requests in a closed loop of so many in flight."""
    return replace(
        like,
        concurrency=concurrency,
        rate_per_s=None,
        arrival=None,
        max_in_flight=None,
        seed=seed,
        requests=requests,
        for_s=None,
    )


@dataclass(frozen=True, slots=True)
class SimulatedTarget:
    """An engine with these flags and a profile's timing. draw: the host it is on, where that is not the profile's."""

    flags: Flags
    profile: Profile
    shape: ModelShape
    draw: Draw | None = None

    def engine(self, seed: int) -> Engine:
        profile, drift = self.profile, None
        if self.draw is not None:
            profile = with_host_factors(profile, self.draw.factors)
            drift = HostDrift(self.draw.drift, self.draw.seed + seed) if self.draw.drift else None
        return Engine(self.flags, profile.timing, profile.frontend, self.shape, drift=drift)

    def beyond(self, like: PlannedPhase, most_running: float | None) -> tuple[str, ...]:
        """What of a load lies outside of the loads that the profile was fitted on: simulated all the same, and said."""
        found = []
        asked = (
            ("prompt_tokens", like.input.low if like.input else None, like.input.high if like.input else None),
            ("output_tokens", like.output.low if like.output else None, like.output.high if like.output else None),
            ("in_flight", most_running, most_running),
            ("kv_tokens", self.flags.kv_tokens, self.flags.kv_tokens),
        )
        for name, low, high in asked:
            least, most = self.profile.holds.get(name, (-math.inf, math.inf))
            if low is not None and high is not None and (low < least or high > most):
                said = f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"
                found.append(f"{name.replace('_', ' ')} {said}, and it was fitted on {least:,.0f} to {most:,.0f}")
        return tuple(found)


def plausible(server: SimulatedTarget, count: int) -> tuple[SimulatedTarget, ...]:
    """So many servers that this one may be: its host at another time, or any host where it is the profile's."""
    around, spread = (server.draw.factors, AGAIN) if server.draw is not None else (AS_FITTED, ELSEWHERE)
    return tuple(replace(server, draw=draw) for draw in draws(around, spread, count))


def simulated(run: Next, like: PlannedPhase, server: SimulatedTarget, bounds: Mapping[str, float]) -> RunResult:
    """The run on a simulated server."""
    phase = phase_of(like, run)
    due_s = [at_s for _, at_s in due_times(phase)]
    asks = tuple(Ask(*_lengths(phase, k), due_s=at_s) for k, at_s in enumerate(due_s))
    engine = server.engine(run.seed)
    levels = Levels(engine)
    done = replay(ReplayLoad(asks, seed=run.seed), engine, levels)
    counted = [one for one in done.requests if one.id >= phase.warmup]
    outcomes = [
        RunRequest(due_s[one.id], one.answered_s, simulated_latency_of(one), one.prompt_tokens, one.generated)
        for one in counted
    ]
    outcomes += [RunRequest(None, None, ERROR, None, None)] * done.refused
    return replace(
        judged(run, outcomes, bounds),
        achieved_per_s=rate_of(due_s[phase.warmup :]),
        preemptions=float(done.preemptions),
        running_peak=float(levels.most_running),
        waiting_peak=float(levels.most_waiting),
        kv_peak_ratio=levels.most_kv_ratio,
    )


def simulated_closed(phase: PlannedPhase, server: SimulatedTarget, bounds: Mapping[str, float]) -> ClosedLoopRun:
    """A closed loop (of `closed_phase_of`) on the same engine."""
    assert phase.concurrency is not None
    assert phase.requests is not None
    asks = tuple(Ask(*_lengths(phase, k)) for k in range(phase.requests))
    engine = server.engine(phase.seed)
    done = replay(ReplayLoad(asks, concurrency=phase.concurrency, seed=phase.seed), engine)
    outcomes: list[RequestLatency | str] = [simulated_latency_of(one) for one in done.requests]
    return ClosedLoopRun(
        phase.concurrency,
        phase.requests,
        len(done.requests) / done.span_s if done.span_s else None,
        attainment([*outcomes, *[ERROR] * done.refused], bounds).ratio,
    )


def _lengths(phase: PlannedPhase, k: int) -> tuple[int, int]:
    prompt, output = lengths(phase, k)
    return prompt or 1, output or 1
