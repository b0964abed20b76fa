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
