"""What a recording says about a span of it: the means of the server's histograms, its gauges, the client's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from vtop.metrics.quantity import Quantity
from vtop.recording import Request
from vtop.session.bottleneck.at_limit import SLACK, at_limit, full_from
from vtop.session.frame.frame import View
from vtop.session.history.ttft_parts import parts_of
from vtop.session.history.window import Window, between
from vtop.session.kv.pool import pool_at
from vtop.session.load.request_latency import RequestLatency, latency_of
from vtop.session.load.server_timings import timings_of
from vtop.session.session import Session

PARTS = {
    "queue_s": Quantity.QUEUE,
    "prefill_s": Quantity.PREFILL,
    "decode_s": Quantity.DECODE,
    "inference_s": Quantity.INFERENCE,
    "e2e_s": Quantity.E2E,
}


@dataclass(frozen=True, slots=True)
class ObservedTimes:
    """Means over the finished requests of a run, in seconds, from the server's histograms."""

    requests: int  # fewer than the load sent where the recording's last scrape came before they had finished
    queue_s: float
    prefill_s: float
    decode_s: float
    e2e_s: float
    frontend_s: float
    span_s: float | None = None  # from the first request sent to the last token
    preemptions: int | None = None
    answers: tuple[RequestLatency, ...] = ()  # as vtop's own client saw them
    running: float | None = None  # means over the scrapes of that time
    waiting: float | None = None
    kv_ratio: float | None = None
    recomputed_ratio: float | None = None  # of the tokens that the answers needed
    most_running: int | None = None
    max_num_seqs: int | None = None  # running stood so high while others waited and the pool had room: max_num_seqs

    @property
    def ttft_s(self) -> float:
        """Of the finished requests; the three parts add up."""
        return self.frontend_s + self.queue_s + self.prefill_s


def observed(
    session: Session,
    window: Window,
    busy_s: tuple[float, float],
    span_s: float | None = None,
    *,
    answers: Sequence[RequestLatency] = (),
    foreign: Sequence[Request] = (),
) -> ObservedTimes | None:
    """Of the requests that finished in the window, and the scrapes between two instants; None where none finished.

    foreign: requests of vtop's own that finished in the window and are none of the run; what the server says of them in
    their answers, else what its client saw, is taken out of the server's sums.
    """
    known = {name: _mean(window, quantity, _foreign(name, foreign)) for name, quantity in PARTS.items()}
    requests = round(window.observed(Quantity.E2E)) - len(foreign)
    if requests < 1:
        return None
    parts = parts_of(*((known[name], 1.0) for name in ("e2e_s", "queue_s", "prefill_s", "inference_s")))
    busy = between(session.servers, *busy_s, session.end_s)
    running, waiting, kv_ratio = (
        _level(busy, quantity, busy_s[1]) for quantity in (Quantity.RUNNING, Quantity.WAITING, Quantity.KV_USED)
    )
    preemptions = window.delta(Quantity.PREEMPTIONS)
    last_s = window.ranges[0].server.at_s[window.ranges[0].last]
    frame = session.frame(last_s, View(window_s=last_s - busy_s[0]))
    most, max_num_seqs = _max_num_seqs(busy)
    return ObservedTimes(
        requests=requests,
        queue_s=known["queue_s"],
        prefill_s=known["prefill_s"],
        decode_s=known["decode_s"],
        e2e_s=known["e2e_s"],
        frontend_s=parts.frontend_s if parts is not None else 0.0,
        span_s=span_s,
        preemptions=None if preemptions is None else round(preemptions),
        answers=tuple(answers),
        running=running,
        waiting=waiting,
        kv_ratio=kv_ratio,
        recomputed_ratio=frame.recompute.ratio,
        most_running=most,
        max_num_seqs=max_num_seqs,
    )


def answers_of(requests: Sequence[Request]) -> list[RequestLatency]:
    """Of finished ones whose stamps are all on record."""
    found = [latency_of(request) for request in requests]
    return [one for one in found if one.ttft_s is not None and one.e2e_s is not None]


def _foreign(name: str, requests: Sequence[Request]) -> list[float]:
    """What the server observed of them, within the few ms that lie between it and its client."""
    found = []
    for request in requests:
        sent_s, first_s, last_s = (value or 0.0 for value in (request.sent_s, request.first_s, request.last_s))
        queue_s = timings_of(request.timings).queue_s or 0.0
        whole = {"queue_s": queue_s, "prefill_s": first_s - sent_s - queue_s, "decode_s": last_s - first_s}
        whole |= {"inference_s": last_s - sent_s - queue_s}
        found.append(whole.get(name, last_s - sent_s))
    return found


def _mean(window: Window, quantity: Quantity, without: Sequence[float]) -> float:
    total, count = window.sums(quantity) or (0.0, 0.0)
    left = total - sum(without)
    if left < 0:  # their clients saw more than the server's part of it: not told apart, and all are one mean
        return total / max(1.0, count)
    return left / max(1.0, count - len(without))


def _level(window: Window, quantity: Quantity, until_s: float) -> float | None:
    """Mean over the scrapes up to an instant: the window ends with one after it."""
    scrapes = zip(window.instants, window.each_together(quantity), strict=True)
    known = [value for at_s, value in scrapes if value == value and at_s <= until_s]
    return fmean(known) if known else None


def _max_num_seqs(window: Window) -> tuple[int | None, int | None]:
    """How many ran at most, and whether that was as many as may: others waited then, and the pool had room."""
    if not window.ranges:
        return None, None
    one = window.ranges[0]
    running, waiting, kv_ratio = (
        [value if value == value else None for value in window.each_together(quantity)]
        for quantity in (Quantity.RUNNING, Quantity.WAITING, Quantity.KV_USED)
    )
    most = max((value for value in running if value is not None), default=0.0)
    if not most:
        return None, None
    prompt, tokens = window.mean(Quantity.REQUEST_PROMPT_TOKENS), pool_at(one.server, one.last, None).tokens
    found = at_limit(running, waiting, kv_ratio, full=full_from(prompt, tokens), max_num_seqs=None)
    stands = found.stands and found.limit is not None and found.limit >= most * (1 - SLACK)
    return round(most), round(most) if stands else None
