"""Throughput while requests were in the engine, of loads that were only watched, against their clients' own."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.session.made import RECORDINGS, SMALL, Log, Server, read
from vtop.recording import Load, Request
from vtop.report.model import of_session
from vtop.session.frame.frame import Frame, View
from vtop.session.history.busy import BusyCost, fitted
from vtop.session.session import Session

HERE = Path(__file__).parents[1] / "recordings"
ATTACHED: dict[str, dict[str, Any]] = json.loads((HERE / "attached.json").read_text())
STAMPS: dict[str, Any] = json.loads(gzip.decompress((HERE / "requests.json.gz").read_bytes()))
WITHIN = 0.02
WHOLE = View(window_s=100_000.0, whole=True)


def watched(name: str) -> tuple[Session, list[Request]]:
    """A recording without its load: what somebody else would have seen of it; and the requests of its load."""
    (path,) = [path for path in (*RECORDINGS, *SMALL) if path.name.partition(".")[0] == name]
    start, events = read(path)
    session = Session(start)
    for event in events:
        if not isinstance(event, Request | Load):
            session.apply(event)
    return session, [event for event in events if isinstance(event, Request) and event.end_s is not None]


def union_s(spans: list[tuple[float, float]]) -> float:
    """Seconds that at least one of the spans covers."""
    total, until = 0.0, float("-inf")
    for begin_s, end_s in sorted(spans):
        total += max(0.0, end_s - max(begin_s, until))
        until = max(until, end_s)
    return total


@pytest.mark.parametrize("name", ATTACHED)
def test_a_watched_run_has_the_throughput_of_its_client(name: str) -> None:
    session, _ = watched(name)
    report = of_session(session, name)
    (phase,) = report.phases
    assert phase.whole is not None
    assert phase.whole.output_per_s == pytest.approx(ATTACHED[name]["output_per_s"], rel=WITHIN)
    assert phase.whole.output_per_s == phase.whole.while_busy.output_per_s
    assert phase.whole.output_from == "the server's counter, while requests were in the engine"


@pytest.mark.parametrize("name", STAMPS)
def test_also_a_short_one(name: str) -> None:
    """4 to 165 s; the client waits a few ms between requests, and at 1 in flight the server then idles."""
    session, _ = watched(name)
    requests = STAMPS[name]["requests"]
    busy_s = union_s([(sent_s, last_s) for sent_s, _, last_s, _ in requests])
    frame = session.frame(session.end_s, WHOLE)
    assert frame.throughput.busy_s == pytest.approx(busy_s, rel=WITHIN)


@pytest.mark.parametrize(
    "name", ["killed", "open_loop", "open_loop_again", "overload_loaded", "pool7168", "repeat_first", "sweep_again"]
)
def test_a_run_of_several_loads_with_gaps_between_them_is_busy_as_long_as_requests_were_out(name: str) -> None:
    session, requests = watched(name)
    lives = [(one.sent_s, one.last_s or one.end_s) for one in requests if one.sent_s is not None]
    frame = session.frame(session.end_s, WHOLE)
    busy_s = union_s([(begin_s, end_s) for begin_s, end_s in lives if end_s is not None])
    assert frame.throughput.busy_s == pytest.approx(busy_s, rel=WITHIN)
    assert frame.generation_tokens.in_window is not None
    assert frame.throughput.output_per_s == pytest.approx(frame.generation_tokens.in_window / busy_s, rel=WITHIN)


def loaded(*, idle_before: int, idle_after: int, begin: float, end: float) -> Frame:
    """20 steps of 50 ms a second, 4 tokens each, over 10 s; busy for a part of the first and of the last second."""
    log, server = Log(), Server()
    at_s = 0
    for _ in range(idle_before + 1):
        log.scrape(at_s, server)
        at_s += 1
    for part, running in [(begin, 4.0), *[(1.0, 4.0)] * 8, (end, 0.0)]:
        server.engine.running = running
        for _ in range(round(20 * part)):
            server.engine.observe(iteration=4.0)
            server.engine.count(generation_tokens=4)
        log.scrape(at_s, server)
        at_s += 1
    for _ in range(idle_after):
        log.scrape(at_s, server)
        at_s += 1
    return log.frame(view=WHOLE)


@pytest.mark.parametrize(("begin", "end"), [(0.5, 0.25), (1.0, 1.0), (0.1, 0.9)])
@pytest.mark.parametrize("idle", [0, 1, 30])
def test_idle_edges_are_no_part_of_it(begin: float, end: float, idle: int) -> None:
    frame = loaded(idle_before=idle, idle_after=idle, begin=begin, end=end)
    assert frame.throughput.output_per_s == pytest.approx(80.0)
    assert frame.throughput.busy_s == pytest.approx(8 + begin + end)
    assert frame.generation_tokens.per_s == pytest.approx(80.0 * (8 + begin + end) / frame.window_s)


def test_a_server_that_did_nothing_has_no_throughput() -> None:
    log, server = Log(), Server()
    for second in range(5):
        log.scrape(second, server)
    frame = log.frame(view=WHOLE)
    assert (frame.throughput.busy_s, frame.throughput.output_per_s) == (None, None)


def test_without_step_counts_an_edge_takes_its_share_of_the_tokens() -> None:
    log, server = Log(), Server()
    server.without.add("vllm:iteration_tokens_total")
    log.scrape(0, server)
    for second in range(1, 7):
        server.engine.running = 2.0 if second < 6 else 0.0
        server.engine.count(generation_tokens=50 if second in (1, 6) else 100)
        log.scrape(second, server)
    frame = log.frame(view=WHOLE)
    assert frame.throughput.busy_s == pytest.approx(5.0)
    assert frame.throughput.output_per_s == pytest.approx(100.0)


def test_neither_a_step_nor_a_prompt_token_costs_less_than_nothing() -> None:
    assert fitted([(10, 0, 1.0), (10, 100, 2.0), (5, 100, 1.5)]) == BusyCost(0.1, 0.01)
    for rows in ([(10.0, 100.0, 1.0), (10.0, 0.0, 2.0)], [(0.0, 10.0, 1.0), (10.0, 100.0, 1.0)], [(4.0, 0.0, 1.0)]):
        cost = fitted(rows)
        assert cost.step_s >= 0
        assert cost.prompt_token_s >= 0


def test_intervals_that_do_not_tell_a_prompt_token_from_a_step_say_nothing() -> None:
    """Each with as many of both, and times that scatter: "prefill 0.7 s, stolen 0 %" had been made of such, for 2 s."""
    rows = [(100, 8000 + 100 * (k % 3), 1.0 + 0.1 * (k % 2)) for k in range(12)]
    assert not fitted(rows).told
    assert fitted([(10, 0, 1.0), (10, 100, 2.0), (5, 100, 1.5)]).told


def test_servers_that_worked_one_after_the_other_are_no_faster_than_one() -> None:
    """The sum of what each gave while it was busy had been twice what the two ever gave together."""
    log, servers = Log(servers=2), (Server(), Server())
    for second in range(41):
        for number, server in enumerate(servers):
            here = 20 * number < second <= 20 * (number + 1)
            server.engine.running = float(here and second != 20 * (number + 1))
            server.engine.count(generation_tokens=100.0 * here)
            log.scrape(second + 0.1 * number, server, server=number)
    found = log.frame(41.0, View(window_s=100.0)).throughput
    assert found.output_per_s == pytest.approx(100, rel=0.01)
    assert found.busy_s == pytest.approx(40, abs=0.2)
