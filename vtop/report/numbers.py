"""The numbers of one span under the names that a report, its JSON, `--expect` and a comparison use.

They are a frame's, renamed and set in order; nothing is computed here. Where vtop's own load ran, times are those of
its requests (exact, from sent, network included); else the server's histograms, which tell in which bucket a
percentile lies. `server` has the histograms in either case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vtop.metrics.histogram import Range
from vtop.session.frame.frame import Frame
from vtop.session.frame.gpus import Energy, GpuPart, Roofline, counted_of
from vtop.session.frame.kv import Crowding, KvAccount
from vtop.session.frame.latencies import Latency, Tail
from vtop.session.frame.load import LoadPart, Quantiles, SloAttainment
from vtop.session.frame.requests import Queueing
from vtop.session.frame.tokens import (
    FailedTransfers,
    PrefixCache,
    PromptSource,
    Recompute,
    Speculation,
    TokenFlops,
    WallClock,
)
from vtop.session.frame.ttft import OwnTtft
from vtop.session.frame.values import Gauge, Throughput
from vtop.session.frame.verdict import Pressure, Verdict
from vtop.session.load.closed_loop import LEAST

# an exact value; the bucket it lies in; "failed" where a failed request stands there; None: not known or too few
Percentile = float | Range | str | None


@dataclass(frozen=True, slots=True, eq=False)
class Times:
    """One latency of n requests (or tokens): the exact mean and the percentiles."""

    whose: str  # own requests; of the server's histograms: first token, every token, finished
    n: float
    failed: int
    mean_s: float | None
    p50_s: Percentile
    p90_s: Percentile
    p99_s: Percentile
    p999_s: Percentile
    p9999_s: Percentile
    p95_s: Percentile = None


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """A number that is looked at once per scrape (or reading), over the n of them."""

    mean: float | None
    median: float | None
    low: float | None
    peak: float | None
    n: int


@dataclass(frozen=True, slots=True, eq=False)
class KvUse:
    """KV blocks held by live requests, as a share of the pool: of the fullest engine, over n scrapes."""

    mean_ratio: float | None
    median_ratio: float | None
    low_ratio: float | None
    peak_ratio: float | None
    n: int
    pool_tokens: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """What TTFT was made of, for the n requests that finished: queue + prefill + frontend = total; means.

    network_s is between that total and what vtop's own requests saw, where only they were served.
    """

    n: float
    queue_s: float | None
    prefill_s: float | None
    frontend_s: float | None
    total_s: float | None
    network_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    begin_s: float  # of the window: its first scrape
    end_s: float  # its last
    seconds: float
    scrapes: int
    finished: float | None  # as the server counts
    finished_per_s: float | None
    sent: int | None  # of vtop's own load, warm-up left out
    failed: int | None
    unfinished: int | None
    failed_by_class: tuple[tuple[str, int], ...]
    output_tokens: float | None  # generated, as the server counts
    output_per_s: float | None  # the own load's where it ran, else `while_busy`
    output_from: str | None
    generation_per_s: float | None  # the server's: output_tokens / seconds
    while_busy: Throughput  # by the seconds in which requests were in the engine
    prompt_tokens: float | None
    prompt_per_s: float | None
    preemptions: float | None
    preemptions_apart_s: float | None  # seconds / preemptions
    running: Level
    waiting: Level
    kv: KvUse
    parts: Parts
    ttft: Times | None
    itl: Times | None
    tpot: Times | None
    e2e: Times | None
    server: tuple[tuple[str, Times], ...]  # every latency that the server exports
    itl_is_chunks: bool  # some gaps of the own load could not be split into tokens
    slo: SloAttainment | None
    tokens_per_step: float | None  # decode + prefill; recomputed tokens are in neither
    decode_per_step: float | None
    prefill_per_step: float | None
    steps: float
    prefix_cache: PrefixCache
    prompt_sources: tuple[PromptSource, ...]
    failed_transfers: FailedTransfers | None
    speculation: Speculation | None
    power_w: Level  # of the GPUs counted; of several the mean alone, as peaks need not coincide
    power_limit_w: float | None
    temp_high_c: float | None
    account: KvAccount
    recompute: Recompute
    queueing: Queueing
    wallclock: WallClock
    tail: Tail
    energy: Energy
    roofline: Roofline
    own_ttft: OwnTtft | None
    pressure: Pressure | None
    verdict: Verdict
    total_per_s: float | None  # prompt and output tokens, over the span of output_per_s
    requests_per_s: float | None  # that ended, over the same span
    queue_of_ttft_ratio: float | None  # of the requests that finished
    queue_of_prefill_ratio: float | None
    prefill_of_ttft_ratio: float | None
    frontend_of_ttft_ratio: float | None
    crowding: Crowding
    token_flops: TokenFlops


def numbers(frame: Frame, load: LoadPart | None, begin_s: float, end_s: float) -> Numbers:
    """Of a frame whose window is begin_s to end_s; `load`: the phase of vtop's own load that filled it, at its end."""
    server = {row.name: _of_server(row) for row in frame.latencies}
    own_rate = load.output_per_s if load is not None else None
    devices = counted_of(frame.gpus.devices)
    return Numbers(
        begin_s=begin_s,
        end_s=end_s,
        seconds=end_s - begin_s,
        scrapes=frame.requests.running.n,
        finished=frame.requests.finished.in_window,
        finished_per_s=frame.requests.finished.per_s,
        sent=load.sent if load is not None else None,
        failed=load.failed if load is not None else None,
        unfinished=load.unfinished if load is not None else None,
        failed_by_class=load.failed_by_class if load is not None else (),
        output_tokens=frame.generation_tokens.in_window,
        output_per_s=own_rate if own_rate is not None else frame.throughput.output_per_s,
        output_from=_output_from(load, frame.throughput.output_per_s),
        generation_per_s=frame.generation_tokens.per_s,
        while_busy=frame.throughput,
        prompt_tokens=frame.prompt_tokens.in_window,
        prompt_per_s=frame.prompt_tokens.per_s,
        preemptions=frame.preemption.count.in_window,
        preemptions_apart_s=(end_s - begin_s) / put_back if (put_back := frame.preemption.count.in_window) else None,
        running=_level(frame.requests.running),
        waiting=_level(frame.requests.waiting),
        kv=_kv(frame),
        parts=_parts(frame),
        ttft=_of_own(load.ttft) if load is not None else server.get("TTFT"),
        itl=_of_own(load.itl) if load is not None else server.get("ITL"),
        tpot=_of_own(load.tpot) if load is not None else server.get("TPOT"),
        e2e=_of_own(load.e2e) if load is not None else server.get("e2e"),
        server=tuple(server.items()),
        itl_is_chunks=load.itl_is_chunks if load is not None else False,
        slo=load.slo if load is not None else None,
        tokens_per_step=frame.iteration.tokens,
        decode_per_step=frame.iteration.decode,
        prefill_per_step=frame.iteration.prefill,
        steps=frame.iteration.steps,
        prefix_cache=frame.prefix_cache,
        prompt_sources=frame.prompt_sources,
        failed_transfers=frame.failed_transfers,
        speculation=frame.speculation,
        power_w=_power(devices),
        power_limit_w=frame.gpus.power_limit_w,
        temp_high_c=max((device.temp_high_c for device in devices if device.temp_high_c is not None), default=None),
        account=frame.account,
        recompute=frame.recompute,
        queueing=frame.queueing,
        wallclock=frame.wallclock,
        tail=frame.tail,
        energy=frame.energy,
        roofline=frame.roofline,
        own_ttft=frame.own_ttft,
        pressure=frame.pressure,
        verdict=frame.verdict,
        total_per_s=_total(frame, load),
        requests_per_s=_ended(frame, load),
        queue_of_ttft_ratio=frame.growth.queue_of_ttft_ratio,
        queue_of_prefill_ratio=frame.growth.queue_of_prefill_ratio,
        prefill_of_ttft_ratio=frame.growth.prefill_of_ttft_ratio,
        frontend_of_ttft_ratio=frame.growth.frontend_of_ttft_ratio,
        crowding=frame.crowding,
        token_flops=frame.token_flops,
    )


_OVER: Final = {
    "rounds": "own requests, ramp and drain left out: whole rounds",
    "sending": "own requests, ramp and drain left out",
    "all": f"all own requests, ramp and drain in it: without them there are fewer than {LEAST} rounds",
}


def _output_from(load: LoadPart | None, server: float | None) -> str | None:
    if load is not None and load.output_per_s is not None:
        return _OVER[load.output_over or "sending"]
    return "the server's counter, while requests were in the engine" if server is not None else None


def _total(frame: Frame, load: LoadPart | None) -> float | None:
    if load is not None and load.total_per_s is not None:
        return load.total_per_s
    prompt, output = frame.throughput.prompt_per_s, frame.throughput.output_per_s
    return prompt + output if prompt is not None and output is not None else None


def _ended(frame: Frame, load: LoadPart | None) -> float | None:
    own = load.ended_per_s if load is not None else None
    return own if own is not None else frame.throughput.finished_per_s


def _of_own(of: Quantiles) -> Times:
    return Times(
        whose="own requests",
        n=of.n + of.failed,
        failed=of.failed,
        mean_s=of.mean_s,
        p50_s=_exact(of.p50_s),
        p90_s=_exact(of.p90_s),
        p99_s=_exact(of.p99_s),
        p999_s=_exact(of.p999_s),
        p9999_s=_exact(of.p9999_s),
        p95_s=_exact(of.p95_s),
    )


def _exact(value: float | None) -> Percentile:
    return "failed" if value == math.inf else value


def _of_server(row: Latency) -> Times:
    return Times(row.cohort, row.n, 0, row.mean_s, row.p50, row.p90, row.p99, row.p999, row.p9999, row.p95)


def _level(of: Gauge) -> Level:
    return Level(mean=of.mean, median=of.median, low=of.low, peak=of.high, n=of.n)


def _kv(frame: Frame) -> KvUse:
    used = frame.kv.used
    return KvUse(
        mean_ratio=used.mean,
        median_ratio=used.median,
        low_ratio=used.low,
        peak_ratio=used.high,
        n=used.n,
        pool_tokens=frame.kv.pool_tokens,
    )


def _parts(frame: Frame) -> Parts:
    of = frame.ttft
    return Parts(
        n=of.finished,
        queue_s=of.queue_s,
        prefill_s=of.prefill_s,
        frontend_s=of.frontend_s,
        total_s=of.total_s,
        network_s=frame.own_ttft.network_s if frame.own_ttft is not None else None,
    )


def _power(devices: Sequence[GpuPart]) -> Level:
    if len(devices) == 1:
        return _level(devices[0].power)
    means = [device.power.mean for device in devices if device.power.mean is not None]
    whole = sum(means) if means and len(means) == len(devices) else None
    return Level(mean=whole, median=None, low=None, peak=None, n=min((device.power.n for device in devices), default=0))
