"""For how many seconds requests were in the engine: what throughput "while requests were in the engine" is by.

Between two scrapes that both show requests (running or waiting) it counts as busy throughout. Between two of which one
shows none, or between which requests came and went, it was busy for a part of the time, which the engine's own steps
tell: from all intervals that were busy throughout one fits

    seconds = a x steps + b x prompt tokens             (a, b >= 0, least squares)

and the part is what a and b make of its steps and prompt tokens, at most all of it. Prompt tokens are counted at a
request's first token; half of the prompt of each request that was in prefill on a scrape counts as done by then (how
many were shows from the last scrape without requests on, up to the first preemption). Where too few intervals are
busy throughout, the part is its share of tokens at the rate of the others, and where there are none the end-to-end
time of the requests that ended in it; without any of these it is not known.

On the recordings with a client's own stamps this is within 2 % of the union of its requests' lives, in 61 of the 62
spans of 6 s and more at a scrape a second. Source: vLLM v1/metrics/loggers.py (one observation of
iteration_tokens per step that gave output). Seconds.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final

from vtop.metrics.quantity import Quantity
from vtop.session.frame.values import Throughput
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import ScrapeRange, Window

LOOKS: Final = 600  # intervals that a fit is over, at most: the latest
ENOUGH: Final = 3  # intervals that are busy throughout, for a fit
SURE: Final = 0.2  # of a prompt token's cost: with more error the intervals do not tell it from a step's
HALF_DONE: Final = 0.5  # of the prompt of a request in prefill


@dataclass(frozen=True, slots=True)
class BusyCost:
    """Seconds of a step, and of a prompt token on top; error_ratio: the standard error of the latter, as a share."""

    step_s: float
    prompt_token_s: float
    error_ratio: float = field(default=0.0, compare=False)

    @property
    def told(self) -> bool:
        """Whether the intervals tell one from the other."""
        return self.step_s > 0 and self.prompt_token_s > 0 and self.error_ratio <= SURE


@dataclass(frozen=True, slots=True)
class Busy:
    """The intervals of a range, by the scrape that ends them."""

    throughout: tuple[int, ...]  # busy from the scrape before on
    partly: tuple[int, ...]
    idle: tuple[int, ...]  # scrapes without a request


def throughput(window: Window) -> Throughput:
    """What was done a second while requests were in the engine, of several servers in any of them."""
    spans = [_spans(one) for one in window.ranges]
    seconds = _together_s([span for of_one in spans if of_one is not None for span in of_one])
    known = [one for one, of_one in zip(window.ranges, spans, strict=True) if of_one]
    if not known or seconds <= 0:
        return Throughput()
    served = Window(tuple(known))
    return Throughput(
        busy_s=seconds,
        output_per_s=_per_s(served.delta(Quantity.GENERATION_TOKENS), seconds),
        prompt_per_s=_per_s(served.delta(Quantity.PROMPT_TOKENS), seconds),
        finished_per_s=_per_s(served.count_of_parts(Quantity.FINISHED).in_window, seconds),
    )


def _per_s(grown: float | None, seconds: float) -> float | None:
    return grown / seconds if grown is not None else None


def _together_s(spans: Sequence[tuple[float, float]]) -> float:
    """Seconds that lie in any of some spans."""
    total, reached_s = 0.0, -math.inf
    for begin_s, end_s in sorted(spans):
        total += max(0.0, end_s - max(begin_s, reached_s))
        reached_s = max(reached_s, end_s)
    return total


def busy_s(one: ScrapeRange) -> float | None:
    """Of one server, all its engines together; None where it is not known."""
    spans = _spans(one)
    return sum(end_s - begin_s for begin_s, end_s in spans) if spans is not None else None


@lru_cache(maxsize=8)  # the throughput of a frame and where its time went ask for the same
def _spans(one: ScrapeRange) -> tuple[tuple[float, float], ...] | None:
    """When requests were in the engine of one server, a span an interval; None where it is not known."""
    found = _intervals(one)
    if found is None:
        return None
    parts = _parts_s(_Work(one, found.idle), found) if found.partly else {}
    if parts is None:
        return None
    parts |= {scrape: _counted_s(one.server, scrape) for scrape in found.throughout}
    idle = frozenset(found.idle)
    at_s = one.server.at_s
    return tuple(
        (at_s[scrape] - part_s, at_s[scrape])  # a request was there at the end, or at the beginning
        if scrape not in idle
        else (at_s[scrape - 1], at_s[scrape - 1] + part_s)
        for scrape, part_s in parts.items()
    )


def cost(one: ScrapeRange) -> BusyCost | None:
    """What a step and a prompt token take in a range; None of too few intervals."""
    found = _intervals(one)
    return _cost(_Work(one, found.idle), found.throughout) if found is not None else None


def _intervals(one: ScrapeRange) -> Busy | None:
    """None where the server does not say what runs or waits."""
    tracks = [one.server.total(quantity) for quantity in (Quantity.RUNNING, Quantity.WAITING)]
    rows = [track.every(one.first, one.last) for track in tracks if track is not None]
    if not rows:
        return None
    present = [any(value > 0 for value in column) for column in zip(*rows, strict=True)]
    grew = _grew(one)
    throughout, partly = [], []
    for scrape, (before, now) in enumerate(pairwise(present), one.first + 1):
        if before and now:
            throughout.append(scrape)
        elif before or now or scrape in grew:
            partly.append(scrape)
    idle = tuple(scrape for scrape, here in enumerate(present, one.first) if not here)
    return Busy(tuple(throughout), tuple(partly), idle)


def _grew(one: ScrapeRange) -> frozenset[int]:
    """The scrapes on which there were more tokens than before."""
    track = one.server.total(Quantity.GENERATION_TOKENS)
    if track is None:
        return frozenset()
    return frozenset(track.scrape[bisect_right(track.scrape, one.first) : bisect_right(track.scrape, one.last)])


def _counted_s(server: ServerHistory, scrape: int) -> float:
    return server.at_s[scrape] - server.at_s[scrape - 1] - server.down_s(scrape - 1, scrape)


class _Work:
    """What a server did between scrapes of a range. `idle`: those without a request."""

    def __init__(self, one: ScrapeRange, idle: Sequence[int]) -> None:
        self.server = one.server
        self._idle = idle
        self._steps = one.server.histogram(Quantity.ITERATION_TOKENS)
        self._begun = one.server.histogram(Quantity.TTFT)
        self._running, self._generated, self._preempted = (
            one.server.total(quantity)
            for quantity in (Quantity.RUNNING, Quantity.GENERATION_TOKENS, Quantity.PREEMPTIONS)
        )
        computed = one.server.total(Quantity.PROMPT_TOKENS_BY_SOURCE, "local_compute")
        self._prompt = computed if computed is not None else one.server.total(Quantity.PROMPT_TOKENS)
        prompts = self._begun.sums(one.first, one.last) if self._begun is not None else None
        tokens = self._prompt.grown(one.first, one.last) if self._prompt is not None else None
        self._each = tokens / prompts[1] if tokens is not None and prompts is not None and prompts[1] else None

    def between(self, scrape: int) -> tuple[float, float] | None:
        """(steps, prompt tokens) between the scrape before and a scrape; None where the server does not count them."""
        steps = self._steps.sums(scrape - 1, scrape) if self._steps is not None else None
        prompt = self._prompt.grown(scrape - 1, scrape) if self._prompt is not None else None
        if steps is None or prompt is None:
            return None
        under_way = self._in_prefill_tokens(scrape) - self._in_prefill_tokens(scrape - 1)
        return steps[1], max(0.0, prompt + HALF_DONE * under_way)

    def tokens(self, scrapes: Sequence[int]) -> float:
        if self._generated is None:
            return 0.0
        return sum(self._generated.grown(scrape - 1, scrape) or 0.0 for scrape in scrapes)

    def lived_s(self, scrape: int) -> float | None:
        """End-to-end seconds of the requests that ended by a scrape; None where none did."""
        track = self.server.histogram(Quantity.E2E)
        sums = track.sums(scrape - 1, scrape) if track is not None else None
        return sums[0] if sums is not None and sums[1] > 0 and sums[0] == sums[0] else None

    def _in_prefill_tokens(self, scrape: int) -> float:
        """Prompt tokens of the requests in prefill on a scrape; 0 where that does not show."""
        place = bisect_right(self._idle, scrape) - 1
        if place < 0 or self._each is None or self._running is None or self._begun is None:
            return 0.0
        idle = self._idle[place]
        if self._preempted is not None and self._preempted.grown(idle, scrape):
            return 0.0
        begun = self._begun.sums(idle, scrape)
        ended = sum(track.grown(idle, scrape) or 0.0 for track in self.server.finished)
        decoding = max(0.0, begun[1] - ended) if begun is not None else 0.0
        return max(0.0, (self._running.at(scrape) or 0.0) - decoding) * self._each


def _parts_s(work: _Work, found: Busy) -> dict[int, float] | None:
    """The busy part of each interval that was so partly; None where it is not known of one."""
    known = _cost(work, found.throughout)
    usual = work.tokens(found.throughout)
    whole_s = sum(_counted_s(work.server, scrape) for scrape in found.throughout)
    parts = {}
    for scrape in found.partly:
        done = work.between(scrape) if known is not None else None
        if known is not None and done is not None:
            part: float | None = known.step_s * done[0] + known.prompt_token_s * done[1]
        elif usual:
            part = work.tokens((scrape,)) / usual * whole_s
        else:
            part = work.lived_s(scrape)
        if part is None:
            return None
        parts[scrape] = min(max(part, 0.0), _counted_s(work.server, scrape))
    return parts


def _cost(work: _Work, throughout: Sequence[int]) -> BusyCost | None:
    """By the latest intervals that were busy throughout; None of too few."""
    known = [
        (*done, _counted_s(work.server, scrape))
        for scrape in throughout[-LOOKS:]
        if (done := work.between(scrape)) is not None and done[0] > 0
    ]
    return fitted(known) if len(known) >= ENOUGH else None


def fitted(rows: Sequence[tuple[float, float, float]]) -> BusyCost:
    """Least squares over (steps, prompt tokens, seconds), neither cost below 0."""
    ss, pp = sum(s * s for s, _, _ in rows), sum(p * p for _, p, _ in rows)
    sp = sum(s * p for s, p, _ in rows)
    st, pt = sum(s * t for s, _, t in rows), sum(p * t for _, p, t in rows)
    turn = ss * pp - sp * sp
    if turn > 1e-9 * ss * pp:
        step_s, token_s = (st * pp - pt * sp) / turn, (ss * pt - sp * st) / turn
        if step_s >= 0 and token_s >= 0:
            left = sum((t - step_s * s - token_s * p) ** 2 for s, p, t in rows)
            error_s = math.sqrt(left / max(1, len(rows) - 2) * ss / turn)
            return BusyCost(step_s, token_s, error_s / token_s if token_s else math.inf)
        if step_s < 0:
            return BusyCost(0.0, pt / pp)
    return BusyCost(st / ss if ss else 0.0, 0.0)
