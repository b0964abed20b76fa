"""Where requests waited: whether the pool was full there, and whether running stood at its limit. One rule for all.

A waiting request is admitted when there is a place (max_num_seqs), room in the pool for its whole prompt, and budget in
the step (max_num_batched_tokens). So on each scrape with waiting requests one asks

    full      KV use >= FULL, or free tokens < the mean prompt: the next one does not fit
    at limit  running stands at max_num_seqs, or, where that is not on record, at the highest of these scrapes. SLACK of
              it is allowed, and LEFT: a scrape catches the end of a step, and who ended in it has left a place that is
              taken in the next (open_loop_seats48: 47 on half of the scrapes, 48 on the others)

Source: vLLM v1/core/sched/scheduler.py (schedule), v1/core/kv_cache_manager.py (allocate_slots).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

QUEUED: Final = 0.3  # of all scrapes with waiting requests: of less it is a queue that comes and goes
MOSTLY: Final = 0.5  # of the scrapes with waiting requests, for the pool
AT_LIMIT: Final = 0.7  # of the scrapes with waiting requests, for running
FULL: Final = 0.95  # of the pool in use
SLACK: Final = 0.02  # of running: 98 of 100 running is all of them
LEFT: Final = 1  # request that may have ended in the step before the scrape, and left its place for the next
MANY: Final = 4  # that wait: of fewer one may be on its way in, and nothing stands at a limit that nobody tells
WIDE: Final = 8  # places: of fewer one is much


@dataclass(frozen=True, slots=True)
class AtLimit:
    """Shares are of the scrapes on which requests waited; None where the gauge does not tell."""

    waiting_share: float  # scrapes with waiting requests, of all scrapes
    full_share: float | None
    at_limit_share: float | None
    limit: float | None  # max_num_seqs, or the highest running where requests waited
    running_queued: tuple[float, ...]  # on the scrapes with waiting requests
    waiting_queued: tuple[float, ...]

    @property
    def queued(self) -> bool:
        return self.waiting_share >= QUEUED

    @property
    def pool_full(self) -> bool:
        return self.queued and self.full_share is not None and self.full_share >= MOSTLY

    @property
    def stands(self) -> bool:
        """Running stood at its limit while others waited, and the pool had room."""
        at = self.at_limit_share
        return self.queued and at is not None and at >= AT_LIMIT and self.full_share is not None and not self.pool_full


def full_from(prompt_tokens: float | None, pool_tokens: float | None) -> float:
    """The KV use from which on the next request does not fit."""
    needed = prompt_tokens / pool_tokens if prompt_tokens is not None and pool_tokens else 0.0
    return min(FULL, 1.0 - needed)


def at_limit(
    running: Sequence[float | None],
    waiting: Sequence[float | None],
    kv_ratio: Sequence[float | None],
    *,
    full: float,
    max_num_seqs: float | None,
) -> AtLimit:
    """Of gauges scrape by scrape, None where one is not known. max_num_seqs: of all engines, where it is on record."""
    here = [place for place, wait in enumerate(waiting) if wait]
    used = [ratio for place in here if (ratio := kv_ratio[place]) is not None]
    taken = [count for place in here if (count := running[place]) is not None]
    limit = max_num_seqs or max(taken, default=0.0)
    many = max_num_seqs or median([waiting[place] or 0.0 for place in here] or [0.0]) >= MANY
    least = limit - max(limit * SLACK, LEFT if many and limit >= WIDE else 0.0)
    return AtLimit(
        waiting_share=len(here) / len(waiting) if waiting else 0.0,
        full_share=sum(ratio >= full for ratio in used) / len(used) if used else None,
        at_limit_share=sum(count >= least for count in taken) / len(taken) if taken and limit else None,
        limit=limit or None,
        running_queued=tuple(taken),
        waiting_queued=tuple(waiting[place] or 0.0 for place in here),
    )
