"""vtop's own load: what was asked of it, what it did, how late it was, and what its requests saw.

Everything is read from the lines that were written up to the instant asked about. Two times to first token: `service`
from the request being sent (server and network), `response` from the instant it was due (what a user who came then
saw; the same in a closed loop, where arrivals follow completions and tell nothing of queueing). A gap of k tokens
counts as k tokens of gap / k (ITL); TPOT is (last - first) / (tokens - those of the first read), absent for one
token. Failures stand in every denominator and as endless in every percentile; warm-up requests in none.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate

from vtop.recording import Host, Load, Request
from vtop.session.ended import Ended
from vtop.session.frame import LoadPart, Quantiles, Slo
from vtop.session.network import Answered
from vtop.session.spread import Spread

ASKED = (0.5, 0.9, 0.99, 0.999)
RECENT_S = 10.0  # the actual rate is that of this stretch
LATE_S, LATE_SHARE = 0.002, 0.05  # p99 lateness beyond both marks the run client-limited
BUSY_RATIO = 0.9  # of one core
LAG_S = 0.05
UNFINISHED = "cancelled_at_end"
CLIENT_LIMIT = "client_limit"  # a request that this machine could not send
SLICES_PER_S = 10  # in which output tokens are counted
SLICE_US = 1_000_000 // SLICES_PER_S


@dataclass(slots=True)
class Phase:
    """One phase so far: its lines in the order they were written, each list with the t of its lines."""

    begin: Load
    changes: list[Load] = field(default_factory=list)  # and steady, end
    sent_t: array[float] = field(default_factory=lambda: array("d"))
    sent_s: array[float] = field(default_factory=lambda: array("d"))
    sent_warmup: array[int] = field(default_factory=lambda: array("b"))
    late_us: array[int] = field(default_factory=lambda: array("q"))
    first_t: array[float] = field(default_factory=lambda: array("d"))
    end_t: array[float] = field(default_factory=lambda: array("d"))
    ended: Ended = field(default_factory=Ended)
    seen: Seen | None = None

    def steady(self, end: Load) -> tuple[float, float]:
        """From the end of the warm-up to the last request being sent: what comes after is the draining."""
        begin_s = next((change.t for change in self.changes if change.state == "steady"), self.begin.t)
        return begin_s, min(end.t, self.sent_s[-1] if self.sent_s else end.t)

    def settled_s(self, now_s: float) -> float:
        """Since when its load is what it is: begun, warm and not changed by hand, as known at an instant."""
        marks = [change.t for change in self.changes if change.t <= now_s and change.state in ("steady", "change")]
        return max(marks, default=self.begin.t)

    def state(self, now_s: float) -> tuple[Load, Load | None]:
        """(the latest target, the end) as known at an instant."""
        latest, end = self.begin, None
        for change in self.changes:
            if change.t <= now_s:
                if change.state == "end":
                    end = change
                elif change.state == "change":
                    latest = change
        return latest, end


class Slices:
    """How many in each slice of time: a day of slices is a megabyte, and a stray instant costs one block."""

    __slots__ = ("_blocks",)
    _BLOCK = 1024

    def __init__(self) -> None:
        self._blocks: dict[int, array[int]] = {}

    def add(self, slice_: int, count: int) -> None:
        block, place = divmod(slice_, self._BLOCK)
        counts = self._blocks.get(block)
        if counts is None:
            counts = self._blocks[block] = array("q", bytes(8 * self._BLOCK))
        counts[place] += count

    def between(self, first: int, last: int) -> int:
        """In the slices from first up to, not including, last."""
        total = 0
        for block, counts in self._blocks.items():
            begin = block * self._BLOCK
            if begin < last and begin + self._BLOCK > first:
                total += sum(counts[max(0, first - begin) : last - begin])
        return total


class Seen:
    """What the requests of a phase add up to, up to some line; goes forward cheaply, backward by starting anew."""

    def __init__(self) -> None:
        self.sent = self.ended = 0
        self.late = Spread()
        self.service, self.response = Spread(), Spread()
        self.itl, self.tpot, self.e2e = Spread(), Spread(), Spread()
        self.errors: Counter[str] = Counter()
        self.closed = 0  # that were sent and ended, warm-up included
        self.answered = 0  # of those, with their first token
        self.done = self.good = self.judged = 0
        self.output_tokens = self.good_tokens = 0
        self.tokens_in = Slices()  # output tokens by slice of the session, warm-up included
        self.unfinished = 0  # broken off by vtop
        self.limits = 0  # that met a limit of this machine, warm-up included
        self.limit: str | None = None  # the first of these, in words
        self.wrong_length = 0
        self.cached_tokens = 0
        self.unsplit = 0  # requests whose gaps could not be split into tokens

    def go_to(self, phase: Phase, now_s: float) -> None:
        sent = bisect_right(phase.sent_t, now_s)
        for k in range(self.sent, sent):
            if not phase.sent_warmup[k]:
                self.late.add_us(phase.late_us[k])
        self.sent = sent
        ended = bisect_right(phase.end_t, now_s)
        for k in range(self.ended, ended):
            self.take(phase.ended[k], phase.begin.slo)
        self.ended = ended

    def take(self, request: Request, slo: dict[str, float] | None) -> None:
        self.closed += request.sent_s is not None
        self.answered += request.first_s is not None
        self._spread_tokens(request)
        if request.error == CLIENT_LIMIT:
            self.limits += 1
            self.limit = self.limit or request.detail
        if request.warmup:
            return
        self.judged += slo is not None
        if request.error is not None:
            if request.error == UNFINISHED:
                self.unfinished += 1
            else:
                self.errors[request.error] += 1
            for spread in (self.service, self.response, self.tpot, self.e2e):
                spread.failed += 1
            return
        self.done += 1
        self.output_tokens += request.output_tokens or 0
        self.cached_tokens += request.cached_tokens or 0
        asked = request.asked_prompt_tokens
        if asked is not None and request.prompt_tokens is not None and asked != request.prompt_tokens:
            self.wrong_length += 1
        times = times_of(request)
        for spread, seconds in (
            (self.service, times.service_s),
            (self.response, times.response_s),
            (self.tpot, times.tpot_s),
            (self.e2e, times.e2e_s),
        ):
            if seconds is not None:
                spread.add(seconds)
        self._take_gaps(request)
        if slo and meets(request, slo):
            self.good += 1
            self.good_tokens += request.output_tokens or 0

    def _spread_tokens(self, request: Request) -> None:
        """Count the tokens of a request, also of one that failed, at the instants at which they came."""
        if request.first_s is None:
            return
        first_us = round(request.first_s * 1e6)
        self.tokens_in.add(first_us // SLICE_US, request.first_tokens or 1)
        at_us = accumulate(request.gaps_us or (), initial=first_us)
        next(at_us)
        if request.gap_tokens is None:
            for slice_, tokens in Counter(map(SLICE_US.__rfloordiv__, at_us)).items():
                self.tokens_in.add(slice_, tokens)
        else:
            for us, tokens in zip(at_us, request.gap_tokens, strict=False):
                self.tokens_in.add(us // SLICE_US, tokens)

    def tokens_per_s(self, begin_s: float, end_s: float) -> float | None:
        """Output tokens that came within whole slices of a stretch, per second; None for less than a second."""
        first, last = math.ceil(begin_s * SLICES_PER_S), math.floor(end_s * SLICES_PER_S)
        if last - first < SLICES_PER_S:
            return None
        return self.tokens_in.between(first, last) * SLICES_PER_S / (last - first)

    def _take_gaps(self, request: Request) -> None:
        gaps = request.gaps_us or ()
        if request.gap_tokens is None:
            later = (request.output_tokens or 0) - (request.first_tokens or 1)
            if request.tokens_from == "chunks" or later != len(gaps):
                self.unsplit += bool(gaps)
            self.itl.add_all_us(gaps)
            return
        for us, tokens in zip(gaps, request.gap_tokens, strict=False):
            if tokens > 0:
                self.itl.add_us(round(us / tokens), tokens)


@dataclass(frozen=True, slots=True)
class Times:
    """What one successful request took, in seconds; None where it cannot be said."""

    service_s: float | None
    response_s: float | None
    tpot_s: float | None
    e2e_s: float | None


def times_of(request: Request) -> Times:
    first, last, due = request.first_s, request.last_s, request.due_s
    tpot_s = None
    later = (request.output_tokens or 0) - (request.first_tokens or 1)
    if first is not None and last is not None and later > 0:
        tpot_s = (last - first) / later
    return Times(
        service_s=first - request.sent_s if first is not None and request.sent_s is not None else None,
        response_s=first - due if first is not None and due is not None else None,
        tpot_s=tpot_s,
        e2e_s=last - request.sent_s if last is not None and request.sent_s is not None else None,
    )


def meets(request: Request, slo: dict[str, float]) -> bool:
    """Whether a request succeeded and kept every bound; a time it does not have (TPOT of one token) breaks none.

    TTFT and e2e count from the instant it was due, so that an open loop cannot hide a queue in the client.
    """
    if request.error is not None or request.end_s is None:
        return False
    times = times_of(request)
    waited = (request.sent_s or 0.0) - request.due_s if request.due_s is not None else 0.0
    e2e_s = times.e2e_s + waited if times.e2e_s is not None else None
    found = {"ttft": times.response_s if times.response_s is not None else times.service_s}
    found |= {"tpot": times.tpot_s, "e2e": e2e_s}
    return all(found[name] is None or (found[name] or 0.0) <= bound for name, bound in slo.items())


class LoadHistory:
    """All phases of vtop's own load so far."""

    def __init__(self) -> None:
        self.phases: dict[int, Phase] = {}
        self.answered: dict[int, Answered] = {}  # by server
        self._server: int | None = None  # of the latest phase
        self._trials: list[Request] = []  # before the first phase tells on which server
        self.hosts_t = array("d")
        self.hosts: list[Host] = []

    def apply_load(self, load: Load) -> None:
        phase = self.phases.get(load.phase)
        if phase is None:
            self.phases[load.phase] = Phase(load)
            self._server = load.server
            for trial in self._trials:
                self._answer(load.t, load.server, trial)
            self._trials.clear()
        else:
            phase.changes.append(load)

    def apply_request(self, request: Request) -> None:
        phase = self.phases.get(request.phase)
        if phase is None:
            if request.end_s is not None and self._server is None:
                self._trials.append(request)
            elif request.end_s is not None:
                self._answer(request.t, self._server, request)
            return
        if request.end_s is not None:
            phase.end_t.append(request.t)
            phase.ended.append(request)
            self._answer(request.t, phase.begin.server, request)
        elif request.first_s is not None:
            phase.first_t.append(request.t)
        elif request.sent_s is not None:
            late_s = request.sent_s - request.due_s if request.due_s is not None else 0.0
            phase.sent_t.append(request.t)
            phase.sent_s.append(request.sent_s)
            phase.sent_warmup.append(request.warmup)
            phase.late_us.append(round(max(0.0, late_s) * 1e6))

    def _answer(self, t: float, server: int | None, request: Request) -> None:
        if server is not None:
            self.answered.setdefault(server, Answered()).add(t, request)

    def apply_host(self, host: Host) -> None:
        if host.load_cpu_ratio is None:  # about the machine, not about the load
            return
        self.hosts_t.append(host.t)
        self.hosts.append(host)

    def latest(self, now_s: float) -> Phase | None:
        """The phase that runs at an instant, or the last one that ran; None when there is no load."""
        return next((phase for phase in reversed(self.phases.values()) if phase.begin.t <= now_s), None)

    def in_flight_at(self, server: int, at_s: float) -> int:
        """How many requests of the phase on a server were under way at an instant, by the lines written till then."""
        for phase in reversed(self.phases.values()):
            if phase.begin.t <= at_s:
                sent, ended = bisect_right(phase.sent_t, at_s), bisect_right(phase.end_t, at_s)
                return max(0, sent - ended) if phase.begin.server == server else 0
        return 0

    def part(self, now_s: float) -> LoadPart | None:
        """The phase that runs at an instant, or the last one that ran; None when there is no load."""
        phase = self.latest(now_s)
        return self.part_of(phase.begin.phase, now_s) if phase is not None else None

    def part_of(self, number: int, now_s: float) -> LoadPart | None:
        """A phase as it stood at an instant; None before it began."""
        phase = self.phases.get(number)
        if phase is None or phase.begin.t > now_s:
            return None
        target, end = phase.state(now_s)
        seen = self._seen(phase, now_s)
        ended_s = end.t if end is not None else now_s
        host = self._host(phase.begin.t, min(now_s, ended_s))
        late_p50_s, late_p99_s = seen.late.quantiles((0.5, 0.99), however_few=True)
        done_all = bisect_right(phase.end_t, now_s)
        elapsed_s = max(0.0, ended_s - phase.begin.t)
        progress, left_s = _progress(phase.begin, done_all, elapsed_s, ended=end is not None)
        return LoadPart(
            phase=phase.begin.phase,
            server=phase.begin.server,
            begin_s=phase.begin.t,
            phases=sum(one.begin.t <= now_s for one in self.phases.values()),
            spec=phase.begin.spec,
            shape=phase.begin.shape,
            state="ended" if end is not None else "running",
            reason=end.reason if end is not None else None,
            concurrency=target.concurrency,
            rate_per_s=target.rate_per_s,
            arrival=target.arrival,
            sent_per_s=_recent_rate(phase, now_s) if end is None else None,
            in_flight=max(0, seen.sent - seen.closed) if end is None else 0,
            answering=max(0, bisect_right(phase.first_t, now_s) - seen.answered) if end is None else 0,
            sent=seen.late.n,
            done=seen.done,
            failed=sum(seen.errors.values()),
            unfinished=seen.unfinished,
            failed_by_class=tuple(sorted(seen.errors.items())),
            planned=phase.begin.requests,
            progress_ratio=progress,
            left_s=left_s,
            elapsed_s=elapsed_s,
            late_p50_s=late_p50_s,
            late_p99_s=late_p99_s,
            ttft=_quantiles(seen.service),
            ttft_from_due=_quantiles(seen.response) if phase.begin.shape == "open" else None,
            itl=_quantiles(seen.itl),
            tpot=_quantiles(seen.tpot),
            e2e=_quantiles(seen.e2e),
            itl_is_chunks=seen.unsplit > 0,
            output_tokens=seen.output_tokens,
            output_per_s=seen.tokens_per_s(*phase.steady(end)) if end is not None else None,
            cached_tokens=seen.cached_tokens,
            prefix_hit_tokens=None,
            wrong_length=seen.wrong_length,
            slo=_slo(phase, seen, elapsed_s),
            lag_s=host.load_lag_max_s if host is not None else None,
            cpu_ratio=host.load_cpu_ratio if host is not None else None,
            limited=_limited(target, seen, late_p99_s, host),
        )

    def seen(self, number: int, now_s: float) -> Seen | None:
        """What the requests of a phase add up to at an instant; None before it began."""
        phase = self.phases.get(number)
        return self._seen(phase, now_s) if phase is not None and phase.begin.t <= now_s else None

    def _seen(self, phase: Phase, now_s: float) -> Seen:
        seen = phase.seen
        behind = seen is not None and (
            seen.sent > bisect_right(phase.sent_t, now_s) or seen.ended > bisect_right(phase.end_t, now_s)
        )
        if seen is None or behind:
            seen = phase.seen = Seen()
        seen.go_to(phase, now_s)
        return seen

    def _host(self, begin_s: float, now_s: float) -> Host | None:
        place = bisect_right(self.hosts_t, now_s) - 1
        return self.hosts[place] if place >= 0 and self.hosts_t[place] >= begin_s else None


def seen_of(requests: Iterable[Request], slo: dict[str, float] | None) -> Seen:
    """What some ended requests add up to, as those of a phase do."""
    seen = Seen()
    for request in requests:
        seen.take(request, slo)
    return seen


def target_words(load: Load) -> str:
    """What a phase aims at: 64 in flight, 8 requests/s."""
    if load.shape == "closed":
        return f"{load.concurrency} in flight"
    return f"{load.rate_per_s:g} requests/s"


def _quantiles(spread: Spread) -> Quantiles:
    p50, p90, p99, p999 = spread.quantiles(ASKED)
    return Quantiles(
        n=spread.n, failed=spread.failed, mean_s=spread.mean_s, p50_s=p50, p90_s=p90, p99_s=p99, p999_s=p999
    )


def _recent_rate(phase: Phase, now_s: float) -> float | None:
    sent = bisect_right(phase.sent_t, now_s)
    span_s = min(RECENT_S, now_s - phase.begin.t)
    if span_s < 1.0:
        return None
    return (sent - bisect_left(phase.sent_t, now_s - span_s, 0, sent)) / span_s


def _progress(begin: Load, done: int, elapsed_s: float, *, ended: bool) -> tuple[float | None, float | None]:
    """(share done, seconds left), by whichever of its two limits the phase comes to first."""
    if ended:
        return 1.0, 0.0
    ratios, lefts = [], []
    if begin.requests:
        ratios.append(min(1.0, done / (begin.requests + begin.warmup)))
        if done:
            lefts.append(elapsed_s * (begin.requests + begin.warmup - done) / done)
    if begin.for_s:
        ratios.append(min(1.0, elapsed_s / begin.for_s))
        lefts.append(max(0.0, begin.for_s - elapsed_s))
    return max(ratios, default=None), min(lefts, default=None)


def _slo(phase: Phase, seen: Seen, elapsed_s: float) -> Slo | None:
    bounds = phase.begin.slo
    if not bounds:
        return None
    per_s = 1.0 / elapsed_s if elapsed_s > 0 else None
    return Slo(
        bounds=tuple(sorted(bounds.items())),
        judged=seen.judged,
        good=seen.good,
        attainment_ratio=seen.good / seen.judged if seen.judged else None,
        good_per_s=seen.good * per_s if per_s else None,
        good_tokens_per_s=seen.good_tokens * per_s if per_s else None,
    )


def _limited(target: Load, seen: Seen, late_p99_s: float | None, host: Host | None) -> str | None:
    """Why the numbers may be the client's rather than the server's."""
    if seen.limits:
        return f"{seen.limits} failed here: {seen.limit or 'a limit of this machine'}"
    gap_s = 1.0 / target.rate_per_s if target.rate_per_s else 0.0
    if late_p99_s is not None and late_p99_s > max(LATE_S, LATE_SHARE * gap_s) and target.shape == "open":
        return f"requests left {late_p99_s * 1000:.1f} ms late (p99)"
    if host is not None and host.load_cpu_ratio is not None and host.load_cpu_ratio > BUSY_RATIO:
        return f"the load process takes {host.load_cpu_ratio:.0%} of a core"
    if host is not None and host.load_lag_max_s is not None and host.load_lag_max_s > LAG_S:
        return f"its event loop ran {host.load_lag_max_s * 1000:.0f} ms late"
    return None
