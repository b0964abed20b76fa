"""A simulated server's page has the shape of a real one's: nobody can tell them apart by it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.utils import floatToGoString

from tests.engine.virtual import Served, virtually
from vtop.engine.core.flags import Flags
from vtop.engine.server.exposition import Family, number
from vtop.engine.server.process_metrics import process_lines

PAGES = Path(__file__).resolve().parents[1] / "scrapes"
# as the real server of the 0.32 pages was started
TINY = Flags(num_gpu_blocks=128, block_size=32, max_model_len=1024, max_num_seqs=16)
BEHIND_A_FLAG = ("vllm:kv_block_",)  # the real one had --kv-cache-metrics

Shape = dict[str, tuple[str, str]]


def heads(text: str) -> Shape:
    """Family to kind and help, in the page's order."""
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.M))
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.M))
    return {name: (kind, helps[name]) for name, kind in kinds.items() if not name.startswith(BEHIND_A_FLAG)}


def labels(text: str) -> dict[str, list[tuple[str, ...]]]:
    """Series name to the label names it comes with."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for line in text.splitlines():
        if not line.startswith(("#", *BEHIND_A_FLAG)):
            name = line.partition("{")[0].partition(" ")[0]
            found.setdefault(name, set()).add(tuple(re.findall(r'(\w+)="', line)))
    return {name: sorted(each) for name, each in found.items()}


def values(text: str, label: str) -> dict[str, list[str]]:
    """Series name to the values of one of its labels, in order."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        named = re.search(rf'[{{,]{label}="([^"]*)"', line)
        if named is not None and not line.startswith(("#", *BEHIND_A_FLAG)):
            found.setdefault(line.partition("{")[0], []).append(named[1])
    return found


def real(name: str) -> str:
    return (PAGES / f"{name}.txt").read_text(encoding="utf-8")


def simulated(*, loaded: bool) -> str:
    async def scenario() -> str:
        served = Served(TINY)
        if loaded:
            await served.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 4})
            await served.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 4000})
            await served.get("/v1/models")
            await served.get("/nowhere")
        return (await served.get("/metrics")).body.decode()

    own = "\n".join(process_lines(1.0))  # the scenario's page has a virtual process
    return own + "\n" + virtually(scenario()).partition("\n")[2]


@pytest.mark.parametrize(("page", "loaded"), [("01_idle", False), ("03_preempt_mid3", True)])
def test_families_kinds_helps_and_their_order_are_those_of_a_real_page(page: str, loaded: bool) -> None:
    mine, theirs = heads(simulated(loaded=loaded)), heads(real(page))
    assert list(mine.items()) == list(theirs.items())


@pytest.mark.parametrize(("page", "loaded"), [("01_idle", False), ("03_preempt_mid3", True)])
def test_label_names_are_those_of_a_real_page(page: str, loaded: bool) -> None:
    assert labels(simulated(loaded=loaded)) == labels(real(page))


@pytest.mark.parametrize("label", ["le", "reason", "source", "finished_reason", "sleep_state", "engine", "generation"])
def test_buckets_and_parts_are_those_of_a_real_page_in_its_order(label: str) -> None:
    assert values(simulated(loaded=False), label) == values(real("01_idle"), label)


def test_a_page_of_0_26_has_nothing_that_ours_lacks() -> None:
    async def scenario() -> str:
        served = Served(Flags(num_gpu_blocks=5431, max_model_len=8192, enable_prefix_caching=False))
        return (await served.get("/metrics")).body.decode()

    mine, theirs = virtually(scenario()), real("h200_idle")
    ours = heads(mine)
    missing = {name for name in heads(theirs) if name.startswith("vllm:") and name not in ours}
    assert missing == set()
    bounds, same = values(mine, "le"), {name for name in values(theirs, "le") if name.startswith("vllm:")}
    assert {name: bounds[name] for name in same} == {name: values(theirs, "le")[name] for name in same}


def test_the_pool_is_told_as_a_real_server_tells_it() -> None:
    """The H200 of the recordings: 5,431 blocks, 86,896 tokens, 10.6 times 8,192."""

    async def scenario() -> str:
        served = Served(Flags(num_gpu_blocks=5431, max_model_len=8192, enable_prefix_caching=False))
        return (await served.get("/metrics")).body.decode()

    mine, theirs = virtually(scenario()), real("h200_idle")
    for label in ("num_gpu_blocks", "kv_cache_size_tokens", "kv_cache_max_concurrency", "enable_prefix_caching"):
        assert values(mine, label) == values(theirs, label)


def test_prometheus_client_reads_every_line() -> None:
    families = list(text_string_to_metric_families(simulated(loaded=True)))
    assert sum(len(family.samples) for family in families) == len(
        [line for line in simulated(loaded=True).splitlines() if not line.startswith("#")]
    )


@given(st.one_of(st.floats(min_value=0.0, allow_nan=False), st.integers(0, 10**15).map(float)))
def test_numbers_are_written_as_prometheus_client_writes_them(value: float) -> None:
    assert number(value) == floatToGoString(value)  # type: ignore[no-untyped-call]


def test_label_values_are_escaped() -> None:
    family = Family("a", "gauge", "b")
    family.row({"x": 'a"b\\c\nd'})
    assert list(family.lines())[-1] == r'a{x="a\"b\\c\nd"} 0.0'


def test_not_a_number_stands_in_gauges_and_sums_alone() -> None:
    async def scenario() -> dict[str, Any]:
        served = Served(fault="nan@5")
        await served.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 4})
        before = await served.page()
        await served.until(6.0)
        return {name: value for name, value in (await served.page()).items() if value != value and before[name] >= 0.0}

    broken = virtually(scenario())
    assert {"vllm:num_requests_running", "vllm:e2e_request_latency_seconds_sum"} <= set(broken)
    assert not [name for name in broken if name.endswith(("_count", "_total")) or "_bucket" in name]
    assert not [name for name in broken if name.startswith("process_")]
