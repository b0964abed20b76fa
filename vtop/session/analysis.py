"""What the analyses found about a stretch of session: frozen parts of a frame, each made by the module it names.

Seconds, tokens, joules, ratios. None means not known (not measured, not exported, or nothing to judge by); 0 is a
measurement. Where a number is an estimate, a fit or an extrapolation its name or a field beside it says so.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class PreemptionEvent:
    """One fall of the stair (preemption.py): the page on which it shows, and the page before it."""

    at_s: float
    server: int
    count: float  # requests put back in this step of the stair
    dated_by: str  # gauges: running fell, waiting rose, nothing finished; counter: where no gauge shows it
    kv_before_ratio: float | None
    kv_after_ratio: float | None
    freed_ratio: float | None  # fall of KV use, all of `count` together
    freed_tokens: float | None
    running_before: float | None
    running_after: float | None
    waiting_before: float | None
    waiting_after: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Staircase:
    """The preemptions of the window, what triggers them and how regularly they come (preemption.py)."""

    events: tuple[PreemptionEvent, ...] = ()  # in the window, the latest 1,000, oldest first
    unconfirmed: int = 0  # seen by the gauges and not yet in the counter
    trigger_mean_ratio: float | None = None  # KV use on the page before
    trigger_low_ratio: float | None = None
    freed_mean_tokens: float | None = None  # a preemption
    interval_mean_s: float | None = None
    interval_spread_s: float | None = None  # standard deviation
    per_minute: float | None = None  # slope of the straight line through the stair
    straightness: float | None = None  # R² of that line
    steady: bool = False  # regular enough to be called a cycle
    cycle: str | None = None  # the phrase for it
    per_request: float | None = None  # preemptions of a finished request, where exported
    thrashing: float | None = None  # finished requests that were preempted more than 5 times, where exported
    by_reason: tuple[tuple[str, float], ...] = ()  # where exported


@dataclass(frozen=True, slots=True, eq=False)
class Recompute:
    """Tokens run through the model again after preemptions (recompute.py)."""

    method: str | None = None  # "write bytes, model shape", "write bytes, fitted", "KV released"
    estimate: bool = False  # True for the KV estimate
    executed_tokens: float | None = None  # in the window
    least_tokens: float | None = None  # that the window's answers needed
    tokens: float | None = None  # recomputed in the window
    ratio: float | None = None  # of the least
    since_start: float | None = None
    since_start_ratio: float | None = None
    per_preemption: float | None = None  # since vtop attached
    unsettled_tokens: float = 0.0  # of prompts in mid-prefill: how far off it may be
    by_flops_tokens: float | None = None  # cross-checks of since_start
    by_kv_tokens: float | None = None
    token_bytes: float | None = None  # coefficient: bytes written per executed token
    row_bytes: float | None = None  # per row of logits
    missing_flag: str | None = None  # --enable-mfu-metrics, where the server runs without


@dataclass(frozen=True, slots=True, eq=False)
class Roofline:
    """What the counters of --enable-mfu-metrics say of the arithmetic, per GPU, over the window (roofline.py)."""

    flops_per_s: float | None = None
    bytes_per_s: float | None = None  # read and written
    intensity: float | None = None  # FLOP per byte
    mfu_ratio: float | None = None  # of the card's dense peak
    bandwidth_ratio: float | None = None
    card: str | None = None  # whose peaks
    peak_flops_per_s: float | None = None
    peak_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Expectation:
    """How full the pool should be with so many requests of such lengths, and how far off that is (account.py)."""

    concurrency: float
    peak_ratio: float  # every request at in + out, rounded up to blocks
    mean_ratio: float  # every request at in + out / 2
    peak_error_ratio: float | None  # measured - expected; x 100 are points
    mean_error_ratio: float | None


@dataclass(frozen=True, slots=True, eq=False)
class KvAccount:
    """The KV pool's account over the window (account.py)."""

    input_tokens: float | None = None  # mean of a request
    output_tokens: float | None = None
    lengths_from: str | None = None  # "the load's spec", "finished requests"
    nominal: Expectation | None = None  # for what the clients keep in flight
    effective: Expectation | None = None  # for what really runs
    asked_tokens: float | None = None  # nominal x (in + out)
    oversubscription: float | None = None  # asked_tokens / pool
    predicted_residents: float | None = None  # pool / (in + out)
    measured_residents: float | None = None  # median running
    growth_tokens_per_s: float | None = None  # of KV in use, since it last fell
    full_in_s: float | None = None  # at that rate
    waste_tokens_per_request: float | None = None  # last block, not filled, at the end of a request
    waste_tokens: float | None = None  # of all that run now, on average


@dataclass(frozen=True, slots=True, eq=False)
class Little:
    """Little's law for one place: how many are there = how many come per second x how long each stays."""

    present: float  # mean measured
    per_s: float
    stay_s: float  # mean measured
    expected: float  # per_s x stay_s
    residual_ratio: float | None  # (present - expected) / expected


@dataclass(frozen=True, slots=True, eq=False)
class Queueing:
    """Queue and residence over the window (queueing.py)."""

    running: Little | None = None
    waiting: Little | None = None
    trend: str | None = None  # growing, draining, steady; None: too little to tell
    slope_per_s: float | None = None  # Sen's slope of waiting
    p_value: float | None = None  # Mann-Kendall, two-sided
    waiting_share: float | None = None  # of a finished request's life


@dataclass(frozen=True, slots=True, eq=False)
class WallClock:
    """Where the window went, in seconds that add up to it (wallclock.py)."""

    decode_s: float | None = None
    prefill_s: float | None = None
    recompute_s: float | None = None
    idle_s: float | None = None
    step_s: float | None = None  # of a step that only decodes, median
    step_from: str | None = None  # "own load", "steps that only decode"
    request_decode_s: float | None = None  # mean of the finished
    undisturbed_decode_s: float | None = None  # their tokens x step_s
    stolen_ratio: float | None = None  # 1 - undisturbed / decode


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """Which percentile of ITL could show a preemption at all (tail.py)."""

    samples: float = 0.0
    touched: float = 0.0  # one gap a preemption
    percentile: float | None = None  # e.g. 99.99: the first of 50, 90, 99, 99.9 … above which the touched ones lie
    sentence: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Energy:
    """Joules over the window, of the cards counted (energy.py)."""

    joules: float | None = None
    source: str | None = None  # "the cards' energy counters", "power integrated over the readings"
    per_output_token_j: float | None = None
    per_token_j: float | None = None  # prompt and output
    idle_w: float | None = None  # lowest power seen while nothing ran, in the session so far
    idle_share: float | None = None  # idle_w x window / joules
    near_limit_share: float | None = None  # of readings at 97 % of the power limit or more
    throttled_share: float | None = None  # of readings with a reason that holds the clock down, idle ones left out
    throttle: tuple[tuple[str, float], ...] = ()  # each reason with its share


@dataclass(frozen=True, slots=True, eq=False)
class PhaseParts:
    """The parts of TTFT at one load (growth.py): of the requests that finished in a phase of vtop's own load."""

    phase: int
    concurrency: float | None
    rate_per_s: float | None
    finished: float
    queue_s: float | None
    prefill_s: float | None
    frontend_s: float | None
    network_s: float | None
    total_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """How the parts grow with load, against the lowest load seen (growth.py)."""

    phases: tuple[PhaseParts, ...] = ()  # by load, lowest first
    queue_of_prefill_ratio: float | None = None  # in the window
    queue_of_ttft_ratio: float | None = None
    prefill_factor: float | None = None  # now / at the lowest load
    frontend_factor: float | None = None
    queue_added_s: float | None = None
    crossing: float | None = None  # load at which queue would overtake prefill, extrapolated on the last two phases
    crossing_unit: str | None = None  # in flight, requests/s
    crossed_at: float | None = None  # the load at which it did, where that was measured


@dataclass(frozen=True, slots=True, eq=False)
class OwnTtft:
    """TTFT as vtop's own requests saw it, beside the server's (network.py)."""

    n: int  # own requests that finished in the window
    client_s: float | None  # mean, from sent
    network_s: float | None  # client_s - the server's mean of the same requests
    foreign: float  # requests that finished in the window and were not vtop's
    timed: int  # own requests with the server's own timings
    timed_queue_s: float | None
    timed_prefill_s: float | None
    timed_rest_s: float | None  # frontend, network and HTTP of those


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """Which limit binds now, in one sentence with its evidence (verdict.py)."""

    limit: str = "unknown"  # or another of verdict.TITLES
    sentence: str = ""
    evidence: tuple[str, ...] = ()
    flag: str | None = None  # where a flag would help: which
    why: str | None = None
    command: str | None = None  # what would test it


@dataclass(frozen=True, slots=True, eq=False)
class Pressure:
    """On how many of the latest pages requests waited, and what stood in their way there (pressure.py).

    Shares are of the pages on which requests waited. Of several servers it is the one that waits most.
    """

    server: int
    pages: int
    seconds: float
    waiting_share: float  # pages with waiting requests, of all pages
    running_share: float  # pages with running requests, of all pages
    kv_full_share: float | None  # the next request would not fit into the pool, or KV use >= FULL
    seats_share: float | None  # running stood at `seats`; where they are not on record, at its highest
    running_median: float | None
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
    seats: int | None = None  # max_num_seqs of all its engines, where it is on record and was one number all along
