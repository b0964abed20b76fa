"""What is found has its numbers and its evidence; what has no evidence is not said."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tests.report.loops import Loop, session
from tests.report.reports import NAMES, path_of, report_of
from tests.session.made import Log, Server, fold, read
from tests.session.test_incidents import hung
from tests.session.test_verdict import POOL
from vtop.recording.cut import cut
from vtop.report.findings.counters import pairs
from vtop.report.findings.findings import MOST, RULES, WORTH_SAYING, calm, findings
from vtop.report.findings.next_steps import steps
from vtop.report.labels import best
from vtop.report.model import Report, of_session
from vtop.report.render.markdown import markdown
from vtop.report.report_document import document
from vtop.session.frame.ttft import Growth
from vtop.session.frame.verdict import Verdict


def said(report: Report) -> dict[str, str]:
    return {found.rule: found.sentence for rule in RULES if (found := rule(report)) is not None}


def test_the_overload_is_told_as_the_people_who_measured_it_told_it() -> None:
    found = said(report_of("overload_loaded"))
    assert found["residents"].startswith("64 requests were in flight and only 11 ran (median): the KV pool holds 10.6")
    assert "98.8 % of it is queueing" in found["made of"]
    assert found["preempted"].startswith("37 preemptions, one every 4.5")
    assert "more than the answers needed" in found["recomputed"]
    assert found["unseen"].startswith("p99 ITL cannot show the 37 preemptions")


def test_the_sweep_is_told_by_how_its_parts_grow() -> None:
    found = said(report_of("sweep"))
    assert found["grown"].startswith("From c=1 to c=64 queueing grew from")
    assert "(extrapolated)" in found["grown"]
    assert "at c=64" in found["reached"]
    assert "preempted" not in found
    assert "residents" not in found


@pytest.mark.parametrize("name", NAMES)
def test_findings_are_few_and_each_has_its_evidence(name: str) -> None:
    found = findings(report_of(name))
    assert 3 <= len(found) <= MOST
    for one in found:
        assert one.evidence
        assert one.sentence.endswith(".")
        assert any(letter.isdigit() for letter in one.sentence)


def test_without_requests_nothing_is_found() -> None:
    log, server = Log(), Server()
    for at in range(5):
        log.scrape(float(at), server)
    report = of_session(log.session(), "idle")
    assert findings(report) == ()
    assert steps(report) == ()
    assert pairs(report) == ()


def test_an_engine_that_stood_still_is_a_finding_with_when_and_how_long() -> None:
    report = of_session(hung(44), "hung")
    found = said(report)["stuck"]
    assert found.startswith(
        "The engine stood still for 44 s (0:09–0:53): no counter and no gauge moved, with 12 running"
    )
    assert "| 0:09 | 0:53 | 44 s | stuck: requests, and nothing moved | 12 | 3 |" in markdown(document([report]))


def test_a_dead_engine_is_told_as_not_healthy() -> None:
    found = said(of_session(hung(20, health=503), "dead"))
    assert found["unread"] == "The server was not healthy for 19 s (0:10–0:29): /health says 503."
    assert "stuck" not in found


def test_a_server_that_was_away_is_a_finding_and_so_is_that_it_came_back_as_another() -> None:
    found = said(report_of("killed"))["unread"]
    assert (
        found == "The server did not answer for 1:32 (1:37–3:09): /metrics: Connection refused; it came back restarted."
    )


@pytest.mark.parametrize("name", NAMES)
def test_nothing_binds_stands_beside_no_queue_and_no_preemption(name: str) -> None:
    report = report_of(name)
    found = said(report)
    if "calm" in found:
        assert report.run is not None
        assert not report.run.preemptions
        assert (report.run.queue_of_ttft_ratio or 0.0) < WORTH_SAYING


def test_nothing_binds_is_silent_where_requests_queue() -> None:
    run = report_of("sweep_c64").run
    assert run is not None
    none = replace(run, verdict=Verdict("none", "nothing binds", ("12 running",)), preemptions=0.0)
    alone = replace(report_of("sweep_c64"), run=none)
    assert calm(alone) is None
    assert calm(replace(alone, run=replace(none, queue_of_ttft_ratio=0.001))) is not None


def test_after_a_failed_percentile_no_bucket_of_those_that_were_answered_is_shown() -> None:
    of = report_of("killed").phases[-1].whole
    assert of is not None
    assert of.ttft is not None
    assert of.ttft.p90_s == "failed"
    assert of.ttft.p99_s is None  # 91 requests are too few for it
    assert best(of, "TTFT", "p99_s") == "failed"


def test_failed_requests_come_first() -> None:
    report = of_session(session((Loop(n=40, failing=0.3),)), "x")
    first = findings(report)[0]
    assert first.rule == "failed"
    assert "of 40 requests failed (http_status" in first.sentence


def test_service_levels_are_a_finding() -> None:
    report = of_session(session((Loop(n=40, slo=0.2),)), "x")
    assert "of 40 requests" in said(report)["kept"]
    assert "ttft ≤ 200 ms" in said(report)["kept"]


def test_the_next_step_is_a_flag_its_reason_and_the_commands_that_test_it() -> None:
    (step,) = steps(report_of("overload_loaded"))
    assert step.flag == "--gpu-memory-utilization or --kv-cache-dtype fp8"
    assert step.where == ("c=64",)
    assert step.commands == (
        "vllm serve … --kv-cache-dtype fp8",
        "vtop --record after.jsonl --load 'c=64 in=6144 out=2048 n=128 seed=77'",
        "vtop compare overload_loaded.jsonl.gz after.jsonl",
    )


def test_two_counters_tell_of_recompute_and_one_does_not() -> None:
    found = {(pair.one, pair.other): pair for pair in pairs(report_of("overload"))}
    blind = found["prompt + generated tokens", "iteration_tokens_total"]
    seeing = found["iteration_tokens_total", "executed, by write bytes, model shape"]
    assert blind.difference == 0
    assert seeing.ratio == pytest.approx(0.245, abs=0.005)
    assert all(pair.why for pair in found.values())


@cache
def part_of(name: str, begin_s: float, end_s: float) -> Report:
    """Of a span cut out of a recording."""
    start, events = read(path_of(name))
    return of_session(fold(start, list(cut(start, events, begin_s, end_s, "part"))), name)


def test_of_a_load_that_runs_out_nobody_says_that_64_are_in_flight() -> None:
    """Its spec does, for all of it; in its last 20 s there were 12, and none waited."""
    report = part_of("overload_loaded", 150.0, 181.0)
    assert "residents" not in said(report)
    assert report.phases[0].whole is not None
    assert "resident" not in report.phases[0].whole.verdict.sentence
    assert "demand" not in report.phases[0].whole.verdict.sentence


def test_a_load_whose_beginning_is_cut_off_has_the_throughput_of_what_is_left() -> None:
    """Its requests were sent 64 s before: all their tokens by all that time had been 355 tokens/s."""
    (phase,) = part_of("overload_loaded", 150.0, 181.0).phases
    assert phase.whole is not None
    assert phase.whole.output_per_s == pytest.approx(1413, rel=0.01)
    assert phase.whole.generation_per_s is not None


def test_a_part_of_a_closed_loop_s_rounds_is_no_rate_beside_others() -> None:
    report = part_of("pool7168", 10.0, 30.0)
    (found,) = [one for one in findings(report) if one.rule == "reached"]
    assert "×" not in found.sentence
    assert "fewer than 2 rounds of requests: a while of the load, no rate of it" in found.evidence


def test_preemptions_of_several_loads_have_no_rate_over_all_of_them() -> None:
    found = said(report_of("killed"))["preempted"]
    assert found.startswith("63 preemptions: 46 at 24/s, 17 at c=64; one every 478 ms at 24/s, when KV use")


def test_where_the_queue_overtook_prefill_lies_between_two_loads() -> None:
    measured = Growth(crossing_unit="requests/s", crossed_at=24.0, crossed_above=16.0)
    assert measured.crossed == "the queue overtook prefill between 16 and 24 requests/s"
    lowest = Growth(crossing_unit="requests/s", crossed_at=20.0)
    assert lowest.crossed == "the queue is above prefill at 20 requests/s already, the lowest load"
    assert Growth().crossed is None


def test_one_load_has_a_throughput_and_no_highest_one() -> None:
    assert said(report_of("overload_loaded"))["reached"].startswith("Throughput was 1,575 output tokens/s.")


def test_nothing_was_recomputed_where_nothing_was_preempted() -> None:
    assert said(report_of("sweep"))["stolen"].endswith("went to the prefill of others.")


def test_what_power_takes_of_the_clock_has_its_readings() -> None:
    (found,) = [one for one in findings(report_of("sweep")) if one.rule == "powered"]
    assert found.sentence == "The power limit of 700 W took 7.8 % of the clock at c=64, which no metric of vLLM shows."
    assert found.evidence[0] == "mean of 6 readings of the steady part, power cap in 33 %"


def test_where_running_stands_at_its_limit_the_pool_is_not_blamed() -> None:
    found = said(part_of("overload_seqs10", 100.0, 120.0))["residents"]
    assert "only 10 ran (median): running stands at 10, with 78 % of the KV pool in use" in found


def test_of_several_servers_no_limit_of_one_is_said_of_the_sum() -> None:
    """One of them was full: "110 in flight and only 74 ran: the KV pool holds 133", which is more than all of them."""
    log, servers = Log(servers=2), (Server(), Server())
    for second in range(30):
        for number, (server, running, waiting) in enumerate(zip(servers, (64.0, 10.0), (36.0, 0.0), strict=True)):
            server.engine.running, server.engine.waiting = running, waiting
            server.engine.kv = running / 65
            server.engine.count(generation_tokens=100, num_preemptions=3 * (not number))
            for _ in range(5):
                server.engine.finish(prompt=100, output=50)
            log.scrape(second + 0.1 * number, server.exposition(POOL), server=number)
    report = of_session(log.session(), "x")
    (phase,) = report.phases
    assert phase.whole is not None
    assert phase.whole.verdict.limit == "kv"
    assert "residents" not in said(report)
