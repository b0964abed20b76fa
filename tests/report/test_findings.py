"""What is found has its numbers and its evidence; what has no evidence is not said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.report.loops import Loop, session
from tests.report.reports import NAMES, report_of
from tests.session.made import Log, Server
from tests.session.test_incidents import hung
from vtop.report.findings.counters import pairs
from vtop.report.findings.findings import MOST, RULES, WORTH_SAYING, calm, findings
from vtop.report.findings.next_steps import steps
from vtop.report.labels import best
from vtop.report.model import Report, of_session
from vtop.report.render.markdown import markdown
from vtop.report.report_document import document
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
