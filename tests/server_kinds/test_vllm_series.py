"""Series have the meaning that vLLM gave them, under every name they ever had."""

from __future__ import annotations

from pathlib import Path

import pytest

from vtop.metrics.page import Folder
from vtop.metrics.quantity import Quantity, SeriesKind
from vtop.metrics.series_names import SeriesMeaning, labels_of
from vtop.server_kinds.registry import series_names
from vtop.server_kinds.vllm.series import SERIES

PAGES = Path(__file__).parent.parent / "scrapes"


def meaning(series: str) -> SeriesMeaning:
    found = SERIES.meaning(series)
    assert found is not None, series
    return found


def quantities(page: str) -> set[Quantity]:
    text = (PAGES / f"{page}.txt").read_text(encoding="utf-8")
    scrape = Folder(series_names).scrape(text, server=0, at_s=0.0, took_s=0.0, bytes=0, health=None)
    found = [SERIES.meaning(series) for series in [*scrape.values, *scrape.hists]]
    return {one.quantity for one in found if one is not None}


EVERY_SERVER = {
    *(Quantity.RUNNING, Quantity.WAITING, Quantity.KV_USED, Quantity.CACHE_CONFIG, Quantity.PREEMPTIONS),
    *(Quantity.PROMPT_TOKENS, Quantity.GENERATION_TOKENS, Quantity.PREFIX_QUERIES, Quantity.PREFIX_HITS),
    *(Quantity.FINISHED, Quantity.TTFT, Quantity.ITL, Quantity.TPOT, Quantity.E2E, Quantity.QUEUE, Quantity.PREFILL),
    *(Quantity.DECODE, Quantity.INFERENCE, Quantity.ITERATION_TOKENS),
}


@pytest.mark.parametrize("page", [path.stem for path in sorted(PAGES.glob("*.txt")) if "disable" not in path.stem])
def test_every_server_says_all_that_the_screen_needs(page: str) -> None:
    unstepped = page in ("07_api_server_count2_load_before", "08_dp2_load_before")
    gauges = {Quantity.RUNNING, Quantity.WAITING, Quantity.KV_USED}  # there from the first engine step on
    assert EVERY_SERVER - quantities(page) == (gauges if unstepped else set())


@pytest.mark.parametrize("page", ["06_disable_log_stats", "06_disable_log_stats_idle"])
def test_a_server_without_stats_says_nothing_of_vllm(page: str) -> None:
    assert quantities(page) <= {Quantity.PROCESS_START, Quantity.PROCESS_CPU, Quantity.HTTP_DURATION}


def test_speculation_and_adapters_are_read_where_they_are() -> None:
    assert quantities("09_spec_ngram") >= {Quantity.SPEC_DRAFTS, Quantity.SPEC_ACCEPTED_TOKENS}
    assert Quantity.LORA in quantities("10_lora_mid")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("gpu_cache_usage_perc", "kv_cache_usage_perc"),
        ("gpu_prefix_cache_queries_total", "prefix_cache_queries_total"),
        ("gpu_prefix_cache_hits_total", "prefix_cache_hits_total"),
        ("time_per_output_token_seconds", "inter_token_latency_seconds"),
    ],
)
def test_an_old_name_means_the_same_and_the_new_one_goes_first(old: str, new: str) -> None:
    before, now = meaning(f"vllm:{old}"), meaning(f"vllm:{new}")
    assert (before.quantity, before.kind) == (now.quantity, now.kind)
    assert now.rank < before.rank


def test_per_step_and_per_request_times_are_never_one_quantity() -> None:
    assert meaning("vllm:inter_token_latency_seconds").quantity is Quantity.ITL
    assert meaning("vllm:request_time_per_output_token_seconds").quantity is Quantity.TPOT


@pytest.mark.parametrize("prefix", ["vllm:", "ray_vllm:", "ray_vllm_", "vllm_"])
def test_ray_says_the_same_under_its_own_prefix(prefix: str) -> None:
    running = meaning(f'{prefix}num_requests_running{{engine="0",ReplicaId="r1",WorkerId="w"}}')
    assert (running.quantity, running.engine) == (Quantity.RUNNING, "r1/0")
    assert meaning(f"{prefix}iteration_tokens_total").kind is SeriesKind.HISTOGRAM
    assert meaning(f"{prefix}generation_tokens_total").kind is SeriesKind.COUNTER


def test_a_pid_is_no_engine() -> None:
    assert {meaning(f'vllm:kv_cache_usage_perc{{engine="0",pid="{pid}"}}').engine for pid in (1, 2, 3)} == {"0"}


def test_families_that_vtop_does_not_read_have_no_meaning() -> None:
    for series in ("vllm:new_thing_total", "vllm:avg_generation_throughput_toks_per_s", "python_info", "x", "{", ""):
        assert SERIES.meaning(series) is None
    assert SERIES.recorded("vllm:new_thing_total")  # but a later vtop may


def test_parts_are_told_apart_by_their_label() -> None:
    assert meaning('vllm:request_success_total{engine="0",finished_reason="stop"}').part == "stop"
    assert meaning('vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"}').part == "capacity"


def test_labels_that_say_none_are_not_there() -> None:
    assert labels_of('vllm:cache_config_info{block_size="16",sliding_window="None"}') == {"block_size": "16"}


@pytest.mark.parametrize("quantity", list(Quantity))
def test_every_quantity_has_a_name_that_means_it(quantity: Quantity) -> None:
    exported = SERIES.exported_as(quantity)
    assert exported is not None
    assert meaning(exported).quantity is quantity
