"""Each doubt about a run, on a recording that gives cause for it, and on one that gives none."""

from __future__ import annotations

import msgspec
import pytest

from tests.report.loops import Loop, session
from tests.report.reports import NAMES, report_of
from tests.session.made import Log, Server
from vtop.recording import Host, Load, Request, Scrape
from vtop.report.findings.validity import checks
from vtop.report.model import Report, of_session


def state(report: Report, name: str) -> tuple[str, str]:
    (found,) = (one for one in checks(report) if one.name == name)
    return found.state, found.sentence


def served(log: Log, server: Server, at: int) -> None:
    """A second of a server on which two requests run and one finishes."""
    server.engine.running = 2.0
    server.engine.finish()
    server.engine.count(generation_tokens=20, prompt_tokens=100)
    log.scrape(float(at), server)


def quiet(pages: int = 20) -> Log:
    log, server = Log(), Server()
    for at in range(pages):
        served(log, server, at)
    return log


def test_a_quiet_run_gives_no_cause_for_doubt() -> None:
    report = of_session(session((Loop(n=600, c=8, chance=0.0),)), "x")
    for name in ("client-limited", "foreign traffic", "clock trouble", "gaps", "restarts", "answers"):
        assert state(report, name)[0] == "fine", state(report, name)


def test_a_load_process_without_a_core_to_itself_is_client_limited() -> None:
    log, server = Log(), Server()
    log.add(Load(phase=0, state="begin", spec="c=2", shape="closed", concurrency=2), 0.5)
    for at in range(20):
        log.add(Host(at_s=float(at), load_cpu_ratio=0.99), float(at))
        served(log, server, at)
    assert state(of_session(log.session(), "x"), "client-limited") == (
        "doubt",
        "The client may be the bottleneck. c=2: the load process takes 99% of a core.",
    )


def test_without_a_load_of_its_own_the_client_is_not_known() -> None:
    assert state(of_session(quiet().session(), "x"), "client-limited")[0] == "unknown"


def test_a_queue_that_grows_is_unsteady() -> None:
    log, server = Log(), Server()
    for at in range(60):
        server.engine.waiting = float(at)
        served(log, server, at)
    found, sentence = state(of_session(log.session(), "x"), "unsteady")
    assert found == "doubt"
    assert "growing by 60.0 a minute" in sentence


def test_prompts_in_the_prefix_cache_are_said() -> None:
    log, server = Log(), Server()
    for at in range(20):
        server.engine.count(prefix_cache_queries=100, prefix_cache_hits=50)
        served(log, server, at)
    assert state(of_session(log.session(), "x"), "cache-warm") == (
        "doubt",
        "Prompts were found in the prefix cache. all requests: 50.0 % of the prompt tokens.",
    )


def test_too_few_requests_and_too_few_scrapes_are_said() -> None:
    found, sentence = state(of_session(quiet(8).session(), "x"), "too few samples")
    assert found == "doubt"
    assert "p99 needs 459" in sentence
    assert "Scrapes in the steady part" in sentence


def test_requests_of_others_are_foreign_traffic() -> None:
    log, server = Log(), Server()
    log.add(Load(phase=0, state="begin", spec="c=1", shape="closed", concurrency=1), 0.5)
    for at in range(20):
        log.add(
            Request(id=at, phase=0, due_s=at, sent_s=at, first_s=at + 0.1, last_s=at + 0.2, end_s=at + 0.2), at + 0.3
        )
        served(log, server, at)
        server.engine.finish()
    found, sentence = state(of_session(log.session(), "x"), "foreign traffic")
    assert found == "doubt"
    assert "finished requests are not vtop's" in sentence


def test_pages_that_come_late_are_clock_trouble() -> None:
    log, server = Log(), Server()
    for at in range(20):
        server.engine.running = 1.0
        log.scrape(at + 0.3 * (at % 2), server)
    found, sentence = state(of_session(log.session(), "x"), "clock trouble")
    assert found == "doubt"
    assert "300 ms off the asked-for 1.00 s" in sentence


def test_a_server_from_the_future_is_clock_trouble() -> None:
    log, server = Log(), Server(started_s=1e9)
    for at in range(20):
        served(log, server, at)
    assert "its clock and this one differ" in state(of_session(log.session(), "x"), "clock trouble")[1]


def test_an_outage_is_a_gap_and_a_restart_a_restart() -> None:
    log, server = Log(), Server()
    for at in range(20):
        if at == 8:
            log.outage(8.0)
            continue
        if at == 12:
            server.restart()
        served(log, server, at)
    report = of_session(log.session(), "x")
    assert state(report, "gaps")[0] == "doubt"
    assert state(report, "restarts") == ("doubt", "The server restarted once: what it did in between is not known.")


def test_failed_requests_are_said() -> None:
    found, sentence = state(of_session(session((Loop(n=40, failing=0.3),)), "x"), "answers")
    assert found == "doubt"
    assert "failed" in sentence


def test_a_recording_without_its_end_is_said() -> None:
    assert state(of_session(quiet().session(), "x"), "recording")[0] == "doubt"


@pytest.mark.parametrize("name", NAMES)
def test_every_check_says_something_of_every_recording(name: str) -> None:
    found = checks(report_of(name))
    assert len({one.name for one in found}) == 10
    assert all(one.sentence.endswith(".") for one in found)


def test_a_page_with_lines_nobody_understands_still_counts() -> None:
    log = quiet()
    last = log.events[-1]
    assert isinstance(last, Scrape)
    log.events[-1] = msgspec.structs.replace(last, bad_lines=3)
    assert state(of_session(log.session(), "x"), "gaps")[0] == "fine"
