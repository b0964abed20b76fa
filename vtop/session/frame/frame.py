"""What there is to see at one instant: frozen, complete, and the only thing that a panel is given.

Seconds, bytes, ratios throughout. None means not known, and 0 is a measurement. A window is the span of session
that a number is about: it ends at the latest scrape and is at most `window_s` long, shorter while the session is young.
"""

from __future__ import annotations

from dataclasses import dataclass

from vtop.session.frame.capacity import CapacityPart
from vtop.session.frame.charts import Charts, HeatMap, LoggedEvent
from vtop.session.frame.fleet import Fleet, FleetView
from vtop.session.frame.gpus import Energy, Gpus, Roofline
from vtop.session.frame.kv import Crowding, Kv, KvAccount
from vtop.session.frame.latencies import Latency, Tail
from vtop.session.frame.load import LoadPart
from vtop.session.frame.prices import Prices
from vtop.session.frame.requests import Preemption, Queueing, Requests, Staircase
from vtop.session.frame.servers import EnginePart, ServerPart, Status
from vtop.session.frame.tokens import (
    FailedTransfers,
    Iteration,
    Lora,
    PrefixCache,
    PromptSource,
    Recompute,
    Speculation,
    TokenFlops,
    WallClock,
)
from vtop.session.frame.ttft import Growth, OwnTtft, Ttft
from vtop.session.frame.values import Count, Throughput
from vtop.session.frame.verdict import Pressure, Verdict
from vtop.session.frame.waterfall import Waterfall


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What a reader chose to look at: how long a window, in how many chart columns; and whether the verdict is about
    the `whole` window, as in a report, or about its end."""

    window_s: float = 300.0
    columns: int = 60
    whole: bool = False
    buckets: bool = False  # whether the frame is to have heat maps
    step: int = 1  # columns by which charts move on: those of a cell, so that its halves stay the halves of one
    fleet: FleetView | None = None  # the rows of the table of servers that are looked at
    limit_alone: bool = False  # of the frame only what the limit of its verdict is judged by
    fleet_alone: bool = False  # and nothing else: numbers that are added up over all servers are left out
    holds: str = ""  # of events and of single requests only those that hold this text
    stacked: bool = True  # and running and waiting of one scrape, which may be stacked; the screen draws them apart


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    now_s: float
    unix_s: float  # the wall clock at now_s
    start_unix_s: float
    interval_s: float
    window_s: float  # of the numbers below: from the first scrape in it to the latest
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
    event_log: tuple[LoggedEvent, ...]  # newest last
    charts: Charts
    load: LoadPart | None = None  # vtop's own
    capacity: CapacityPart | None = None  # a search of it
    throughput: Throughput = Throughput()  # noqa: RUF009 - these are frozen
    staircase: Staircase = Staircase()  # noqa: RUF009
    recompute: Recompute = Recompute()  # noqa: RUF009
    roofline: Roofline = Roofline()  # noqa: RUF009
    account: KvAccount = KvAccount()  # noqa: RUF009
    crowding: Crowding = Crowding()  # noqa: RUF009
    token_flops: TokenFlops = TokenFlops()  # noqa: RUF009
    queueing: Queueing = Queueing()  # noqa: RUF009
    wallclock: WallClock = WallClock()  # noqa: RUF009
    tail: Tail = Tail()  # noqa: RUF009
    energy: Energy = Energy()  # noqa: RUF009
    growth: Growth = Growth()  # noqa: RUF009
    own_ttft: OwnTtft | None = None
    heat_maps: tuple[HeatMap, ...] = ()  # where the view asks for them
    waterfall: Waterfall = Waterfall()  # noqa: RUF009
    speculation: Speculation | None = None  # where the server drafts
    prompt_sources: tuple[PromptSource, ...] = ()  # where the server tells them
    failed_transfers: FailedTransfers | None = None  # where it has a KV connector that counts them
    lora: Lora | None = None  # where it serves adapters
    pressure: Pressure | None = None  # of the latest scrapes
    verdict: Verdict = Verdict()  # noqa: RUF009
    fleet: Fleet | None = None  # the table of servers, where the view asks for it
    prices: Prices | None = None  # of the load at now_s, where they were simulated beside the session
