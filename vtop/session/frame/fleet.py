"""Many servers in a frame: a row each, those in trouble first, what they add up to, and who differs from its peers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from vtop.session.frame.servers import Status
from vtop.session.frame.vocabulary import Side, VerdictLimit

FleetOrder = Literal["trouble", "waiting", "KV", "TTFT", "tok/s", "age", "name"]
FLEET_ORDERS: Final[tuple[FleetOrder, ...]] = get_args(FleetOrder)
UnlikeKind = Literal["slower", "more requests", "fewer requests"]
ALL_ROWS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class FleetView:
    """Which rows of the table are looked at. `chosen` is a server, and among the rows wherever it stands."""

    order: FleetOrder = "trouble"
    find: str = ""  # only rows that hold this: in address, model, labels, status, verdict
    group: str | None = None  # "model", or the name of a label
    first: int = 0  # row on top
    lines: int = ALL_ROWS  # of the table, headings of groups among them
    chosen: int | None = None
    strip: int = 0  # cells of the heat strips


@dataclass(frozen=True, slots=True, eq=False)
class UnlikePeers:
    """One server beside its peers, over a window; `value` and the peers' median are of the same unit."""

    kind: UnlikeKind
    value: float  # seconds between tokens, or a prompt token; requests that came in the window
    median: float
    peers: int
    window_s: float
    n: float  # what the value is over: tokens, prompt tokens, requests
    sentence: str


@dataclass(frozen=True, slots=True, eq=False)
class NamedPeer:
    """A server that differed from its peers, over a whole session: at how many of the looks, and how at the last."""

    server: int
    url: str
    kind: UnlikeKind
    named: int
    looks: int
    latest_s: float
    latest: UnlikePeers


@dataclass(frozen=True, slots=True, eq=False)
class StripCell:
    """A stretch of a heat strip: the highest KV use in it, and whether requests waited; None: no scrape."""

    kv_used_ratio: float | None
    waited: bool | None


@dataclass(frozen=True, slots=True, eq=False)
class FleetRow:
    """One server: what it does now, and over the window of the frame."""

    server: int
    url: str
    status: Status
    kind: str
    reads: bool  # False: a router or another server that is only named; it is in no group and no total
    model: str | None
    side: Side | None
    labels: dict[str, str]
    verdict: VerdictLimit | None  # as judged at `judged_s`; None: not yet, or its data are old
    judged_s: float | None
    running: float | None
    waiting: float | None
    kv_used_ratio: float | None  # of its fullest engine
    generation_per_s: float | None
    ttft_s: float | None  # mean
    age_s: float | None  # of the latest scrape
    unlike: tuple[UnlikePeers, ...] = ()
    group: str = ""  # of the rows that are looked at
    strip: tuple[StripCell, ...] = ()  # of the rows that are looked at


@dataclass(frozen=True, slots=True, eq=False)
class FleetGroup:
    """Servers together. Of a deployment that divides requests each side is a group of its own: nothing is pooled over
    the two."""

    name: str
    side: Side | None
    servers: int
    answering: int
    troubled: int  # that do not answer, or where a limit binds
    unlike: int
    running: float | None
    waiting: float | None
    kv_high_ratio: float | None  # of the fullest engine
    generation_per_s: float | None
    prompt_per_s: float | None
    ttft_s: float | None  # mean over all first tokens of the window
    first_tokens: float


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """The table of servers. Routers and other pages that vtop only names have a row and count in no total."""

    totals: tuple[FleetGroup, ...]  # one; where prefill and decode are divided one a side
    groups: tuple[FleetGroup, ...]  # where rows are grouped, in their order
    rows: tuple[FleetRow, ...]  # those looked at
    order: tuple[int, ...]  # the servers of all rows that there are, found and in order
    first: int  # place of the first of `rows` in `order`
    servers: int
    view: FleetView
    labels: tuple[str, ...]  # names to group by
    states: tuple[tuple[str, int], ...] = field(default=())  # statuses and limits, and how many servers have each
    unlike: tuple[tuple[int, UnlikePeers], ...] = ()  # (server, how) of all servers
    strip_cell_s: float = 0.0
