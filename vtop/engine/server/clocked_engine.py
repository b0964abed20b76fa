"""The engine on a clock that somebody else keeps: it acts when its time has come; what it did is seen a little later.

The clock may be that of a test or of this machine. A process that was held up for a while loses no virtual time: it
catches up, and the clients see at once what they would have seen one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set
from itertools import chain

from vtop.engine.core.engine import NEVER, Engine
from vtop.engine.core.request import EngineRequest
from vtop.engine.core.step import StepOutcome
from vtop.engine.server.metrics import SeenStep, seen


class Stream:
    """One request's tokens on their way to its client: how many there are, and how many were taken.

    wake: called when there is news.
    """

    __slots__ = ("finished", "request", "sent", "tokens", "wake")

    def __init__(self, request: EngineRequest) -> None:
        self.request = request
        self.tokens = 0
        self.sent = 0
        self.finished = False  # its last token is there
        self.wake: Callable[[], object] | None = None

    def take(self) -> int:
        """The tokens that came since the last time."""
        new, self.sent = self.tokens - self.sent, self.tokens
        return new


class Drive:
    """Takes requests and goes on in time. told: is given each step when the frontend has it."""

    def __init__(self, engine: Engine, told: Callable[[SeenStep], object], *, work: bool = True) -> None:
        self.engine = engine
        self._told = told
        self._work = work
        self._streams: dict[int, Stream] = {}
        self._pending: deque[SeenStep] = deque()  # accounted for, not yet seen by the frontend
        self._seen_s = 0.0
        self._aborted = False  # something was, and no step has told of it
        self._gone: set[int] = set()  # requests that were aborted while steps were on their way to the frontend
        self._prefilling: dict[int, int] = {}  # request -> its prompt's tokens, until its first token is seen

    @property
    def in_flight(self) -> int:
        """Requests that are neither finished nor aborted."""
        return len(self._streams)

    @property
    def queued_tokens(self) -> int:
        """Prompt tokens of the requests without a first token."""
        return sum(self._prefilling.values())

    def submit(self, request: EngineRequest, now_s: float) -> Stream:
        """Raises ValueError for a request that could never finish."""
        self.go_to(now_s)
        self.engine.submit(request, now_s)
        stream = self._streams[request.id] = Stream(request)
        self._prefilling[request.id] = request.prompt_tokens
        return stream

    def abort(self, request: EngineRequest, now_s: float) -> None:
        """Its client is gone. A request that has finished meanwhile is left as it is."""
        self.go_to(now_s)
        self._prefilling.pop(request.id, None)
        if self._streams.pop(request.id, None) is None:
            return
        self._gone.add(request.id)
        if request.finish_reason is None:
            self.engine.abort(request, now_s)
            self._aborted = True

    def next_s(self) -> float:
        """When something happens next, if nobody does anything; infinity when nothing does."""
        next_s = self.engine.next_s()
        return min(next_s, self._pending[0].at_s) if self._pending else next_s

    def go_to(self, now_s: float) -> None:
        """All that happens until then."""
        engine, pending = self.engine, self._pending
        while True:
            next_s = engine.next_s()
            if pending and pending[0].at_s <= min(next_s, now_s):
                self._hand_out(pending.popleft())
            elif next_s <= now_s and next_s != NEVER:
                self._advance()
            else:
                return

    def _advance(self) -> None:
        engine = self.engine
        planned = engine.scheduler.steps
        outcome = engine.advance()
        if outcome is None and (not self._aborted or engine.scheduler.steps != planned):
            return
        self._aborted = False
        at_s = outcome.at_s if outcome is not None else engine.now_s
        known_s = outcome.seen_s if outcome is not None else None
        self._seen_s = max(self._seen_s, at_s + engine.frontend.hop_s if known_s is None else known_s)
        self._pending.append(seen(engine, outcome, self._seen_s, work=self._work))

    def _hand_out(self, step: SeenStep) -> None:
        outcome = step.outcome
        if outcome is not None and self._gone:
            drop(outcome, self._gone)
        if not self._pending:
            self._gone.clear()
        self._told(step)
        if outcome is None:
            return
        streams = self._streams
        for request in outcome.first:
            self._prefilling.pop(request.id, None)
        for request in outcome.finished:
            if request.id in streams:
                streams[request.id].finished = True
        for request in chain(outcome.batch_members, outcome.delivered):
            stream = streams.get(request.id)
            if stream is not None:
                stream.tokens += 1
                if stream.wake is not None:
                    stream.wake()
        for request in outcome.finished:
            streams.pop(request.id, None)


def drop(outcome: StepOutcome, gone: Set[int]) -> None:
    """What a step brought to requests whose client went meanwhile is nobody's: the frontend does not count it."""
    batch = sum(member.id in gone for member in outcome.batch_members)
    left = sum(member.id not in gone for member in outcome.batch_members)
    gaps = iter(outcome.gaps)
    kept = [(next(gaps)[0], left)] if outcome.batch_members else []
    for request in outcome.delivered:
        later = request not in outcome.first
        gap = next(gaps) if later else None
        if request.id in gone:
            outcome.tokens -= 1
        elif gap is not None:
            kept.append(gap)
    outcome.tokens -= batch
    outcome.gaps = [gap for gap in kept if gap[1]]
    for request in outcome.first:
        if request.id in gone:
            outcome.prompt_tokens -= request.prompt_tokens
            outcome.computed_prompt_tokens -= request.prompt_tokens - request.cached_tokens
    outcome.first = [request for request in outcome.first if request.id not in gone]
    outcome.finished = [request for request in outcome.finished if request.id not in gone]
