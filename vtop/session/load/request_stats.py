"""What requests of vtop's own load add up to, one after the other.

A gap of k tokens counts as k tokens of gap / k (ITL). Failures stand in every denominator and as endless in every
percentile; warm-up requests in none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from vtop.recording import Request
from vtop.recording.vocabulary import ERROR_CLASSES, ErrorClass, known
from vtop.session.load.attainment import ERROR, OPEN, REJECTED, TIMEOUT, AttainmentCount
from vtop.session.load.exact_histogram import ExactHistogram
from vtop.session.load.hosts import WORKER_LOST, HostCount
from vtop.session.load.request_latency import RequestLatency, latency_of
from vtop.session.load.token_timeline import SLICE_US, TokenTimeline

UNFINISHED: Final = "cancelled_at_end"
TOO_MANY: Final = 429  # HTTP
CLIENT_LIMIT: Final = "client_limit"  # a request that this machine could not send
OWN_FAILURES: Final = (CLIENT_LIMIT, WORKER_LOST)  # of the load, not of the server


class RequestStats:
    """Sums over some requests, `sent` and `ended` say how many; `take` adds one that ended."""

    def __init__(self) -> None:
        self.sent = self.ended = 0
        self.late = ExactHistogram()
        self.slot = ExactHistogram()  # the wait in the client for a slot under a cap that was asked for
        self.hosts = HostCount()
        self.service, self.response = ExactHistogram(), ExactHistogram()
        self.itl, self.tpot, self.e2e = ExactHistogram(), ExactHistogram(), ExactHistogram()
        self.errors: Counter[ErrorClass] = Counter()
        self.said: dict[str, str] = {}  # what the first error of a class says, that says anything
        self.closed = 0  # that were sent and ended, warm-up included
        self.answered = 0  # of those, with their first token
        self.done = 0
        self.output_tokens = self.good_tokens = 0
        self.prompt_tokens = self.with_prompt = 0  # of the answered whose prompt is known, and how many
        self.slo: AttainmentCount | None = None  # where there is a service level
        self.broken: Counter[str] = Counter()  # bounds of it, by answered requests
        self.tokens_in = TokenTimeline()  # output tokens by slice of the session, warm-up included
        self.unfinished = 0  # broken off by vtop
        self.rejected = 0  # of those that failed, by a server or gateway at its limit
        self.limits = 0  # that failed by the load's own doing, warm-up included
        self.limit: str | None = None  # the first of these, in words
        self.wrong_length = 0
        self.ended_early = 0  # answered, with fewer tokens than asked for
        self.cached_tokens = 0
        self.unsplit = 0  # requests whose gaps could not be split into tokens

    def take(self, request: Request, slo: dict[str, float] | None) -> None:
        self.closed += request.sent_s is not None
        self.answered += request.first_s is not None
        self._spread_tokens(request)
        if request.error in OWN_FAILURES:
            self.limits += 1
            self.limit = self.limit or request.detail
        if request.warmup:
            return
        if request.error == WORKER_LOST and request.host is not None:
            self.hosts.lost[request.host] += 1
        if slo and self.slo is None:
            self.slo = AttainmentCount(slo)
        if self.slo is not None:
            self._judge(request, self.slo)
        if request.error is not None:
            if request.error == UNFINISHED:
                self.unfinished += 1
            else:
                error = known(request.error, ERROR_CLASSES)
                self.errors[error] += 1
                self.rejected += request.status == TOO_MANY
                if request.detail:
                    self.said.setdefault(error, request.detail)
            for spread in (self.service, self.response, self.tpot, self.e2e):
                spread.failed += 1
            return
        self.done += 1
        self.output_tokens += request.output_tokens or 0
        self.cached_tokens += request.cached_tokens or 0
        asked = request.asked_prompt_tokens
        prompt = request.prompt_tokens if request.prompt_tokens is not None else asked
        if prompt is not None:
            self.prompt_tokens += prompt
            self.with_prompt += 1
        if asked is not None and request.prompt_tokens is not None and asked != request.prompt_tokens:
            self.wrong_length += 1
        if request.output_tokens is not None and request.output_tokens < (request.asked_output_tokens or 0):
            self.ended_early += 1
        took = latency_of(request)
        for spread, seconds in (
            (self.service, took.ttft_s),
            (self.response, took.ttft_from_due_s),
            (self.tpot, took.tpot_s),
            (self.e2e, took.e2e_s),
        ):
            if seconds is not None:
                spread.add(seconds)
        self._take_gaps(request)

    def _judge(self, request: Request, slo: AttainmentCount) -> None:
        outcome = outcome_of(request)
        prompt = request.asked_prompt_tokens or request.prompt_tokens
        output = request.asked_output_tokens or request.output_tokens
        if slo.take_of_length(outcome, prompt, output):
            self.good_tokens += request.output_tokens or 0
        if not isinstance(outcome, str):
            self.broken.update(outcome.broken(slo.bounds))

    @property
    def judged(self) -> int:
        return self.slo.judged if self.slo is not None else 0

    @property
    def good(self) -> int:
        return self.slo.passed if self.slo is not None else 0

    @property
    def failed(self) -> int:
        return sum(self.errors.values())

    @property
    def over(self) -> int:
        """Requests that are over, whichever way."""
        return self.done + self.failed + self.unfinished

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


def outcome_of(request: Request) -> RequestLatency | str:
    """What an ended request took, or how there was no answer: a time-out and a rejection apart from errors."""
    if request.status == TOO_MANY:
        return REJECTED
    if request.error is not None:
        return {"timeout": TIMEOUT, "stalled": TIMEOUT, UNFINISHED: OPEN}.get(request.error, ERROR)
    return latency_of(request)


def seen_of(requests: Iterable[Request], slo: dict[str, float] | None) -> RequestStats:
    """What some ended requests add up to, as those of a phase do."""
    seen = RequestStats()
    for request in requests:
        seen.take(request, slo)
    return seen
