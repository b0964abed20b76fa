"""Which limit binds: every rule with a recording that shows it, and with one that lacks its evidence."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import groupby

import msgspec
import pytest

from tests.session.made import RECORDINGS, SMALL, Log, Server, device, fold, read
from tests.session.test_throughput import watched
from vtop import units
from vtop.recording import Host, Load, Request
from vtop.recording.events import FlagValue
from vtop.report.findings.findings import findings
from vtop.report.model import of_session
from vtop.server_kinds.vllm import suggestions
from vtop.session.bottleneck.at_limit import at_limit
from vtop.session.bottleneck.verdict import TITLES
from vtop.session.frame.frame import View
from vtop.session.frame.verdict import Verdict
from vtop.session.session import Session

POOL = 'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="625",kv_cache_size_tokens="10000"} 1.0\n'
WHOLE = View(window_s=3600.0, columns=10, whole=True)

Step = Callable[[int, Server], None]


def said(step: Step, *, scrapes: int = 40, extra: str = POOL) -> Verdict:
    """The verdict after so many seconds in which `step` made each scrape of a server at work."""
    log, server = Log(), Server()
    for second in range(scrapes):
        server.engine.count(generation_tokens=100)
        step(second, server)
        log.scrape(float(second), server.exposition(extra))
    return log.frame().verdict


def recorded(name: str) -> Session:
    (path,) = [path for path in (*RECORDINGS, *SMALL) if path.name.partition(".")[0] == name]
    return fold(*read(path))


def at_work(session: Session) -> Verdict:
    """Over the stretch in which requests ran."""
    server = session.servers[0]
    busy = [scrape for scrape in range(len(server.t)) if any(_now(session, scrape))]
    first, last = busy[0], busy[-1]
    return session.frame(server.t[last], View(server.at_s[last] - server.at_s[first], 10, whole=True)).verdict


def _now(session: Session, scrape: int) -> tuple[float, float]:
    frame = session.frame(session.servers[0].t[scrape], View(1.0, 1))
    return frame.requests.running.now or 0.0, frame.requests.waiting.now or 0.0


# --- the engine's limits ---------------------------------------------------------------------------------------------


def test_in_the_overload_the_pool_binds_and_a_larger_one_is_what_to_try() -> None:
    found = at_work(recorded("overload"))
    assert found.limit == "kv"
    assert found.evidence[0] == "11 of 64 requests resident"
    assert "37 preemptions in " in found.sentence
    assert "demand 6.0 × the pool" in found.sentence
    assert found.flag is not None
    # fewer seats were tried there, and cost more than preemptions did
    assert found.flag == "--gpu-memory-utilization or --kv-cache-dtype fp8"
    assert found.why is not None
    assert found.why.startswith("in a larger pool")
    assert "recomputing takes 3." in found.why


@pytest.mark.parametrize("name", ["sweep_c1", "sweep_c2", "sweep_c4", "sweep_c8"])
def test_in_a_light_load_nothing_binds(name: str) -> None:
    assert at_work(recorded(name)).limit in ("none", "power")


def test_preemptions_of_a_pool_that_has_emptied_since_bind_nothing() -> None:
    def emptied(second: int, server: Server) -> None:
        server.engine.running, server.engine.kv = 20, 0.3
        server.engine.count(num_preemptions=2 * (second == 25))

    found = said(emptied)
    assert found.limit == "none"
    assert "2 preemptions" in found.sentence


def test_requests_that_wait_for_room_in_the_pool_say_kv() -> None:
    def crowded(_: int, server: Server) -> None:
        server.engine.running, server.engine.waiting, server.engine.kv = 5, 8, 0.97

    found = said(crowded)
    assert found.limit == "kv"
    assert "KV 97 %" in found.sentence
    assert found.flag is not None


def test_a_pool_below_full_binds_too_where_the_next_prompt_does_not_fit() -> None:
    def crowded(prompt: float) -> Step:
        def step(_: int, server: Server) -> None:
            server.engine.running, server.engine.waiting, server.engine.kv = 2, 8, 0.80
            server.engine.finish(prompt=prompt)

        return step

    assert said(crowded(3000.0)).limit == "kv"
    assert said(crowded(500.0)).limit == "max-num-seqs"


def test_running_that_stands_while_others_wait_says_max_num_seqs() -> None:
    def at_limit(_: int, server: Server) -> None:
        server.engine.running, server.engine.waiting, server.engine.kv = 16, 40, 0.31

    found = said(at_limit)
    assert found.limit == "max-num-seqs"
    assert found.evidence[:2] == ("running stands at 16", "40 waiting")
    assert found.flag is not None
    assert found.flag.startswith("--max-num-seqs ")
    assert found.flag != "--max-num-seqs 16"


def test_requests_that_wait_beside_free_max_num_seqs_and_room_say_token_budget() -> None:
    def taken_in_slowly(second: int, server: Server) -> None:
        server.engine.running, server.engine.waiting, server.engine.kv = 40 + second % 7, 5, 0.4
        server.engine.count(prompt_tokens=2000)
        server.engine.observe(iteration=2100)

    assert said(taken_in_slowly).limit == "token-budget"


def test_a_queue_that_comes_and_goes_binds_nothing() -> None:
    def now_and_then(second: int, server: Server) -> None:
        server.engine.running, server.engine.waiting, server.engine.kv = 16, 3 * (second % 10 == 0), 0.31

    found = said(now_and_then)
    assert found.limit == "none"
    assert "requests wait on 10 % of scrapes" in found.sentence


def test_what_waits_for_an_adapter_is_deferred_and_no_limit() -> None:
    reasons = (
        'vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 4.0\n'
        'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 0.0\n'
    )

    def held_back(_: int, server: Server) -> None:
        server.engine.running, server.engine.waiting, server.engine.kv = 2, 4, 0.1

    found = said(held_back, extra=POOL + reasons)
    assert found.limit == "deferred"
    assert "4 of 4 waiting requests" in found.sentence


# --- what is not the engine ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("local", "limit"), [(True, "power"), (False, "none")])
def test_a_device_at_its_power_limit_binds_when_nobody_waits(local: bool, limit: str) -> None:
    hot = msgspec.structs.replace(
        device(power_w=698.0), power_limit_w=700.0, sm_max_mhz=1980.0, sm_mhz=1500.0, throttle=("power cap",)
    )
    log, server = Log(), Server()
    target = msgspec.structs.replace(log.start.servers[0], local=local)  # the GPUs of another host say nothing
    log.start = msgspec.structs.replace(log.start, servers=(target,))
    server.engine.running, server.engine.kv = 16, 0.3
    for second in range(40):
        server.engine.count(generation_tokens=100)
        log.scrape(float(second), server)
        log.gpu(second + 0.1, hot)
    found = log.frame().verdict
    assert found.limit == limit
    assert ("up to 698 W of 700 W" in found.sentence) == local
    assert ("clock 24.2 % below its maximum" in found.sentence) == local


@pytest.mark.parametrize(("sm_mhz", "limit"), [(1965.0, "none"), (1860.0, "none"), (1700.0, "power")])
def test_a_power_cap_that_costs_next_to_no_clock_binds_nothing(sm_mhz: float, limit: str) -> None:
    capped = msgspec.structs.replace(
        device(power_w=669.0), power_limit_w=700.0, sm_max_mhz=1980.0, sm_mhz=sm_mhz, throttle=("power cap",)
    )
    log, server = Log(), Server()
    server.engine.running, server.engine.kv = 50, 0.6
    for second in range(40):
        server.engine.count(generation_tokens=100)
        log.scrape(float(second), server)
        log.gpu(second + 0.1, capped)
    assert log.frame().verdict.limit == limit


def test_two_warm_readings_are_no_power_limit() -> None:
    warm = msgspec.structs.replace(device(power_w=240.0), power_limit_w=700.0, throttle=("power cap",))
    log, server = Log(), Server()
    server.engine.running, server.engine.kv = 4, 0.1
    for second in range(40):
        server.engine.count(generation_tokens=100)
        log.scrape(float(second), server)
        log.gpu(second + 0.1, warm)
    assert log.frame().verdict.limit == "none"


def test_an_api_server_at_the_end_of_its_core_says_frontend() -> None:
    def busy(_: int, server: Server) -> None:
        server.engine.running = 16

    log, server = Log(), Server()
    for second in range(40):
        server.engine.count(generation_tokens=100)
        busy(second, server)
        log.scrape(float(second), server.exposition(f"process_cpu_seconds_total {0.97 * second}\n"))
    found = log.frame().verdict
    assert found.limit == "frontend"
    assert "97 % of a core" in found.sentence
    assert found.flag == "--api-server-count 2"


def under_load(running: int, *, in_flight: int, busy_ratio: float = 0.2, waiting: int = 0) -> Verdict:
    log, server = Log(), Server()
    log.add(Load(phase=0, state="begin", spec="c=64", shape="closed", concurrency=64), 0.0)
    for number in range(in_flight):
        log.add(Request(id=number, phase=0, sent_s=0.5), 0.5)
    for second in range(1, 20):
        server.engine.count(generation_tokens=100)
        server.engine.running, server.engine.waiting = running, waiting
        log.scrape(float(second), server.exposition(POOL))
        log.add(Host(at_s=float(second), load_cpu_ratio=busy_ratio, load_lag_max_s=0.001), second + 0.2)
    return log.frame().verdict


def test_requests_sent_and_scrape_after_scrape_not_in_the_engine_say_frontend() -> None:
    assert under_load(64, in_flight=64).limit == "none"
    found = under_load(20, in_flight=64)
    assert found.limit == "frontend"
    assert "69 % of the requests sent are not in the engine" in found.sentence
    assert under_load(1, in_flight=6).limit == "none"  # a scrape is up to a second older than what was sent since


def test_a_client_that_runs_late_does_not_hide_what_binds_the_engine() -> None:
    assert under_load(16, in_flight=64, busy_ratio=0.98, waiting=48).limit == "max-num-seqs"


def test_a_load_that_cannot_keep_up_says_client() -> None:
    found = under_load(64, in_flight=64, busy_ratio=0.98)
    assert found.limit == "client"
    assert "98%" in found.sentence


# --- the data --------------------------------------------------------------------------------------------------------


def standing(*, kv_moves: bool) -> Verdict:
    log, server = Log(), Server()
    server.engine.count(generation_tokens=100)
    server.engine.running, server.engine.kv = 1, 0.1
    log.scrape(0.0, server)
    for second in range(1, 61):
        server.engine.kv += 0.005 * kv_moves
        log.scrape(float(second), server)
    return log.frame().verdict


def test_no_token_while_the_pool_fills_is_a_long_prefill() -> None:
    found = standing(kv_moves=True)
    assert found.limit == "prefilling"
    assert "for 60.0 s: no token" in found.sentence


def test_requests_that_run_while_nothing_moves_are_stuck() -> None:
    found = standing(kv_moves=False)
    assert found.limit == "stuck"
    assert "nothing moved for 60.0 s" in found.sentence


def test_a_silent_server_and_a_dead_engine_are_stale() -> None:
    log, server = Log(), Server()
    server.engine.running = 4
    log.scrape(0.0, server)
    log.scrape(1.0, server)
    log.outage(2.0, "timeout")
    assert log.frame(60.0).verdict.limit == "stale"
    log.scrape(61.0, server, health=503)
    found = log.frame().verdict
    assert found.limit == "stale"
    assert "/health says 503" in found.sentence


def test_a_sleeping_engine_is_asleep() -> None:
    states = 'vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0.0\n'
    assert said(lambda _, server: None, extra=states).limit == "asleep"


def test_an_idle_server_is_idle_whatever_it_did_before() -> None:
    session = recorded("overload")
    assert session.frame(session.end_s).verdict.limit == "idle"


def test_before_the_first_scrape_there_is_nothing_to_say() -> None:
    log = Log()
    log.outage(0.5)
    assert log.frame(1.0).verdict.limit == "waiting"


def test_no_verdict_lacks_its_title_or_its_evidence() -> None:
    for name in ("overload", "sweep_c64", "overload_loaded"):
        session = recorded(name)
        for at_s in range(0, int(session.end_s), 7):
            found = session.frame(float(at_s)).verdict
            assert found.limit in TITLES
            assert found.evidence
            assert (found.flag is None) == (found.why is None)


# --- what to try, by the flags on record ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "flag", "command"),
    [
        ({}, "--gpu-memory-utilization or --kv-cache-dtype fp8", "--kv-cache-dtype fp8"),
        ({"num-gpu-blocks-override": 5431}, "--num-gpu-blocks-override above 5431, or unset it", None),
        ({"kv-cache-memory-bytes": 4982161408}, "--kv-cache-memory-bytes above 4982161408, or unset it", None),
        ({"gpu-memory-utilization": 0.95}, "--kv-cache-dtype fp8", "--kv-cache-dtype fp8"),
        ({"kv-cache-dtype": "fp8_e5m2"}, "--gpu-memory-utilization", "--gpu-memory-utilization 0.95"),
        (
            {"kv-cache-dtype": "fp8", "gpu-memory-utilization": 0.97, "tensor-parallel-size": 2},
            "--tensor-parallel-size 4",
            "--tensor-parallel-size 4",
        ),
    ],
)
def test_a_larger_pool_is_had_by_what_holds_it_small(flags: dict[str, FlagValue], flag: str, command: str) -> None:
    found = suggestions.larger_pool(flags)
    assert found.flag == flag
    assert len("try " + found.flag) <= 60
    fixed = next(iter(flags), "")
    assert found.command == f"vllm serve … {command or f'without --{fixed}'}"


def test_a_pool_that_is_cut_by_a_flag_on_record_is_not_helped_by_more_memory() -> None:
    found = recorded("killed").frame(63.0).verdict
    assert (found.limit, found.flag) == ("kv", "--num-gpu-blocks-override above 5431, or unset it")


def test_a_hint_names_another_value_than_the_one_on_record() -> None:
    assert suggestions.more_api_servers({}).flag == "--api-server-count 2"
    assert suggestions.more_api_servers({"api-server-count": 4}).flag == "--api-server-count 8"
    assert suggestions.other_budget(None).command == "vllm serve … --max-num-batched-tokens 2048"
    assert suggestions.other_budget(8192).command == "vllm serve … --max-num-batched-tokens 16384"


def test_max_num_seqs_to_try_are_those_of_one_engine() -> None:
    log, server = Log(), Server("01")
    for second in range(40):
        for engine in server.engines.values():
            engine.running, engine.waiting, engine.kv = 16, 40, 0.2
            engine.count(generation_tokens=100)
        log.scrape(float(second), server)
    found = log.frame().verdict
    assert (found.evidence[0], found.flag) == ("running stands at 32", "--max-num-seqs 32")


def test_the_server_under_pressure_is_named_where_another_never_answered() -> None:
    log, server = Log(servers=2), Server()
    for second in range(40):
        server.engine.running, server.engine.waiting, server.engine.kv = 16, 40, 0.31
        server.engine.count(generation_tokens=100)
        log.scrape(float(second), server, server=1)
        log.outage(float(second))
    frame = log.frame()
    assert frame.pressure is not None
    assert frame.pressure.server == 1


# --- over time -------------------------------------------------------------------------------------------------------

CALMED = {"kv", "max-num-seqs", "token-budget", "client", "power", "none"}


def over_time(name: str, *, own: bool) -> list[tuple[int, Verdict]]:
    """The verdict once a second."""
    session = recorded(name) if own else watched(name)[0]
    return [(at, session.frame(float(at), View(60.0, 2)).verdict) for at in range(1, int(session.end_s) + 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("attached_pool7168_c128", False), ("attached_open_r16", False), ("attached_mbt512_c32", False),
        ("open_loop", False), ("overload_seqs12", True),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (
            ("open_loop", True), ("killed", True), ("sweep", True), ("sweep_batch512", False), ("pool7168", True))),
    ],
)  # fmt: skip
def test_a_limit_stands_for_some_seconds_or_is_not_said(name: str, own: bool) -> None:
    told = [verdict.limit for _, verdict in over_time(name, own=own)]
    stretches = [(limit, len(list(group))) for limit, group in groupby(told)]
    inner = zip(stretches, stretches[1:], stretches[2:], strict=False)
    flaps = [
        now for before, now, after in inner if {before[0], now[0], after[0]} <= CALMED and now[1] < 3 and before != now
    ]
    assert not flaps


def test_preemptions_in_a_full_pool_are_not_called_a_token_budget() -> None:
    """A watched run of 128 in flight: ten frames had said token budget with up to 41 preemptions and KV at 100 %."""
    session = watched("attached_pool7168_c128")[0]
    for at in range(1, int(session.end_s) + 1):
        frame = session.frame(float(at), View(60.0, 2))
        if frame.pressure is not None and frame.pressure.preemptions:
            assert frame.verdict.limit in ("kv", "unknown"), at
    assert frame.verdict.limit == "kv"


def test_an_open_loop_that_nobody_waits_in_is_not_bound_by_power() -> None:
    assert {verdict.limit for _, verdict in over_time("attached_open_r16", own=False)} <= {
        "waiting", "idle", "unknown", "none",
    }  # fmt: skip


def test_where_most_of_ttft_is_queueing_something_binds() -> None:
    """512 tokens a step: requests queue between scrapes, 51.7 % of TTFT."""
    found = [verdict for at, verdict in over_time("attached_mbt512_c32", own=False) if at >= 8]
    assert {verdict.limit for verdict in found} == {"token-budget"}
    assert all("% of TTFT" in verdict.sentence for verdict in found)


def test_a_verdict_looks_at_no_scrape_of_the_load_before() -> None:
    session = recorded("sweep")
    for number, phase in session.load.phases.items():
        for after_s in (0.5, 3.0, 6.0, 9.0):
            at_s = phase.begin.t + after_s
            frame = session.frame(at_s, View(60.0, 2))
            if frame.load is None or frame.load.phase != number or frame.pressure is None:
                continue
            assert frame.pressure.seconds <= after_s
            assert (frame.pressure.running_high or 0.0) <= (phase.begin.concurrency or 0)


def test_nothing_says_that_more_load_would_be_served_where_none_was_tried() -> None:
    for name in ("sweep_c1", "attached_open_r16", "open_loop"):
        assert not any("would be served" in verdict.sentence for _, verdict in over_time(name, own=True))


def test_the_evidence_of_a_limit_says_over_how_many_scrapes_and_seconds() -> None:
    for at, verdict in over_time("overload", own=True):
        if verdict.limit in CALMED - {"client", "power"}:
            assert re.search(r"\d+ scrapes in \d", verdict.sentence), at


def test_requests_that_nobody_admits_beside_free_places_and_pool_are_said_to_be() -> None:
    def held(second: int, server: Server) -> None:
        server.engine.running = 8.0 if second < 5 else 4.0
        server.engine.waiting, server.engine.kv = 20.0, 0.4
        server.engine.observe(inter_token=0.02)
        if second < 5:
            server.engine.observe(time_to_first=0.1)

    found = said(held)
    assert found.limit == "no-admission"
    assert "nobody admitted for 35.0 s" in found.sentence
    assert "20 waiting, 4 running of 8 seen so far" in found.sentence

    def taken_in(second: int, server: Server) -> None:
        held(second, server)
        server.engine.observe(time_to_first=0.1)

    assert said(taken_in).limit != "no-admission"


def test_a_queue_that_grows_is_no_progress_of_the_engine() -> None:
    log, server = Log(), Server()
    server.engine.count(generation_tokens=100)
    server.engine.running, server.engine.kv = 4, 0.5
    for second in range(40):
        server.engine.waiting += 2
        server.engine.count(prefix_cache_queries=1000)  # the head of the queue, at every step
        log.scrape(float(second), server)
    session = log.session()
    assert session.frame(session.end_s).verdict.limit == "stuck"
    assert [one.kind for one in session.incidents()] == ["stuck"]


@pytest.mark.parametrize("kv", [-0.39, 1.07, math.nan])
def test_nothing_is_concluded_from_a_kv_use_that_cannot_be(kv: float) -> None:
    def odd(_: int, server: Server) -> None:
        server.engine.running, server.engine.waiting, server.engine.kv = 16, 40, kv

    found = said(odd)
    assert found.limit == "unknown"
    assert "%" not in found.sentence


@pytest.mark.parametrize(("late_ms", "limit"), [(5.0, "none"), (80.0, "client")])
def test_a_client_that_is_late_binds_where_it_costs_something(late_ms: float, limit: str) -> None:
    """Every 50 ms a request with a TTFT of 400 ms."""
    log, server = Log(), Server()
    log.scrape(0.0, server)
    log.add(Load(phase=0, state="begin", spec="rate=20", shape="open", rate_per_s=20.0), 0.5)
    server.engine.running, server.engine.kv = 8, 0.3
    for second in range(1, 31):
        for k in range(20):
            due_s = second + k / 20
            sent_s = due_s + late_ms / 1e3
            times = Request(id=20 * second + k, phase=0, due_s=due_s, sent_s=sent_s)
            log.add(times, sent_s)
            ended = msgspec.structs.replace(
                times, first_s=sent_s + 0.4, last_s=sent_s + 0.45, end_s=sent_s + 0.45, output_tokens=2, status=200
            )
            log.add(ended, sent_s + 0.46)
        server.engine.count(generation_tokens=40)
        log.scrape(second + 1.0, server)
    frame = log.frame(31.0)
    assert frame.load is not None
    assert frame.load.limited is not None
    assert frame.verdict.limit == limit


def test_where_running_stands_at_its_limit_is_one_rule_for_verdict_and_what_if() -> None:
    queue = [0.0] * 6 + [5.0] * 4
    running = [8.0, 8.0, 9.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 9.9]
    found = at_limit(running, queue, [0.5] * 10, full=0.95, max_num_seqs=None)
    assert found.stands
    assert (found.waiting_share, found.limit, found.at_limit_share) == (0.4, 10.0, 1.0)
    assert not at_limit(running, queue, [0.5] * 10, full=0.4, max_num_seqs=None).stands  # the pool is full
    assert not at_limit(running, queue, [0.5] * 10, full=0.95, max_num_seqs=16).stands  # and by what is on record
    assert not at_limit(running, [0.0] * 8 + [5.0] * 2, [0.5] * 10, full=0.95, max_num_seqs=None).stands  # few waited
    assert not at_limit(running, queue, [None] * 10, full=0.95, max_num_seqs=None).stands  # room is not known


def test_there_is_one_number_of_residents() -> None:
    """88, 88.5 and 90 had stood in three places: idle edges were in some of them."""
    session = watched("attached_pool7168_c128")[0]
    frame = session.frame(session.end_s, View(1000.0, 2, whole=True))
    assert frame.pressure is not None
    assert frame.pressure.running_median == frame.account.measured_residents
    (found,) = [one for one in findings(of_session(session, "x")) if one.rule == "residents"]
    assert f"only {units.count(frame.account.measured_residents)} ran" in found.sentence
    assert f"{units.count(frame.account.measured_residents)} of " in frame.verdict.sentence


@pytest.mark.parametrize(
    ("name", "own", "at_s", "limit", "flag"),
    [
        ("sweep_c64", False, 12.0, "gpu", "--max-num-batched-tokens 2048"),  # a tenth more budget is worth −0.2 %
        ("sweep_batch1024", True, 12.0, "token-budget", "--max-num-batched-tokens"),  # +2.6 %
        ("attached_mbt512_c32", False, 14.0, "token-budget", "--max-num-batched-tokens"),
        ("open_loop_seats48", True, 40.0, "max-num-seqs", "--max-num-seqs 72"),  # +6.4 %, 47 or 48 of 48 running
        ("overload_seqs10", True, 100.0, "max-num-seqs", "--max-num-seqs 12"),  # 80 % of the pool are taken
        ("open_loop", True, 113.0, "kv", "--gpu-memory-utilization or --kv-cache-dtype fp8"),  # −28 % of TTFT
    ],
)
def test_a_limit_is_the_one_that_is_worth_most(name: str, own: bool, at_s: float, limit: str, flag: str) -> None:
    """By the price of each limit (bench/verdict_prices.py)."""
    session = recorded(name) if own else watched(name)[0]
    found = session.frame(at_s, View(300.0, 2)).verdict
    assert (found.limit, found.flag) == (limit, flag)


def test_beside_a_limit_it_is_said_what_power_takes_of_the_clock() -> None:
    found = recorded("open_loop").frame(113.0, View(300.0, 2)).verdict
    assert found.limit == "kv"
    assert "% below its maximum, power cap in 100 % of " in found.sentence


def test_steps_that_are_too_small_are_said_though_nobody_waits() -> None:
    """512 tokens a step at 1,024 a prompt: a tenth more was worth 13 % of TTFT, and the flag is on record here."""
    found = recorded("sweep_batch1024").frame(29.9, View(300.0, 2)).verdict
    assert found.limit == "none"
    assert "up to 1,024 tokens a step, 19." in found.sentence
    assert "larger steps would cut TTFT" in found.sentence


def test_the_first_scrapes_of_a_load_are_not_judged_with_the_idle_ones_before_it() -> None:
    """A warm-up request and two scrapes of 64 in flight had been "token budget, KV 15 % (0–86)"."""
    session = watched("sweep_c64")[0]
    assert session.frame(4.0, View(300.0, 2)).verdict.limit == "unknown"


def test_a_load_that_nothing_has_answered_yet_is_not_limited_by_a_client_two_ms_late() -> None:
    frame = recorded("open_loop_seats48").frame(25.9, View(300.0, 2))
    assert frame.load is not None
    assert frame.load.limited == "requests left 2.14 ms late (at worst of 37)"
    assert frame.verdict.limit != "client"


@pytest.mark.parametrize(("at_s", "running"), [(60.9, 14), (75.9, 30)])
def test_a_watched_load_of_more_is_not_judged_with_the_one_before_it(at_s: float, running: int) -> None:
    """4, 16 and 32 in flight with one idle scrape in between: "4 running" had been said while 16 ran."""
    session = watched("sweep_batch512_again")[0]
    at = session.frame(at_s, View(300.0, 2)).pressure
    assert at is not None
    assert at.running_median is not None
    assert at.running_median >= running


def test_the_demand_of_a_watched_load_is_by_the_lengths_of_its_own_requests() -> None:
    """Requests of 1,280 tokens before it had made the demand of 64 of 8,192 tokens 1.2 × the pool."""
    found = watched("killed")[0].frame(60.0, View(300.0, 2)).verdict
    assert "demand 6.0 × the pool" in found.sentence


@pytest.mark.slow
def test_of_a_load_that_runs_out_those_are_counted_that_are_left() -> None:
    found = recorded("killed").frame(94.9, View(30.0)).verdict  # 44 of the 64 are left, 50 to 64 were in the last 30 s
    assert "12 of 56 requests resident" in found.sentence
    assert "demand 5.2 × the pool" in found.sentence


def test_lengths_are_not_told_by_a_trial_request_alone() -> None:
    session = recorded("overload")
    assert "demand" not in session.frame(9.9, View(30.0)).verdict.sentence  # 16 tokens out, not 2,048
    assert "demand 6.0 × the pool" in session.frame(60.0, View(30.0)).verdict.sentence


@pytest.mark.slow
def test_what_recomputing_takes_is_of_the_stretch_that_the_preemptions_are_of() -> None:
    session = recorded("open_loop")
    wide, narrow = (session.frame(99.9, View(window_s)).verdict for window_s in (300.0, 30.0))
    assert wide.why == narrow.why
    assert "recomputing takes 3.3 % of the time" in (wide.why or "")


@pytest.mark.slow
def test_a_pool_in_which_all_run_is_not_said_to_make_some_wait() -> None:
    found = recorded("pool7168").frame(24.9, View(30.0)).verdict  # all 96 run, 7 were preempted
    assert found.limit == "kv"
    assert (found.why or "").startswith("in a larger pool fewer would be preempted")


def test_a_step_that_is_only_known_to_hold_so_many_tokens_may_hold_more() -> None:
    assert "7,168 tokens a step or more" in recorded("sweep_c64").frame(9.9, View(30.0)).verdict.sentence


@pytest.mark.slow
def test_where_all_of_a_closed_loop_has_run_at_once_a_queue_between_scrapes_is_one_for_the_steps() -> None:
    found = recorded("sweep_batch512").frame(214.9, View(30.0)).verdict
    assert (found.limit, found.flag) == ("token-budget", "--max-num-batched-tokens")
    assert "queueing is 59 % of TTFT" in found.sentence


def test_an_api_server_that_began_anew_is_not_charged_for_its_start() -> None:
    log, server = Log(), Server()
    for second in range(40):
        server = Server() if second == 20 else server
        server.engine.running, server.engine.kv = 8, 0.3
        server.engine.count(generation_tokens=100)
        cpu_s, began_s = (0.2 * second, 100.0) if second < 20 else (30.0 + 0.2 * (second - 20), 119.0)
        extra = f"process_cpu_seconds_total {cpu_s}\nprocess_start_time_seconds {began_s}\n"
        log.scrape(float(second), server.exposition(POOL + extra))
    frame = log.frame(view=WHOLE)
    assert frame.pressure is not None
    assert frame.pressure.api_cpu_ratio == pytest.approx(0.2, rel=0.1)


def test_that_running_came_to_its_limit_now_and_then_is_said_though_no_scrape_caught_a_queue() -> None:
    found = recorded("open_loop_seats48").frame(22.9, View(300.0, 2)).verdict
    assert found.limit == "none"
    assert "up to 47 running at once, 48 may" in found.sentence


# --- of which scrapes ------------------------------------------------------------------------------------------------


def test_a_queue_that_grows_is_one_load_and_its_limit_is_named_all_along() -> None:
    """Every few seconds there were a third more than before, and "too few scrapes yet to tell" between them."""
    log, server = Log(), Server()
    found = []
    for second in range(60):
        server.engine.running, server.engine.kv = 16, 0.2
        server.engine.waiting = 3.5 * second
        server.engine.count(generation_tokens=100)
        server.engine.finish()
        log.scrape(float(second), server.exposition(POOL))
        found.append(log.frame().verdict)
    assert {one.limit for one in found[6:]} == {"max-num-seqs"}
    assert "31 scrapes in 30.0 s" in found[-1].sentence


def test_a_queue_that_comes_at_once_is_another_load() -> None:
    def came(second: int, server: Server) -> None:
        server.engine.running, server.engine.kv = 16, 0.2
        server.engine.waiting = 2 if second < 30 else 80

    assert "10 scrapes in 9.00 s" in said(came).sentence


def test_after_a_restart_nothing_is_said_of_the_server_before_it() -> None:
    log, server = Log(), Server()
    for second in range(33):
        if second == 30:
            server.restart()
        server.engine.running, server.engine.kv = (24, 0.3) if second != 30 else (0, 0.0)
        server.engine.count(generation_tokens=100)
        log.scrape(float(second), server.exposition(POOL))
    assert "24 running" not in log.frame(30.5).verdict.sentence
    assert log.frame(32.5).verdict.sentence == "too few scrapes yet to tell"


def test_kv_use_is_that_of_the_scrapes_with_requests() -> None:
    def now_and_then(second: int, server: Server) -> None:
        here = second % 3 == 0
        server.engine.running, server.engine.kv = 16 * here, 0.4 * here

    assert said(now_and_then).evidence[2] == "KV 40 %"


@pytest.mark.parametrize(("queue_s", "limit"), [(0.65, "max-num-seqs"), (0.05, "token-budget")])
def test_of_few_places_one_is_free_on_many_scrapes_and_they_bind_where_the_wait_is_long(
    queue_s: float, limit: str
) -> None:
    """Six in flight, four places, steps of 300 tokens: it was in turn "max-num-seqs" and "token budget"."""

    def four_places(second: int, server: Server) -> None:
        server.engine.running, server.engine.waiting, server.engine.kv = 4 - (second % 2), 2, 0.02
        server.engine.count(prompt_tokens=300)
        server.engine.finish(queue=queue_s, prefill=0.04, prompt=300, output=300)
        for tokens in (304, *[4] * 20):
            server.engine.observe(iteration_tokens_total=tokens)

    assert said(four_places).limit == limit


@pytest.mark.parametrize(("tokens", "limit"), [((2064,), "token-budget"), ((2064, *[17] * 20), "max-num-seqs")])
def test_as_many_run_as_prompts_leave_the_steps_and_no_places_bind(tokens: tuple[int, ...], limit: str) -> None:
    """17 of 128 ran, as each step held a prompt of 2,048 and each answer 16 tokens: "running stands at 17"."""

    def prompts(second: int, server: Server) -> None:
        server.engine.running, server.engine.waiting, server.engine.kv = 17, 6, 0.39
        server.engine.count(prompt_tokens=2048)
        server.engine.finish(queue=0.2, prefill=0.12, prompt=2048, output=16)
        for held in tokens:
            server.engine.observe(iteration_tokens_total=held)

    assert said(prompts).limit == limit


def test_the_queue_of_those_that_came_before_is_not_said_of_a_smaller_load() -> None:
    """Of 96 in flight 64 went away: "queueing is 62 % of TTFT: bursts", of requests that had come before."""

    def smaller(second: int, server: Server) -> None:
        server.engine.running, server.engine.waiting, server.engine.kv = (68, 28, 0.95) if second < 30 else (32, 0, 0.4)
        for _ in range(15):
            server.engine.finish(queue=0.8 if second < 33 else 0.0, prefill=0.25)

    found = said(smaller, scrapes=36).sentence
    assert found.startswith("32 running · none waits")
    assert "bursts" not in found


def test_less_than_three_seconds_tell_of_no_limit() -> None:
    """Five scrapes a second: the first burst of a load had been "token budget" after 1 s."""
    log, server = Log(interval_s=0.2), Server()
    for scrape in range(12):
        server.engine.running, server.engine.waiting, server.engine.kv = 21, 11, 0.3
        server.engine.count(generation_tokens=100, prompt_tokens=1000)
        server.engine.observe(iteration_tokens_total=64)
        log.scrape(scrape / 5, server.exposition(POOL))
    assert log.frame().verdict.sentence == "too few scrapes yet to tell"


def test_preemptions_tell_of_a_full_pool_that_no_scrape_caught() -> None:
    """On a quick server with short requests: 29 preemptions of 120, KV at most 76 % on a scrape, and "GPU BINDS"."""

    def between_scrapes(second: int, server: Server) -> None:
        server.engine.running, server.engine.waiting, server.engine.kv = (16, 8, 0.7) if second % 3 else (5, 9, 0.4)
        server.engine.count(num_preemptions=3, prompt_tokens=1200)
        for _ in range(12):
            server.engine.observe(time_to_first=0.4)
            server.engine.finish(queue=0.4, prefill=0.04)

    found = said(between_scrapes)
    assert found.limit == "kv"
    assert "preemptions in 30.0 s" in found.sentence
