"""A run of a search of capacity as its lines on record tell it, and why some runs are no evidence.

A server is the same one as long as its version, models, flags, process and KV pool are.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final, NamedTuple

from vtop.metrics.quantity import Quantity
from vtop.recording import Request
from vtop.session.capacity.search import EnginePeak, Next, RunResult
from vtop.session.capacity.server_state import state_of
from vtop.session.frame.load import LoadPart
from vtop.session.history.server import ServerHistory
from vtop.session.history.server_config import changed as flags_changed
from vtop.session.history.window import between, window
from vtop.session.load.attained_parts import bound_of, lengths_of
from vtop.session.load.attainment import OPEN, AttainmentCount, attainment
from vtop.session.load.load import BUSY_RATIO, LoadHistory
from vtop.session.load.phase import LoadPhase
from vtop.session.load.prefix_hits import prefix_hits
from vtop.session.load.request_latency import RequestLatency
from vtop.session.load.request_stats import OWN_FAILURES, outcome_of

SETTLE_S = 2.0  # after a run, so that the next does not meet its backlog; its last scrape falls into it
WARM_CACHE = 0.05  # of the prompt tokens from the prefix cache where none were meant to be shared
FEW = 10  # requests, of a server that is not warm
LATE = 0.05  # of a bound: so late a client may be without deciding about it


@dataclass(frozen=True, slots=True)
class ClosedLoopRun:
    """What a closed loop of so many in flight reached: no capacity, as it sends only when an answer has come."""

    concurrency: int
    requests: int
    ended_per_s: float | None
    attained_ratio: float | None


class RunRequest(NamedTuple):
    """A request of a run, measured or simulated: when it was due and ended, what it took or how there was no answer."""

    due_s: float | None
    end_s: float | None
    took: RequestLatency | str
    prompt_tokens: int | None
    output_tokens: int | None


NEVER_SENT: Final = RunRequest(None, None, OPEN, None, None)


def judged(run: Next, outcomes: Sequence[RunRequest], bounds: Mapping[str, float]) -> RunResult:
    """What the requests of a run amount to; what the server did meanwhile is not in it."""
    count = AttainmentCount(bounds)
    kept = [count.take_of_length(one.took, one.prompt_tokens, one.output_tokens) for one in outcomes]
    due_s = sorted(one.due_s for one in outcomes if one.due_s is not None)
    ends_s = sorted(one.end_s for one in outcomes if one.end_s is not None)
    last_s = due_s[-1] if due_s else 0.0
    took_s = [one.took.judged_s["e2e"] for one in outcomes if not isinstance(one.took, str)]
    known_s = [seconds for seconds in took_s if seconds is not None]
    alone = _alone(outcomes)
    return RunResult(
        rate_per_s=run.rate_per_s,
        seed=run.seed,
        attained=count.found,
        achieved_per_s=rate_of(due_s),
        requests=len(outcomes),
        open_at_last=sum(end > last_s for end in ends_s),
        backlog=backlog(due_s, ends_s),
        drain_s=max(0.0, max([last_s, *ends_s]) - last_s),
        alone=len(alone),
        alone_kept=sum(kept[place] for place in alone),
        residence_s=fmean(known_s) if known_s else None,
        sending_s=last_s - due_s[0] if due_s else 0.0,
        times=tuple(bound_of(count, name) for name in count.times),
        by_length=lengths_of(count.by_length),
        why_not="no request of it can be judged by these bounds" if count.found.ratio is None else None,
        hold=run.hold,
    )


def _alone(outcomes: Sequence[RunRequest]) -> list[int]:
    """The places of requests that met no other, from due to end."""
    spans = [(one.due_s, one.end_s, place) for place, one in enumerate(outcomes) if one.due_s is not None]
    spans.sort(key=lambda span: span[0])
    found: list[int] = []
    busy_s = -math.inf
    for at, (due_s, end_s, place) in enumerate(spans):
        next_s = spans[at + 1][0] if at + 1 < len(spans) else math.inf
        if due_s >= busy_s and end_s is not None and end_s <= next_s:
            found.append(place)
        busy_s = max(busy_s, end_s if end_s is not None else math.inf)
    return found


def _ended(request: Request) -> RunRequest:
    prompt = request.asked_prompt_tokens or request.prompt_tokens
    output = request.asked_output_tokens or request.output_tokens
    return RunRequest(request.due_s, request.end_s, outcome_of(request), prompt, output)


@dataclass(frozen=True, slots=True)
class RunsOnRecord:
    """The load of a session and the servers that it is put on."""

    load: LoadHistory
    servers: Sequence[ServerHistory]
    interval_s: float

    def settled_s(self, phase: LoadPhase) -> float:
        """Until when a run that has ended is looked at: the scrape after it is part of it, what comes later is not."""
        ends_s = [one.end_s for one in phase.ended.bare(len(phase.ended)) if one.end_s is not None]
        ended_s = next((change.t for change in phase.changes if change.state == "end"), phase.begin.t)
        return max([ended_s, *ends_s]) + SETTLE_S + self.interval_s

    def measured(
        self, run: Next, number: int, bounds: dict[str, float], now_s: float, *, warm_only: bool = False
    ) -> RunResult:
        """The run as phase `number` of the load. A time counts from the instant a request was due, so that an open loop
        cannot hide a queue in the client; a request that was planned and never sent is one that was missed."""
        phase = self.load.phases[number]
        counted = [one for one in phase.ended.bare(len(phase.ended)) if not one.warmup and one.end_s is not None]
        now_s = min(now_s, self.settled_s(phase))
        server = self.servers[phase.begin.server]
        scrapes = window([server], now_s, max(1.0, now_s - phase.begin.t))
        why_not, server_changed = self._why_not(phase, now_s, len(counted), warm_only=warm_only)
        result = judged(
            run,
            [_ended(one) for one in counted] + [NEVER_SENT] * max(0, run.requests - len(counted)),
            bounds,
        )
        return replace(
            result,
            preemptions=scrapes.count(Quantity.PREEMPTIONS).in_window,
            running_peak=scrapes.gauge(Quantity.RUNNING).high,
            waiting_peak=scrapes.gauge(Quantity.WAITING).high,
            kv_peak_ratio=scrapes.gauge(Quantity.KV_USED, largest=True).high,
            client_queue_peak=_waited(phase) if phase.begin.max_in_flight is not None else None,
            engines=_engines(server, phase.begin.t, now_s),
            why_not=why_not or result.why_not,
            server_changed=server_changed,
        )

    def closed(self, number: int, bounds: Mapping[str, float], now_s: float) -> ClosedLoopRun:
        """Phase `number` as a closed loop."""
        phase = self.load.phases[number]
        ended = [request for request in phase.ended.bare(len(phase.ended)) if not request.warmup]
        return ClosedLoopRun(
            concurrency=phase.begin.concurrency or 0,
            requests=len(ended),
            ended_per_s=phase.ended_per_s(now_s),
            attained_ratio=attainment(map(outcome_of, ended), bounds).ratio,
        )

    def _why_not(self, phase: LoadPhase, now_s: float, counted: int, *, warm_only: bool) -> tuple[str | None, bool]:
        """Why a run is no evidence, as it measured another thing than the server under this load; whether that is
        because the server is not the one that the recording began with."""
        number, begin = phase.begin.server, phase.begin
        server = self.servers[number]
        first_s = next((one.begin.t for one in self.load.phases.values() if one.begin.server == number), begin.t)
        if server.visible(now_s):
            was = state_of(server, max(first_s, server.at_s[0] + 1e-6, server.t[0]))
            if (why := was.changed(state_of(server, now_s))) is not None:
                return why, True
            known = [one for one in server.identities if one.flags is not None and one.t <= now_s]
            if known and (flags := flags_changed(known[0], known[-1])):
                return f"its flags changed: {', '.join(flags)}", True
        if not counted:
            return "no request of it ended", False
        load = self.load.part_of(begin.phase, now_s)
        if load is None:
            return None, False
        if load.limited is not None and _decides(load, phase.begin.slo or {}):
            return f"the client was the limit: {load.limited}", False
        before = max(0, bisect_right(server.at_s, begin.t) - 1)  # the last scrape before it
        scrapes = between([server], server.at_s[before] if server.at_s else begin.t, now_s, now_s)
        hits = prefix_hits(load, self.servers, now_s)
        prompt = scrapes.count(Quantity.PROMPT_TOKENS).in_window
        if hits and prompt and hits / prompt > WARM_CACHE and not _shares(begin.spec):
            return f"{hits / prompt:.0%} of its prompt tokens came from the prefix cache", False
        if warm_only and not begin.warmup and _cold(server, before, server.visible(now_s) - 1):
            return "the server had served next to nothing since its start: this run warmed it up", False
        return None, False


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


def _engines(server: ServerHistory, from_s: float, now_s: float) -> tuple[EnginePeak, ...]:
    """What each of several engines had at most, on the scrapes of a run."""
    first, last = bisect_right(server.at_s, from_s), server.visible(now_s) - 1
    if last < first:
        return ()
    running, waiting = (server.engines(quantity, last) for quantity in (Quantity.RUNNING, Quantity.WAITING))
    if len(running) < 2:
        return ()
    peaks = [
        EnginePeak(name, track.high(first, last), waiting[name].high(first, last) if name in waiting else None)
        for name, track in running.items()
    ]
    return tuple(sorted(peaks, key=lambda one: (-(one.waiting or 0.0), one.name)))


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


def _cold(server: ServerHistory, before: int, last: int) -> bool:
    """Whether the server had finished fewer than FEW requests by the scrape before a run, and finished some in it."""
    names = server.parts(Quantity.FINISHED)
    known = [value for name in names if (value := server.value(Quantity.FINISHED, before, name)) is not None]
    grown = sum(server.grown(Quantity.FINISHED, before, last, name) or 0.0 for name in names)
    return bool(known) and sum(known) < FEW <= grown


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
