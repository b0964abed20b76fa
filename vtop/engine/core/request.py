"""A request on its way through the simulated engine: what it asks for, how far it is, and its stamps."""

from __future__ import annotations

from collections.abc import Hashable

WAITING, RUNNING, PREEMPTED, FINISHED = range(4)


class EngineRequest:
    """One prompt and its answer. All times are seconds of the engine's virtual clock; None: not yet.

    The scheduler alone writes to it. While a request is in the scheduler's lane (see `lane.py`) its progress is
    implied by the number of steps and written here when it leaves.
    """

    __slots__ = (
        "answered_s",
        "arrival_s",
        "batch_end",
        "batch_step",
        "blocks",
        "cached_tokens",
        "computed",
        "end_seen_s",
        "finish_reason",
        "first_seen_s",
        "first_token_s",
        "generated",
        "id",
        "last_token_s",
        "limit",
        "max_tokens",
        "output_tokens",
        "pending_preemptions",
        "planned",
        "preemptions",
        "prefix_keys",
        "priority",
        "prompt_tokens",
        "queued_s",
        "sampled_step",
        "scheduled_s",
        "sent_s",
        "state",
    )

    def __init__(
        self,
        id: int,
        prompt_tokens: int,
        output_tokens: int,
        *,
        max_tokens: int | None = None,
        arrival_s: float = 0.0,
        priority: int = 0,
        prefix_keys: tuple[Hashable, ...] = (),
    ) -> None:
        """output_tokens is how many it will generate; max_tokens, when larger, is what it allows.

        A request that ends before max_tokens ends by a stop token, which the scheduler cannot know ahead.
        prefix_keys: an identity of each full block of the prompt's beginning; equal keys are equal contents. Blocks
        beyond them are this request's own.
        """
        self.id = id
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.max_tokens = output_tokens if max_tokens is None else max_tokens
        self.arrival_s = arrival_s  # stamped by the frontend once it has parsed the request
        self.priority = priority
        self.prefix_keys = prefix_keys
        self.state = WAITING
        self.computed = 0  # tokens whose keys and values are in the pool, steps in flight included
        self.generated = 0  # output tokens that have come out of a step
        self.planned = 0  # output tokens scheduled, those of a step in flight included
        self.limit = self.max_tokens  # output tokens at which the scheduler knows that it ends
        self.sampled_step = -2  # the last step that samples a token of it, while it is not in the lane
        self.batch_step = -1  # the step at which it entered the lane; -1: it is not in it
        self.batch_end = -1  # the step at which it leaves it, if nothing else happens
        self.blocks = 0  # held in the pool
        self.preemptions = 0
        self.pending_preemptions = 0  # not yet told to the frontend: they travel with its next output
        self.cached_tokens = 0  # prompt tokens found in the prefix cache when it was first scheduled
        self.queued_s: float | None = None  # taken from the input queue, between two steps
        self.scheduled_s: float | None = None  # first scheduled
        self.first_token_s: float | None = None
        self.last_token_s: float | None = None
        self.sent_s: float | None = None  # the client sent it
        self.first_seen_s: float | None = None  # the frontend took up its first token
        self.end_seen_s: float | None = None  # and its last
        self.answered_s: float | None = None  # its last token left the server
        self.finish_reason: str | None = None  # length, stop, abort

    @property
    def tokens(self) -> int:
        """Prompt and output so far: what a preempted request has to compute again."""
        return self.prompt_tokens + self.generated

    def __repr__(self) -> str:
        return (
            f"Request({self.id}, {self.prompt_tokens}+{self.generated}/{self.output_tokens}, "
            f"computed={self.computed}, preemptions={self.preemptions})"
        )
