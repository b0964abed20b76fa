"""The report of a load without a watcher: what its own requests saw, and no word on what nobody looked at."""

from __future__ import annotations

from functools import cache

import msgspec

from tests.report.loops import Loop, session
from tests.report.reports import path_of, report_of
from vtop.recording import FileRecording, Load, LoadHost, Request, Scrape
from vtop.report.figures.figures import figures
from vtop.report.findings.findings import findings
from vtop.report.findings.validity import NO_SCRAPE, checks
from vtop.report.model import Report, of_session
from vtop.report.render.json import json
from vtop.report.render.markdown import markdown
from vtop.report.report_document import document
from vtop.session.session import Session


@cache
def alone(name: str) -> Report:
    """A recording without its scrapes and its GPU readings, as `vtop load` writes one."""
    recording = FileRecording(path_of(name))
    made = Session(recording.start)
    while events := recording.take():
        for event in events:
            if not isinstance(event, Scrape) and type(event).__name__ not in ("Gpu", "Identity", "Outage"):
                made.apply(event)
    recording.close()
    return of_session(made, name)


def test_its_findings_are_those_of_its_requests() -> None:
    found = {one.rule: one.sentence for one in findings(alone("sweep"))}
    assert found["reached"].startswith(
        "The highest throughput of 7 loads was 5,595 output tokens/s at c=64, 27.3 × that of c=1"
    )
    assert "TTFT p50 688 ms" in found["answered"]
    assert "ITL p50 5.97 ms, p99 171 ms" in found["answered"]
    assert "Nothing is found" not in markdown(document([alone("sweep")]))


def test_its_numbers_are_those_of_the_watched_run() -> None:
    for mine, watched in zip(alone("sweep").phases, report_of("sweep").phases, strict=True):
        assert mine.whole is not None
        assert watched.whole is not None
        for field in ("output_per_s", "total_per_s", "requests_per_s", "sent", "failed"):
            assert getattr(mine.whole, field) == getattr(watched.whole, field)
        assert mine.whole.ttft is not None
        assert watched.whole.ttft is not None
        assert mine.whole.ttft.p50_s == watched.whole.ttft.p50_s


def test_what_the_server_did_is_not_known_and_not_nothing() -> None:
    of = alone("sweep").phases[-1].whole
    assert of is not None
    assert (of.scrapes, of.preemptions, of.kv.peak_ratio, of.running.median) == (0, None, None, None)
    written = markdown(document([alone("sweep")]))
    assert "preempted" not in written
    assert "KV peak" not in written
    states = {one.name: one.state for one in checks(alone("sweep"))}
    assert (states["gaps"], states["restarts"], states["foreign traffic"]) == ("unknown", "unknown", "unknown")
    assert states["answers"] == "fine"
    said = {one.name: one.sentence for one in checks(alone("sweep"))}
    assert said["cache-warm"] == said["unsteady"] == NO_SCRAPE  # not: does not count hits; too short


def test_it_has_figures_of_its_requests() -> None:
    drawn = {one.key for one in figures(alone("sweep"))[0]}
    assert {"three", "tail-itl", "distribution-ttft", "distribution-itl", "distribution-e2e"} == drawn


def test_efficiency_and_service_levels_need_no_scrape() -> None:
    assert "| c=64 | 5,595 | 27.3 | 87.4 | 42.6 % |" in markdown(document([alone("sweep")]))
    assert "| 24/s | 24.0 | 20.6 | 99.8 % | 99.8 % | 100.0 % | 450 of 451 | 20.5 | 0 | 0 | 0 | 0 | 0 |" in markdown(
        document([alone("open_loop")])
    )
    assert b"nan" not in json([alone("open_loop")]).lower()


def test_a_phase_shorter_than_a_scrape_has_its_requests() -> None:
    report = of_session(session((Loop(c=2, n=2, output=3, itl_s=0.01, ttft_s=0.05),)), "short")
    (phase,) = report.phases
    assert phase.whole is not None
    assert phase.whole.ttft is not None
    assert phase.whole.ttft.n == 2


def test_a_phase_of_which_no_request_ended_stands_in_the_table_of_service_levels() -> None:
    """As where a recording is torn off: nothing is known of its bounds, and the other phases' columns stay."""
    made = session((Loop(c=2, n=2, output=3, itl_s=0.01, ttft_s=0.05),))
    for phase in (1, 2):
        begun = Load(phase=phase, state="begin", spec="c=4", shape="closed", concurrency=4, slo={"ttft": 1.0})
        made.apply(msgspec.structs.replace(begun, t=made.end_s + 1.0))
        if phase == 1:
            stamps = {"sent_s": made.end_s, "due_s": made.end_s, "first_s": made.end_s + 0.1, "end_s": made.end_s + 0.2}
            made.apply(Request(t=made.end_s + 0.2, id=9, phase=1, output_tokens=3, status=200, **stamps))  # type: ignore[arg-type]
            made.apply(Load(t=made.end_s, phase=1, state="end", spec="c=4", shape="closed"))
    written = markdown(document([of_session(made, "torn")]))
    table = [line.split("|") for line in written.partition("Service levels")[2].splitlines() if line[:1] == "|"]
    assert ("1 of 1" in str(table), "0 of 0" in str(table)) == (True, True)
    assert len(table[0]) == len(table[2]) == len(table[3])


def test_the_hosts_that_sent_a_load_have_a_table_with_their_clocks() -> None:
    made = session((Loop(c=2, n=2, output=3, itl_s=0.01, ttft_s=0.05),))
    for host, name, offset_s in ((0, "gpu7", 0.0), (1, "gpu8", 5000.00003)):
        told = {"host": host, "name": name, "workers": (host,), "rtt_s": 0.0006}
        made.apply(LoadHost(t=made.end_s, at_s=0.0, offset_s=offset_s, phase=0, **told))  # type: ignore[arg-type]
    again = {"host": 1, "name": "gpu8", "workers": (1,), "rtt_s": 0.0004, "offset_s": 5000.00005, "after": True}
    made.apply(LoadHost(t=made.end_s, at_s=0.0, phase=0, **again))  # type: ignore[arg-type]
    written = markdown(document([of_session(made, "hosts")]))
    assert "| c=2 | gpu7 | 1 | 0 | – | – | 0.000000 s | ± 0.300 ms | – | 0 |" in written
    assert "| c=2 | gpu8 | 1 | 0 | – | – | 5000.000030 s | ± 0.300 ms | 20.0 µs ± 0.500 ms | 0 |" in written
    assert "Hosts of the load" not in markdown(document([alone("sweep")]))
