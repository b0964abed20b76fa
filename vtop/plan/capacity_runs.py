"""Whole runs for a search of capacity: on the simulated engine, or read from the recording of a measured one.

A time counts from the instant a request was due, so that an open loop cannot hide a queue in the client.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from vtop.engine.core.engine import Engine
from vtop.engine.core.flags import Flags
from vtop.engine.fit.profile import Profile
from vtop.engine.runs.measured import Bounds, Levels
from vtop.engine.runs.measured import latency_of as simulated_latency_of
from vtop.engine.runs.replay import Ask, ReplayLoad, replay
from vtop.load.workload.arrivals import due_times, lengths
from vtop.load.workload.phase import PlannedPhase
from vtop.plan.capacity import Next, RunResult
from vtop.recording import Request
from vtop.session.frame.frame import Frame, View
from vtop.session.load.attainment import ERROR, attainment
from vtop.session.load.request_latency import RequestLatency
from vtop.session.load.request_stats import outcome_of
from vtop.session.session import Session

WARM_CACHE = 0.05  # of the prompt tokens from the prefix cache where none were meant to be shared


def phase_of(like: PlannedPhase, run: Next) -> PlannedPhase:
    """The load of a run: `like` in all but rate, seed and requests."""
    return replace(like, concurrency=None, rate_per_s=run.rate_per_s, seed=run.seed, requests=run.requests, for_s=None)


def simulated(run: Next, like: PlannedPhase, flags: Flags, profile: Profile, bounds: Bounds) -> RunResult:
    """The run on an engine with these flags and a profile's timing."""
    phase = phase_of(like, run)
    due_s = [at_s for _, at_s in due_times(phase)]
    asks = []
    for k, at_s in enumerate(due_s):
        prompt, output = lengths(phase, k)
        asks.append(Ask(prompt or 1, output or 1, due_s=at_s))
    engine = Engine(flags, profile.timing, profile.frontend, profile.shape)
    levels = Levels(engine)
    done = replay(ReplayLoad(tuple(asks), seed=run.seed), engine, levels)
    counted = [one for one in done.requests if one.id >= phase.warmup]
    outcomes: list[RequestLatency | str] = [simulated_latency_of(one) for one in counted]
    outcomes += [ERROR] * done.refused
    last_s = due_s[-1]
    return RunResult(
        rate_per_s=run.rate_per_s,
        seed=run.seed,
        attained=attainment(outcomes, bounds),
        achieved_per_s=_rate(due_s[phase.warmup :]),
        requests=len(outcomes),
        open_at_last=sum((one.answered_s or 0.0) > last_s for one in counted),
        drain_s=max(0.0, max((one.answered_s or 0.0 for one in counted), default=last_s) - last_s),
        preemptions=float(done.preemptions),
        waiting_peak=float(levels.most_waiting),
        kv_peak_ratio=levels.most_kv_ratio,
        hold=run.hold,
    )


def measured(run: Next, session: Session, requests: Iterable[Request], index: int, bounds: Bounds) -> RunResult:
    """The run as phase `index` of a session read to its end; `requests`: the ended ones of that phase."""
    counted = [one for one in requests if one.phase == index and not one.warmup and one.end_s is not None]
    due_s = sorted(one.due_s for one in counted if one.due_s is not None)
    ends_s = sorted(one.end_s for one in counted if one.end_s is not None)
    last_s = due_s[-1] if due_s else 0.0
    load = session.load.phases[index]
    begin_s, end_s = load.begin.t, max([last_s, *ends_s, load.begin.t])
    frame = session.frame(session.end_s, View(window_s=max(1.0, session.end_s - begin_s), columns=1, whole=True))
    return RunResult(
        rate_per_s=run.rate_per_s,
        seed=run.seed,
        attained=attainment([outcome_of(one) for one in counted], bounds),
        achieved_per_s=_rate(due_s),
        requests=len(counted),
        open_at_last=sum(end > last_s for end in ends_s),
        drain_s=max(0.0, end_s - last_s),
        preemptions=frame.preemption.count.in_window,
        waiting_peak=frame.requests.waiting.high,
        kv_peak_ratio=frame.kv.used.high,
        why_not=_why_not(frame, session, begin_s, len(counted)),
        hold=run.hold,
    )


def _why_not(frame: Frame, session: Session, begin_s: float, counted: int) -> str | None:
    """Why a run is no evidence: it measured another thing than the server under this load."""
    if not counted:
        return "no request of it ended"
    for kind, why in (("restart", "the server restarted"), ("flags", "the server's flags changed")):
        if any(one.kind == kind and one.at_s >= begin_s for one in frame.event_log):
            return why
    load = frame.load
    if load is not None and load.limited is not None:
        return f"the client was the limit: {load.limited}"
    hits, prompt = (load.prefix_hit_tokens if load is not None else None), frame.prompt_tokens.in_window
    if hits and prompt and hits / prompt > WARM_CACHE and "prefix=" not in (load.spec if load is not None else ""):
        return f"{hits / prompt:.0%} of its prompt tokens came from the prefix cache"
    return None


def _rate(due_s: Sequence[float]) -> float:
    return (len(due_s) - 1) / (due_s[-1] - due_s[0]) if len(due_s) > 1 and due_s[-1] > due_s[0] else 0.0
