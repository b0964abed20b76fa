"""The events of a recording: what can happen in a session, and its one-line JSON form.

Every event carries `t`, seconds since the start of the session on a monotonic clock, stamped when the line is
written. The instants a fact is about are fields of their own (`at_s`). None means not known, never 0.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import msgspec

if TYPE_CHECKING:
    from vtop.recording.vocabulary import (
        Api,
        ErrorClass,
        LoadShape,
        LoadState,
        NoteSource,
        OutageReason,
        PowerKind,
        TokensFrom,
    )
else:  # read, any word is taken: a line of a later vtop must not be lost for one that this one does not know
    Api = ErrorClass = LoadShape = LoadState = NoteSource = OutageReason = str
    PowerKind = TokensFrom = str

# two scrapes (or readings) further apart than this many intervals have a gap between them
GAP_INTERVALS: Final = 2.5
FORMAT: Final = 1
DEFAULT_KIND: Final = "vllm"  # of server, where a recording does not say

FlagValue = int | float | bool | str  # of a flag of a server's command


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """Something that happened. Frozen; one JSON line; `t` is stamped by the writer."""

    t: float = -1.0  # -1: not written yet


class Target(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A server to watch: its root URL without credentials, or what it is called where it was not asked itself.

    local: it is on this host. interval_s: between its scrapes, where that is not the recording's. labels: as a list of
    targets has them, to group by.
    """

    url: str
    local: bool = True
    interval_s: float | None = None
    labels: dict[str, str] = {}


class Start(Event, frozen=True, kw_only=True, tag="start"):
    """The first line: the format, the only wall clock, and what was asked for (secrets struck out)."""

    format: int
    vtop: str
    unix_s: float
    servers: tuple[Target, ...]
    interval_s: float
    argv: tuple[str, ...] = ()
    origin: str | None = None  # set when the recording was not made by attaching: converted, simulated


class Identity(Event, frozen=True, kw_only=True, tag="identity"):
    """Who answers at a server: asked once, and again after a reconnect. kind: a name of server_kinds/registry.py."""

    server: int
    kind: str = DEFAULT_KIND  # how the scrapes after this line are read
    version: str | None = None
    models: tuple[str, ...] = ()
    max_model_len: int | None = None
    shape: dict[str, int | str] | None = None  # numbers of the model's config.json, where vtop could read it
    note: str | None = None  # why something above is not known, e.g. "/v1/models: 401"
    command: str | None = None  # what it was started by, where vtop could see that: "vllm serve"
    flags: dict[str, FlagValue] | None = None  # of that command, those about performance; no others


class TargetChange(Event, frozen=True, kw_only=True, tag="watched"):
    """A list of targets changed: from here on a server is watched, or is not any more.

    server: as in the other lines; the next number where it is a new one. target: None where it is watched no more.
    """

    server: int
    target: Target | None = None


class HistogramCounts(msgspec.Struct, frozen=True, kw_only=True):
    """A histogram as counted since the server started: n is per bucket, not cumulative, +Inf last."""

    sum: float | None  # None where the server says NaN
    count: float
    n: tuple[int, ...]


class Scrape(Event, frozen=True, kw_only=True, tag="scrape"):
    """A /metrics scrape: the series that changed since the server's previous line, all of them when `full`.

    values: series -> number, hists: series -> counts, le: histogram family -> finite bucket bounds (when full).
    Series are written under the server's own names; `model_name` is left out where the scrape has only one.
    """

    server: int
    at_s: float  # when the request for the scrape was sent
    took_s: float
    bytes: int | None = None  # of the page's text; None where somebody else scraped it
    full: bool = False
    health: int | None = None  # HTTP status of /health asked with it; 0: no answer
    values: dict[str, float | None] = {}
    hists: dict[str, HistogramCounts] = {}
    le: dict[str, tuple[float, ...]] = {}
    model: str | None = None  # the model_name left out of the series, when full
    bad_lines: int = 0
    first_bad: str = ""


class Outage(Event, frozen=True, kw_only=True, tag="outage"):
    """A scrape that could not be had."""

    server: int
    at_s: float
    took_s: float
    reason: OutageReason
    detail: str = ""


class GpuReading(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU at one instant, as NVML tells it; a field that NVML does not tell is None."""

    index: int
    uuid: str
    name: str | None = None
    util_ratio: float | None = None
    mem_used_bytes: int | None = None
    mem_total_bytes: int | None = None
    power_w: float | None = None
    power_kind: PowerKind | None = None  # None where the driver does not say
    power_limit_w: float | None = None
    energy_j: float | None = None  # since the driver was loaded
    temp_c: float | None = None
    sm_mhz: float | None = None
    sm_max_mhz: float | None = None
    mem_mhz: float | None = None
    mem_max_mhz: float | None = None
    throttle: tuple[str, ...] | None = None  # clock event reasons in words; () when none is active
    serving: bool | None = None  # a watched server's process uses this GPU
    # of a card that MIG divides: the parts that the memory is of; power, clocks and heat are the whole card's
    mig_instances: int | None = None
    lost: str | None = None  # why the GPU answers nothing, e.g. "GPU is lost"


class Gpu(Event, frozen=True, kw_only=True, tag="gpu"):
    """All GPUs at one instant."""

    at_s: float
    took_s: float
    gpus: tuple[GpuReading, ...]


class Load(Event, frozen=True, kw_only=True, tag="load"):
    """A phase of vtop's own load begins, changes or ends. Tokens are ranges (low, high), both included."""

    phase: int  # from 0
    state: LoadState
    spec: str  # as it was asked for, without paths
    shape: LoadShape
    server: int = 0
    concurrency: int | None = None  # target of a closed loop
    rate_per_s: float | None = None  # target of an open one
    arrival: str | None = None  # poisson, constant, gamma:K, vllm, trace
    max_in_flight: int | None = None  # cap of an open loop
    input_tokens: tuple[int, int] | None = None
    output_tokens: tuple[int, int] | None = None
    requests: int | None = None  # planned
    for_s: float | None = None  # planned
    warmup: int = 0
    seed: int | None = None
    api: Api = "completions"
    workers: int = 1
    slo: dict[str, float] | None = None  # bounds in seconds: ttft, tpot, e2e
    reason: str | None = None  # why it ended


class SimulatedSearch(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the simulated engine found before the first run of a search. Rates in requests/s; None: there was none."""

    by: str  # the profile
    passes_per_s: float | None = None
    fails_per_s: float | None = None
    hosts: int = 0  # other plausible ones that were simulated too
    least_per_s: float | None = None  # that passes, and most_per_s that fails, on any of them
    most_per_s: float | None = None
    attained: tuple[tuple[float, float], ...] = ()  # (rate, mean attainment of its runs)


class CapacitySearch(Event, frozen=True, kw_only=True, tag="search"):
    """A search of capacity begins, or ends (`reason`): the phases of load on its server that follow are its runs."""

    server: int = 0
    rule: str = "long-run"  # or floor
    target_ratio: float = 0.95
    runs: int = 0  # a rate
    requests: int = 0  # measured, in each run
    seed: int = 0  # of the first run; the others' follow it
    first_per_s: float = 1.0
    least_per_s: float = 0.0
    most_per_s: float = 0.0
    precision_ratio: float = 0.05
    hold: bool = True
    spec: str = ""  # of each request
    slo: dict[str, float] = {}  # bounds in seconds: ttft, tpot, e2e
    simulated: SimulatedSearch | None = None
    warm_only: bool = False  # the first run of a server that has just started does not count
    reason: str | None = None  # why it ended, by name: reached, deadline, server changed …
    why: str | None = None  # the same in detail


class Request(Event, frozen=True, kw_only=True, tag="request"):
    """A request of vtop's own load: written when sent, at its first token and at its end; later lines fill blanks.

    All instants are seconds of the session, stamped by the client. A gap is the time between two reads that brought
    tokens, in µs; several events of one read share its stamp.
    """

    id: int
    phase: int  # -1: a trial before the phases, which shows what fields the server takes
    due_s: float | None = None  # by the schedule; in a closed loop when its slot was free
    admitted_s: float | None = None  # when it had a slot
    sent_s: float | None = None  # the call that handed its last byte to the kernel began
    connect_s: float | None = None  # how long its connection took; None for one kept alive
    headers_s: float | None = None
    first_s: float | None = None  # the read that brought the first token
    answer_s: float | None = None  # the first token that is not reasoning, where that differs
    last_s: float | None = None  # the read that brought the last token
    end_s: float | None = None
    warmup: bool = False
    asked_prompt_tokens: int | None = None
    asked_output_tokens: int | None = None
    prompt_tokens: int | None = None  # by the server's usage
    cached_tokens: int | None = None
    output_tokens: int | None = None
    tokens_from: TokensFrom | None = None  # what output_tokens was counted by
    chunks: int | None = None  # events that brought tokens
    gaps_us: tuple[int, ...] | None = None
    gap_tokens: tuple[int, ...] | None = None  # tokens each gap brought; None when one each
    first_tokens: int | None = None  # tokens of the first read; None when one
    timings: dict[str, Any] | None = None  # the server's own timing object, word for word
    status: int | None = None
    error: ErrorClass | None = None  # class of failure; None with end_s set: it succeeded
    detail: str | None = None  # the server's message
    finish: str | None = None
    host: int | None = None  # of the load that sent it, as in `load_host`; None: vtop's own machine


class Host(Event, frozen=True, kw_only=True, tag="host"):
    """How much of this machine the measuring itself takes, since the line before with the same fields.

    The first two are of any session, every few seconds; the others of a load, once a second.
    """

    at_s: float
    cpu_ratio: float | None = None  # busy, of all cores
    vtop_cpu_ratio: float | None = None  # of one core; without the load's processes
    load_cpu_ratio: float | None = None  # of one core, the busiest worker's
    load_lag_p50_s: float | None = None  # how late the load's event loop ran
    load_lag_max_s: float | None = None
    load_host: int | None = None  # the load's host that they are of, as in `load_host`; None: vtop's own machine


class LoadHost(Event, frozen=True, kw_only=True, tag="load_host"):
    """A host that workers of vtop's own load run on, and its clock as measured: before each phase, and after it.

    The stamps of its requests are seconds of the session: offset_s, as measured before their phase, is taken off. The
    error is at most half of rtt_s.
    """

    host: int  # from 0
    name: str
    at_s: float
    workers: tuple[int, ...]  # that run there, from 0
    offset_s: float  # its monotonic clock less that of vtop's own machine, at the shortest of the round trips
    rtt_s: float  # which took so long
    phase: int
    after: bool = False  # measured when the phase was over: shows how far the clocks drifted


class Mark(Event, frozen=True, kw_only=True, tag="mark"):
    """A person pressed m."""

    text: str = ""


class Note(Event, frozen=True, kw_only=True, tag="note"):
    """The machine has something to say: NVML is absent, the disk is full, a line could not be read."""

    source: NoteSource
    text: str
    server: int | None = None


class End(Event, frozen=True, kw_only=True, tag="end"):
    """The last line of a recording that was closed in good order."""

    reason: str = "quit"


class Unknown:
    """An event of a type this vtop does not know: kept as it is."""

    __slots__ = ("line", "t")

    def __init__(self, line: bytes, t: float) -> None:
        self.line = line
        self.t = t


AnyEvent = Event | Unknown

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(
    Start
    | Identity
    | TargetChange
    | Scrape
    | Outage
    | Gpu
    | Load
    | CapacitySearch
    | Request
    | Host
    | LoadHost
    | Mark
    | Note
    | End
)
_tags = {kind.__struct_config__.tag for kind in Event.__subclasses__()}


class _Envelope(msgspec.Struct):
    type: str
    t: float


class Format(msgspec.Struct, tag_field="type", tag="start"):
    """What every format's first line says, whatever else it holds."""

    format: int
    vtop: str = "?"


_envelope = msgspec.json.Decoder(_Envelope)
_format = msgspec.json.Decoder(Format)


def encode(event: AnyEvent) -> bytes:
    """The event as one line of strict JSON, without the line end. Not-a-number becomes null."""
    if isinstance(event, Unknown):
        return event.line
    try:
        return _encoder.encode(event)
    except UnicodeEncodeError:  # half a character, from a file name or a server's JSON
        text = json.dumps(msgspec.to_builtins(event), ensure_ascii=False)
        return _encoder.encode(json.loads(text.encode("utf-8", "replace")))


def encode_text(text: str) -> bytes:
    """As it stands in a line, without the quotes."""
    return _encoder.encode(text)[1:-1]


def decode(line: bytes) -> AnyEvent:
    """The event of one line. Raises ValueError (msgspec's are) for a line that is no event at all."""
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError:
        try:
            envelope = _envelope.decode(line)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        if envelope.type in _tags:
            raise
        return Unknown(line, envelope.t)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def instant_of(line: bytes) -> float:
    """The t of a line. Raises ValueError for a line that is no event at all."""
    try:
        return _envelope.decode(line).t
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def format_of(line: bytes) -> Format:
    """The format that a recording's first line says it has. Raises ValueError when it is none."""
    try:
        return _format.decode(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
