"""vtop's own load: what was asked of it, what it did, how late it was, and what its requests saw.

Everything is read from the lines that were written up to the instant asked about. What requests add up to stands in
`request_stats.py`, what one of them took in `request_latency.py`.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import Any

import msgspec

from vtop import units
from vtop.recording import Host, Load, LoadHost, Request
from vtop.recording.vocabulary import LOAD_SHAPES, known
from vtop.session.frame.load import LoadPart, SloAttainment
from vtop.session.load.attained_parts import bound_of, lengths_of, quantiles_of
from vtop.session.load.attainment import ERROR, OPEN, REJECTED, TIMEOUT, AttainmentCount
from vtop.session.load.client_ttft import Answered
from vtop.session.load.hosts import parts
from vtop.session.load.phase import LoadPhase, OpenRequest
from vtop.session.load.request_stats import RequestStats

RECENT_S = 10.0  # the actual rate is that of this span
RANKED = 100  # requests: of fewer the p99 by nearest rank is the highest
LATE_S, LATE_SHARE = 0.002, 0.05  # p99 lateness beyond both marks the run client-limited
BUSY_RATIO = 0.9  # of one core
LAG_S = 0.05
SECOND_S = 1.5  # within which each host tells how it does
COSTLY = 0.1  # of the mean TTFT: a lateness below it costs nothing that shows
DETAIL = 120  # letters
FORGOTTEN_AT_ONCE = 1_000  # requests


class LoadHistory:
    """All phases of vtop's own load so far."""

    def __init__(self) -> None:
        self.phases: dict[int, LoadPhase] = {}
        self.answered: dict[int, Answered] = {}  # by server
        self._server: int | None = None  # of the latest phase
        self._trials: list[Request] = []  # before the first phase tells on which server
        self._trial_t = array("d")  # of requests that vtop tried the server with, of no phase
        self._trial_end_s = array("d")
        self.hosts_t = array("d")
        self.hosts: list[Host] = []
        self._senders: defaultdict[int, list[LoadHost]] = defaultdict(list)  # by phase

    def apply_load(self, load: Load) -> None:
        phase = self.phases.get(load.phase)
        if phase is None:
            self.phases[load.phase] = LoadPhase(load)
            self._server = load.server
            for trial in self._trials:
                self._answer(load.t, load.server, trial)
            self._trials.clear()
        else:
            phase.changes.append(load)

    def apply_request(self, request: Request) -> None:
        phase = self.phases.get(request.phase)
        if phase is None and request.end_s is not None:
            self._trial_t.append(request.t)
            self._trial_end_s.append(request.end_s)
        if phase is None:
            if request.end_s is not None and self._server is None:
                self._trials.append(request)
            elif request.end_s is not None:
                self._answer(request.t, self._server, request)
            return
        if request.end_s is not None:
            begun = phase.open.pop(request.id, None)
            phase.ended_sent_t.append(begun.sent.t if begun is not None else request.t)
            phase.ended_first_t.append(begun.first_t if begun is not None else math.nan)
            phase.ended.append(request)
            self._answer(request.t, phase.begin.server, request)
        elif request.first_s is not None:
            phase.first_t.append(request.t)
            if (begun := phase.open.get(request.id)) is not None:
                phase.open[request.id] = OpenRequest(begun.sent, request.first_s, request.t)
        elif request.sent_s is not None:
            # under a cap that was asked for, the wait for a slot is no lateness of the client
            since_s = request.admitted_s if phase.begin.max_in_flight is not None else request.due_s
            late_s = request.sent_s - since_s if since_s is not None else 0.0
            phase.sent_t.append(request.t)
            phase.open[request.id] = OpenRequest(request)
            phase.sent_s.append(request.sent_s)
            phase.sent_warmup.append(request.warmup)
            phase.late_us.append(round(max(0.0, late_s) * 1e6))
            if phase.begin.max_in_flight is not None:
                waited_s = (request.admitted_s or 0.0) - (request.due_s or 0.0)
                phase.slot_us.append(round(max(0.0, waited_s) * 1e6))
            phase.sent_host.append(request.host if request.host is not None else -1)

    def _answer(self, t: float, server: int | None, request: Request) -> None:
        if server is not None:
            self.answered.setdefault(server, Answered()).add(t, request)

    def apply_host(self, host: Host) -> None:
        if host.load_cpu_ratio is None:  # about the machine, not about the load
            return
        self.hosts_t.append(host.t)
        self.hosts.append(host)

    def apply_load_host(self, host: LoadHost) -> None:
        self._senders[host.phase].append(host)

    def forget(self, kept: int) -> None:
        """Give up the lines of all but the latest so many requests, some at once; what a phase adds up to stays."""
        spare = sum(len(phase.ended) for phase in self.phases.values()) - kept
        if spare < FORGOTTEN_AT_ONCE:
            return
        for phase in self.phases.values():
            if (count := min(spare, len(phase.ended))) > 0:
                phase.forget(count)
                spare -= count
                if phase.begin.server in self.answered:
                    self.answered[phase.begin.server].forget(phase.forgotten_s)
                gone = bisect_right(self.hosts_t, phase.forgotten_s) - 1
                if gone > 0:
                    del self.hosts_t[:gone], self.hosts[:gone]

    def latest(self, now_s: float) -> LoadPhase | None:
        """The phase that runs at an instant, or the last one that ran; None when there is no load."""
        return next((phase for phase in reversed(self.phases.values()) if phase.begin.t <= now_s), None)

    def tried_s(self, now_s: float) -> float:
        """When the latest request ended that vtop tried the server with, as known at an instant; 0 without one."""
        trials = bisect_right(self._trial_t, now_s)
        return self._trial_end_s[trials - 1] if trials else 0.0

    def changed_s(self, now_s: float) -> float:
        """Since when vtop's own load aims at what it does, begun or changed by hand, as known at an instant; 0 where
        there is none."""
        phase = self.latest(now_s)
        return phase.state(now_s)[0].t if phase is not None else 0.0

    def steady_between(self, begin_s: float, end_s: float, now_s: float) -> bool:
        """Whether the phases that ran in a span aimed at one thing, as known at an instant."""
        targets = set()
        for phase in self.phases.values():
            marks = [one for one in (phase.begin, *phase.changes) if one.t <= now_s]
            if not marks or phase.begin.t > end_s:
                continue
            _, end = phase.state(now_s)
            if end is not None and end.t <= begin_s:
                continue
            targets |= {(one.concurrency, one.rate_per_s) for one in marks if one.state in ("begin", "change")}
        return len(targets) <= 1

    def settled_s(self, now_s: float) -> float:
        """Since when it does so and is warm."""
        phase = self.latest(now_s)
        return phase.settled_s(now_s) if phase is not None else 0.0

    def in_flight_at(self, server: int, at_s: float) -> int:
        """How many requests of the phase on a server were under way at an instant, by the lines written till then."""
        for phase in reversed(self.phases.values()):
            if phase.begin.t <= at_s:
                return max(0, phase.sent_by(at_s) - phase.ended_by(at_s)) if phase.begin.server == server else 0
        return 0

    def part(self, now_s: float) -> LoadPart | None:
        """The phase that runs at an instant, or the last one that ran; None when there is no load."""
        phase = self.latest(now_s)
        return self.part_of(phase.begin.phase, now_s) if phase is not None else None

    def part_of(self, number: int, now_s: float) -> LoadPart | None:
        """A phase as it stood at an instant; None before it began, and where that was given up."""
        phase = self.phases.get(number)
        if phase is None or phase.begin.t > now_s or now_s < phase.forgotten_s:
            return None
        target, end = phase.state(now_s)
        seen = phase.seen(now_s)
        ended_s = end.t if end is not None else now_s
        host = self._host(phase.begin.t, min(now_s, ended_s))
        late_p50_s, late_p99_s = seen.late.quantiles((0.5, 0.99), however_few=True)
        done_all = phase.ended_by(now_s)
        elapsed_s = max(0.0, ended_s - phase.begin.t)
        answering = max(0, phase.answering_by(now_s) - seen.answered) if end is None else 0
        progress, left_s = _progress(phase.begin, done_all, answering, elapsed_s, ended=end is not None)
        return LoadPart(
            phase=phase.begin.phase,
            server=phase.begin.server,
            begin_s=phase.begin.t,
            phases=sum(one.begin.t <= now_s for one in self.phases.values()),
            spec=phase.begin.spec,
            shape=known(phase.begin.shape, LOAD_SHAPES),
            state="ended" if end is not None else "running",
            reason=end.reason if end is not None else None,
            concurrency=target.concurrency,
            rate_per_s=target.rate_per_s,
            arrival=target.arrival,
            sent_per_s=_recent_rate(phase, now_s) if end is None else None,
            in_flight=max(0, seen.sent - seen.closed) if end is None else 0,
            answering=answering,
            sent=seen.late.n,
            done=seen.done,
            failed=seen.failed,
            unfinished=seen.unfinished,
            failed_by_class=tuple(sorted(seen.errors.items())),
            failed_detail=_failed_detail(seen),
            planned=phase.begin.requests,
            progress_ratio=progress,
            left_s=left_s,
            elapsed_s=elapsed_s,
            late_p50_s=late_p50_s,
            late_p99_s=late_p99_s,
            ttft=quantiles_of(seen.service),
            ttft_from_due=quantiles_of(seen.response) if phase.begin.shape == "open" else None,
            itl=quantiles_of(seen.itl),
            tpot=quantiles_of(seen.tpot),
            e2e=quantiles_of(seen.e2e),
            itl_is_chunks=seen.unsplit > 0,
            output_tokens=seen.output_tokens,
            output_per_s=phase.output_per_s(now_s),
            output_over=phase.output_over(now_s),
            whole_output_per_s=phase.whole_output_per_s(now_s),
            whole_ended_per_s=phase.whole_ended_per_s(now_s),
            ended_per_s=phase.ended_per_s(now_s),
            cached_tokens=seen.cached_tokens,
            prefix_hit_tokens=None,
            wrong_length=seen.wrong_length,
            ended_early=seen.ended_early,
            slo=_slo(phase, seen, elapsed_s),
            lag_s=host.load_lag_max_s if host is not None else None,
            cpu_ratio=host.load_cpu_ratio if host is not None else None,
            limited=_limited(target, seen, late_p99_s, host),
            limited_costs=_costs(seen, late_p99_s, host),
            hosts=parts(self._senders.get(number, ()), seen.hosts, now_s),
            total_per_s=_total_per_s(phase, seen, now_s),
            rejected=seen.rejected,
            slot_wait=quantiles_of(seen.slot) if phase.begin.max_in_flight is not None else None,
        )

    def seen(self, number: int, now_s: float) -> RequestStats | None:
        """What the requests of a phase add up to at an instant; None likewise."""
        phase = self.phases.get(number)
        known = phase is not None and phase.begin.t <= now_s and now_s >= phase.forgotten_s
        return phase.seen(now_s) if phase is not None and known else None

    def _host(self, begin_s: float, now_s: float) -> Host | None:
        """How the load's processes did in the latest second; of several hosts each number is that of the worst."""
        place = bisect_right(self.hosts_t, now_s) - 1
        if place < 0 or self.hosts_t[place] < begin_s:
            return None
        latest = self.hosts[place]
        if latest.load_host is None:
            return latest
        since_s = max(begin_s, self.hosts_t[place] - SECOND_S)
        of_all = {one.load_host: one for one in self.hosts[bisect_left(self.hosts_t, since_s) : place + 1]}.values()
        return msgspec.structs.replace(
            latest,
            load_cpu_ratio=max((one.load_cpu_ratio for one in of_all if one.load_cpu_ratio is not None), default=None),
            load_lag_max_s=max((one.load_lag_max_s for one in of_all if one.load_lag_max_s is not None), default=None),
        )


def target_words(load: Load) -> str:
    """What a phase aims at: 64 in flight, 8 requests/s."""
    if load.shape == "closed":
        return f"{load.concurrency} in flight"
    return f"{load.rate_per_s:g} requests/s" if load.rate_per_s is not None else load.spec


def ended_words(load: Load, seen: RequestStats) -> str:
    """How a phase ended: phase 2 ended: done · 44 of 91 failed."""
    said = f"phase {load.phase + 1} ended: {load.reason or 'done'}"
    return f"{said} · {units.count(seen.failed)} of {units.count(seen.over)} failed" if seen.failed else said


def _failed_detail(seen: RequestStats) -> str | None:
    for error, _ in seen.errors.most_common(1):
        words = " ".join(seen.said.get(error, "").split())
        return (words if len(words) <= DETAIL else words[: DETAIL - 1] + "…") or None
    return None


def _total_per_s(phase: LoadPhase, seen: RequestStats, now_s: float) -> float | None:
    """Prompt and output tokens a second: a request brings its prompt when it ends."""
    output_per_s, ended_per_s = phase.output_per_s(now_s), phase.ended_per_s(now_s)
    if output_per_s is None or ended_per_s is None or not seen.with_prompt:
        return None
    return output_per_s + ended_per_s * seen.prompt_tokens / seen.with_prompt


def _recent_rate(phase: LoadPhase, now_s: float) -> float | None:
    sent = bisect_right(phase.sent_t, now_s)
    span_s = min(RECENT_S, now_s - phase.begin.t)
    if span_s < 1.0:
        return None
    return (sent - bisect_left(phase.sent_t, now_s - span_s, 0, sent)) / span_s


def _progress(
    begin: Load, done: int, answering: int, elapsed_s: float, *, ended: bool
) -> tuple[float | None, float | None]:
    """(share done, seconds left), by whichever of its two limits the phase comes to first."""
    if ended:
        return 1.0, 0.0
    ratios, lefts = [], []
    if begin.requests:
        planned = begin.requests + begin.warmup
        ratios.append(min(1.0, done / planned))
        if done:
            served = min(planned, done + answering / 2)  # of those being answered half is done, on average
            lefts.append(elapsed_s * (planned - served) / served)
    if begin.for_s:
        ratios.append(min(1.0, elapsed_s / begin.for_s))
        lefts.append(max(0.0, begin.for_s - elapsed_s))
    return max(ratios, default=None), min(lefts, default=None)


def _slo(phase: LoadPhase, seen: RequestStats, elapsed_s: float) -> SloAttainment | None:
    bounds = phase.begin.slo
    if not bounds:
        return None
    per_s = 1.0 / elapsed_s if elapsed_s > 0 else None
    return SloAttainment(
        bounds=tuple(sorted(bounds.items())),
        judged=seen.judged,
        good=seen.good,
        attainment_ratio=seen.good / seen.judged if seen.judged else None,
        good_per_s=seen.good * per_s if per_s else None,
        good_tokens_per_s=seen.good_tokens * per_s if per_s else None,
        answered_per_s=seen.done * per_s if per_s else None,
        broken=tuple(seen.broken.most_common()),
        **_apart(seen.slo),
    )


def _apart(slo: AttainmentCount | None) -> dict[str, Any]:
    """Of a service level, each bound alone, like lengths, and those that were not answered, by how."""
    if slo is None:
        return {}
    return {
        "by_bound": tuple(bound_of(slo, name) for name in slo.times),
        "by_length": lengths_of(slo.by_length),
        "errors": slo.failed[ERROR],
        "timeouts": slo.failed[TIMEOUT],
        "rejected": slo.failed[REJECTED],
        "open": slo.failed[OPEN],
        "undefined": slo.undefined,
        "single_token": slo.single_token,
    }


def _costs(seen: RequestStats, late_p99_s: float | None, host: Host | None) -> bool:
    """Whether a client that is limited changes what the requests see by more than a little."""
    busy = host is not None and (host.load_cpu_ratio or 0.0) > BUSY_RATIO
    late = host is not None and (host.load_lag_max_s or 0.0) > LAG_S
    ttft_s = seen.service.mean_s
    if ttft_s is None:  # nothing is answered yet, so nothing of it is different
        return bool(seen.limits) or busy or late
    return bool(seen.limits) or busy or late or (late_p99_s or 0.0) >= COSTLY * ttft_s


def _limited(target: Load, seen: RequestStats, late_p99_s: float | None, host: Host | None) -> str | None:
    """Why the numbers may be the client's rather than the server's."""
    if seen.limits:
        return f"{seen.limits} failed here: {seen.limit or 'a limit of this machine'}"
    gap_s = 1.0 / target.rate_per_s if target.rate_per_s else 0.0
    if late_p99_s is not None and late_p99_s > max(LATE_S, LATE_SHARE * gap_s) and target.shape == "open":
        which = "p99" if seen.late.n >= RANKED else "at worst"
        return f"requests left {units.seconds(late_p99_s)} late ({which} of {seen.late.n:,})"
    if host is not None and host.load_cpu_ratio is not None and host.load_cpu_ratio > BUSY_RATIO:
        return f"the load process takes {host.load_cpu_ratio:.0%} of a core"
    if host is not None and host.load_lag_max_s is not None and host.load_lag_max_s > LAG_S:
        return f"its event loop ran {host.load_lag_max_s * 1000:.0f} ms late"
    return None
