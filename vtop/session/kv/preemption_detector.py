"""The stair of preemptions, step by step: how many there were by the counter, and when by the gauges.

A request that does not get its next KV block throws the youngest running one out: running falls by one, waiting rises
by one, its blocks are freed. vLLM counts that only with the victim's next output, which on a server without async
scheduling comes when it has run again. So the counter says how many, and the gauges say when. On a scrape

    signs = min(fall of running - finished, rise of waiting), where KV use is at NEAR_FULL on it or on the scrape before

per engine, and each rise of its counter is matched to the oldest signs not yet matched; what it finds no sign for is
dated by itself. A sign that the counter does not confirm is an aborted request, or one that was put back and is still
out: it is unconfirmed until as many requests have finished as ran then, or all are gone.

What is kept of a step as scrapes come is little; the rest is looked up in the tracks when somebody asks.

Source: vLLM v1/core/sched/scheduler.py (_preempt_request), v1/metrics/stats.py (events come with the next output).
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

from vtop.metrics.quantity import Quantity
from vtop.session.frame.requests import PreemptionEvent
from vtop.session.frame.vocabulary import DatedBy
from vtop.session.history.server import ServerHistory
from vtop.session.history.tracks import Track
from vtop.session.kv.pool import pool_at

NEAR_FULL = 0.9
GAUGES: DatedBy = "gauges"
COUNTER: DatedBy = "counter"
LATEST = 200  # steps that a mean is taken of, at most

_FOR_EVER = 1 << 62


@dataclass(slots=True, eq=False)
class PreemptionStep:
    """Preemptions of one engine on one scrape, as known from one scrape on until another tells of more of the same."""

    engine: str
    scrape: int
    known: int
    count: float
    added: float  # of these, not told before
    dated_by: DatedBy
    until: int = _FOR_EVER
    event: PreemptionEvent | None = None  # once somebody asked
    held: float | None = None  # tokens each victim held, once somebody asked; NaN: not known
    trigger: float | None = None  # KV use on the scrape before, once somebody asked; NaN: not known


@dataclass(slots=True, eq=False)
class _Sign:
    """What the gauges of an engine show on a scrape, and how much of it the counter is still to confirm."""

    scrape: int
    left: float
    gone_at: float  # that many finished of all: then the victim has long run again
    step: PreemptionStep | None = None  # once some of it is confirmed


class PreemptionDetector:
    """The preemptions of one server: told of every scrape once, in order. It only grows, and each fact names its
    scrape."""

    def __init__(self, server: ServerHistory, number: int) -> None:
        self._server = server
        self._number = number
        self._steps: list[PreemptionStep] = []
        self._known = array("I")  # of each of them
        self._forgotten = 0  # of them, from the first on: of these what they freed alone is kept
        self._unconfirmed = Track()
        self._signs: dict[str, list[_Sign]] = {}  # by engine, oldest first
        self._pool: tuple[tuple[str, ...] | None, float | None] = (None, None)
        # looked up once: every scrape asks for them
        self._running: Mapping[str, Track] = {}
        self._counted: Mapping[str, Track] = {}
        self._finished: list[Mapping[str, Track]] = []  # by reason

    # --- as scrapes come ---------------------------------------------------------------------------------------------

    def take(self, scrape: int) -> list[PreemptionStep]:
        """The steps that the counter confirms on a scrape, which is the latest."""
        server = self._server
        if server.restarts and server.restarts[-1] == scrape:
            self._signs = {}
            self._unconfirmed.put(scrape, 0.0)
            return []
        fell = False
        self._running = self._running or server.engine_tracks(Quantity.RUNNING)
        self._counted = self._counted or server.engine_tracks(Quantity.PREEMPTIONS)
        for engine, track in self._running.items():
            if track.scrape[-1] == scrape and len(track.scrape) > 1 and track.value[-1] < track.value[-2]:
                fell = True
                self._look(engine, scrape, track.value[-2] - track.value[-1])
        told: list[PreemptionStep] = []
        for engine, track in self._counted.items():
            if track.scrape[-1] == scrape and scrape:
                grown = track.grown(scrape - 1, scrape)
                if grown:
                    told += self._match(engine, scrape, grown)
        if self._signs and (told or fell or any(track.scrape[-1] == scrape for track in server.finished)):
            self._drop(scrape)
        return told

    def _look(self, engine: str, scrape: int, fall: float) -> None:
        """Note what the gauges show of an engine whose running fell."""
        waiting = self._pair(Quantity.WAITING, engine, scrape)
        if waiting[0] is None or waiting[1] is None or waiting[1] <= waiting[0]:
            return
        kv = self._pair(Quantity.KV_USED, engine, scrape)
        if max(kv[0] or 0.0, kv[1] or 0.0) < NEAR_FULL:
            return
        ended = any(track.scrape[-1] == scrape for track in self._server.finished)
        count = min(fall - (self._ended(engine, scrape) if ended else 0.0), waiting[1] - waiting[0])
        if count > 0:
            running = self._server.total(Quantity.RUNNING)
            before = running.at(scrape - 1) if running is not None else None
            self._signs.setdefault(engine, []).append(_Sign(scrape, count, self._ends() + (before or 0.0)))

    def _match(self, engine: str, scrape: int, grown: float) -> list[PreemptionStep]:
        """Give what the counter rose by to the oldest signs; the rest to this scrape."""
        told: list[PreemptionStep] = []
        for sign in self._signs.get(engine, ()):
            share = min(sign.left, grown)
            if share <= 0:
                continue
            sign.left -= share
            grown -= share
            if sign.scrape == scrape and not sign.left:  # more on the same scrape than the gauges show is of it too
                share, grown = share + grown, 0.0
            sign.step = self._tell(engine, sign.scrape, scrape, share, before=sign.step)
            told.append(sign.step)
        if grown > 0:
            told.append(self._tell(engine, scrape, scrape, grown, dated_by=COUNTER))
        return told

    def _tell(
        self,
        engine: str,
        scrape: int,
        known: int,
        added: float,
        *,
        dated_by: DatedBy = GAUGES,
        before: PreemptionStep | None = None,
    ) -> PreemptionStep:
        count = added
        if before is not None:
            before.until, count = known, before.count + added
        step = PreemptionStep(engine, scrape, known, count, added, dated_by)
        self._steps.append(step)
        self._known.append(known)
        return step

    def _drop(self, scrape: int) -> None:
        """Forget signs that are confirmed, and those that nothing will confirm any more."""
        finished = self._ends()
        still = {}
        for engine, signs in self._signs.items():
            busy = (self._pair(quantity, engine, scrape)[1] for quantity in (Quantity.RUNNING, Quantity.WAITING))
            kept = [sign for sign in signs if sign.left > 0 and finished < sign.gone_at] if any(busy) else []
            if kept:
                still[engine] = kept
        self._signs = still
        self._unconfirmed.put(scrape, sum(sign.left for signs in still.values() for sign in signs))

    def forget(self, before_s: float) -> None:
        """Give up what the steps before an instant were like, but for what the latest freed, of which a mean is taken.
        To be called before the server forgets."""
        old = bisect_right(self._known, bisect_right(self._server.at_s, before_s) - 1)
        for step in self._steps[self._forgotten : old]:
            self._each_held(step)
            step.event = None
        gone = max(0, min(old, len(self._known) - LATEST))
        del self._steps[:gone], self._known[:gone]
        self._forgotten = max(0, old - gone)

    # --- questions ---------------------------------------------------------------------------------------------------

    def steps(self, first: int, last: int) -> list[PreemptionStep]:
        """Those of the scrapes after first and up to last, as known on scrape last."""
        begin, end = bisect_right(self._known, first), bisect_right(self._known, last)
        return [one for one in self._steps[begin:end] if one.scrape > first and one.until > last]

    def unconfirmed(self, last: int) -> float:
        """Preemptions that the gauges show and the counter has not told of."""
        return self._unconfirmed.at(last) or 0.0

    def mean_held(self, first: int, last: int) -> float | None:
        """Tokens that a victim held, over the latest steps told of in a span: what it freed where that shows, else
        KV in use / running on the scrape before."""
        end = bisect_right(self._known, last)
        begin = max(bisect_right(self._known, first), end - LATEST)
        tokens = preemptions = 0.0
        for step in self._steps[begin:end]:
            each = self._each_held(step)
            if each == each:
                tokens += each * step.added
                preemptions += step.added
        return tokens / preemptions if preemptions else None

    def trigger(self, step: PreemptionStep) -> float:
        """KV use on the scrape before a step; NaN where it is not known."""
        if step.trigger is None:
            track = self._server.engine_tracks(Quantity.KV_USED).get(step.engine)
            before = track.at(step.scrape - 1) if track is not None and self._server.fine else None
            step.trigger = before if before is not None else math.nan
        return step.trigger

    def at_s(self, step: PreemptionStep) -> float:
        return self._server.at_s[step.scrape]

    def event(self, step: PreemptionStep) -> PreemptionEvent:
        if step.event is None:
            step.event = self._event(step)
        return step.event

    def _event(self, step: PreemptionStep) -> PreemptionEvent:
        """From the tracks up to the step's scrape."""
        engine, scrape = step.engine, step.scrape
        around = (Quantity.KV_USED, Quantity.RUNNING, Quantity.WAITING)
        near = self._server.fine  # else the scrapes on both sides are not about this preemption
        kv, running, waiting = [self._pair(one, engine, scrape) if near else (None, None) for one in around]
        freed = kv[0] - kv[1] if kv[0] is not None and kv[1] is not None else 0.0
        alone = step.dated_by == GAUGES and freed > 0 and not self._ended(engine, scrape)
        return PreemptionEvent(
            at_s=self._server.at_s[scrape],
            server=self._number,
            count=step.count,
            dated_by=step.dated_by,
            kv_before_ratio=kv[0],
            kv_after_ratio=kv[1],
            freed_ratio=freed if alone else None,
            freed_tokens=self._freed(engine, scrape, freed) if alone else None,
            running_before=running[0],
            running_after=running[1],
            waiting_before=waiting[0],
            waiting_after=waiting[1],
        )

    def _each_held(self, step: PreemptionStep) -> float:
        if step.held is None:
            event, tokens = self.event(step), self._pool_tokens(step.scrape)
            used, running = (
                self._pair(one, step.engine, step.scrape)[0] for one in (Quantity.KV_USED, Quantity.RUNNING)
            )
            if event.freed_tokens is not None:
                step.held = event.freed_tokens / step.count
            elif tokens is None or used is None or not running:
                step.held = math.nan
            else:
                step.held = used * tokens / running
        return step.held

    def _freed(self, engine: str, scrape: int, freed_ratio: float) -> float | None:
        """Tokens that a scrape's victims held; None where requests began meanwhile, or the pool is not known."""
        tokens = self._pool_tokens(scrape)
        track = self._server.engine_tracks(Quantity.GENERATION_TOKENS).get(engine)
        grown = track.grown(scrape - 1, scrape) if track is not None else None
        begun = self._server.histogram(Quantity.TTFT)
        if tokens is None or (begun is not None and (begun.sums(scrape - 1, scrape) or (0.0, 0.0))[1]):
            return None
        return freed_ratio * tokens + (grown or 0.0)

    def _pair(self, quantity: Quantity, engine: str, scrape: int) -> tuple[float | None, float | None]:
        """The values of an engine on the scrape before and on a scrape."""
        track = self._server.engine_tracks(quantity).get(engine)
        return (track.at(scrape - 1), track.at(scrape)) if track is not None else (None, None)

    def _ended(self, engine: str, scrape: int) -> float:
        """How many requests of an engine finished since the scrape before."""
        server = self._server
        if len(self._finished) != len(server.finished):
            parts = server.parts(Quantity.FINISHED)
            self._finished = [server.engine_tracks(Quantity.FINISHED, part) for part in parts]
        tracks = (by_engine.get(engine) for by_engine in self._finished)
        return sum(track.grown(scrape - 1, scrape) or 0.0 for track in tracks if track is not None)

    def _ends(self) -> float:
        """How many requests have finished, as far as the latest scrape tells."""
        return sum(value for track in self._server.finished if (value := track.value[-1]) == value)

    def _pool_tokens(self, scrape: int) -> float | None:
        """The pool of one engine."""
        track = self._server.labels.get(Quantity.CACHE_CONFIG)
        series = track.at(scrape) if track is not None else None
        if series is not self._pool[0]:
            tokens = pool_at(self._server, scrape, None).tokens
            engines = max(1, len(self._server.engines(Quantity.KV_USED, scrape)))
            self._pool = (series, tokens / engines if tokens is not None else None)
        return self._pool[1]
