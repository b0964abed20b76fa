"""What is found has its numbers and its evidence; what has no evidence is not said."""

from __future__ import annotations

import pytest

from tests.report.loops import Loop, session
from tests.report.reports import NAMES, report_of
from tests.session.made import Log, Server
from vtop.report.findings.counters import pairs
from vtop.report.findings.findings import MOST, RULES, findings
from vtop.report.findings.next_steps import steps
from vtop.report.model import Report, of_session


def said(report: Report) -> dict[str, str]:
    return {found.rule: found.sentence for rule in RULES if (found := rule(report)) is not None}


def test_the_overload_is_told_as_the_people_who_measured_it_told_it() -> None:
    found = said(report_of("overload_loaded"))
    assert found["residents"].startswith("64 requests were in flight and only 11 ran (median): the KV pool holds 10.6")
    assert "98.8 % of it is queueing" in found["made of"]
    assert found["preempted"].startswith("37 preemptions, one every 4.4")
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
