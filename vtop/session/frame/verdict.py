"""Which limit binds, and the evidence for it, in a frame."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.session.frame.vocabulary import VerdictLimit


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """Which limit binds now, in one sentence with its evidence (verdict.py)."""

    limit: VerdictLimit = "unknown"
    sentence: str = ""
    evidence: tuple[str, ...] = ()
    flag: str | None = None  # where a flag would help: which
    why: str | None = None
    command: str | None = None  # what would test it


@dataclass(frozen=True, slots=True, eq=False)
class HeldDown:
    """What power took of the clock of the GPUs counted, over the scrapes of the pressure (energy.py)."""

    readings: int
    near_limit_share: float | None  # of readings at 97 % of the power limit or more
    capped_share: float | None  # of readings on which a GPU says that power holds its clock down
    high_w: float | None
    limit_w: float | None
    clock_loss_ratio: (
        float | None
    )  # mean of 1 - clock / maximum where power held it down, 0 elsewhere; of the GPU that lost most


@dataclass(frozen=True, slots=True, eq=False)
class Pressure:
    """On how many of the latest scrapes requests waited, and what stood in their way there (pressure.py).

    Shares are of the scrapes on which requests waited. Of several servers it is the one that waits most.
    """

    server: int
    scrapes: int
    seconds: float
    waiting_share: float  # scrapes with waiting requests, of all scrapes
    running_share: float  # scrapes with running requests, of all scrapes
    kv_full_share: float | None  # the next request would not fit into the pool, or KV use >= FULL
    at_max_num_seqs_share: float | None  # running stood at `max_num_seqs`; where they are not on record, at its highest
    running_median: float | None  # while anything ran or waited, as the KV account's residents
    running_high: float | None
    waiting_median: float | None
    kv_median_ratio: float | None
    kv_low_ratio: float | None
    kv_high_ratio: float | None
    preemptions: float | None
    silent_s: float | None  # since the last token, while requests run or wait
    still_s: float | None  # since anything at all moved, gauges included
    api_cpu_ratio: float | None  # of one core: the API server's process
    asleep: bool
    idle: bool  # nothing ran or waited lately
    outside_share: float | None  # of vtop's own requests in flight, those not in the engine; None of few
    deferred_share: float | None  # of what waits now: for an adapter, a grammar or remote KV
    # max_num_seqs of all its engines, where it is on record and was one number all along
    max_num_seqs: int | None = None
    limit: float | None = None  # it, or the highest running where requests waited
    running_queued_median: float | None = None  # on the scrapes with waiting requests, as waiting_median
    unadmitted_s: float | None = None  # since anybody was admitted, while requests wait, places and the pool are free
    places: float | None = None  # that it is known to have: max_num_seqs, or the highest running so far
    finished: float = 0.0
    begun: float = 0.0  # first tokens
    queue_of_ttft_ratio: float | None = None  # of the finished
    step_tokens: float | None = None  # that the fullest step held, at least
    power: HeldDown | None = None
    recompute_time_ratio: float | None = None  # of the time in which the engine worked; None without preemptions
