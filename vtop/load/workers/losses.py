"""What the workers that were lost in a phase were to send in it: nobody else sends it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from vtop.load.workers.protocol import Aim
from vtop.load.workers.worker_handle import WorkerHandle
from vtop.load.workload.arrivals import planned
from vtop.load.workload.dataset import read
from vtop.load.workload.phase import PlannedPhase
from vtop.recording.events import Request

NEVER_SENT = "never sent: the worker that was to send it was lost"


def unsent(
    index: int, phase: PlannedPhase, works: Sequence[WorkerHandle], aims: Sequence[Aim], began_s: float
) -> Iterator[Request]:
    """The requests of lost workers that were not begun, by when they were due; without an end yet.

    works: all that took part, in their places. aims: what was changed by hand. began_s: when the phase began.
    A closed loop that only time ends has no request that would have to be sent.
    """
    lost = [(place, work) for place, work in enumerate(works) if work.gone and work.link.host is not None]
    if not lost or (phase.concurrency is not None and phase.total is None):
        return
    recorded_s = [item.at_s for item in read(phase) if item.at_s is not None] if phase.trace else []
    rates = [(aim.at_s - began_s, aim.rate_per_s) for aim in aims if aim.rate_per_s is not None]

    def of(place: int, work: WorkerHandle) -> Iterator[Request]:
        for k, at_s in planned(phase, place, len(works), rates=rates, recorded_s=recorded_s):
            if k not in work.begun:
                yield Request(
                    id=k,
                    phase=index,
                    due_s=None if at_s is None else round(began_s + at_s, 6),
                    warmup=k < phase.warmup,
                    error="worker_lost",
                    detail=NEVER_SENT,
                    host=work.link.host,
                )

    yield from heapq.merge(*(of(place, work) for place, work in lost), key=lambda one: (one.due_s or 0.0, one.id))
