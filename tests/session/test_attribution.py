"""What comes in is put down to whom and when it belongs: no other process's counts, no date of the asking for an answer
that came late, and no share beyond the whole."""

from __future__ import annotations

import msgspec
import pytest

from tests.session.made import Log
from vtop.recording import Identity
from vtop.session.frame.frame import Frame

BEGAN = 1.8e9
HEAD = '{engine="0"'


def page(
    tokens: float, *, process: float | None = BEGAN - 5000.0, kv: float = 0.5, le: str = "1.0", n: float = 0.0
) -> str:
    lines = [
        "# TYPE vllm:generation_tokens_total counter",
        f"vllm:generation_tokens_total{HEAD}}} {tokens}",
        f"vllm:num_requests_running{HEAD}}} 2",
        f"vllm:num_requests_waiting{HEAD}}} 0",
        f"vllm:kv_cache_usage_perc{HEAD}}} {kv}",
        "# TYPE vllm:time_to_first_token_seconds histogram",
        f'vllm:time_to_first_token_seconds_bucket{HEAD},le="{le}"}} {n}',
        f'vllm:time_to_first_token_seconds_bucket{HEAD},le="+Inf"}} {n}',
        f"vllm:time_to_first_token_seconds_count{HEAD}}} {n}",
        f"vllm:time_to_first_token_seconds_sum{HEAD}}} {n / 2}",
    ]
    if process is not None:
        lines.append(f"process_start_time_seconds {process}")
    return "\n".join(lines) + "\n"


def session_log() -> Log:
    log = Log()
    log.start = msgspec.structs.replace(log.start, unix_s=BEGAN)
    return log


def told(frame: Frame, kind: str) -> list[str]:
    return [one.text for one in frame.event_log if one.kind == kind]


def test_an_address_that_leads_to_two_servers_in_turn_has_no_rates_and_says_why_once() -> None:
    log = session_log()
    for second in range(20):
        mine = (50_000 + 35 * second, BEGAN - 9000.0) if second % 2 else (100 + 35 * second, BEGAN - 300.0)
        log.scrape(float(second), page(mine[0], process=mine[1]))
    frame = log.frame(19.5)
    assert frame.generation_tokens.in_window == 0
    assert told(frame, "restart") == []
    assert told(frame, "note") == [
        "another process answers, which began earlier: nothing it did before is counted",
        "the address leads to several processes in turn: no rate is of one of them; give each its own --url",
    ]


def test_a_restart_in_between_is_still_one() -> None:
    log = session_log()
    log.scrape(0.0, page(1000))
    log.scrape(1.0, page(1500))
    log.scrape(2.0, page(200, process=BEGAN + 1.5))
    frame = log.frame(2.5)
    assert frame.generation_tokens.in_window == 700
    assert len(told(frame, "restart")) == 1


@pytest.mark.parametrize("process", [BEGAN - 5000.0, None])
def test_a_counter_that_falls_a_little_is_no_restart(process: float | None) -> None:
    log = session_log()
    for second, tokens in enumerate((490, 500, 498, 505)):
        log.scrape(float(second), page(tokens, process=process, n=tokens))
    frame = log.frame(3.5)
    assert told(frame, "restart") == []
    assert frame.generation_tokens.in_window == 17  # 10 and 7; what fell is not counted
    assert frame.servers[0].restarts == 0
    (ttft,) = frame.latencies
    assert ttft.n == 17


def test_an_answer_that_came_late_is_dated_when_it_came() -> None:
    log = session_log()
    log.scrape(0.0, page(0))
    log.scrape(1.0, page(500))
    log.scrape(2.0, page(5000), took_s=8.0)  # it was made at its end
    log.scrape(10.0, page(5000))
    log.scrape(11.0, page(5500))
    session = log.session()
    assert list(session.servers[0].at_s) == [0.0, 1.0, 10.0, 10.0, 11.0]
    assert log.frame(11.5).generation_tokens.per_s == pytest.approx(500)


@pytest.mark.parametrize("kv", [-0.39, 1.07, 107.0])
def test_a_share_beyond_the_whole_is_not_known_and_in_no_number(kv: float) -> None:
    log = session_log()
    for second in range(4):
        log.scrape(float(second), page(100 * second, kv=kv if second % 2 else 0.5))
    frame = log.frame(3.5)
    assert frame.kv.used.now is None
    assert (frame.kv.used.low, frame.kv.used.high) == (0.5, 0.5)


def test_bounds_that_change_over_a_restart_leave_no_percentile_of_a_part() -> None:
    log = session_log()
    log.scrape(0.0, page(0))
    log.scrape(1.0, page(0, n=20))
    log.scrape(2.0, page(0, n=8, le="2.0", process=BEGAN + 1.5))
    assert log.frame(1.5).latencies[0].n == 20
    assert log.frame(2.5).latencies == ()


def test_one_scrape_whose_sum_is_no_number_spoils_no_mean_but_its_own() -> None:
    log = session_log()
    for second in range(4):
        text = page(0, n=second)
        log.scrape(float(second), text.replace(f"_sum{HEAD}}} 1.0", f"_sum{HEAD}}} NaN"))
    (at_it,) = log.frame(2.5).latencies
    (after,) = log.frame(3.5).latencies
    assert (at_it.mean_s, after.mean_s) == (None, 0.5)


def test_a_server_that_serves_something_else_says_so() -> None:
    log = session_log()
    log.scrape(0.0, page(0))
    log.add(Identity(server=0, models=("alpha",)), 0.5)
    log.add(Identity(server=0, models=("beta",)), 1.5)
    frame = log.frame(2.0)
    assert told(frame, "flags") == ["it serves beta, and no longer alpha"]
    assert frame.servers[0].models == ("beta",)


def divided(second: int, role: str) -> str:
    """4 requests a second of 2,048 prompt tokens, each on a prefill server first and then on a decode server."""
    n = 4 * second
    prefill = role == "prefill"
    ttft_s, local = (0.8, 2048 * n) if prefill else (0.25, n)
    lines = [
        f"vllm:num_requests_running{HEAD}}} {3 if prefill else 16}",
        f"vllm:num_requests_waiting{HEAD}}} {1 if prefill else 6}",
        "# TYPE vllm:generation_tokens_total counter",
        f"vllm:generation_tokens_total{HEAD}}} {n if prefill else 100 * n}",
        "# TYPE vllm:prompt_tokens_total counter",
        f"vllm:prompt_tokens_total{HEAD}}} {2048 * n}",
        "# TYPE vllm:prompt_tokens_by_source_total counter",
        f'vllm:prompt_tokens_by_source_total{HEAD},source="local_compute"}} {local}',
        f'vllm:prompt_tokens_by_source_total{HEAD},source="external_kv_transfer"}} {2048 * n - local}',
        "# TYPE vllm:request_success_total counter",
        f'vllm:request_success_total{HEAD},finished_reason="length"}} {n}',
        "# TYPE vllm:nixl_num_failed_transfers_total counter",
        f"vllm:nixl_num_failed_transfers_total{HEAD}}} {second if not prefill else 0}",
    ]
    for name, each in (("time_to_first_token_seconds", ttft_s), ("e2e_request_latency_seconds", ttft_s + 4)):
        lines += [f"# TYPE vllm:{name} histogram", f'vllm:{name}_bucket{HEAD},le="1.0"}} {n if each < 1 else 0}']
        lines += [f'vllm:{name}_bucket{HEAD},le="+Inf"}} {n}', f"vllm:{name}_count{HEAD}}} {n}"]
        lines.append(f"vllm:{name}_sum{HEAD}}} {n * each}")
    return "\n".join(lines) + "\n"


def test_prefill_and_decode_servers_of_one_deployment_are_not_added_up() -> None:
    log = Log(servers=2)
    for second in range(2, 22):
        log.scrape(float(second), divided(second, "prefill"), server=0)
        log.scrape(float(second), divided(second, "decode"), server=1)
    frame = log.frame(21.5)
    assert [server.side for server in frame.servers] == ["prefill", "decode"]
    assert frame.requests.finished.per_s == pytest.approx(4.0)
    assert frame.prompt_tokens.per_s == pytest.approx(8192.0)
    assert frame.generation_tokens.per_s == pytest.approx(400.0)
    assert frame.ttft.first_token_s == pytest.approx(0.8)
    assert frame.ttft.decode_first_token_s == pytest.approx(0.25)
    assert {row.name: row.mean_s for row in frame.latencies} == {"TTFT": pytest.approx(0.8), "e2e": pytest.approx(4.25)}
    assert frame.prefix_cache.hit_tokens == 0
    assert [(one.source, one.ratio) for one in frame.prompt_sources] == [("computed", 1.0), ("connector", 0.0)]
    assert any(said.startswith("prefill on http://host0:8000, decode on http://host1") for said in told(frame, "note"))
    assert [said for said in told(frame, "note") if "KV transfers fail" in said] == [
        "http://host1:8000: KV transfers fail: 1 since vtop attached"  # told again after a minute at the earliest
    ]


def test_two_servers_that_share_requests_are_added_up() -> None:
    log = Log(servers=2)
    for second in range(2, 12):
        for server in (0, 1):
            log.scrape(float(second), divided(second, "decode"), server=server)
    frame = log.frame(11.5)
    assert [server.side for server in frame.servers] == [None, None]
    assert frame.requests.finished.per_s == pytest.approx(8.0)
    assert frame.ttft.decode_first_token_s is None


def test_what_a_kv_connector_brought_is_told_beside_what_was_cached_here() -> None:
    log = Log()
    for second in range(2, 5):
        log.scrape(float(second), divided(second, "decode"))
    frame = log.frame(4.5)
    cache = frame.prefix_cache
    assert (cache.external_tokens, cache.external_ratio) == next(
        (one.tokens, one.ratio) for one in frame.prompt_sources if one.source == "connector"
    )
    assert cache.external_ratio == pytest.approx(2047 / 2048)
    assert cache.external_tokens == 2 * 4 * 2047


def test_requests_with_n_above_one_are_told_as_users_requests_too() -> None:
    log = Log()
    for second in range(5):
        n = 2 * second
        more = ["# TYPE vllm:request_params_n histogram", f'vllm:request_params_n_bucket{HEAD},le="2.0"}} 0']
        more += [f'vllm:request_params_n_bucket{HEAD},le="+Inf"}} {n}', f"vllm:request_params_n_count{HEAD}}} {n}"]
        log.scrape(
            float(second), page(100 * second) + "\n".join([*more, f"vllm:request_params_n_sum{HEAD}}} {4 * n}"]) + "\n"
        )
    requests = log.frame(4.5).requests
    assert (requests.answers_each, requests.users_per_s) == (4.0, 2.0)


def all_of(second: float, *, counted: float, more: str = "") -> str:
    return page(400 * counted, process=None, n=4 * counted) + more


@pytest.mark.parametrize("period", [2, 3])
def test_processes_in_turn_that_do_not_say_when_they_began_are_told_by_counters_that_swing_back(period: int) -> None:
    log = Log()
    for second in range(40):
        old = second % period
        requests = '# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{engine="0"} %d\n'
        counted = second + 1000 if old else second + 5
        log.scrape(float(second), all_of(second, counted=counted, more=requests % (512 * counted)))
    frame = log.frame(39.5)
    assert len(told(frame, "restart")) == 1  # the first fall may have been one
    assert frame.status.kind == "blind"
    assert frame.verdict.limit == "unknown"
    assert "in turn" in frame.verdict.sentence
    assert log.frame(0.5).status.kind == "busy"  # as it was shown then
    assert told(frame, "note")[0].startswith("the address leads to several processes in turn")


def test_while_processes_answer_in_turn_no_rate_is_told_of_what_was_seen_before_that_showed() -> None:
    """Three that are far apart: the first leaps look like growth of thousands a second until one comes back."""
    log = Log()
    requests = '# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{engine="0"} %d\n'
    for second in range(20):
        counted = second + (0, 5000, 90_000)[second % 3]
        log.scrape(float(second), all_of(second, counted=counted, more=requests % (512 * counted)))
    frame = log.frame(19.5)
    assert frame.verdict.limit == "unknown"
    rates = (frame.generation_tokens.per_s, frame.prompt_tokens.per_s, frame.requests.finished.per_s)
    assert rates == (None, None, None)


def test_a_server_that_made_up_for_its_restart_is_one_server() -> None:
    log = Log()
    more = '# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{engine="0"} %d\n'
    for second, counted in enumerate([900, 1000, 0, 300, 700, 900, 1100, 1300]):
        log.scrape(float(second), page(400 * counted, process=None, n=4 * counted) + more % counted)
    frame = log.frame(7.5)
    assert (frame.status.kind, len(told(frame, "restart"))) == ("busy", 1)
    assert frame.generation_tokens.in_window == 400 * (100 + 1300)


def test_a_page_that_is_now_full_and_now_short_keeps_its_panels() -> None:
    log = Log()
    for second in range(20):
        full = page(400 * second)
        short = "\n".join(line for line in full.splitlines() if "num_requests" not in line and "generation" not in line)
        log.scrape(float(second), full if second % 2 == 0 else short + "\n")
    frame = log.frame(19.5)  # after a short one
    assert (frame.requests.running.now, frame.requests.waiting.now) == (2, 0)
    assert frame.generation_tokens.per_s == pytest.approx(400, rel=0.06)
    assert [said for said in told(frame, "note") if "vanished" in said] == []
    assert sum("now without some series" in said for said in told(frame, "note")) == 1
    for second in range(20, 27):
        log.scrape(float(second), short + "\n")
    assert log.frame(26.5).requests.running.now is None  # gone for longer: not known


def test_engines_that_come_and_go_are_told() -> None:
    log = Log()
    for second, engines in enumerate(([0, 1], [0, 1, 2, 3], [0, 1, 2, 3], [0, 1])):
        lines = [f'vllm:num_requests_running{{engine="{engine}"}} 1' for engine in engines]
        log.scrape(float(second), "\n".join(lines) + "\n")
    assert told(log.frame(3.5), "note") == ["engines 2, 3 came: 4 now", "engines 2, 3 went: 2 now"]


def test_replicas_of_an_older_ray_are_told_apart_by_their_worker() -> None:
    log = Log()
    for second in range(3):
        lines = [f'ray_vllm:num_requests_running{{engine="0",WorkerId="{worker}"}} 2' for worker in ("a", "b")]
        log.scrape(float(second), "\n".join(lines) + "\n")
    frame = log.frame(2.5)
    assert frame.requests.running.now == 4
    assert len(frame.engines) == 2
