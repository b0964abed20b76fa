"""A scheduler driven by hand, one tick a step: what its rules alone do, without any timing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vtop.engine.core.flags import Flags
from vtop.engine.core.request import EngineRequest
from vtop.engine.core.scheduler import Scheduler
from vtop.engine.core.step import StepOutcome, StepPlan


@dataclass
class Driven:
    """What came of it; `running` is how many ran after each step."""

    scheduler: Scheduler
    finished: list[EngineRequest] = field(default_factory=list)
    running: list[int] = field(default_factory=list)
    first: list[EngineRequest] = field(default_factory=list)
    plans: list[tuple[int, int, int, tuple[tuple[int, int], ...]]] = field(default_factory=list)
    outcomes: list[tuple[int, frozenset[int]]] = field(default_factory=list)

    @property
    def recomputed(self) -> int:
        needed = sum(r.prompt_tokens - r.cached_tokens + r.generated - 1 for r in self.finished)
        return self.scheduler.executed_tokens - needed


def drive(
    flags: Flags,
    requests: Sequence[EngineRequest],
    *,
    in_flight: int | None = None,
    use_batch: bool = True,
    check: Callable[[Scheduler, StepPlan | None], object] | None = None,
    at: Mapping[int, Callable[[Scheduler], object]] | None = None,
) -> Driven:
    """Requests arrive at the tick that arrival_s says, or, with in_flight, when another one is finished."""
    scheduler = Scheduler(flags, use_batch=use_batch)
    driven = Driven(scheduler)
    waiting = list(requests)
    plans: list[StepPlan] = []
    tick = 0

    def take(outcome: StepOutcome) -> None:
        driven.running.append(len(scheduler.running))
        driven.first += outcome.first
        driven.finished += outcome.finished
        driven.outcomes.append((outcome.tokens, frozenset(r.id for r in outcome.finished)))
        if in_flight is not None:
            for _ in outcome.finished:
                if waiting:
                    scheduler.add(waiting.pop(0), float(tick))

    for _ in range(in_flight or 0):
        if waiting:
            scheduler.add(waiting.pop(0), 0.0)
    while scheduler.has_requests or plans or (waiting and in_flight is None):
        while in_flight is None and waiting and waiting[0].arrival_s <= tick:
            scheduler.add(waiting.pop(0), float(tick))
        if at is not None and tick in at:
            at[tick](scheduler)
        plan = scheduler.schedule(float(tick))
        if check is not None:
            check(scheduler, plan)
        if plan is not None:
            plans.append(plan)
            driven.plans.append((plan.tokens, plan.decodes, plan.context, tuple(sorted(plan.prefills))))
            if len(plans) < (2 if flags.async_scheduling else 1):
                continue
        tick += 1
        if plans:
            take(scheduler.update(plans.pop(0), float(tick)))
        assert tick < 200_000, "the scheduler does not come to an end"
    return driven
