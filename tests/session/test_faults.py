"""What goes wrong in the world goes wrong in no number: none is negative, none a NaN, a share never above the whole."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings

from tests.session.made import SIGNED, Log, Server, device
from tests.session.test_replay import stories
from vtop.session.frame.frame import Frame, View

PARTS = ("account", "queueing", "energy", "growth", "own_ttft")
SHARES = {"waiting_share", "p_value", "idle_share", "near_limit_share", "throttled_share", "queue_of_ttft_ratio"}


def numbers(part: object) -> Iterator[tuple[str, float]]:
    """Every number in a part, with its field's name."""
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if isinstance(value, float | int):
                yield field.name, value
            else:
                yield from numbers(value)
    elif isinstance(part, tuple):
        for one in part:
            yield from numbers(one) if not isinstance(one, float | int) else [("", one)]


def check(frame: Frame) -> None:
    for part in PARTS:
        for name, value in numbers(getattr(frame, part)):
            assert math.isfinite(value), (part, name, value)
            assert value >= 0 or name in SIGNED, (part, name, value)
            assert value <= 1 or name not in SHARES, (part, name, value)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(stories())
def test_no_number_is_negative_whatever_happened(log: Log) -> None:
    session = log.session()
    for window_s in (5.0, 300.0):
        for now_s in (session.end_s / 3, session.end_s, session.end_s + 30.0):
            check(session.frame(now_s, View(window_s=window_s, columns=4)))


def work(server: Server, second: int) -> None:
    server.pool_tokens = 16_000
    for engine in server.engines.values():
        engine.running, engine.waiting, engine.kv = 8.0, 4.0, 0.6
        engine.count(generation_tokens=400.0, prompt_tokens=800.0)
        for _ in range(2 if second else 0):
            engine.observe(time_to_first=2.11)
            engine.finish(queue=2.0, prefill=0.1, decode=3.9, frontend=0.01, prompt=400, output=200)


def test_one_engine_s_restart_in_mid_window_is_in_no_sum() -> None:
    """Of two servers one restarts, with a gap of 8 s: tokens, requests and joules of the rest stay what they were."""
    log, steady, dies = Log(2), Server("01"), Server("01")
    for second in range(61):
        work(steady, second)
        log.scrape(float(second), steady)
        if 25 <= second < 33:
            log.outage(float(second), server=1)
        else:
            if second == 33:
                dies.restart()
            work(dies, second)
            log.scrape(float(second), dies, server=1)
        log.gpu(float(second), msgspec.structs.replace(device(power_w=500.0), energy_j=500.0 * second))
    frame = log.frame()
    check(frame)
    assert frame.queueing.running is not None
    assert frame.queueing.running.present == 32
    assert frame.queueing.running.per_s == pytest.approx(8.0)
    assert frame.queueing.running.residual_ratio == pytest.approx(0)
    assert frame.queueing.waiting is not None
    assert frame.queueing.waiting.residual_ratio == pytest.approx(0)
    assert frame.account.nominal is not None
    assert frame.account.nominal.concurrency == 48
    assert frame.account.nominal.peak_ratio == pytest.approx(48 * 608 / 64_000)
    assert frame.account.nominal.peak_error_ratio == pytest.approx(0.6 - 48 * 608 / 64_000)
    assert frame.energy.joules == pytest.approx(60 * 500.0)
    output, prompt = frame.generation_tokens.in_window, frame.prompt_tokens.in_window
    assert output is not None
    assert prompt is not None
    assert frame.energy.per_output_token_j == pytest.approx(30_000 / output)
    assert frame.energy.per_token_j == pytest.approx(30_000 / (output + prompt))
    assert frame.growth.queue_of_ttft_ratio == pytest.approx(2.0 / 2.11)


def test_a_frozen_server_grows_nothing_and_finishes_nothing() -> None:
    log, server = Log(), Server()
    for second in range(40):
        if second == 0:
            work(server, second)
        log.scrape(float(second), server)
    frame = log.frame()
    check(frame)
    assert frame.status.kind == "frozen"
    assert (frame.queueing.running, frame.queueing.waiting, frame.queueing.waiting_share) == (None, None, None)
    assert frame.queueing.trend is None
    assert (frame.account.growth_tokens_per_s, frame.account.full_in_s) == (0, None)
    assert frame.account.measured_residents == 8


def test_a_frontend_that_stalls_shows_its_stall_as_frontend_alone() -> None:
    """For 10 s no scrape comes and the server goes on; then one scrape tells of all that finished meanwhile, 8 s
    late."""
    log, server = Log(), Server()
    for second in range(40):
        stalled = 20 <= second < 30
        server.pool_tokens = 16_000
        server.engine.running, server.engine.waiting, server.engine.kv = 8.0, 0.0, 0.5
        if second:
            server.engine.observe(time_to_first=0.2)
            server.engine.finish(queue=0.1, prefill=0.1, decode=7.9, frontend=8.0 if stalled else 0.01)
        if not stalled:
            log.scrape(float(second), server)
        elif second == 21:
            log.outage(20.0, "timeout")
    frame = log.frame()
    check(frame)
    assert frame.ttft.frontend_s == pytest.approx((10 * 8.0 + 29 * 0.01) / 39)
    assert frame.ttft.queue_s == pytest.approx(0.1)
    assert frame.queueing.running is not None
    assert frame.queueing.running.residual_ratio == pytest.approx(0)  # the stall is a gap, left out on both sides


MISSING = """num_requests_running num_requests_waiting kv_cache_usage_perc generation_tokens_total
e2e_request_latency_seconds request_queue_time_seconds request_prompt_tokens cache_config_info
time_to_first_token_seconds request_inference_time_seconds request_prefill_time_seconds"""


@pytest.mark.parametrize("missing", MISSING.split())
def test_a_series_that_is_missing_leaves_open_what_is_made_of_it(missing: str) -> None:
    log, server = Log(), Server()
    server.without = {f"vllm:{missing}", missing}
    for second in range(40):
        work(server, second)
        log.scrape(float(second), server)
        log.gpu(float(second), device(power_w=400.0))
    frame = log.frame()
    check(frame)
    expected = {
        "num_requests_running": frame.queueing.running,
        "num_requests_waiting": frame.queueing.trend,
        "kv_cache_usage_perc": frame.account.growth_tokens_per_s,
        "generation_tokens_total": frame.energy.per_output_token_j,
        "e2e_request_latency_seconds": frame.queueing.waiting_share,
        "request_queue_time_seconds": frame.growth.queue_of_prefill_ratio,
        "request_prompt_tokens": frame.account.nominal,
        "cache_config_info": frame.account.predicted_residents,
        "time_to_first_token_seconds": frame.queueing.waiting,
        "request_inference_time_seconds": frame.queueing.running,
        "request_prefill_time_seconds": frame.growth.queue_of_prefill_ratio,
    }
    assert expected.pop(missing) is None
    assert frame.energy.joules == pytest.approx(39 * 400.0)
