"""A load on the simulated engine: recorded arrivals at their instants, or so many requests in flight.

A closed loop sends the next request when an answer has arrived, so a faster server is asked more often, as in life.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import fmean

from vtop.engine.core.engine import NEVER, Engine
from vtop.engine.core.request import EngineRequest
from vtop.engine.core.step import StepOutcome

WIRE_S = 0.8e-3  # there and back, on one machine
SPREAD_S = 50e-6  # between the first requests of a closed loop: a client sends them one after another


@dataclass(frozen=True, slots=True)
class Ask:
    """One request as it is asked for. due_s: when it is sent, from the load's start; None in a closed loop.

    until_s: it was sent between due_s and then, which is all that is on record; the load's seed says when.
    """

    prompt_tokens: int
    output_tokens: int
    due_s: float | None = None
    priority: int = 0
    prefix_keys: tuple[Hashable, ...] = ()
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class ReplayLoad:
    """Requests in order. concurrency: of a closed loop; None: each has its instant.

    think_s: how long a client takes from an answer to its next request; None: not on record, the fit's. The seed says
    how much longer or shorter that and the way there and back is each time, by up to a half. Next to saturation so
    little decides who meets whom in a step.
    """

    asks: tuple[Ask, ...]
    concurrency: int | None = None
    think_s: float | None = None
    seed: int = 0

    @property
    def uniform(self) -> bool:
        return len({(ask.prompt_tokens, ask.output_tokens) for ask in self.asks}) == 1


@dataclass(slots=True)
class Replayed:
    """What the load saw and the engine did. Requests in the order they were finished; seconds of virtual time."""

    requests: list[EngineRequest] = field(default_factory=list)
    refused: int = 0  # requests that could never finish
    span_s: float = 0.0  # from the first request being sent to the last answer
    steps: int = 0  # that returned something
    preemptions: int = 0
    executed_tokens: int = 0

    def mean(self, of: Callable[[EngineRequest], float]) -> float:
        return fmean(of(request) for request in self.requests)

    @property
    def output_tokens_per_s(self) -> float:
        return sum(request.generated for request in self.requests) / self.span_s

    @property
    def recomputed_tokens(self) -> int:
        """Executed beyond what each request needs once; what the prefix cache held is not executed at all."""
        needed = sum(r.prompt_tokens - r.cached_tokens + r.generated - 1 for r in self.requests)
        return self.executed_tokens - needed


def replay(load: ReplayLoad, engine: Engine, watch: Callable[[StepOutcome], object] | None = None) -> Replayed:
    """Drive the engine with the load until all is answered. `watch` sees every step's outcome."""
    seen = Replayed()
    chance = Random(load.seed)
    waiting = iter(_on_the_way(load, chance))
    pause_s = engine.frontend.client_s if load.think_s is None else load.think_s + WIRE_S

    def send(at_s: float | None) -> bool:
        for number, due_s, ask in waiting:
            request = EngineRequest(
                number, ask.prompt_tokens, ask.output_tokens, priority=ask.priority, prefix_keys=ask.prefix_keys
            )
            try:
                engine.submit(request, due_s if at_s is None else at_s)
            except ValueError:
                seen.refused += 1
                continue
            return True
        return False

    if load.concurrency is None:
        while send(None):
            pass
        begin_s = min((ask.due_s for ask in load.asks if ask.due_s is not None), default=0.0)
    else:
        begin_s = 0.0
        for slot in range(load.concurrency):
            send(slot * SPREAD_S)
    while engine.next_s() != NEVER:
        outcome = engine.advance()
        if outcome is None:
            continue
        if watch is not None:
            watch(outcome)
        seen.steps += outcome.iteration_tokens is not None
        for request in outcome.finished:
            seen.requests.append(request)
            if load.concurrency is not None and request.answered_s is not None:
                send(request.answered_s + pause_s * (0.5 + chance.random()))
    seen.span_s = max((r.answered_s for r in seen.requests if r.answered_s is not None), default=begin_s) - begin_s
    seen.preemptions = engine.scheduler.preemptions
    seen.executed_tokens = engine.scheduler.executed_tokens
    return seen


def _on_the_way(load: ReplayLoad, chance: Random) -> list[tuple[int, float, Ask]]:
    """Which request, when it is there, and what it asks for, in the order in which they come."""
    if load.concurrency is not None:
        return [(number, 0.0, ask) for number, ask in enumerate(load.asks)]
    coming = [
        (number, _due_s(ask, chance) + WIRE_S * (chance.random() - 0.5), ask) for number, ask in enumerate(load.asks)
    ]
    first_s = min((at_s for _, at_s, _ in coming), default=0.0)
    return sorted(((number, at_s - min(0.0, first_s), ask) for number, at_s, ask in coming), key=lambda one: one[1])


def _due_s(ask: Ask, chance: Random) -> float:
    due_s = ask.due_s or 0.0
    return due_s if ask.until_s is None else due_s + (ask.until_s - due_s) * chance.random()


def measures(requests: Sequence[EngineRequest]) -> dict[str, float]:
    """The means that a server's histograms would say about these finished requests, in seconds."""
    whole = [_parts(request) for request in requests]
    names = ("frontend_s", "queue_s", "prefill_s", "decode_s")
    found = {name: fmean(part[index] for part in whole) for index, name in enumerate(names)}
    found["ttft_s"] = found["frontend_s"] + found["queue_s"] + found["prefill_s"]
    found["e2e_s"] = found["ttft_s"] + found["decode_s"]
    return found


def _parts(request: EngineRequest) -> tuple[float, float, float, float]:
    assert request.end_seen_s is not None
    assert request.queued_s is not None
    assert request.scheduled_s is not None
    assert request.first_token_s is not None
    assert request.last_token_s is not None
    inference_s = request.last_token_s - request.scheduled_s
    queue_s = request.scheduled_s - request.queued_s
    return (
        request.end_seen_s - request.arrival_s - queue_s - inference_s,
        queue_s,
        request.first_token_s - request.scheduled_s,
        request.last_token_s - request.first_token_s,
    )
