"""A simulated server counts each thing at the moment at which vLLM does; shown on virtual time, page by page."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.virtual import FLAGS, no_process
from vtop.engine.core.flags import Flags
from vtop.engine.server.clocked_engine import Stream
from vtop.engine.server.request_parsing import ParsedRequest
from vtop.engine.server.simulated import Served, Settings, SimulatedServer

SMALL = replace(FLAGS, num_gpu_blocks=65, max_model_len=1024)  # 1,024 tokens


def server(flags: Flags = FLAGS) -> SimulatedServer:
    return SimulatedServer(Settings(flags, enable_mfu_metrics=True), 0.0, no_process)


def asked(prompt: int, output: int, *, n: int = 1, of: int = 0) -> ParsedRequest:
    """of: makes it another prompt."""
    return ParsedRequest((range(of, of + prompt),), output, ignore_eos=True, n=n)


def instants(one: SimulatedServer) -> list[float]:
    """Go on to the end, and where there was something to see on the way."""
    found = []
    while (next_s := one.next_s()) != float("inf"):
        one.go_to(next_s)
        found.append(next_s)
    return found


def stream(served: Served) -> Stream:
    return served.choices[0].stream


def test_a_first_token_is_counted_when_it_comes_and_the_rest_when_the_request_ends() -> None:
    one = server()
    served = one.submit(asked(100, 5), 0.0)
    seen = []
    while (next_s := one.next_s()) != float("inf"):
        one.go_to(next_s)
        tokens = stream(served).tokens
        counts = [one.counts.count(f"{name}_seconds") for name in ("time_to_first_token", "request_queue_time")]
        seen.append((tokens, *counts, one.counts.value("prompt_tokens"), one.counts.value("generation_tokens")))
    assert list(dict.fromkeys(seen)) == [
        (0, 0, 0, 0.0, 0.0),
        (1, 1, 0, 100.0, 1.0),
        (2, 1, 0, 100.0, 2.0),
        (3, 1, 0, 100.0, 3.0),
        (4, 1, 0, 100.0, 4.0),
        (5, 1, 1, 100.0, 5.0),
    ]


def overload() -> tuple[SimulatedServer, list[Served]]:
    one = server(SMALL)
    return one, [one.submit(asked(200, 300, of=k * 1000), 0.0) for k in range(8)]


def test_a_preemption_is_counted_when_its_request_returns_a_token_again() -> None:
    one, served = overload()
    lagged = 0
    told = 0.0
    while (next_s := one.next_s()) != float("inf"):
        one.go_to(next_s)
        happened = sum(stream(each).request.preemptions for each in served)
        told = one.counts.value("num_preemptions")
        assert told <= happened
        lagged += told < happened
    assert lagged
    assert told == sum(stream(each).request.preemptions for each in served) > 0


def test_recomputed_tokens_are_in_the_bytes_and_not_in_the_tokens_of_iterations() -> None:
    one, _ = overload()
    instants(one)
    assert one.counts.value("num_preemptions") > 0
    assert one.counts.sum("iteration_tokens_total") == 8 * (200 + 300)
    assert one.counts.value("prompt_tokens") == 8 * 200
    alone = server(replace(SMALL, num_gpu_blocks=5431))
    for k in range(8):
        alone.submit(asked(200, 300, of=k * 1000), 0.0)
    instants(alone)
    assert alone.counts.value("num_preemptions") == 0
    assert one.counts.value("estimated_write_bytes_per_gpu") > alone.counts.value("estimated_write_bytes_per_gpu")


def test_with_all_answered_the_parts_close_exactly() -> None:
    one, served = overload()
    instants(one)
    sums = {
        name: one.counts.sum(f"{name}_seconds")
        for name in ("e2e_request_latency", "request_queue_time", "request_inference_time", "request_decode_time")
    }
    prefill_s, ttft_s = one.counts.sum("request_prefill_time_seconds"), one.counts.sum("time_to_first_token_seconds")
    assert sums["request_inference_time"] == pytest.approx(prefill_s + sums["request_decode_time"])
    frontend_s = sums["e2e_request_latency"] - sums["request_queue_time"] - sums["request_inference_time"]
    assert 0.0 < frontend_s < 0.1 * len(served)
    assert ttft_s == pytest.approx(sums["request_queue_time"] + prefill_s + frontend_s, rel=1e-3)
    assert one.counts.value("request_success/length") == len(served)


def test_gauges_follow_every_step_and_end_at_nothing() -> None:
    one, served = overload()
    seen = []
    while (next_s := one.next_s()) != float("inf"):
        one.go_to(next_s)
        names = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
        seen.append(tuple(one.counts.value(name) for name in names))
    assert (
        max(running for running, _, _ in seen) < len(served) == max(running + waiting for running, waiting, _ in seen)
    )
    assert 0.9 < max(kv for _, _, kv in seen) <= 1.0
    assert seen[-1] == (0.0, 0.0, 0.0)


def test_nothing_is_counted_at_the_end_of_what_was_aborted_and_the_gauges_come_back() -> None:
    one, served = overload()
    at_s = 0.0
    while stream(served[0]).tokens < 10:
        at_s = one.next_s()
        one.go_to(at_s)
    for each in served:
        one.abort(each, at_s)
    instants(one)
    assert one.counts.value("generation_tokens") >= 10
    assert one.counts.count("time_to_first_token_seconds") > 0
    for reason in ("stop", "length", "abort", "error"):
        assert one.counts.value(f"request_success/{reason}") == 0
    assert one.counts.count("e2e_request_latency_seconds") == 0
    assert one.counts.value("num_requests_running") == one.counts.value("num_requests_waiting") == 0
    assert one.counts.value("kv_cache_usage_perc") == 0


def test_a_request_may_be_aborted_at_any_instant_of_its_life() -> None:
    one = server()
    one.submit(asked(4000, 400), 0.0)
    whole = instants(one)
    for place, (before, after) in enumerate(pairwise([0.0, *whole][:60])):
        other = server()
        kept = other.submit(asked(3000, 50, of=9), 0.0)
        gone = other.submit(asked(4000, 400), 0.0)
        other.abort(gone, (before + after) / 2)
        instants(other)
        assert stream(kept).finished, place
        assert other.counts.value("request_success/length") == 1
        assert other.counts.value("kv_cache_usage_perc") == 0.0


@settings(max_examples=25)
@given(
    st.lists(st.none() | st.floats(0.0, 4.0), min_size=8, max_size=8),
    st.booleans(),
    st.sampled_from(("fcfs", "priority")),
)
def test_whoever_goes_away_and_when_the_others_get_all_and_no_block_is_lost(
    leaves_s: list[float | None], caching: bool, policy: str
) -> None:
    one = server(replace(SMALL, enable_prefix_caching=caching, policy=policy))
    served = [one.submit(asked(200, 300, of=k % 3 * 1000), 0.0) for k in range(8)]
    for at_s, place in sorted((at_s, place) for place, at_s in enumerate(leaves_s) if at_s is not None):
        one.go_to(at_s)
        one.abort(served[place], at_s)
    instants(one)
    stayed = [each for each, at_s in zip(served, leaves_s, strict=True) if at_s is None]
    assert all(stream(each).finished and stream(each).tokens == 300 for each in stayed)
    finished = sum(stream(each).finished for each in served)
    assert one.counts.value("request_success/length") == finished
    assert one.counts.value("generation_tokens") == sum(stream(each).tokens for each in served)
    assert one.counts.value("num_requests_running") == one.counts.value("num_requests_waiting") == 0
    assert one.counts.value("kv_cache_usage_perc") == 0
    assert one.engine.scheduler.pool.free == one.engine.scheduler.pool.usable


def test_n_answers_of_one_prompt_are_n_requests_and_one_parent() -> None:
    one = server()
    one.submit(asked(50, 7, n=3), 0.0)
    one.submit(asked(50, 9, of=99), 0.0)
    instants(one)
    assert one.counts.value("request_success/length") == 4
    assert one.counts.count("request_params_n") == 2
    assert one.counts.sum("request_params_n") == 4
    assert one.counts.sum("request_max_num_generation_tokens") == 7 + 9


def test_the_prefix_cache_is_counted_at_admission_in_tokens() -> None:
    one = server(replace(FLAGS, enable_prefix_caching=True))
    one.submit(asked(160, 2), 0.0)
    instants(one)
    assert (one.counts.value("prefix_cache_queries"), one.counts.value("prefix_cache_hits")) == (160, 0)
    one.submit(asked(160, 2), 10.0)
    instants(one)
    assert (one.counts.value("prefix_cache_queries"), one.counts.value("prefix_cache_hits")) == (320, 144)
    assert one.counts.value("prompt_tokens_by_source/local_cache_hit") == 144
    assert one.counts.value("prompt_tokens_cached_by_source/device") == 144
    assert one.counts.sum("request_prefill_kv_computed_tokens") == 160 + 16
    assert one.counts.sum("iteration_tokens_total") == 160 + 2 + 16 + 2


def test_work_is_counted_only_when_asked_for() -> None:
    quiet = SimulatedServer(Settings(FLAGS), 0.0, no_process)
    quiet.submit(asked(100, 5), 0.0)
    instants(quiet)
    assert quiet.counts.value("estimated_flops_per_gpu") == 0.0


def test_the_same_requests_give_the_same_page() -> None:
    pages = []
    for _ in range(2):
        one, _ = overload()
        instants(one)
        pages.append(one.page(60.0))
    assert pages[0] == pages[1]
