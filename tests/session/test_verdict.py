"""Which limit binds: every rule with a recording that shows it, and with one that lacks its evidence."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.session.made import RECORDINGS, SMALL, Log, Server, device, fold, read
from vtop.recording import Host, Load, Request
from vtop.recording.events import FlagValue
from vtop.server_kinds.vllm import suggestions
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
    assert "recomputing takes only 3." in found.why


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
    assert ("clock 1,500 of 1,980 MHz" in found.sentence) == local


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
        ({"num-gpu-blocks-override": 5431}, "--num-gpu-blocks-override above 5431, or without", None),
        ({"kv-cache-memory-bytes": 4982161408}, "--kv-cache-memory-bytes above 4982161408, or without", None),
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
    assert (found.limit, found.flag) == ("kv", "--num-gpu-blocks-override above 5431, or without")


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
