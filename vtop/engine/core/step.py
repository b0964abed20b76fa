"""One step of the engine: what the scheduler put into it, and what came out."""

from __future__ import annotations

from dataclasses import dataclass, field

from vtop.engine.core.request import EngineRequest


class StepPlan:
    """What one step executes. `lane` and `deliver` are who gets a token from it; the rest is what it costs."""

    __slots__ = (
        "batch",
        "batch_members",
        "context",
        "decodes",
        "deliver",
        "preempted",
        "prefills",
        "scheduled_s",
        "step",
        "tokens",
    )

    def __init__(self, step: int, scheduled_s: float) -> None:
        self.step = step
        self.scheduled_s = scheduled_s
        self.tokens = 0  # all that it computes
        self.decodes = 0  # requests that compute one token
        self.context = 0  # tokens that the decodes read, each one's own included
        self.prefills: list[tuple[int, int]] = []  # (tokens, context: tokens computed when the step is over)
        self.batch = 0  # requests of the lane that get a token
        self.batch_members: tuple[EngineRequest, ...] = ()  # who they are, when the scheduler was asked to tell
        self.deliver: list[EngineRequest] = []  # others that get a token
        self.preempted = 0  # requests that had to go for it


@dataclass(slots=True)
class StepOutcome:
    """What a step brought, as vLLM's frontend counts it (vLLM: v1/metrics/stats.py). Times are the engine's."""

    step: int
    at_s: float
    seen_s: float | None = None  # when the frontend took it up; None: it returned nothing
    plan: StepPlan | None = None  # what was executed
    tokens: int = 0  # generated
    computed_prompt_tokens: int = 0  # of the requests with a first token, without what the prefix cache held
    prompt_tokens: int = 0  # of the requests with a first token
    preemptions: int = 0  # told with this step's outputs
    gaps: list[tuple[float, int]] = field(default_factory=list)  # inter-token latencies: (seconds, how many)
    first: list[EngineRequest] = field(default_factory=list)
    finished: list[EngineRequest] = field(default_factory=list)
    batch_members: tuple[EngineRequest, ...] = ()  # of the lane, with a token; when the scheduler was asked to tell
    delivered: list[EngineRequest] = field(default_factory=list)  # the others

    @property
    def iteration_tokens(self) -> int | None:
        """What iteration_tokens_total observes; None: the step returned nothing and is not observed."""
        return self.computed_prompt_tokens + self.tokens if self.tokens or self.finished else None
