"""vtop's own load in a frame."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.recording.vocabulary import ErrorClass, LoadShape
from vtop.session.frame.vocabulary import OutputOver, PhaseState


@dataclass(frozen=True, slots=True, eq=False)
class Quantiles:
    """Exact times of vtop's own requests. None: too few for it; inf (null in JSON): a failed request stands there."""

    n: int
    failed: int
    mean_s: float | None
    p50_s: float | None
    p90_s: float | None
    p99_s: float | None
    p999_s: float | None
    p9999_s: float | None
    p95_s: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class BoundAttainment:
    """One bound of a service level alone: how many of the requests that it can judge kept it; failed ones kept none."""

    name: str  # ttft, tpot, e2e
    bound_s: float
    judged: int
    kept: int
    ratio: float | None
    times: Quantiles  # what is held against it: ttft and e2e from due


@dataclass(frozen=True, slots=True, eq=False)
class LengthAttainment:
    """Requests of like lengths: how many kept every bound. Tokens are ranges (low, high), both included."""

    input_tokens: tuple[int, int]
    output_tokens: tuple[int, int]
    judged: int
    good: int
    ratio: float | None
    ttft_p95_s: float | None  # from due; inf where a failed request stands
    tpot_p95_s: float | None
    e2e_p95_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class SloAttainment:
    """How many requests kept every bound at once; failed ones are among the judged."""

    bounds: tuple[tuple[str, float], ...]  # name (ttft, tpot, e2e), seconds
    judged: int
    good: int
    attainment_ratio: float | None
    good_per_s: float | None
    good_tokens_per_s: float | None
    answered_per_s: float | None = None  # whether they kept the bounds or not
    broken: tuple[tuple[str, int], ...] = ()  # bound, answered requests that broke it; most first
    by_bound: tuple[BoundAttainment, ...] = ()
    by_length: tuple[LengthAttainment, ...] = ()  # where requests differ by a factor of four; shortest first
    errors: int = 0
    timeouts: int = 0
    rejected: int = 0  # by a server or gateway at its limit (429); not among the errors
    open: int = 0  # not answered when the load ended
    undefined: int = 0  # left out: TPOT is the only bound, and the answer had one token
    single_token: int = 0  # answers without a TPOT, where that has a bound


@dataclass(frozen=True, slots=True, eq=False)
class LoadHostPart:
    """A host that sends the load in place of vtop's own."""

    host: int
    name: str
    workers: int
    offset_s: float  # its monotonic clock less that of vtop's machine, taken off its stamps
    offset_error_s: float  # at most
    drift_s: float | None  # of its clock over the phase; None while it runs
    drift_error_s: float | None  # at most
    sent: int  # without warm-up
    late_p50_s: float | None  # sent - due, as in the whole load
    late_p99_s: float | None
    lost: int  # requests that failed because their worker was lost


@dataclass(frozen=True, slots=True, eq=False)
class LoadPart:
    """The phase of vtop's own load that runs now, or that ran last; warm-up requests are in no number but in_flight."""

    phase: int
    phases: int  # begun so far
    server: int  # that it is put on
    begin_s: float
    spec: str
    shape: LoadShape
    state: PhaseState
    reason: str | None
    concurrency: int | None  # target
    rate_per_s: float | None  # target
    arrival: str | None
    sent_per_s: float | None  # in the last 10 s
    in_flight: int
    answering: int  # of those in flight, with their first token
    sent: int
    done: int
    failed: int
    unfinished: int  # broken off by vtop itself; in no percentile's favour, and among the judged
    failed_by_class: tuple[tuple[ErrorClass, int], ...]
    failed_detail: str | None  # what the first failure of the most frequent class said, in one line
    planned: int | None
    progress_ratio: float | None
    left_s: float | None
    elapsed_s: float
    late_p50_s: float | None  # sent - due; under a cap (max=) sent - the free slot
    late_p99_s: float | None
    ttft: Quantiles  # from sent
    ttft_from_due: Quantiles | None  # of an open loop
    itl: Quantiles
    tpot: Quantiles
    e2e: Quantiles
    itl_is_chunks: bool  # some gaps could not be split into tokens
    output_tokens: int
    output_per_s: float | None  # without ramp and drain, unless it is over all; once it ended
    output_over: OutputOver | None
    whole_output_per_s: float | None  # with them and the warm-up: from the first request sent to the last token
    whole_ended_per_s: float | None  # requests that succeeded, over the same
    ended_per_s: float | None  # requests, over the same span
    cached_tokens: int  # as the answers say, where the server tells
    prefix_hit_tokens: float | None  # growth of the server's counter from the scrape before the phase to the one after
    wrong_length: int  # requests whose prompt the server counted otherwise than asked
    slo: SloAttainment | None
    lag_s: float | None  # of the load's event loop, at worst in the last second
    cpu_ratio: float | None  # of the load process
    limited: str | None  # why the client may be the bottleneck
    limited_costs: bool = True  # False: only late, by less than a tenth of the mean TTFT
    ended_early: int = 0  # answered requests with fewer output tokens than asked for, as a model may end by itself
    hosts: tuple[LoadHostPart, ...] = ()  # that send it in place of vtop's own
    total_per_s: float | None = None  # output_per_s + ended_per_s x the mean prompt of the answered
    rejected: int = 0  # of the failed, by a server or gateway at its limit (429)
    slot_wait: Quantiles | None = None  # under a cap (max=): in the client, from due to a free slot; no lateness
