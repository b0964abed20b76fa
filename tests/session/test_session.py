"""What a session makes of restarts, gaps, several servers and engines, and of numbers that come and go."""

from __future__ import annotations

import math

import pytest

from tests.draw import frames
from tests.session.made import Log, Server, device
from vtop.recording import End, HistogramCounts, Identity, Mark, Note, Outage, Scrape
from vtop.session.bottleneck.status import of_session
from vtop.session.frame.frame import Frame, View
from vtop.session.frame.servers import Status
from vtop.session.glossary.numbers import NUMBERS

VIEW = View(window_s=60.0, columns=60)  # a column a second


def kinds(frame: Frame) -> list[str]:
    return [one.kind for one in frame.event_log]


def points(frame: Frame, name: str) -> dict[float, float | None]:
    """A chart's columns by the instant at which they end."""
    charts = frame.charts
    values = getattr(charts, name)
    return {round(charts.end_s - (len(values) - 1 - k) * charts.column_s, 6): value for k, value in enumerate(values)}


# --- counters --------------------------------------------------------------------------------------------------------


def restarted() -> Log:
    """1000, 1500, then a new process at 200 and 300."""
    log, server = Log(), Server()
    for at_s, grown in ((1.0, 1000), (2.0, 500)):
        server.engine.count(generation_tokens=grown)
        log.scrape(at_s, server)
    server.restart()
    for at_s, grown in ((3.0, 200), (4.0, 100)):
        server.engine.count(generation_tokens=grown)
        log.scrape(at_s, server)
    return log


def test_a_restart_is_never_a_negative_rate() -> None:
    frame = restarted().frame(view=VIEW)
    rates = points(frame, "generation_per_s")
    assert (rates[2.0], rates[3.0], rates[4.0]) == (500, None, 100)
    assert frame.generation_tokens.in_window == 500 + 200 + 100  # both parts
    assert frame.servers[0].restarts == 1
    assert kinds(frame).count("restart") == 1
    assert [kind for _, kind in frame.charts.marks] == ["restart"]
    assert frame.charts.marks[0][0] == 59 - 1  # in the column that ends at 3 s


def test_a_restart_is_seen_by_the_process_s_start_alone() -> None:
    log, server = Log(), Server()
    log.scrape(1.0, server)
    log.outage(2.0)
    server.restart()
    server.engine.count(generation_tokens=7)
    log.scrape(3.0, server)  # no counter fell
    frame = log.frame()
    assert frame.servers[0].restarts == 1
    assert frame.generation_tokens.in_window == 7


def test_what_a_new_process_counts_is_growth_even_where_it_counts_more_than_the_old_one_did() -> None:
    log, server = Log(), Server()
    server.engine.count(generation_tokens=1000, num_preemptions=3)
    server.engine.observe(time_to_first=0.05)
    log.scrape(1.0, server)
    server.restart()
    server.engine.count(generation_tokens=200, num_preemptions=5)
    for _ in range(4):
        server.engine.observe(time_to_first=0.05)
    log.scrape(2.0, server)
    frame = log.frame()
    assert frame.generation_tokens.in_window == 200
    assert frame.preemption.count.in_window == 5
    assert frame.ttft.first_tokens == 4


def test_means_and_percentiles_go_on_over_a_restart() -> None:
    log, server = Log(), Server()
    log.scrape(1.0, server)
    for _ in range(4):
        server.engine.observe(time_to_first=0.05)
    log.scrape(2.0, server)
    server.restart()
    server.engine.observe(time_to_first=5.0)
    log.scrape(3.0, server)
    frame = log.frame()
    row = frame.latencies[0]
    assert (row.name, row.n) == ("TTFT", 5)
    assert row.mean_s == pytest.approx((4 * 0.05 + 5.0) / 5)
    assert row.p50 is not None
    assert row.p99 is not None
    assert ((row.p50.low, row.p50.high), (row.p99.low, row.p99.high)) == ((0.01, 0.1), (1.0, 10.0))


def test_of_the_server_s_histogram_p9999_is_a_bucket_of_46_050_observed() -> None:
    for n, known in ((46_050, True), (46_049, False)):
        log = Log()
        log.scrape(1.0, kv_scrape() + histogram("inter_token_latency_seconds", 0.5, 0))
        log.scrape(2.0, kv_scrape() + histogram("inter_token_latency_seconds", 0.5, n))
        (row,) = log.frame().latencies
        assert row.n == n
        assert row.p999 is not None
        assert row.p9999 == (row.p999 if known else None)


def test_one_replica_s_restart_leaves_the_counts_of_the_others() -> None:
    log = Log()

    def index(one: int, two: int) -> str:
        series = 'ray_vllm_generation_tokens_total{engine="0",ReplicaId="%s"} %d\n'
        running = 'ray_vllm_num_requests_running{engine="0",ReplicaId="a"} 1\n'
        return "# TYPE ray_vllm_generation_tokens_total counter\n" + series % ("a", one) + series % ("b", two) + running

    log.scrape(1.0, index(1000, 1000))
    log.scrape(2.0, index(1010, 20))
    frame = log.frame()
    assert frame.generation_tokens.in_window == 10 + 20
    assert frame.servers[0].restarts == 1


def test_a_counter_that_is_missing_for_a_while_goes_on_where_it_stood() -> None:
    log, server = Log(), Server()
    for at_s in range(1, 9):
        server.engine.count(generation_tokens=10)
        server.without = {"vllm:generation_tokens_total"} if at_s in (3, 4) else set()
        log.scrape(float(at_s), server)
    frame = log.frame(view=VIEW)
    assert frame.generation_tokens.in_window == 70
    rates = points(frame, "generation_per_s")
    assert [rates[float(k)] for k in (2, 3, 4, 6, 7, 8)] == [10, None, None, 10, 10, 10]
    assert log.frame(4.5).generation_tokens.in_window is None  # not known, not 0


def test_a_counter_that_is_nan_for_a_index_still_shows_the_restart_behind_it() -> None:
    log, server = Log(), Server()
    series = '# TYPE vllm:corrupted_requests_total counter\nvllm:num_preemptions_total{engine="9"} '
    for at_s, value in ((1.0, "50"), (2.0, "NaN"), (3.0, "4")):
        log.scrape(at_s, server.exposition(series + value + "\n"))
    assert log.frame().preemption.count.in_window == 4


def test_a_counter_that_appears_later_began_at_nothing() -> None:
    log, server = Log(), Server()
    log.scrape(1.0, server)
    for at_s, value in ((2.0, 3), (3.0, 5)):
        log.scrape(
            at_s, server.exposition(f'vllm:admission_rejections_total{{reason="max_num_queued_reqs"}} {value}\n')
        )
    assert log.frame().requests.rejected.in_window == 5
    assert log.frame(1.5).requests.rejected.in_window is None


def test_a_histogram_that_appears_later_began_empty() -> None:
    log, server = Log(), Server()
    name = "vllm:request_queue_time_seconds"
    server.without = {name}
    log.scrape(1.0, server)
    for _ in range(3):
        server.engine.finish(queue=0.5)
    server.without = set()
    log.scrape(2.0, server)
    frame = log.frame()
    rows = {row.name: row for row in frame.latencies}
    assert rows["queue"].n == 3
    assert rows["queue"].mean_s == pytest.approx(0.5)
    assert frame.ttft.queue_s == pytest.approx(0.5)
    assert "queue" not in {row.name for row in log.frame(1.5).latencies}


def test_what_was_counted_before_vtop_came_is_in_no_window() -> None:
    log, server = Log(), Server()
    server.engine.count(num_preemptions=900, generation_tokens=1e9)
    for _ in range(50):
        server.engine.finish()
    log.scrape(1.0, server)
    server.engine.count(num_preemptions=2)
    log.scrape(2.0, server)
    frame = log.frame(view=VIEW)
    assert frame.preemption.count.since_start == 2
    assert frame.preemption.latest_at_s == 2.0
    assert frame.ttft.finished == 0
    assert points(frame, "preemptions")[2.0] == 2
    assert points(frame, "preempted")[2.0] == 2


def test_a_blind_index_before_the_server_s_own_makes_no_burst() -> None:
    log, server = Log(), Server()
    log.scrape(1.0, "process_start_time_seconds 1000.0\n")
    server.engine.count(generation_tokens=1e6)
    log.scrape(2.0, server)
    server.engine.count(generation_tokens=10)
    log.scrape(3.0, server)
    assert log.frame().generation_tokens.in_window == 10


def test_an_engine_that_goes_takes_nothing_back() -> None:
    log, server = Log(), Server(["0", "1"])
    for at_s in (1.0, 2.0, 3.0):
        for engine in server.engines.values():
            engine.count(generation_tokens=100)
        log.scrape(at_s, server)
    server.engines.pop("1")
    server.engine.count(generation_tokens=100)
    log.scrape(4.0, server)
    frame = log.frame(view=VIEW)
    assert frame.generation_tokens.in_window == 500
    assert min(rate for rate in frame.charts.generation_per_s if rate is not None) >= 0
    assert [engine.name for engine in frame.engines] == ["0"]
    assert [engine.name for engine in log.frame(3.5).engines] == ["0", "1"]
    assert (frame.servers[0].engines, log.frame(3.5).servers[0].engines) == (1, 2)


# --- old and new names ---------------------------------------------------------------------------------------------


def kv_scrape(**families: float) -> str:
    return "vllm:num_requests_running 1\n" + "".join(f"vllm:{name} {value}\n" for name, value in families.items())


@pytest.mark.parametrize(
    ("families", "ratio"),
    [
        ({"kv_cache_usage_perc": 0.4}, 0.4),
        ({"gpu_cache_usage_perc": 0.3}, 0.3),
        ({"kv_cache_usage_perc": 0.4, "gpu_cache_usage_perc": 0.3}, 0.4),
        ({"gpu_cache_usage_perc": 0.3, "kv_cache_usage_perc": 0.4}, 0.4),
        ({}, None),
    ],
)
def test_the_new_name_wins_and_neither_is_not_known(families: dict[str, float], ratio: float | None) -> None:
    log = Log()
    log.scrape(1.0, kv_scrape(**families))
    assert log.frame().kv.used.now == ratio


def test_a_server_updated_meanwhile_is_read_by_its_new_name_and_the_past_stays() -> None:
    log = Log()
    log.scrape(
        1.0, kv_scrape(gpu_cache_usage_perc=0.3, gpu_prefix_cache_hits_total=50, gpu_prefix_cache_queries_total=100)
    )
    log.scrape(
        2.0, kv_scrape(gpu_cache_usage_perc=0.3, gpu_prefix_cache_hits_total=60, gpu_prefix_cache_queries_total=120)
    )
    log.scrape(3.0, kv_scrape(kv_cache_usage_perc=0.7, prefix_cache_hits_total=1, prefix_cache_queries_total=2))
    log.scrape(4.0, kv_scrape(kv_cache_usage_perc=0.8, prefix_cache_hits_total=4, prefix_cache_queries_total=8))
    assert log.frame(2.5).kv.used.now == 0.3
    frame = log.frame()
    assert frame.kv.used.now == 0.8
    assert (frame.prefix_cache.hit_tokens, frame.prefix_cache.asked_tokens) == (13, 26)


def histogram(name: str, value: float, count: int) -> str:
    bounds = [0.025, 1.0]
    text = f"# TYPE vllm:{name} histogram\n"
    for bound in bounds:
        text += f'vllm:{name}_bucket{{le="{bound}"}} {count if value <= bound else 0}\n'
    return (
        text + f'vllm:{name}_bucket{{le="+Inf"}} {count}\nvllm:{name}_count {count}\nvllm:{name}_sum {value * count}\n'
    )


@pytest.mark.parametrize("names", [["time_per_output_token_seconds"], ["inter_token_latency_seconds"]])
def test_the_time_between_tokens_comes_from_whichever_name_exists(names: list[str]) -> None:
    log = Log()
    for at_s in (1, 2):
        log.scrape(float(at_s), kv_scrape() + "".join(histogram(name, 0.02, 10 * at_s) for name in names))
    (row,) = log.frame().latencies
    assert (row.name, row.n) == ("ITL", 10)
    assert row.mean_s == pytest.approx(0.02)


def test_times_per_step_and_per_request_are_never_pooled() -> None:
    log = Log()
    for at_s in (1, 2):
        both = histogram("inter_token_latency_seconds", 0.9, 10 * at_s) + histogram(
            "request_time_per_output_token_seconds", 0.024, 10 * at_s
        )
        old = histogram("time_per_output_token_seconds", 0.9, 10 * at_s)
        log.scrape(float(at_s), kv_scrape() + both + old)
    rows = {row.name: row for row in log.frame().latencies}
    assert rows["ITL"].n == rows["TPOT"].n == 10
    assert rows["ITL"].mean_s == pytest.approx(0.9)
    assert rows["TPOT"].mean_s == pytest.approx(0.024)


def test_an_update_within_the_window_goes_on_in_the_histogram_too() -> None:
    log = Log()
    log.scrape(1.0, kv_scrape() + histogram("time_per_output_token_seconds", 0.02, 10))
    log.scrape(2.0, kv_scrape() + histogram("time_per_output_token_seconds", 0.02, 15))
    log.scrape(3.0, kv_scrape() + histogram("inter_token_latency_seconds", 0.5, 2))
    log.scrape(4.0, kv_scrape() + histogram("inter_token_latency_seconds", 0.5, 8))
    (row,) = log.frame().latencies
    assert row.n == 11
    assert row.mean_s == pytest.approx((5 * 0.02 + 6 * 0.5) / 11)
    assert row.p99 is not None
    assert (row.p99.low, row.p99.high) == (0.025, 1.0)


def test_ray_s_names_and_labels_are_understood() -> None:
    log, server = Log(), Server()
    for at_s in (1.0, 2.0):
        server.engine.count(generation_tokens=200)
        server.engine.running = 7
        index = (
            server.exposition()
            .replace("vllm:", "ray_vllm_")
            .replace('engine="0"', 'engine="0",ReplicaId="r",WorkerId="w"')
        )
        log.scrape(at_s, index)
    frame = log.frame()
    assert frame.status.kind == "busy"
    assert frame.requests.running.now == 7
    assert frame.generation_tokens.in_window == 200
    assert [engine.name for engine in frame.engines] == ["r/0"]


# --- several engines, API servers and servers ----------------------------------------------------------------------


def test_eight_api_servers_that_tell_of_one_engine_are_one_engine() -> None:
    pids = "".join(
        f'vllm:kv_cache_usage_perc{{engine="0",pid="{pid}"}} {0.653 if pid == 3 else 0.0}\n'
        f'vllm:num_requests_running{{engine="0",pid="{pid}"}} {12 if pid == 3 else 0}\n'
        f'vllm:cache_config_info{{engine="0",pid="{pid}",kv_cache_size_tokens="1000",block_size="16"}} 1\n'
        for pid in range(8)
    )
    log = Log()
    log.scrape(1.0, pids)
    frame = log.frame()
    assert frame.kv.used.now == 0.653
    assert frame.kv.mean_used_ratio == 0.653
    assert frame.requests.running.now == 12
    assert len(frame.engines) == frame.servers[0].engines == 1
    assert frame.kv.pool_tokens == 1000


def test_engines_add_up_and_their_kv_does_not() -> None:
    log, server = Log(), Server(["0", "1"])
    log.scrape(1.0, server)
    for engine, running, kv, ttft in zip(server.engines.values(), (40, 2), (0.9, 0.05), (0.05, 5.0), strict=True):
        engine.running, engine.kv = running, kv
        engine.observe(time_to_first=ttft)
    log.scrape(2.0, server)
    frame = log.frame()
    assert frame.requests.running.now == 42
    assert frame.kv.used.now == 0.9
    assert frame.kv.mean_used_ratio == pytest.approx(0.475)
    assert frame.latencies[0].n == 2
    assert frame.latencies[0].mean_s == pytest.approx(2.525)
    assert [(engine.running, engine.kv_used_ratio) for engine in frame.engines] == [(40, 0.9), (2, 0.05)]


def test_two_engines_at_forty_per_cent_are_at_forty() -> None:
    log, server = Log(), Server(["0", "1"])
    for engine in server.engines.values():
        engine.kv = 0.4
    log.scrape(1.0, server)
    assert (log.frame().kv.used.now, log.frame().kv.mean_used_ratio) == (0.4, 0.4)


def test_uneven_engines_are_told_apart() -> None:
    load = (60, 58, 2, 1, 0, 0, 61, 59)
    log, server = Log(), Server([str(k) for k in range(8)])
    for engine, running in zip(server.engines.values(), load, strict=True):
        engine.running = running
    log.scrape(1.0, server)
    assert tuple(engine.running for engine in log.frame().engines) == load


def three_servers() -> Log:
    """Three servers with 10 running each; the second dies after 3 s, the third restarts."""
    log, servers = Log(3), [Server(), Server(), Server()]
    for at_s in range(1, 11):
        for number, server in enumerate(servers):
            server.engine.running = 10
            server.engine.count(generation_tokens=100)
            if number == 2 and at_s == 6:
                server.restart()
                server.engine.count(generation_tokens=100)
                server.engine.running = 10
            if number == 1 and at_s > 3:
                log.outage(at_s + 0.2, server=1, detail="connection refused")
            else:
                log.scrape(at_s + 0.1 * number, server, server=number)
    return log


def test_one_dead_server_does_not_blank_the_rest() -> None:
    log = three_servers()
    alive, frame = log.frame(3.5), log.frame(view=VIEW)
    assert alive.requests.running.now == 30
    assert frame.requests.running.now == 20  # what the dead one last said is not of now
    assert alive.generation_tokens.per_s == pytest.approx(300)
    assert frame.generation_tokens.per_s == pytest.approx(200)
    assert (frame.status.kind, frame.status.fresh) == ("busy", True), "the status of those that answer"
    assert frame.status.absent == "1 of 3 down: host1:8000"
    assert alive.status.absent is None
    assert [one.status.kind for one in frame.servers] == ["busy", "down", "busy"]
    assert [one.load.running if one.load is not None else None for one in frame.servers] == [10, None, 10]
    assert sum(one.load.generation_per_s or 0 for one in frame.servers if one.load is not None) == pytest.approx(200)
    assert [one.restarts for one in frame.servers] == [0, 0, 1]
    assert {engine.server for engine in frame.engines} == {0, 2}
    assert points(frame, "running")[3.0] == 30
    assert points(frame, "running")[7.0] == 20


def test_when_all_servers_are_gone_nothing_speaks_for_them() -> None:
    log = Log(2)
    for at_s in (1.0, 2.0):
        for number in range(2):
            log.scrape(at_s + 0.1 * number, Server(), server=number)
    for number in range(2):
        log.outage(3.0 + 0.1 * number, server=number)
    frame = log.frame()
    assert (frame.status.kind, frame.status.fresh, frame.status.absent) == ("down", False, None)


def test_servers_of_one_host_are_named_by_their_ports() -> None:
    def absent(*urls: str) -> str | None:
        dead, up = Status("down", "", 0, fresh=False), Status("busy", "", 1)
        servers = [frames.server(at, url=url, status=up if at else dead) for at, url in enumerate(urls)]
        return of_session(servers).absent

    assert absent("http://localhost:8301", "http://localhost:8302") == "1 of 2 down: :8301"
    assert absent("http://one:8000/v1", "http://two:8000") == "1 of 2 down: one:8000"
    assert absent("http://[::1]:8301", "http://[::1]:8302") == "1 of 2 down: :8301"


def test_a_stair_of_several_servers_does_not_fall_when_one_goes_silent() -> None:
    log, one, two = Log(2), Server(), Server()
    for at_s in range(12):
        one.engine.count(num_preemptions=1)
        two.engine.count(num_preemptions=1)
        log.scrape(float(at_s), one, server=0)
        if at_s < 6:
            log.scrape(at_s + 0.05, two, server=1)
        else:
            log.outage(at_s + 0.05, server=1)
    levels = [level for level in log.frame(view=VIEW).charts.preemptions if level is not None]
    assert levels == sorted(levels)


def test_the_sum_over_servers_is_taken_instant_by_instant() -> None:
    log, one, two = Log(2), Server(), Server()
    for at_s, (first, second) in enumerate([(5, 0), (0, 5), (5, 0), (0, 5)]):
        one.engine.running, two.engine.running = first, second
        log.scrape(float(at_s), one, server=0)
        log.scrape(at_s + 0.05, two, server=1)
    running = log.frame().requests.running
    assert running.now == 5
    assert running.high is not None
    assert running.high <= 10


def test_a_server_that_is_not_yet_read_does_not_choose_the_instants() -> None:
    log, server, late = Log(2), Server(), Server()
    server.engine.running = 4
    for number in range(20):
        log.scrape(number * 0.5, "process_start_time_seconds 1\n", server=1)
        if number % 2:
            log.scrape(number * 0.5 + 0.1, server)
    before = log.frame(9.9).requests.running
    log.scrape(10.5, late, server=1)
    assert (before.n, before.now) == (10, 4)
    assert log.session().frame(9.9).requests.running.n == before.n


# --- gaps and columns --------------------------------------------------------------------------------------------


def test_a_gap_is_a_gap_and_zero_is_zero() -> None:
    log, server = Log(), Server()
    for at_s in [1, 2, 3, 10, 11, 12]:
        server.engine.count(generation_tokens=100 if at_s < 4 else 0)
        log.scrape(float(at_s), server)
    frame = log.frame(view=VIEW)
    rates, running = points(frame, "generation_per_s"), points(frame, "running")
    assert [rates[float(k)] for k in range(1, 13)] == [None, 100, 100, *[None] * 7, 0, 0]
    assert [running[float(k)] for k in range(2, 13)] == [0, 0, *[None] * 7, 0, 0]


def test_an_outage_is_a_gap_however_short() -> None:
    log, server = Log(), Server()
    for at_s in (1.0, 2.0):
        log.scrape(at_s, server)
    log.outage(2.5)
    log.scrape(3.0, server)
    log.scrape(4.0, server)
    running = points(log.frame(view=VIEW), "running")
    assert [running[float(k)] for k in (2, 3, 4)] == [0, None, 0]


def test_a_slow_server_has_no_gaps_only_scrapes_further_apart() -> None:
    log, server = Log(), Server()
    for number in range(6):
        log.scrape(4.0 * number, server, took_s=3.0)
    frame = log.frame(view=VIEW)
    assert frame.charts.running[-20:] == (0.0,) * 20
    assert frame.status.fresh


def test_a_spike_of_one_index_is_the_height_of_its_column() -> None:
    log, server = Log(), Server()
    for at_s in range(60):
        server.engine.waiting = 56 if at_s == 33 else 1
        log.scrape(at_s + 0.5, server)
    for columns in (6, 12, 30):
        waiting = log.frame(view=View(window_s=60.0, columns=columns)).charts.waiting
        assert [height for height in waiting if height is not None].count(56) == 1


def test_a_missing_gauge_is_not_known_and_never_zero() -> None:
    log, server = Log(), Server()
    server.engine.running, server.engine.kv = 3, 0.5
    log.scrape(1.0, server)
    log.scrape(2.0, server)
    server.without = {"vllm:kv_cache_usage_perc", "vllm:num_preemptions_total"}
    log.scrape(3.0, server)
    log.scrape(4.0, server)
    frame = log.frame(view=VIEW)
    assert frame.kv.used.now is None
    assert frame.kv.used.high == 0.5
    assert frame.preemption.count.in_window is None
    assert [points(frame, "kv_used")[k] for k in (2.0, 3.0, 4.0)] == [0.5, None, None]


def test_a_session_without_a_index_has_a_frame() -> None:
    frame = Log().frame(0.0)
    assert frame.status.kind == "waiting"
    assert frame.requests.running.now is None
    assert frame.engines == ()
    assert set(frame.charts.running) == {None}


def test_marks_of_the_window_stand_in_the_charts_however_many_lines_follow() -> None:
    log, server = Log(), Server()
    log.scrape(1.0, server)
    log.add(Mark(text="here"), 1.5)
    for number in range(300):
        log.add(Note(source="server", text=str(number)), 2.0)
    log.scrape(3.0, server)
    frame = log.frame(view=VIEW)
    assert len(frame.event_log) == 200
    assert [kind for _, kind in frame.charts.marks] == ["mark"]


# --- the parts of the first token ------------------------------------------------------------------------------------


def test_first_token_parts_are_of_the_finished_and_never_negative() -> None:
    log, server = Log(), Server()
    log.scrape(1.0, server)
    for _ in range(30):
        server.engine.observe(time_to_first=0.02)  # these have not finished
    server.engine.finish(queue=2.0, prefill=0.2, frontend=-0.5)  # the wall clock was set back
    log.scrape(2.0, server)
    ttft = log.frame().ttft
    assert (ttft.finished, ttft.first_tokens) == (1, 30)
    assert ttft.queue_s == pytest.approx(2.0)
    assert ttft.prefill_s == pytest.approx(0.2)
    assert ttft.frontend_s == 0.0
    assert ttft.total_s == pytest.approx(2.2)
    assert ttft.first_token_s == pytest.approx(0.02)


def test_a_queue_from_which_nobody_comes_is_stuck_not_zero() -> None:
    log, server = Log(), Server()
    for at_s in range(4):
        server.engine.waiting = 8
        log.scrape(float(at_s), server)
    ttft = log.frame().ttft
    assert ttft.stuck
    assert ttft.queue_now_s is None
    assert ttft.total_s is None


def test_a_sum_that_is_nan_leaves_the_count_and_no_mean() -> None:
    log = Log()
    for at_s, total in enumerate(("1.0", "NaN", "NaN", "9.0")):
        name = "vllm:time_to_first_token_seconds"
        buckets = f'{name}_bucket{{le="1.0"}} {at_s}\n{name}_bucket{{le="+Inf"}} {at_s}\n'
        log.scrape(float(at_s), kv_scrape() + buckets + f"{name}_count {at_s}\n{name}_sum {total}\n")
    for now_s, mean_s in ((2.5, None), (3.5, 8 / 3)):
        frame = log.frame(now_s)
        (row,) = frame.latencies
        assert row.n == math.floor(now_s)
        assert row.mean_s == mean_s  # as soon as the sum is known again
        assert row.p50 is not None


def test_percentiles_outside_the_buckets_are_bounds() -> None:
    log, server = Log(), Server()
    log.scrape(1.0, server)
    for _ in range(99):
        server.engine.finish(queue=0.021)
    server.engine.finish(queue=180.0)
    log.scrape(2.0, server)
    queue = next(row for row in log.frame().latencies if row.name == "queue")
    assert queue.p50 is not None
    assert (queue.p50.low, queue.p50.high) == (0.0, 0.3)
    assert queue.mean_s == pytest.approx((99 * 0.021 + 180) / 100)
    server.engine.finish(queue=180.0)
    log.scrape(3.0, server)
    worst = next(row for row in log.frame().latencies if row.name == "queue").p99
    assert worst is not None
    assert (worst.low, worst.high) == (60.0, None)


def test_hits_are_those_of_the_window_and_say_when_recompute_may_be_among_them() -> None:
    log, server = Log(), Server()
    server.engine.count(prefix_cache_queries=9e6, prefix_cache_hits=1e6)
    log.scrape(1.0, server)
    server.engine.count(prefix_cache_queries=30_000, prefix_cache_hits=20_000)
    log.scrape(2.0, server)
    cache = log.frame().prefix_cache
    assert cache.hit_ratio == pytest.approx(2 / 3)
    assert cache.lifetime_ratio == pytest.approx(1_020_000 / 9_030_000)
    assert not cache.recompute
    server.engine.count(num_preemptions=40)
    log.scrape(3.0, server)
    assert log.frame().prefix_cache.recompute


def test_a_pool_that_nobody_holds_is_not_an_empty_cache() -> None:
    log, server = Log(), Server()
    server.pool_tokens = 100_000
    log.scrape(1.0, server)
    server.engine.count(prefix_cache_queries=4096, prefix_cache_hits=4096)
    log.scrape(2.0, server)
    frame = log.frame()
    assert (frame.kv.used.now, frame.kv.room_tokens) == (0.0, 100_000)
    assert (frame.prefix_cache.hit_tokens, frame.prefix_cache.hit_ratio) == (4096, 1.0)
    used = next(number for number in NUMBERS if number.field == "kv.used")
    assert "cached" in (used.formula + used.caveat)


def test_waiting_again_after_a_preemption_is_not_in_queue_time() -> None:
    """Queued 1 s, prefill 0.2 s, then preempted twice for 5 s each, which vLLM adds to the decode interval."""
    log, server = Log(), Server()
    log.scrape(1.0, server)
    server.engine.count(num_preemptions=2)
    server.engine.finish(queue=1.0, prefill=0.2, decode=11.0, preemptions=2)
    log.scrape(2.0, server)
    frame = log.frame()
    assert frame.ttft.queue_s == pytest.approx(1.0)
    assert next(row for row in frame.latencies if row.name == "decode").mean_s == pytest.approx(11.0)
    waiting = next(number for number in NUMBERS if number.field == "queueing.waiting")
    assert "preempted" in waiting.caveat


def test_the_tokens_of_a_hybrid_model_s_pool_are_those_it_tells_and_not_blocks_times_block_size() -> None:
    log = Log()
    config = 'vllm:cache_config_info{engine="0",block_size="4",num_gpu_blocks="20000",kv_cache_size_tokens="1300000"} 1'
    log.scrape(1.0, Server().exposition(config + "\n"))
    assert log.frame().kv.pool_tokens == 1_300_000


# --- status ------------------------------------------------------------------------------------------------------


def status(log: Log, now_s: float | None = None) -> tuple[str, str, bool]:
    one = log.frame(now_s).status
    return one.kind, one.sentence, one.fresh


def test_waiting_says_what_was_tried_and_why_it_failed() -> None:
    log = Log()
    assert status(log, 0.0) == ("waiting", "asking http://host0:8000 …", False)
    for at_s in (1.0, 2.0, 3.0):
        log.outage(at_s, detail="connection refused")
    kind, said, fresh = status(log)
    assert (kind, fresh) == ("waiting", False)
    assert said == (
        "waiting for http://host0:8000: try 3, connection refused (nothing listens there yet; vtop goes on trying)"
    )


def test_a_load_alone_on_record_waits_for_no_server() -> None:
    log = Log()
    log.add(End(reason="the load is done"), 2.0)
    assert status(log, 1.0)[:2] == ("blind", "no scrape is on record: all numbers are of vtop's own requests")
    log = Log()
    log.outage(1.0, detail="connection refused")
    log.add(End(reason="quit"), 2.0)
    assert status(log, 2.0)[0] == "waiting"


def test_down_says_for_how_long_and_why() -> None:
    log, server = Log(), Server()
    log.scrape(1.0, server)
    log.outage(2.0, detail="timed out")
    log.outage(3.0, detail="timed out")
    assert status(log, 4.0) == ("down", "no answer for 3.00 s: timed out (try 2)", False)
    log.scrape(5.0, server)
    assert status(log)[0] == "idle"
    assert status(log, 100.0)[:2] == ("down", "no answer for 95.0 s")


def test_unhealthy_says_whose_numbers_these_may_be() -> None:
    log, server = Log(), Server()
    log.scrape(1.0, server)
    log.scrape(2.0, server, health=503)
    assert status(log) == ("unhealthy", "/health says 503: the engine may be dead, these are its last values", False)
    log.scrape(3.0, server, health=0)
    assert "no answer" in status(log)[1]
    log.scrape(4.0, server)
    assert status(log)[0] == "idle"
    assert kinds(log.frame())[-3:] == ["unhealthy", "unhealthy", "back"]


def test_blind_says_why_as_far_as_it_is_known() -> None:
    log = Log()
    log.scrape(1.0, "python_gc_objects_collected_total 3\n")
    assert status(log)[1] == "/metrics answers without vLLM series: not a vLLM server's port?"
    log.scrape(2.0, "process_start_time_seconds 3\n")
    assert status(log)[1].endswith("not a vLLM server, or one with --disable-log-stats")
    log.add(Identity(server=0, version="0.26.0"), 2.5)
    assert status(log)[1] == "no vLLM series on /metrics: the server runs with --disable-log-stats"


def test_frozen_when_requests_run_and_nothing_moves() -> None:
    log, server = Log(), Server()
    server.engine.running, server.engine.waiting, server.engine.kv = 106, 15, 0.904
    server.engine.count(generation_tokens=10)
    for at_s in range(20):
        log.scrape(float(at_s), server.exposition(f"process_cpu_seconds_total {at_s}\n"))
    assert status(log, 4.5) == ("busy", "106 running, 15 waiting, KV 90.4 %", True)
    kind, said, fresh = status(log)
    assert (kind, fresh) == ("frozen", False)
    assert said.startswith("no token for 19.0 s with 106 running: a long prefill, or gauges that froze")
    server.engine.count(generation_tokens=1)
    log.scrape(20.0, server)
    assert status(log)[0] == "busy"


def test_short_requests_one_after_another_are_not_idle() -> None:
    log, server = Log(), Server()
    for at_s in range(6):
        server.engine.running = at_s % 2
        server.engine.kv = 0.004 * (at_s % 2)
        server.engine.count(generation_tokens=200)
        log.scrape(float(at_s), server)
        frame = log.frame()
        assert at_s == 0 or frame.status.kind == "busy"
        assert at_s == 0 or frame.generation_tokens.per_s == 200
    assert frame.kv.used.high == 0.004
    log.scrape(6.0, server)
    server.engine.running = 0
    log.scrape(7.0, server)
    assert status(log) == ("idle", "idle: no request runs or waits", True)


def test_a_stream_of_two_minutes_is_no_burst_at_its_end() -> None:
    log, server = Log(), Server()
    for at_s in range(120):
        server.engine.running = 1
        server.engine.count(generation_tokens=40)
        log.scrape(float(at_s), server)
    server.engine.running = 0
    server.engine.count(generation_tokens=40)
    server.engine.finish(decode=120.0)
    log.scrape(120.0, server)
    rates = [
        rate for rate in log.frame(view=View(window_s=120.0, columns=60)).charts.generation_per_s if rate is not None
    ]
    assert set(rates) == {40}


def test_the_server_s_own_averages_are_not_read() -> None:
    log, server = Log(), Server()
    for at_s in (1.0, 2.0):
        server.engine.count(generation_tokens=300)
        log.scrape(at_s, server.exposition('vllm:avg_generation_throughput_toks_per_s{engine="0"} 3\n'))
    assert log.frame().generation_tokens.per_s == 300


def test_the_pool_is_what_the_server_says_before_what_blocks_come_to() -> None:
    log = Log()
    hybrid = 'vllm:cache_config_info{block_size="4",num_gpu_blocks="20000",kv_cache_size_tokens="1300000"} 1\n'
    log.scrape(1.0, kv_scrape(kv_cache_usage_perc=0.5) + hybrid)
    assert log.frame().kv.pool_tokens == 1_300_000
    assert log.frame().kv.used_tokens == 650_000
    assert log.frame().kv.room_tokens == 650_000
    older = Log()
    older.scrape(
        1.0, kv_scrape(kv_cache_usage_perc=0.667) + 'vllm:cache_config_info{block_size="16",num_gpu_blocks="1000"} 1\n'
    )
    assert older.frame().kv.pool_tokens == 16_000


# --- events ----------------------------------------------------------------------------------------------------------


def test_what_happened_is_told_in_order_and_once() -> None:
    log, server = Log(), Server()
    log.scrape(1.0, server)
    server.engine.running = 3
    server.engine.count(num_preemptions=2)
    log.scrape(2.0, server)
    log.add(Mark(text="here"), 2.5)
    log.outage(3.0, detail="connection refused")
    log.outage(4.0, detail="connection refused")
    log.scrape(5.0, server.exposition("mssql 7710-3\n"))
    log.scrape(6.0, server.exposition("mssql 7710-3\n"))
    log.add(Note(source="gpu", text="NVML is absent"), 6.5)
    log.add(End(reason="quit"), 7.0)
    frame = log.frame()
    assert kinds(frame) == ["start", "preemption", "mark", "outage", "back", "note", "note", "end"]
    assert [one.text for one in frame.event_log][1:6] == [
        "preempted 2, KV 0.0 % → 0.0 %, running 0 → 3",
        "here",
        "no scrape: connection refused",
        "back after 2.00 s",
        "1 line of /metrics not understood: mssql 7710-3",
    ]
    assert frame.servers[0].outages == 1
    assert kinds(log.frame(2.0)) == ["start"]


def test_requests_that_vanish_without_finishing_are_noted() -> None:
    log, server = Log(), Server()
    server.engine.running = 20
    log.scrape(1.0, server)
    server.engine.running = 0
    log.scrape(2.0, server)
    assert log.frame().event_log[-1].text.startswith("20 requests vanished unfinished")
    server.engine.running = 5
    log.scrape(3.0, server)
    for _ in range(5):
        server.engine.finish()
    server.engine.running = 0
    log.scrape(4.0, server)
    assert kinds(log.frame()).count("note") == 1


def test_lines_about_servers_that_are_not_there_are_passed_over() -> None:
    log, server = Log(), Server()
    log.scrape(1.0, server)
    log.add(Scrape(server=7, at_s=1.0, took_s=0.0, bytes=1, full=True), 1.5)
    log.add(Outage(server=-1, at_s=1.0, took_s=0.0, reason="refused"), 1.6)
    log.add(Identity(server=9), 1.7)
    assert log.frame().status.kind == "idle"


def test_a_histogram_that_does_not_fit_its_bounds_breaks_nothing() -> None:
    log = Log()
    name = "vllm:time_to_first_token_seconds"
    for at_s, count in ((1.0, 0), (2.0, 4)):
        counts = HistogramCounts(sum=1.0 * count, count=count, n=(count,))
        scrape = Scrape(
            server=0, at_s=at_s, took_s=0.0, bytes=1, full=True, hists={name: counts}, le={name: (1.0, 2.0)}
        )
        log.add(scrape, at_s)
    (row,) = log.frame().latencies
    assert (row.n, row.mean_s, row.p50) == (4, 1.0, None)


# --- GPUs -----------------------------------------------------------------------------------------------------------


def test_devices_in_use_by_the_server_are_the_ones_counted() -> None:
    log = Log()
    log.gpu(1.0, device(0, power_w=700.0, serving=True), device(1, power_w=90.0, serving=False))
    gpus = log.frame().gpus
    assert (gpus.power_w, gpus.counted, len(gpus.devices)) == (700.0, 1, 2)


def test_power_of_the_host_is_not_known_when_one_device_s_is_not() -> None:
    log = Log()
    log.gpu(1.0, device(0, power_w=700.0), device(1, power_w=None))
    gpus = log.frame().gpus
    assert gpus.power_w is None
    assert [one.power.now for one in gpus.devices] == [700.0, None]


def test_power_of_several_devices_is_added_reading_by_reading() -> None:
    log = Log()
    for at_s in range(10):
        high = at_s % 2
        log.gpu(float(at_s), device(0, power_w=300.0 + 400 * high), device(1, power_w=700.0 - 400 * high))
    power = log.frame(view=View(window_s=10.0, columns=5)).charts.power_w
    assert {value for value in power if value is not None} == {1000.0}


def test_a_device_that_is_gone_is_gone_and_comes_back() -> None:
    log = Log()
    log.gpu(1.0, device(0), device(1))
    log.gpu(2.0, device(0))
    log.gpu(3.0, device(0), device(1))
    assert [len(log.frame(t).gpus.devices) for t in (1.5, 2.5, 3.5)] == [2, 1, 2]
    assert [log.frame(t).gpus.power_w for t in (1.5, 2.5, 3.5)] == [1000.0, 500.0, 1000.0]


def test_a_gpu_note_stands_until_readings_come() -> None:
    log = Log()
    log.add(Note(source="gpu", text="NVML is absent"), 1.0)
    assert log.frame().gpus.note == "NVML is absent"
    log.gpu(2.0, device(0))
    assert log.frame().gpus.note is None
    log.add(Note(source="gpu", text="GPU is lost"), 3.0)
    assert log.frame().gpus.note == "GPU is lost"


def test_readings_that_stop_are_a_gap() -> None:
    log, server = Log(), Server()
    for at_s in range(20):
        log.scrape(float(at_s), server)
        if at_s < 10:
            log.gpu(float(at_s), device(0))
    power = points(log.frame(view=VIEW), "power_w")
    assert power[9.0] == 500.0
    assert power[15.0] is None
