"""Bytes written per executed token and per row of logits, found from the counters alone.

Where every step only decoded (decoding.py) a token is one executed token and one row, so with a and b the two costs

    written = (a + b) x tokens                                              exactly, step by step

and between two scrapes on which nobody was in mid-prefill and nobody waited (a preempted request would, to run its
prompt again), with no preemption in between,

    written = a x (computed prompt tokens + generated - first tokens) + b x (generated + chunks that ended no prompt)

for a prompt of P tokens with G of output runs P + G - 1 tokens. How many chunks there were is not known and taken as 0,
which makes a too large by b / (a x tokens of a chunk), a few in a million. a + b is what most of the first kind say
(two that agree are `sure`; a preemption that nobody has told of yet may look like decoding), a the median of what the
second kind says then, weighted by its prompts; without the first kind both are fitted by least squares. Of each run of
the server (between restarts) the first ENOUGH of either kind count, so that a later scrape changes nothing. Prompts
that were aborted before their first token spoil single spans, which a median bears.

Source: vLLM v1/metrics/perf.py. Bytes, tokens.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from vtop.metrics.quantity import Quantity
from vtop.session.history.server import ServerHistory
from vtop.session.history.tracks import Track
from vtop.session.recompute.decode_only import only_decoded, preempted, quiet
from vtop.session.recompute.required_tokens import needed

ENOUGH = 33
LOOKS = 600  # scrapes with new tokens of one run that are looked at, at most

_SAME = 1e-6
_ENOUGH_TURN = 1e-3  # how far from one direction the equations of a least-squares fit must lie


@dataclass(frozen=True, slots=True)
class Found:
    """What the counters say: both costs, or only their sum."""

    both_bytes: float | None  # a + b
    token_bytes: float | None  # a
    sure: bool = False  # of a + b


@dataclass(frozen=True, slots=True)
class _Span:
    """written = a x prompt + (a + b) x generated; known from a scrape on."""

    scrape: int
    prompt: float  # computed tokens less first tokens, and drafted ones
    generated: float
    written: float


class WriteFit:
    """The equations of one server, looked for once, scrape by scrape, as far as anybody asked."""

    def __init__(self, server: ServerHistory) -> None:
        self._server = server
        self._next = 0  # place in the track of generated tokens
        self._looks = 0
        self._run = 0  # the first scrape of the run that is being looked at
        self._settled: int | None = None
        self._paces: list[tuple[int, float]] = []  # scrape, a + b
        self._spans: list[_Span] = []
        self._here = [0, 0]  # how many of either in this run

    def costs(self, first: int, last: int) -> Found:
        """By the equations of the scrapes after first and up to last, which lie in one run of the server."""
        self._look(last)
        low, high = (bisect_right(self._paces, scrape, key=lambda one: one[0]) for scrape in (first, last))
        paces = [pace for _, pace in self._paces[low:high]]
        low, high = (bisect_right(self._spans, scrape, key=lambda one: one.scrape) for scrape in (first, last))
        spans = self._spans[low:high]
        if not paces:
            return _least_squares(spans)
        both, agreeing = _most_agreed(paces)
        found = [((one.written - both * one.generated) / one.prompt, one.prompt) for one in spans]
        token = _weighted_median(found)
        return Found(both, token if token is not None and 0 < token <= both else None, sure=agreeing > 1)

    def _look(self, last: int) -> None:
        generated = self._server.total(Quantity.GENERATION_TOKENS)
        written = self._server.total(Quantity.WRITE_BYTES)
        if generated is None or written is None:
            return
        scrapes, restarts = generated.scrape, self._server.restarts
        end = bisect_right(scrapes, last)
        while self._next < end:
            scrape = scrapes[self._next]
            run = restarts[bisect_right(restarts, scrape) - 1] if restarts and restarts[0] <= scrape else 0
            if run != self._run:
                self._run, self._settled, self._looks, self._here = run, None, 0, [0, 0]
            if self._looks >= LOOKS or min(self._here) >= ENOUGH:  # on to the next restart, if there is one by then
                after = bisect_right(restarts, scrape)
                self._next = bisect_left(scrapes, restarts[after]) if after < len(restarts) else end
                self._next = min(self._next, end)
                continue
            self._next += 1
            self._looks += 1
            self._see(scrape, written)

    def _see(self, scrape: int, written: Track) -> None:
        server = self._server
        if scrape > self._run and quiet(server, scrape - 1):
            self._settle(scrape - 1, scrape, written)
        found = only_decoded(server, scrape)
        if found is not None and scrape > self._run:
            grown = written.grown(scrape - 1, scrape)
            if grown and self._here[0] < ENOUGH and not _drafted(server, scrape):
                self._paces.append((scrape, grown / found[1]))
                self._here[0] += 1
            self._settle(scrape - 1, scrape, written)
            self._settle(scrape, scrape, written)
        elif quiet(server, scrape):
            self._settle(scrape, scrape, written)

    def _settle(self, scrape: int, known: int, written: Track) -> None:
        """Nobody was in mid-prefill on a scrape; known from another on."""
        server, before = self._server, self._settled
        if before is not None and scrape <= before:
            return
        self._settled = scrape
        if before is None or self._here[1] >= ENOUGH or preempted(server, before, scrape):
            return
        waiting = server.total(Quantity.WAITING)
        if waiting is None or waiting.at(before) != 0 or waiting.at(scrape) != 0:
            return
        work, grown = needed(server, before, scrape), written.grown(before, scrape)
        if work is None or not grown:
            return
        prompt = work.prompt - work.first_tokens + work.drafted
        if prompt > 0:
            self._spans.append(_Span(known, prompt, work.rows, grown))
            self._here[1] += 1


def _drafted(server: ServerHistory, scrape: int) -> bool:
    track = server.total(Quantity.SPEC_DRAFT_TOKENS)
    return track is not None and bool(track.grown(scrape - 1, scrape))


def _most_agreed(values: Sequence[float]) -> tuple[float, int]:
    """(the value that most of them have, how many do); the median where no two agree."""
    ordered = sorted(values)
    best, most, begin = median(ordered), 1, 0
    for place, value in enumerate(ordered):
        while value > ordered[begin] * (1 + _SAME):
            begin += 1
        if place - begin + 1 > most:
            best, most = ordered[begin], place - begin + 1
    return best, most


def _weighted_median(values: Sequence[tuple[float, float]]) -> float | None:
    """The value at which half of the weight is reached."""
    half, reached = sum(weight for _, weight in values) / 2, 0.0
    for value, weight in sorted(values):
        reached += weight
        if reached >= half:
            return value
    return None


def _least_squares(spans: Sequence[_Span]) -> Found:
    pp = sum(one.prompt**2 for one in spans)
    pg = sum(one.prompt * one.generated for one in spans)
    gg = sum(one.generated**2 for one in spans)
    turn = pp * gg - pg * pg
    if turn <= _ENOUGH_TURN * pp * gg:
        return Found(None, None)
    pw = sum(one.prompt * one.written for one in spans)
    gw = sum(one.generated * one.written for one in spans)
    token, both = (pw * gg - gw * pg) / turn, (gw * pp - pw * pg) / turn
    return Found(both, token) if 0 < token <= both else Found(None, None)
