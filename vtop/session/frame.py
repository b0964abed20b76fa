"""What there is to see at one instant: frozen, complete, and the only thing that a panel is given.

Seconds, bytes, ratios throughout. None means not known, and 0 is a measurement. A window is the stretch of session
that a number is about: it ends at the latest page and is at most `window_s` long, shorter while the session is young.
"""

from __future__ import annotations

from dataclasses import dataclass

from vtop.metrics.histogram import Range
from vtop.session.analysis import (
    Energy,
    Growth,
    KvAccount,
    OwnTtft,
    Pressure,
    Queueing,
    Recompute,
    Roofline,
    Staircase,
    Tail,
    Verdict,
    WallClock,
)
from vtop.session.history.server_config import StartedWith

Points = tuple[float | None, ...]  # one per chart column, oldest first; None is a gap


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What a reader chose to look at: how long a window, in how many chart columns; and whether the verdict is about
    the `whole` window, as in a report, or about its end."""

    window_s: float = 300.0
    columns: int = 60
    whole: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Status:
    """The one thing to know about the data. kind: waiting, down, unhealthy, blind, frozen, idle, busy."""

    kind: str
    sentence: str
    server: int = 0
    fresh: bool = True  # False: what is shown is old


@dataclass(frozen=True, slots=True, eq=False)
class ServerPart:
    """One server: who it is and how well it is being read."""

    index: int
    url: str
    status: Status
    local: bool
    models: tuple[str, ...]
    version: str | None
    max_model_len: int | None
    uptime_s: float | None
    age_s: float | None  # of the latest page
    took_s: float | None
    page_bytes: int | None
    bad_lines: int
    tries: int  # attempts since the last page that could be had
    outages: int  # stretches without a page so far
    restarts: int
    engines: int
    note: str | None = None
    started: StartedWith | None = None  # its command, where vtop could see that


@dataclass(frozen=True, slots=True, eq=False)
class EnginePart:
    """One engine (data-parallel rank) of one server, now."""

    server: int
    name: str
    running: float | None
    waiting: float | None
    kv_used_ratio: float | None
    generation_per_s: float | None  # over the window


@dataclass(frozen=True, slots=True, eq=False)
class Gauge:
    """A number that is looked at once per page: now, and over the n pages of the window."""

    now: float | None
    mean: float | None
    median: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True, eq=False)
class Count:
    """A number that only grows: how much in the window, per second there, and since vtop attached."""

    in_window: float | None
    per_s: float | None
    since_start: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Requests:
    running: Gauge
    waiting: Gauge
    waiting_by_reason: tuple[tuple[str, float], ...]  # now, where exported
    finished: Count
    finished_by_reason: tuple[tuple[str, float], ...]  # in the window, those that happened
    rejected: Count


@dataclass(frozen=True, slots=True, eq=False)
class Kv:
    """The KV cache: blocks held by live requests. `used` is the fullest engine's; a ratio is never summed."""

    used: Gauge
    mean_used_ratio: float | None  # over engines, now
    pool_tokens: float | None  # of all engines
    used_tokens: float | None  # an upper bound: blocks, not tokens, are counted
    room_tokens: float | None
    pool_bytes: float | None
    bytes_per_token: float | None
    block_size: int | None
    max_concurrency: float | None  # requests of max_model_len that fit, per engine
    prefix_caching: bool | None


@dataclass(frozen=True, slots=True, eq=False)
class Ttft:
    """Time to first token, and what it was made of for the requests that finished in the window.

    The parts are those of one set of requests, so they add up: queue + prefill + frontend = total. The first-token
    mean is about other requests, those that got their first token in the window.
    """

    finished: float  # n of the parts
    queue_s: float | None
    prefill_s: float | None
    frontend_s: float | None
    total_s: float | None
    first_tokens: float  # n of first_token_s
    first_token_s: float | None
    queue_now_s: float | None  # an estimate by Little's law: mean waiting / first tokens per second
    stuck: bool  # requests wait and none got a first token in the window


@dataclass(frozen=True, slots=True, eq=False)
class Latency:
    """One latency over the window: the exact mean, and the bucket that each percentile lies in."""

    name: str
    mean_s: float | None
    p50: Range | None
    p90: Range | None
    p99: Range | None
    n: float
    cohort: str  # whose: first token, every token, finished
    p999: Range | None = None
    p9999: Range | None = None  # None for too few: its bucket would be that of the longest


@dataclass(frozen=True, slots=True, eq=False)
class Iteration:
    """Tokens per engine step that gave output; recomputed tokens are never in it."""

    steps: float
    steps_per_s: float | None
    tokens: float | None
    decode: float | None
    prefill: float | None


@dataclass(frozen=True, slots=True, eq=False)
class PrefixCache:
    hit_ratio: float | None  # in the window
    hit_tokens: float | None
    asked_tokens: float | None
    lifetime_ratio: float | None  # since the server started
    recompute: bool  # preemptions in the window: a request that meets its own blocks again counts as a hit


@dataclass(frozen=True, slots=True, eq=False)
class Preemption:
    count: Count
    latest_at_s: float | None
    interval_s: float | None  # mean time between them in the window


@dataclass(frozen=True, slots=True, eq=False)
class GpuPart:
    """One card, now, and its power over the window."""

    index: int
    uuid: str
    name: str | None
    serving: bool | None
    lost: str | None
    util_ratio: float | None
    mem_used_bytes: int | None
    mem_total_bytes: int | None
    power: Gauge
    power_kind: str | None
    power_limit_w: float | None
    energy_j: float | None  # in the window
    temp_c: float | None
    sm_mhz: float | None
    sm_max_mhz: float | None
    mem_mhz: float | None
    mem_max_mhz: float | None
    throttle: tuple[str, ...] | None
    age_s: float
    temp_high_c: float | None = None  # in the window


@dataclass(frozen=True, slots=True, eq=False)
class Gpus:
    cards: tuple[GpuPart, ...]
    note: str | None  # why there are none, or what is wrong
    local: bool  # a watched server runs on this host, so the cards may be its own
    power_w: float | None  # of the cards in use by a server where that is known, else of all; None if one is not known
    power_limit_w: float | None
    counted: int  # how many cards power_w is about
    age_s: float | None


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


@dataclass(frozen=True, slots=True, eq=False)
class Slo:
    """How many requests kept every bound at once; failed ones are among the judged."""

    bounds: tuple[tuple[str, float], ...]  # name (ttft, tpot, e2e), seconds
    judged: int
    good: int
    attainment_ratio: float | None
    good_per_s: float | None
    good_tokens_per_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class LoadPart:
    """The phase of vtop's own load that runs now, or that ran last; warm-up requests are in no number but in_flight."""

    phase: int
    phases: int  # begun so far
    server: int  # that it is put on
    begin_s: float
    spec: str
    shape: str  # closed, open
    state: str  # running, ended
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
    failed_by_class: tuple[tuple[str, int], ...]
    failed_detail: str | None  # what the first failure of the most frequent class said, in one line
    planned: int | None
    progress_ratio: float | None
    left_s: float | None
    elapsed_s: float
    late_p50_s: float | None  # sent - due
    late_p99_s: float | None
    ttft: Quantiles  # from sent
    ttft_from_due: Quantiles | None  # of an open loop
    itl: Quantiles
    tpot: Quantiles
    e2e: Quantiles
    itl_is_chunks: bool  # some gaps could not be split into tokens
    output_tokens: int
    output_per_s: float | None  # without ramp and drain; once it ended
    ended_per_s: float | None  # requests, over the same stretch
    cached_tokens: int  # as the answers say, where the server tells
    prefix_hit_tokens: float | None  # growth of the server's counter from the page before the phase to the one after
    wrong_length: int  # requests whose prompt the server counted otherwise than asked
    slo: Slo | None
    lag_s: float | None  # of the load's event loop, at worst in the last second
    cpu_ratio: float | None  # of the load process
    limited: str | None  # why the client may be the bottleneck


@dataclass(frozen=True, slots=True, eq=False)
class Happening:
    """A line of the event list. kind: start, restart, flags, outage, back, unhealthy, preemption, phase, mark, note,
    end."""

    at_s: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Charts:
    """Columns of one shared time axis. Column i ends at end_s - (n - 1 - i) * column_s.

    Boundaries stand at whole multiples of column_s of session time, so a spike never moves within its column; the
    last column is the latest complete one. Gauges show the highest value in a column, rates the exact mean.
    """

    end_s: float
    column_s: float
    running: Points
    waiting: Points
    kv_used: Points
    generation_per_s: Points
    prompt_per_s: Points
    preemptions: Points  # since vtop attached
    preempted: Points  # in the column
    decode_per_step: Points
    prefill_per_step: Points
    queue_s: Points
    prefill_s: Points
    frontend_s: Points
    power_w: Points
    sm_mhz: Points
    marks: tuple[tuple[int, str], ...]  # column, kind of happening: restart, outage, mark
    temp_c: Points = ()  # of the hottest card


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    now_s: float
    unix_s: float  # the wall clock at now_s
    start_unix_s: float
    interval_s: float
    window_s: float  # of the numbers below: from the first page in it to the latest
    asked_window_s: float
    status: Status
    origin: str | None  # set when the recording was not made by attaching to a server
    servers: tuple[ServerPart, ...]
    engines: tuple[EnginePart, ...]
    requests: Requests
    kv: Kv
    prompt_tokens: Count
    generation_tokens: Count
    iteration: Iteration
    ttft: Ttft
    latencies: tuple[Latency, ...]
    prefix_cache: PrefixCache
    preemption: Preemption
    gpus: Gpus
    happenings: tuple[Happening, ...]  # newest last
    charts: Charts
    load: LoadPart | None = None  # vtop's own
    staircase: Staircase = Staircase()  # noqa: RUF009 - these are frozen
    recompute: Recompute = Recompute()  # noqa: RUF009
    roofline: Roofline = Roofline()  # noqa: RUF009
    account: KvAccount = KvAccount()  # noqa: RUF009
    queueing: Queueing = Queueing()  # noqa: RUF009
    wallclock: WallClock = WallClock()  # noqa: RUF009
    tail: Tail = Tail()  # noqa: RUF009
    energy: Energy = Energy()  # noqa: RUF009
    growth: Growth = Growth()  # noqa: RUF009
    own_ttft: OwnTtft | None = None
    pressure: Pressure | None = None  # of the latest pages
    verdict: Verdict = Verdict()  # noqa: RUF009
