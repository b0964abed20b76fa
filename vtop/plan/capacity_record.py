"""A search of capacity as it stands in a recording: what was asked, each run judged from its own lines, what is open.

The live search, a resumed one and a report read the same lines by the same code: a run is a phase of vtop's own load
after a `search` line, on the server that the line names. A search with the same words on the same server goes on with
what the one before it found, as in a merged recording.

A server is the same one as long as its version, models, flags, process and KV pool are: a search ends where it changed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from vtop.metrics.quantity import Quantity
from vtop.plan.capacity import HOLD_FACTOR, Bracket, Next, Plan, RunResult, Search
from vtop.recording import CapacitySearch
from vtop.session.frame.load import LoadPart
from vtop.session.history.server import ServerHistory
from vtop.session.history.server_config import changed as flags_changed
from vtop.session.history.window import between, window
from vtop.session.kv import pool
from vtop.session.load.attainment import OPEN, attainment
from vtop.session.load.load import BUSY_RATIO
from vtop.session.load.phase import LoadPhase
from vtop.session.load.request_stats import OWN_FAILURES, outcome_of
from vtop.session.session import Session

SETTLE_S = 2.0  # after a run, so that the next does not meet its backlog; its last scrape falls into it
WARM_CACHE = 0.05  # of the prompt tokens from the prefix cache where none were meant to be shared
LATE = 0.05  # of a bound: so late a client may be without deciding about it


@dataclass(frozen=True, slots=True)
class ClosedLoopRun:
    """What a closed loop of so many in flight reached: no capacity, as it sends only when an answer has come."""

    concurrency: int
    requests: int
    ended_per_s: float | None
    attained_ratio: float | None


@dataclass(slots=True)
class RecordedSearch:
    """A search with what its runs say so far. gpus: that serve it, where known."""

    asked: CapacitySearch
    plan: Plan
    search: Search
    closed: list[ClosedLoopRun] = field(default_factory=list)
    gpus: int | None = None
    hosts: list[Bracket] = field(default_factory=list)  # of a simulated search: on other plausible hosts
    remarks: list[str] = field(default_factory=list)


def plan_of(asked: CapacitySearch) -> Plan:
    return Plan(
        rule="floor" if asked.rule == "floor" else "long-run",
        target_ratio=asked.target_ratio,
        runs=asked.runs,
        requests=asked.requests,
        seeds=tuple(range(asked.seed, asked.seed + asked.runs)),
        first_per_s=asked.first_per_s,
        least_per_s=asked.least_per_s,
        most_per_s=asked.most_per_s,
        precision_ratio=asked.precision_ratio,
        hold=asked.hold,
    )


def searches(session: Session) -> list[RecordedSearch]:
    """All searches of a session, with every run that came to its end."""
    found: list[RecordedSearch] = []
    for asked, until_s in zip(session.searches, _ends(session.searches, session.end_s), strict=True):
        if asked.reason is not None:
            continue
        words = msgspec.structs.replace(asked, t=-1.0)
        one = next((one for one in found if msgspec.structs.replace(one.asked, t=-1.0) == words), None)
        if one is None:
            plan = plan_of(asked)
            found.append(one := RecordedSearch(asked, plan, Search(plan)))
        one.search.end = one.search.why = None  # it goes on
        for number, phase in session.load.phases.items():
            if asked.t <= phase.begin.t < until_s and phase.begin.server == asked.server:
                take(one, session, number)
        over = (end for end in session.searches if end.reason is not None and end.server == asked.server)
        ended = next((end for end in over if asked.t <= end.t <= until_s), None)
        if ended is not None and ended.reason is not None:
            one.search.stop(ended.reason, ended.why)
        one.gpus = gpus_of(session)
    return found


def take(one: RecordedSearch, session: Session, number: int) -> None:
    """Phase `number` of a session, once it has ended, as a run; one that vtop was told to stop is none."""
    phase = session.load.phases[number]
    end = phase.state(session.end_s)[1]
    begin = phase.begin
    if end is None or end.reason == "stopped":
        return
    if begin.concurrency is not None:
        one.closed.append(_closed(one, session, phase))
    elif begin.rate_per_s is not None and begin.requests is not None:
        hold = begin.requests == HOLD_FACTOR * one.plan.requests
        run = Next(begin.rate_per_s, begin.seed or 0, begin.requests, hold=hold)
        one.search.tell(measured(run, session, number, one.asked.slo))


def gpus_of(session: Session) -> int | None:
    """How many GPUs serve; None where NVML tells of none."""
    from vtop.session.frame.gpus import counted_of

    part = session.gpus.part(session.end_s, 60.0, local=any(target.local for target in session.start.servers))
    return len(counted_of(part.devices)) or None


def measured(run: Next, session: Session, number: int, bounds: dict[str, float]) -> RunResult:
    """The run as phase `number` of a session. A time counts from the instant a request was due, so that an open loop
    cannot hide a queue in the client; a request that was planned and never sent is one that was missed."""
    phase = session.load.phases[number]
    counted = [one for one in phase.ended.bare(len(phase.ended)) if not one.warmup and one.end_s is not None]
    due_s = sorted(one.due_s for one in counted if one.due_s is not None)
    ends_s = sorted(one.end_s for one in counted if one.end_s is not None)
    last_s = due_s[-1] if due_s else 0.0
    end = phase.state(session.end_s)[1]
    end_s = max([last_s, *ends_s, end.t if end is not None else phase.begin.t])
    now_s = min(session.end_s, end_s + SETTLE_S + session.start.interval_s)
    server = session.servers[phase.begin.server]
    scrapes = window([server], now_s, max(1.0, now_s - phase.begin.t))
    outcomes = [outcome_of(one) for one in counted]
    outcomes += [OPEN] * max(0, run.requests - len(outcomes))
    answers_s = max([last_s, *ends_s])
    why_not, server_changed = _why_not(session, phase, now_s, len(counted))
    return RunResult(
        rate_per_s=run.rate_per_s,
        seed=run.seed,
        attained=attainment(outcomes, bounds),
        achieved_per_s=rate_of(due_s),
        requests=len(outcomes),
        open_at_last=sum(end > last_s for end in ends_s),
        backlog=backlog(due_s, ends_s),
        drain_s=max(0.0, answers_s - last_s),
        preemptions=scrapes.count(Quantity.PREEMPTIONS).in_window,
        running_peak=scrapes.gauge(Quantity.RUNNING).high,
        waiting_peak=scrapes.gauge(Quantity.WAITING).high,
        kv_peak_ratio=scrapes.gauge(Quantity.KV_USED, largest=True).high,
        client_queue_peak=_waited(phase) if phase.begin.max_in_flight is not None else None,
        why_not=why_not,
        server_changed=server_changed,
        hold=run.hold,
    )


def backlog(due_s: Sequence[float], ends_s: Sequence[float]) -> tuple[int, ...]:
    """Requests that had come and were not answered, at the ends of the quarters of the time in which they came."""
    if len(due_s) < 4:
        return ()
    first_s, span_s = due_s[0], due_s[-1] - due_s[0]
    at = [first_s + span_s * quarter / 4 for quarter in (1, 2, 3, 4)]
    return tuple(sum(due <= one for due in due_s) - sum(end <= one for end in ends_s) for one in at)


def rate_of(due_s: Sequence[float]) -> float:
    """Requests a second that came: (n - 1) / (last - first); 0 of fewer than two."""
    return (len(due_s) - 1) / (due_s[-1] - due_s[0]) if len(due_s) > 1 and due_s[-1] > due_s[0] else 0.0


@dataclass(frozen=True, slots=True)
class ServerState:
    """Who answers at a server: what must stay the same for two runs to be of one search. None: not known."""

    version: str | None
    models: tuple[str, ...]
    process_start_s: float | None  # wall clock
    pool_tokens: float | None

    def changed(self, now: ServerState) -> str | None:
        """What is another than it was; None where nothing is known to be."""
        if self.version and now.version and self.version != now.version:
            return f"its version is {now.version}, and was {self.version}"
        if self.models and now.models and self.models != now.models:
            return f"it serves {', '.join(now.models)}, and no longer {', '.join(self.models)}"
        if self.pool_tokens and now.pool_tokens and self.pool_tokens != now.pool_tokens:
            return f"its KV pool is {now.pool_tokens:,.0f} tokens, and was {self.pool_tokens:,.0f}"
        if self.process_start_s and now.process_start_s and abs(self.process_start_s - now.process_start_s) > 1.0:
            return "another process answers: it was restarted"
        return None


def state_of(server: ServerHistory, now_s: float) -> ServerState:
    """As it was known at an instant."""
    last = server.visible(now_s) - 1
    identity = server.identity(now_s)
    began = server.total(Quantity.PROCESS_START)
    return ServerState(
        version=identity.version if identity is not None else None,
        models=identity.models if identity is not None else (),
        process_start_s=began.at(last) if began is not None and last >= 0 else None,
        pool_tokens=pool.kv(window([server], now_s, 1.0), now_s).pool_tokens if last >= 0 else None,
    )


def another(before: Session, now: Session, server: int) -> str | None:
    """Why the server of a session is not the one of an earlier recording; None where it is."""
    was, mine = before.servers[server], now.servers[server]
    found = state_of(was, before.end_s).changed(state_of(mine, now.end_s))
    identities = was.identity(before.end_s), mine.identity(now.end_s)
    if found is None and identities[0] is not None and identities[1] is not None:
        flags = flags_changed(identities[0], identities[1])
        found = f"its flags changed: {', '.join(flags)}" if flags else None
    return found


def _ends(asked: Sequence[CapacitySearch], end_s: float) -> list[float]:
    """Until when each search had the server: the next one's begin."""
    ends = []
    for place, one in enumerate(asked):
        later = (other.t for other in asked[place + 1 :] if other.server == one.server and other.reason is None)
        ends.append(next(later, end_s + 1.0))
    return ends


def _closed(one: RecordedSearch, session: Session, phase: LoadPhase) -> ClosedLoopRun:
    ended = [request for request in phase.ended.bare(len(phase.ended)) if not request.warmup]
    return ClosedLoopRun(
        concurrency=phase.begin.concurrency or 0,
        requests=len(ended),
        ended_per_s=phase.ended_per_s(session.end_s),
        attained_ratio=attainment(map(outcome_of, ended), one.asked.slo).ratio,
    )


def _waited(phase: LoadPhase) -> int:
    """The most requests that waited in the client for a slot at once."""
    steps = []
    for one in phase.ended.bare(len(phase.ended)):
        until_s = one.admitted_s if one.admitted_s is not None else one.end_s
        if one.due_s is not None and until_s is not None:
            steps += [(one.due_s, 1), (until_s, -1)]
    now = most = 0
    for _, step in sorted(steps):
        now += step
        most = max(most, now)
    return most


def _why_not(session: Session, phase: LoadPhase, now_s: float, counted: int) -> tuple[str | None, bool]:
    """Why a run is no evidence, as it measured another thing than the server under this load; whether that is because
    the server is not the one that the recording began with."""
    number, begin = phase.begin.server, phase.begin
    server = session.servers[number]
    first_s = next((one.begin.t for one in session.load.phases.values() if one.begin.server == number), begin.t)
    if server.visible(now_s):
        was = state_of(server, max(first_s, server.at_s[0] + 1e-6, server.t[0]))
        if (why := was.changed(state_of(server, now_s))) is not None:
            return why, True
        known = [one for one in server.identities if one.flags is not None and one.t <= now_s]
        if known and (flags := flags_changed(known[0], known[-1])):
            return f"its flags changed: {', '.join(flags)}", True
    if not counted:
        return "no request of it ended", False
    load = session.load.part_of(begin.phase, now_s)
    if load is not None and load.limited is not None and _decides(load, phase.begin.slo or {}):
        return f"the client was the limit: {load.limited}", False
    before = max(0, bisect_right(server.at_s, begin.t) - 1)  # the last scrape before it
    scrapes = between([server], server.at_s[before] if server.at_s else begin.t, now_s, now_s)
    hits = session.prefix_hits(begin.phase, now_s)
    prompt = scrapes.count(Quantity.PROMPT_TOKENS).in_window
    if hits and prompt and hits / prompt > WARM_CACHE and not _shares(begin.spec):
        return f"{hits / prompt:.0%} of its prompt tokens came from the prefix cache", False
    return None, False


def _decides(load: LoadPart, bounds: dict[str, float]) -> bool:
    """Whether what limits the client can decide about a bound: it failed at requests, its process is busy, or it is
    late by more than LATE of a bound that counts from due."""
    failed = any(name in OWN_FAILURES for name, _ in load.failed_by_class)
    least_s = min((bounds[name] for name in ("ttft", "e2e") if name in bounds), default=0.0)
    late_s = max(load.late_p99_s or 0.0, load.lag_s or 0.0)
    return failed or (load.cpu_ratio or 0.0) > BUSY_RATIO or late_s > LATE * least_s


def _shares(spec: str) -> bool:
    """Whether the prompts of a load share tokens by what was asked for."""
    return any(word.startswith(("prefix=", "dataset=", "trace=")) for word in spec.split())
