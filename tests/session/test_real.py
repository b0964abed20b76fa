"""The numbers of two afternoons on an H200, and of vLLM's own scrapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.session.made import RECORDINGS, Log, fold, read
from vtop.metrics.quantity import Quantity
from vtop.session.frame.frame import Frame, View
from vtop.session.session import Session

SCRAPES = Path(__file__).parent.parent / "scrapes"


def recorded(name: str) -> Session:
    (path,) = [path for path in RECORDINGS if path.name.partition(".")[0] == name]
    return fold(*read(path))


@pytest.fixture(scope="module")
def overload() -> Session:
    return recorded("overload")


@pytest.fixture(scope="module")
def sweep() -> Session:
    return recorded("sweep_c64")


def whole(session: Session) -> Frame:
    return session.frame(session.end_s, View(window_s=300.0, columns=44))


def while_requests_ran(session: Session) -> Frame:
    """The window from the first scrape with a request on it to the last."""
    server = session.servers[0]
    running = server.total(Quantity.RUNNING)
    assert running is not None
    scrapes = [scrape for scrape in range(len(server.t)) if running.at(scrape)]
    first, last = scrapes[0], scrapes[-1]
    return session.frame(server.t[last], View(window_s=server.at_s[last] - server.at_s[first], columns=44))


def test_overload_is_as_its_report_says(overload: Session) -> None:
    frame = while_requests_ran(overload)
    assert whole(overload).preemption.count.since_start == 37
    assert (frame.requests.running.median, frame.requests.running.high) == (11, 14)
    assert frame.requests.waiting.high == 56
    assert frame.kv.used.median == pytest.approx(0.950, abs=5e-4)
    assert frame.kv.used.high == pytest.approx(0.999, abs=5e-4)
    assert frame.kv.pool_tokens == 86_896


def test_overload_s_steps_are_made_of_what_was_generated_and_the_rest(overload: Session) -> None:
    frame = whole(overload)
    assert frame.iteration.steps == 23_212
    assert frame.generation_tokens.in_window == 128 * 2048 + 16
    assert frame.prompt_tokens.in_window == 129 * 6144
    assert frame.iteration.decode is not None
    assert frame.iteration.prefill is not None
    assert frame.iteration.decode * 23_212 == pytest.approx(128 * 2048 + 16)
    assert frame.iteration.prefill * 23_212 == pytest.approx(129 * 6144)


def test_overload_tells_of_each_preemption_once(overload: Session) -> None:
    told = [one.text for one in whole(overload).event_log if one.kind == "preemption"]
    counts = [int(text.partition("preempted ")[2].partition(",")[0]) for text in told]
    assert sum(counts) == 37
    steps = [step for step in whole(overload).charts.preempted if step is not None]
    assert sum(steps) == 37
    assert whole(overload).charts.preemptions[-1] == 37


def test_sweep_s_first_token_was_queue_prefill_and_frontend(sweep: Session) -> None:
    ttft = whole(sweep).ttft
    assert ttft.queue_s == pytest.approx(0.3238, abs=5e-5)
    assert ttft.prefill_s == pytest.approx(0.3258, abs=5e-5)
    assert ttft.queue_s is not None
    assert ttft.prefill_s is not None
    assert ttft.frontend_s is not None
    assert ttft.total_s == ttft.queue_s + ttft.prefill_s + ttft.frontend_s
    assert ttft.total_s == pytest.approx(ttft.first_token_s, rel=0.01)


@pytest.mark.parametrize("at_s", [60.0, 80.0, 100.0, 110.0])
def test_the_little_estimate_of_the_queue_is_near_what_those_in_line_waited(overload: Session, at_s: float) -> None:
    """The load's own stamps say 59.9 to 65.9 s from sent to first token for those that came out of the queue then."""
    assert overload.frame(at_s).ttft.queue_now_s == pytest.approx(63.0, rel=0.1)


def test_when_nobody_waits_there_is_no_queue_to_estimate(overload: Session) -> None:
    assert whole(overload).requests.waiting.now == 0
    assert whole(overload).ttft.queue_now_s is None


@pytest.mark.parametrize("columns", [11, 44, 167])
@pytest.mark.parametrize("window_s", [167.0, 300.0])
def test_rates_over_columns_add_up_to_the_counter_s_growth(overload: Session, columns: int, window_s: float) -> None:
    server = overload.servers[0]
    charts = overload.frame(overload.end_s, View(window_s=window_s, columns=columns)).charts
    track = server.total(Quantity.GENERATION_TOKENS)
    assert track is not None
    last = len(server.t) - 1
    begin_s = max(charts.end_s - columns * charts.column_s, server.at_s[0])
    widths = [
        max(
            0.0,
            charts.end_s
            - (columns - 1 - k) * charts.column_s
            - max(charts.end_s - (columns - k) * charts.column_s, begin_s),
        )
        for k in range(columns)
    ]
    drawn = sum(rate * width for rate, width in zip(charts.generation_per_s, widths, strict=True) if rate is not None)
    grown = track.grown(0, last)
    assert grown is not None
    late = grown * charts.column_s / (server.at_s[last] - server.at_s[0])  # what is not yet in a complete column
    assert drawn == pytest.approx(grown, abs=3 * late)
    if charts.end_s >= server.at_s[last] - 0.01:
        assert drawn == pytest.approx(grown, rel=1e-6)


# --- vLLM's own scrapes ----------------------------------------------------------------------------------------------


def seen(*names: str, seconds: float = 5.0) -> Frame:
    log = Log(interval_s=seconds)
    for number, name in enumerate(names):
        log.scrape(number * seconds, (SCRAPES / f"{name}.txt").read_text(encoding="utf-8"))
    return log.frame()


def test_two_engines_are_two_rows_and_one_pool() -> None:
    frame = seen("08_dp2_load_before", "08_dp2_load_after")
    assert [engine.name for engine in frame.engines] == ["0", "1"]
    assert frame.servers[0].engines == 2
    # num_gpu_blocks is already the sum in each row: 256 blocks of 32, one pool of 4,096 tokens per engine
    assert frame.kv.pool_tokens == 8192
    assert frame.requests.finished.in_window == 16


def test_a_server_before_its_first_step_is_idle_and_not_blind() -> None:
    for name in ("07_api_server_count2_load_before", "08_dp2_load_before"):
        frame = seen(name)
        assert frame.status.kind == "idle"
        assert frame.status.sentence == "idle: no request since the server started"
        assert frame.requests.running.now is None


def test_two_api_servers_are_one_server_with_one_engine() -> None:
    frame = seen("07_api_server_count2_load_before", "07_api_server_count2_load_after")
    assert len(frame.engines) == 1
    assert frame.ttft.finished == frame.requests.finished.in_window == 24


@pytest.mark.parametrize("scrape", ["06_disable_log_stats", "06_disable_log_stats_idle"])
def test_a_server_without_stats_is_blind_and_nothing_is_zero(scrape: str) -> None:
    frame = seen(scrape, scrape)
    assert frame.status.kind == "blind"
    assert "--disable-log-stats" in frame.status.sentence
    assert frame.requests.running.now is None
    assert frame.kv.used.now is None
    assert frame.generation_tokens.per_s is None
    assert set(frame.charts.running) == {None}


def test_forty_requests_with_56_preemptions_close_to_the_millisecond() -> None:
    frame = seen("03_preempt_before", "03_preempt_after", seconds=12.0)
    assert frame.preemption.count.in_window == 56
    assert frame.ttft.finished == frame.ttft.first_tokens == 40
    assert frame.ttft.total_s is not None
    assert frame.ttft.total_s * 40 == pytest.approx(112.842, abs=0.05)
    assert frame.ttft.queue_s is not None
    assert frame.ttft.queue_s * 40 == pytest.approx(108.251, abs=1e-3)
    assert (frame.prompt_tokens.in_window, frame.generation_tokens.in_window) == (4000, 16000)


def test_a_scrape_with_nans_folds() -> None:
    frame = seen("04_devmode_apikey_nans", "04_devmode_apikey_nans")
    assert frame.status.kind in ("idle", "busy")
