"""Frames made by hand: an H200 under overload at 2:31, a server at rest, two engines, one that is down, one unknown."""

from __future__ import annotations

from dataclasses import replace

from tests.draw import loads
from vtop.metrics.histogram import Range
from vtop.session.bottleneck.verdict import verdict
from vtop.session.frame.charts import Charts, LoggedEvent, Points
from vtop.session.frame.frame import Frame
from vtop.session.frame.gpus import Energy, GpuPart, Gpus, Roofline
from vtop.session.frame.kv import Expectation, Kv, KvAccount
from vtop.session.frame.latencies import Latency, Tail
from vtop.session.frame.requests import Little, Preemption, PreemptionEvent, Queueing, Requests, Staircase
from vtop.session.frame.servers import EnginePart, ServerPart, Status
from vtop.session.frame.tokens import Iteration, PrefixCache, Recompute, WallClock
from vtop.session.frame.ttft import Growth, OwnTtft, PhaseParts, Ttft
from vtop.session.frame.values import Count, Gauge
from vtop.session.frame.verdict import Pressure

CROWDED = Pressure(
    server=0,
    scrapes=31,
    seconds=30.0,
    waiting_share=1.0,
    running_share=1.0,
    kv_full_share=0.9,
    at_max_num_seqs_share=0.4,
    running_median=11,
    running_high=14,
    waiting_median=52,
    kv_median_ratio=0.949,
    kv_low_ratio=0.871,
    kv_high_ratio=0.999,
    preemptions=7,
    silent_s=0.0,
    still_s=0.0,
    api_cpu_ratio=0.4,
    asleep=False,
    idle=False,
    outside_share=0.0,
    deferred_share=0.0,
)
UNKNOWN = Gauge(None, None, None, None, None, 0)
NEVER = Count(None, None, None)


def over(columns: int, *pattern: float | None) -> Points:
    """The pattern again and again, ending at the latest column."""
    return tuple(pattern[(at - columns) % len(pattern)] for at in range(columns))


def overload_charts(columns: int = 60, window_s: float = 151.0) -> Charts:
    preempted = over(columns, 1, 0, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1, 1, 0, 0)
    total, so_far = 37 - sum(value or 0 for value in preempted), []
    for value in preempted:
        total += value or 0
        so_far.append(total)
    ramp = tuple(min(1.0, 0.15 + 1.1 * at / columns) for at in range(columns))
    return Charts(
        end_s=151.0,
        column_s=window_s / columns,
        running=over(columns, 11, 12, 14, 12, 11, 10, 11, 13),
        waiting=tuple(round(51 + 5 * (1 - step)) for step in ramp),
        kv_used=over(columns, 0.999, 0.961, 0.973, 0.985, 0.949),
        generation_per_s=over(columns, 1592, 1310, 1721, 1604, 1498),
        prompt_per_s=over(columns, 0.0, 0.0, 12288, 0.0, 6144, 0.0, 0.0),
        preemptions=tuple(so_far),
        preempted=preempted,
        decode_per_step=over(columns, 11, 12, 11, 10),
        prefill_per_step=over(columns, 0.0, 120, 34, 0.0, 0.0),
        queue_s=tuple(48.1 * step for step in ramp),
        prefill_s=over(columns, 0.47, 0.52),
        frontend_s=over(columns, 0.12, 0.11),
        power_w=over(columns, 527, 541, 498, 533),
        sm_mhz=over(columns, 1980),
        marks=((columns * 2 // 3, "mark"),),
    )


def device(index: int = 0, **changes: object) -> GpuPart:
    one = GpuPart(
        index=index,
        uuid=f"GPU-{index}",
        name="NVIDIA H200",
        serving=True,
        lost=None,
        util_ratio=1.0,
        mem_used_bytes=int(24.1 * 2**30),
        mem_total_bytes=int(140.4 * 2**30),
        power=Gauge(527.0, 521.0, 527.0, 402.0, 561.0, 151),
        power_kind="average",
        power_limit_w=700.0,
        energy_j=78_671.0,
        temp_c=41.0,
        sm_mhz=1980.0,
        sm_max_mhz=1980.0,
        mem_mhz=3201.0,
        mem_max_mhz=3201.0,
        throttle=(),
        age_s=0.3,
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def server(index: int = 0, **changes: object) -> ServerPart:
    one = ServerPart(
        index=index,
        url="http://localhost:8000",
        status=Status("busy", "11 running, 51 waiting, KV 94.9 %", index),
        local=True,
        models=("qwen2.5-7b",),
        version="0.26.0",
        max_model_len=8192,
        uptime_s=2471.0,
        age_s=0.4,
        took_s=0.006,
        scrape_bytes=45_000,
        bad_lines=0,
        tries=0,
        outages=0,
        restarts=0,
        engines=1,
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def overload(columns: int = 60) -> Frame:
    """Qwen2.5-7B on an H200 with a pool of 86,896 tokens, 64 requests of 6,144 in and 2,048 out at once, after 2:31."""
    frame = Frame(
        now_s=151.4,
        unix_s=1_760_000_151.4,
        start_unix_s=1_760_000_000.0,
        interval_s=1.0,
        window_s=151.0,
        asked_window_s=300.0,
        status=Status("busy", "11 running, 51 waiting, KV 94.9 %"),
        origin=None,
        servers=(server(),),
        engines=(EnginePart(0, "0", 11, 51, 0.949, 1592.0),),
        requests=Requests(
            running=Gauge(11, 11.3, 11, 9, 14, 151),
            waiting=Gauge(51, 52.4, 52, 50, 56, 151),
            waiting_by_reason=(("capacity", 51.0), ("deferred", 0.0)),
            finished=Count(23, 0.152, 23),
            finished_by_reason=(("length", 23.0),),
            rejected=Count(0, 0.0, 0),
        ),
        kv=Kv(
            used=Gauge(0.949, 0.947, 0.950, 0.871, 0.999, 151),
            mean_used_ratio=0.949,
            pool_tokens=86_896,
            used_tokens=82_470,
            room_tokens=4_426,
            pool_bytes=4.64 * 2**30,
            bytes_per_token=57_344,
            block_size=16,
            max_concurrency=10.6,
            prefix_caching=True,
        ),
        prompt_tokens=Count(721_327, 4777.0, 721_327),
        generation_tokens=Count(240_392, 1592.0, 240_392),
        iteration=Iteration(21_382, 141.6, 45.0, 11.2, 33.8),
        ttft=Ttft(
            finished=23,
            queue_s=48.1,
            prefill_s=0.473,
            frontend_s=0.122,
            total_s=48.695,
            first_tokens=31,
            first_token_s=44.9,
            queue_now_s=52.3,
            stuck=False,
        ),
        latencies=(
            Latency("TTFT", 44.9, Range(40, 80), Range(80, 160), Range(80, 160), 31, "first token"),
            Latency("ITL", 0.00702, Range(0.005, 0.01), Range(0.01, 0.02), Range(0.01, 0.025), 240_361, "every token"),
            Latency("TPOT", 0.0124, Range(0.01, 0.025), Range(0.01, 0.025), Range(0.025, 0.05), 23, "finished"),
            Latency("queue", 48.1, Range(40, 50), Range(60, None), Range(60, None), 23, "finished"),
            Latency("prefill", 0.473, Range(0.3, 0.5), Range(0.5, 0.8), Range(0.8, 1.0), 23, "finished"),
            Latency("decode", 22.4, Range(20, 30), Range(20, 30), Range(30, 40), 23, "finished"),
            Latency("e2e", 71.2, Range(60, None), Range(60, None), Range(60, None), 23, "finished"),
        ),
        prefix_cache=PrefixCache(0.0, 0.0, 721_327, 0.031, False),
        preemption=Preemption(Count(37, 0.245, 37), 147.0),
        gpus=Gpus((device(),), None, True, 527.0, 700.0, 1, 0.3),
        event_log=(
            LoggedEvent(0.0, "start", "first scrape: 43.9 KiB"),
            LoggedEvent(100.6, "mark", "load doubled"),
            LoggedEvent(138.0, "preemption", "preempted 1, running 13 → 12, KV 99.7 % → 92.3 %"),
            LoggedEvent(143.0, "preemption", "preempted 1, running 12 → 11, KV 99.9 % → 92.4 %"),
            LoggedEvent(147.0, "preemption", "preempted 1, running 12 → 11, KV 99.8 % → 92.1 %"),
        ),
        charts=overload_charts(columns),
        staircase=Staircase(
            events=(PreemptionEvent(147.0, 0, 1, "gauges", 0.998, 0.921, 0.077, 6_690, 12, 11, 51, 52),),
            trigger_mean_ratio=0.996,
            trigger_low_ratio=0.968,
            freed_mean_tokens=6_529,
            interval_mean_s=4.08,
            cycle_s=4.08,
            cycle_spread_s=1.4,
            per_minute=14.7,
            slope_per_s=0.237,
            straightness=0.998,
            steady=True,
            cycle="admit, fill, preempt, refill: every 4.1 s ± 1.4, at KV 99.6 %, 6,529 tokens freed each time",
            thrashing=1,
        ),
        recompute=Recompute(
            method="write bytes, model shape",
            tokens=258_309,
            ratio=0.245,
            since_start=258_309,
            since_start_ratio=0.245,
            per_preemption=6_981,
            by_flops_tokens=286_000,
            by_kv_tokens=241_573,
        ),
        roofline=Roofline(126e12, 2.67e12, 47.2, 0.127, 0.557, "NVIDIA H200", 989e12, 4.8e12),
        account=KvAccount(
            input_tokens=6_144,
            output_tokens=2_048,
            lengths_from="finished requests",
            nominal=Expectation(64, 6.03, 5.28, -5.03, -4.33),
            effective=Expectation(11, 1.037, 0.907, -0.038, 0.042),
            asked_tokens=524_288,
            oversubscription=6.03,
            predicted_residents=10.6,
            measured_residents=11,
            growth_tokens_per_s=1_590,
            full_in_s=2.8,
            waste_tokens_per_request=0.0,
            waste_tokens=88,
        ),
        queueing=Queueing(
            running=Little(11.2, 0.714, 15.5, 11.0, 0.018),
            waiting=Little(52.4, 0.714, 71.0, 50.7, 0.034),
            trend="growing",
            slope_per_s=0.02,
            p_value=0.004,
            waiting_share=0.717,
        ),
        wallclock=WallClock(120.0, 21.0, 7.0, 3.0, 0.00625, "steps that only decode", 15.0, 12.6, 0.157),
        tail=Tail(240_361, 37, 99.99, "p99 ITL cannot show the 37 preemptions"),
        energy=Energy(
            63_900.0, "the GPUs' energy counters", 0.336, 0.083, 122.0, 0.23, 0.3, 0.25, (("power cap", 0.25),)
        ),
        growth=Growth(
            phases=tuple(
                PhaseParts(at, c, None, 30, q, 0.4, 0.1, 0.01, q + 0.51) for at, c, q in ((0, 1, 0.0), (1, 64, 48.1))
            ),
            queue_of_prefill_ratio=101.7,
            queue_of_ttft_ratio=0.987,
            prefill_factor=11.7,
            frontend_factor=3.2,
            queue_added_s=48.1,
            crossing_unit="in flight",
            crossed_at=64,
        ),
        own_ttft=OwnTtft(23, 48.75, 0.0522, 2.0, 23, 48.1, 0.473, 0.177),
        pressure=CROWDED,
    )
    return replace(frame, verdict=verdict(frame))


def nothing_known(columns: int = 60) -> Frame:
    """Before the first scrape: all that can be None is."""
    none: Points = (None,) * columns
    why = "connection refused (nothing listens there yet; vtop goes on trying)"
    status = Status("waiting", f"waiting for http://localhost:8000: try 3, {why}", fresh=False)
    charts = Charts(0.0, 5.0, *(none,) * 14, ())
    frame = Frame(
        now_s=2.0,
        unix_s=1_760_000_002.0,
        start_unix_s=1_760_000_000.0,
        interval_s=1.0,
        window_s=0.0,
        asked_window_s=300.0,
        status=status,
        origin=None,
        servers=(
            server(
                status=status,
                models=(),
                version=None,
                max_model_len=None,
                uptime_s=None,
                age_s=None,
                took_s=None,
                scrape_bytes=None,
                tries=3,
                engines=0,
            ),
        ),
        engines=(),
        requests=Requests(UNKNOWN, UNKNOWN, (), NEVER, (), NEVER),
        kv=Kv(UNKNOWN, None, None, None, None, None, None, None, None, None),
        prompt_tokens=NEVER,
        generation_tokens=NEVER,
        iteration=Iteration(0.0, None, None, None, None),
        ttft=Ttft(0.0, None, None, None, None, 0.0, None, None, False),
        latencies=(),
        prefix_cache=PrefixCache(None, None, None, None, False),
        preemption=Preemption(NEVER, None),
        gpus=Gpus((), "no GPU: libnvidia-ml.so.1 is not there", True, None, None, 0, None),
        event_log=(),
        charts=charts,
    )
    return replace(frame, verdict=verdict(frame))


def idle(columns: int = 60) -> Frame:
    """A quiet server: zeros where zeros were measured."""
    busy = overload(columns)
    flat: Points = (None,) * (columns // 4) + (0.0,) * (columns - columns // 4)
    zero = Gauge(0, 0, 0, 0, 0, 120)
    frame = replace(
        busy,
        status=Status("idle", "idle: no request runs or waits"),
        pressure=replace(CROWDED, waiting_share=0.0, running_share=0.0, silent_s=None, still_s=None, idle=True),
        staircase=Staircase(),
        recompute=Recompute(),
        queueing=Queueing(),
        tail=Tail(),
        own_ttft=None,
        engines=(EnginePart(0, "0", 0, 0, 0.0, 0.0),),
        requests=replace(busy.requests, running=zero, waiting=zero, waiting_by_reason=(), finished=Count(0, 0.0, 0)),
        kv=replace(busy.kv, used=zero, used_tokens=0, room_tokens=86_896, mean_used_ratio=0.0),
        prompt_tokens=Count(0, 0.0, 0),
        generation_tokens=Count(0, 0.0, 0),
        iteration=Iteration(0, 0.0, None, None, None),
        ttft=Ttft(0, None, None, None, None, 0, None, None, False),
        latencies=tuple(
            replace(one, mean_s=None, p50=None, p90=None, p99=None, n=0) for one in busy.latencies
        ),
        preemption=Preemption(Count(0, 0.0, 0), None),
        gpus=Gpus((device(util_ratio=0.0, power=Gauge(76, 76, 76, 75, 78, 120)),), None, True, 76.0, 700.0, 1, 0.3),
        event_log=busy.event_log[:1],
        charts=replace(
            busy.charts, running=flat, waiting=flat, kv_used=flat, generation_per_s=flat, prompt_per_s=flat,
            preemptions=flat, preempted=flat, decode_per_step=flat, prefill_per_step=flat, queue_s=flat,
            prefill_s=flat, frontend_s=flat, power_w=(None,) * (columns // 4) + (76.0,) * (columns - columns // 4),
            marks=((columns // 4, "restart"),),
        ),
    )  # fmt: skip
    return replace(frame, verdict=verdict(frame))


def down(columns: int = 60) -> Frame:
    """The overload after the server went away: everything shown is old."""
    busy = overload(columns)
    status = Status("down", "no answer for 41.0 s: connection refused (try 41)", fresh=False)
    gap = columns // 6
    charts = replace(
        busy.charts,
        running=busy.charts.running[:-gap] + (None,) * gap,
        kv_used=busy.charts.kv_used[:-gap] + (None,) * gap,
        marks=((columns - gap, "outage"),),
    )
    lost = LoggedEvent(151.0, "outage", "no scrape: connection refused")
    frame = replace(
        busy,
        status=status,
        servers=(server(status=status, age_s=41.0, outages=1, tries=41),),
        event_log=(*busy.event_log, lost),
        charts=charts,
    )
    return replace(frame, verdict=verdict(frame))


def fleet(columns: int = 60) -> Frame:
    """Two servers, four engines of unequal load, eight GPUs on another host's screen, names of every kind."""
    busy = overload(columns)
    names = ("org/model[awq]", "[/]", "模型-七B-指令", "llama\x1b[31m-3\x00\ud800")
    engines = tuple(
        EnginePart(at // 2, str(at % 2), running, waiting, used, 1592.0 / (at + 1))
        for at, (running, waiting, used) in enumerate(((11, 51, 0.949), (9, 2, 0.61), (12, 4, 0.7), (None, None, None)))
    )
    devices = tuple(
        device(at, serving=None, util_ratio=at / 8, throttle=("power cap",) if at == 3 else ()) for at in range(7)
    )
    lost = device(7, lost="fell off the bus", util_ratio=None, temp_c=None, throttle=None, name=None)
    return replace(
        busy,
        servers=(
            server(models=names[:2], engines=2),
            server(1, url="http://[::1]:8001/v1", models=names[2:], engines=2),
        ),
        engines=engines,
        kv=replace(busy.kv, pool_tokens=1_234_567, used_tokens=982_470, room_tokens=252_097),
        gpus=Gpus((*devices, lost), "1 of 8 GPUs lost", False, 3689.0, 5600.0, 7, 0.3),
        requests=replace(
            busy.requests,
            finished=Count(123_456, 812.5, 9_876_543),
            finished_by_reason=(("abort", 2.0), ("error", 3.0), ("length", 1_000.0), ("stop", 122_451.0)),
            rejected=Count(7, 0.1, 7),
        ),
        generation_tokens=Count(24_039_200, 159_200.0, 24_039_200),
        preemption=Preemption(Count(1_234, 8.2, 1_234_567), 147.0),
        event_log=(*busy.event_log, LoggedEvent(150.0, "note", "[Errno 111] connection [/refused]\n\x1b[2J\u202e")),
    )


def broken(columns: int = 60) -> Frame:
    """The server went away under vtop's own load: 4 s without a scrape, while the GPU is still being read."""
    busy = down(columns)
    status = Status("down", "no answer for 4.0 s: connection refused (try 3)", fresh=False)
    servers = (server(status=status, age_s=4.0, outages=1, tries=3),)
    charts = replace(busy.charts, marks=())
    frame = replace(busy, status=status, servers=servers, charts=charts, load=loads.load())
    return replace(frame, verdict=verdict(frame))


ALL = {
    "overload": overload, "nothing_known": nothing_known, "idle": idle, "down": down, "fleet": fleet, "broken": broken,
}  # fmt: skip
