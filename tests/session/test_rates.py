"""Rates and shares are of one population: the same scrape, the same load, the same requests, each token once."""

from __future__ import annotations

import pytest

from tests.session.made import Log, Server, recorded
from tests.session.test_throughput import ATTACHED, watched
from vtop.recording import Load, Request
from vtop.session.frame.frame import View

WHOLE = View(window_s=100_000.0, whole=True)


@pytest.mark.parametrize("name", ["attached_mbt512_c32", "attached_pool7168_c128", "overload_loaded", "sweep_c64"])
@pytest.mark.parametrize("columns", [3, 10, 60])
def test_what_is_stacked_is_never_more_than_was_in_flight(name: str, columns: int) -> None:
    """The highest running and the highest waiting of a column are of different scrapes: 95 with 64 in flight."""
    session = recorded(name)
    most = ATTACHED[name]["in_flight"] if name in ATTACHED else 64
    charts = session.frame(session.end_s, View(window_s=session.end_s, columns=columns)).charts
    pairs = list(zip(charts.running_then, charts.waiting_then, strict=True))
    known = [a + b for a, b in pairs if a is not None and b is not None]
    assert known
    assert max(known) <= most
    assert max(known) >= 0.98 * most
    for (running, waiting), high, longest in zip(pairs, charts.running, charts.waiting, strict=True):
        assert (running or 0.0) <= (high or 0.0)
        assert (waiting or 0.0) <= (longest or 0.0)


def test_queue_against_prefill_is_said_per_load_and_not_over_a_mixture_of_loads() -> None:
    session = recorded("sweep")
    mixed = session.frame(session.end_s, WHOLE).growth
    assert (mixed.queue_of_prefill_ratio, mixed.queue_of_ttft_ratio) == (None, None)
    rows = {row.load: row.queue_of_prefill_ratio for row in session.load_levels().levels}
    assert rows[64] == pytest.approx(0.64, abs=0.02)
    assert rows[1] == pytest.approx(0.0, abs=0.01)
    alone = session.frame(session.end_s, View(window_s=8.0)).growth
    assert alone.queue_of_prefill_ratio is not None


def cached(*, by_source: bool) -> Log:
    """60 prompts of 100 tokens, 40 of each shared; each was looked up 50 times while it waited."""
    log, server = Log(), Server()
    log.scrape(0, server)
    server.engine.count(prompt_tokens=6000, generation_tokens=60)
    server.engine.count(prefix_cache_queries=300_000, prefix_cache_hits=120_000)
    extra = ""
    if by_source:
        extra = "# TYPE vllm:prompt_tokens_by_source_total counter\n" + "".join(
            f'vllm:prompt_tokens_by_source_total{{engine="0",model_name="m",source="{source}"}} {tokens}\n'
            for source, tokens in (("local_compute", 3600), ("local_cache_hit", 2400), ("external_kv_transfer", 0))
        )
    log.scrape(1, server.exposition(extra))
    return log


def test_a_prompt_that_is_looked_up_at_every_step_counts_once() -> None:
    found = cached(by_source=True).frame(view=WHOLE).prefix_cache
    assert (found.of, found.asked_tokens, found.hit_tokens) == ("prompt tokens", 6000, 2400)
    assert found.hit_ratio == pytest.approx(0.4)


def test_without_sources_hits_are_of_tokens_looked_up_and_said_to_be() -> None:
    found = cached(by_source=False).frame(view=WHOLE).prefix_cache
    assert (found.of, found.asked_tokens) == ("looked up", 300_000)
    assert found.hit_ratio == pytest.approx(0.4)


@pytest.mark.parametrize("name", ["attached_seqs10", "overload", "sweep_batch512", "killed"])
def test_no_more_tokens_are_asked_of_the_cache_than_there_were_prompt_tokens(name: str) -> None:
    session, _ = watched(name)
    frame = session.frame(session.end_s, WHOLE)
    assert frame.prefix_cache.of == "prompt tokens"
    assert frame.prompt_tokens.in_window is not None
    assert frame.prefix_cache.asked_tokens == pytest.approx(frame.prompt_tokens.in_window, rel=0.02)


def tried_and_loaded(finished: int) -> Log:
    """vtop tries the server with one fast request, then its load begins, of which so many finish."""
    log, server = Log(), Server()
    log.scrape(0, server)
    server.engine.finish(queue=0.0, prefill=0.01, frontend=0.001, prompt=16.0, output=1.0)
    server.engine.observe(time_to_first=0.011)
    log.add(Request(id=0, phase=-1, sent_s=0.2, first_s=0.21, last_s=0.21, end_s=0.22), 0.3)
    log.add(Load(phase=0, state="begin", spec="c=8", shape="closed", concurrency=8), 0.9)
    log.scrape(1, server)
    server.engine.running = 2.0
    server.engine.waiting = 6.0
    for second in range(2, 12):
        if second == 8:
            for _ in range(finished):
                server.engine.finish(queue=4.0, prefill=1.0, frontend=0.1)
                server.engine.observe(time_to_first=5.1)
        server.engine.count(generation_tokens=50)
        log.scrape(second, server)
    return log


def test_the_request_that_vtop_tried_the_server_with_is_nobody_s_ttft() -> None:
    frame = tried_and_loaded(0).frame(view=View(window_s=60.0))
    assert (frame.ttft.finished, frame.ttft.total_s, frame.ttft.first_tokens) == (0, None, 0)
    assert {row.name: row.n for row in frame.latencies}["TTFT"] == 0
    assert frame.queueing.waiting is None
    frame = tried_and_loaded(2).frame(view=View(window_s=60.0))
    assert frame.ttft.finished == 2
    assert frame.ttft.total_s == pytest.approx(5.1)


@pytest.mark.parametrize(("an_output", "cohort"), [(1, "every token"), (3, "every output")])
def test_where_an_output_holds_several_tokens_a_gap_is_between_outputs(an_output: int, cohort: str) -> None:
    log, server = Log(), Server()
    log.scrape(0, server)
    server.engine.observe(time_to_first=0.1)
    server.engine.count(prompt_tokens=100, generation_tokens=1 + 30 * an_output)
    for _ in range(30):
        server.engine.observe(inter_token=0.02)
    log.scrape(1, server)
    assert {row.name: row.cohort for row in log.frame(view=WHOLE).latencies}["ITL"] == cohort
