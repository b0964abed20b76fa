"""Whole runs for a search of capacity on the simulated engine; measured ones are read from their recording
(capacity_record.py)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from vtop.engine.core.engine import Engine
from vtop.engine.core.flags import Flags
from vtop.engine.fit.profile import Profile
from vtop.engine.runs.measured import Levels
from vtop.engine.runs.measured import latency_of as simulated_latency_of
from vtop.engine.runs.replay import Ask, ReplayLoad, replay
from vtop.load.workload.arrivals import due_times, lengths
from vtop.load.workload.phase import PlannedPhase
from vtop.plan.capacity import Next, RunResult
from vtop.plan.capacity_record import ClosedLoop, backlog, rate_of
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


def simulated(run: Next, like: PlannedPhase, flags: Flags, profile: Profile, bounds: Mapping[str, float]) -> RunResult:
    """The run on an engine with these flags and a profile's timing."""
    phase = phase_of(like, run)
    due_s = [at_s for _, at_s in due_times(phase)]
    asks = tuple(Ask(*_lengths(phase, k), due_s=at_s) for k, at_s in enumerate(due_s))
    engine = Engine(flags, profile.timing, profile.frontend, profile.shape)
    levels = Levels(engine)
    done = replay(ReplayLoad(asks, seed=run.seed), engine, levels)
    counted = [one for one in done.requests if one.id >= phase.warmup]
    outcomes: list[RequestLatency | str] = [simulated_latency_of(one) for one in counted]
    outcomes += [ERROR] * done.refused
    ends_s = [one.answered_s for one in counted if one.answered_s is not None]
    last_s = due_s[-1]
    return RunResult(
        rate_per_s=run.rate_per_s,
        seed=run.seed,
        attained=attainment(outcomes, bounds),
        achieved_per_s=rate_of(due_s[phase.warmup :]),
        requests=len(outcomes),
        open_at_last=sum(end > last_s for end in ends_s),
        backlog=backlog(due_s[phase.warmup :], ends_s),
        drain_s=max(0.0, max(ends_s, default=last_s) - last_s),
        preemptions=float(done.preemptions),
        waiting_peak=float(levels.most_waiting),
        kv_peak_ratio=levels.most_kv_ratio,
        hold=run.hold,
    )


def simulated_closed(phase: PlannedPhase, flags: Flags, profile: Profile, bounds: Mapping[str, float]) -> ClosedLoop:
    """A closed loop (of `closed_phase_of`) on the same engine."""
    assert phase.concurrency is not None
    assert phase.requests is not None
    asks = tuple(Ask(*_lengths(phase, k)) for k in range(phase.requests))
    engine = Engine(flags, profile.timing, profile.frontend, profile.shape)
    done = replay(ReplayLoad(asks, concurrency=phase.concurrency, seed=phase.seed), engine)
    outcomes: list[RequestLatency | str] = [simulated_latency_of(one) for one in done.requests]
    return ClosedLoop(
        phase.concurrency,
        phase.requests,
        len(done.requests) / done.span_s if done.span_s else None,
        attainment([*outcomes, *[ERROR] * done.refused], bounds).ratio,
    )


def _lengths(phase: PlannedPhase, k: int) -> tuple[int, int]:
    prompt, output = lengths(phase, k)
    return prompt or 1, output or 1
