"""What vtop's own requests saw of TTFT, beside what the server saw of the same ones."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.session.made import Log, Server, recorded
from vtop.metrics.quantity import Quantity
from vtop.recording import Load, Request
from vtop.session.frame.frame import View
from vtop.session.frame.ttft import OwnTtft
from vtop.session.history.window import window
from vtop.session.load.client_ttft import own_ttft

SERVER_S = 0.31  # queue, prefill and frontend of a request
BEGIN = Load(phase=0, state="begin", spec="c=4", shape="closed", concurrency=4)


def ended(id: int, end_s: float, *, ttft_s: float = 0.35, phase: int = 0, **rest: object) -> Request:
    times = {"sent_s": end_s - 1.5, "first_s": end_s - 1.5 + ttft_s, "last_s": end_s, "end_s": end_s}
    return Request(id=id, phase=phase, **{**times, **rest})  # type: ignore[arg-type]


def ran(own: Iterable[Request], *, foreign: int = 0, counted: int | None = None, scrapes: int = 12) -> Log:
    """Scrapes from 0 s on; the server counts each own request at the scrape after its end, and so many others."""
    log, server, left = Log(), Server(), sorted(own, key=lambda one: one.end_s or 0.0)
    log.add(BEGIN, 0.001)
    for second in range(scrapes):
        for _ in range(foreign if second else 0):
            server.engine.finish(queue=9.0)
        while left and (left[0].end_s or 0.0) <= second:
            one = left.pop(0)
            if one.error is None and (counted is None or one.id < counted):
                server.engine.finish(queue=0.2, prefill=0.1, frontend=0.01)
            log.add(one, (one.end_s or 0.0) + 0.002)
        log.scrape(float(second), server)
    return log


def own(log: Log, window_s: float = 300.0) -> OwnTtft:
    found = log.frame(view=View(window_s=window_s)).own_ttft
    assert found is not None
    return found


def each(number: int, **rest: object) -> list[Request]:
    return [ended(k, 0.55 + 0.5 * k, **rest) for k in range(number)]  # type: ignore[arg-type]


def test_network_is_what_the_client_saw_more_than_the_server() -> None:
    found = own(ran(each(20)))
    assert (found.n, found.foreign) == (20, 0)
    assert found.client_s == pytest.approx(0.35)
    assert found.network_s == pytest.approx(0.35 - SERVER_S)


def test_without_a_load_of_its_own_there_is_no_such_part() -> None:
    log = Log()
    log.scrape(0.0, Server())
    assert log.frame().own_ttft is None


def test_other_traffic_makes_it_unknown_and_is_counted() -> None:
    found = own(ran(each(20), foreign=1))
    assert (found.n, found.foreign, found.network_s) == (20, 11, None)
    assert found.client_s == pytest.approx(0.35)


def test_requests_that_the_server_did_not_count_make_it_unknown() -> None:
    found = own(ran(each(20), counted=12))
    assert (found.foreign, found.network_s) == (0, None)


def test_failed_requests_are_in_neither_mean() -> None:
    found = own(ran([*each(20), ended(99, 5.2, error="timeout", ttft_s=1.4)]))
    assert found.n == 20
    assert found.network_s == pytest.approx(0.35 - SERVER_S)


def test_a_client_that_is_behind_the_server_is_not_believed() -> None:
    assert own(ran(each(20, ttft_s=0.2))).network_s is None


@pytest.mark.parametrize("late_s", [-0.002, 0.004, 0.3])
def test_an_end_near_a_scrape_belongs_where_the_server_counted_it(late_s: float) -> None:
    """A wave of eight slow ones ends around scrape 5: the server has counted them, the client may see it later."""
    log, server = Log(), Server()
    log.add(BEGIN, 0.001)
    waves = {k: [ended(10 * k + j, k + (late_s if k == 5 else -0.4), ttft_s=0.35 if k != 5 else 0.75) for j in range(8)]
             for k in range(1, 12)}  # fmt: skip
    for second in range(12):
        for wave in waves.get(second, ()):
            server.engine.finish(queue=0.2 if second != 5 else 0.6, prefill=0.1, frontend=0.01)
            if second != 5:
                log.add(wave, (wave.end_s or 0.0) + 0.001)
        log.scrape(float(second), server)
        if second == 5:
            for wave in waves[5]:
                log.add(wave, 5 + max(late_s, 0.011) + 0.001)
    for window_s in (6.0, 7.0, 300.0):  # begins with scrape 5, with scrape 4, before all
        found = own(log, window_s)
        assert found.n == 8 * {6.0: 6, 7.0: 7, 300.0: 11}[window_s]
        assert found.foreign == 0
        assert found.network_s == pytest.approx(0.04)


def test_the_trial_before_the_phases_is_one_of_vtop_s_own() -> None:
    log, server = Log(), Server()
    log.scrape(0.0, server)
    log.add(ended(0, 0.4, phase=-1), 0.41)
    log.add(BEGIN, 0.5)
    server.engine.finish(queue=0.2, prefill=0.1, frontend=0.01)
    log.scrape(1.0, server)
    found = own(log)
    assert (found.n, found.foreign) == (1, 0)


def test_the_server_s_own_timings_tell_request_by_request_whoever_else_is_served() -> None:
    timings = {"queue_time_ms": 200.0, "time_to_first_token_ms": 100.0, "generation_time_ms": 1000.0}
    found = own(ran([*each(10, timings=timings), *[ended(50 + k, 0.7 + k) for k in range(5)]], foreign=3))
    assert (found.n, found.timed, found.network_s) == (15, 10, None)
    assert found.timed_queue_s == pytest.approx(0.2)
    assert found.timed_prefill_s == pytest.approx(0.1)  # its "time to first token" leaves the queue out
    assert found.timed_rest_s == pytest.approx(0.05)


@pytest.mark.parametrize("timings", [{}, {"queue_time_ms": None, "time_to_first_token_ms": 3}, {"queue_time_ms": "1"}])
def test_timings_that_say_nothing_count_for_nothing(timings: dict[str, object]) -> None:
    found = own(ran(each(4, timings=timings)))
    assert (found.timed, found.timed_queue_s, found.timed_rest_s) == (0, None, None)


def test_a_load_on_one_of_two_servers_is_about_that_one() -> None:
    log = ran(each(20))
    both = Log(2)
    other = Server()
    both.events = log.events
    for second in range(12):
        other.engine.finish(queue=5.0)
        both.scrape(float(second), other, server=1)
    both.events.sort(key=lambda event: event.t)
    found = own(both)
    assert (found.n, found.foreign) == (20, 0)
    assert found.network_s == pytest.approx(0.35 - SERVER_S)


def test_a_restart_in_mid_window_sums_nothing_wrongly() -> None:
    log, server = Log(), Server()
    log.add(BEGIN, 0.001)
    for second in range(12):
        if second == 6:
            server.restart()
        if second:
            server.engine.finish(queue=0.2, prefill=0.1, frontend=0.01)
            log.add(ended(second, second - 0.4), second - 0.39)
        log.scrape(float(second), server)
    found = own(log)
    assert (found.n, found.foreign) == (11, 0)
    assert found.network_s == pytest.approx(0.35 - SERVER_S)


@pytest.mark.parametrize(("name", "n", "network_s"), [("overload_loaded", 129, 0.0364), ("sweep", 1088, 0.0110)])
def test_on_a_real_server_every_request_finds_its_match(name: str, n: int, network_s: float) -> None:
    session = recorded(name)
    found = session.frame(session.end_s, View(window_s=3600.0)).own_ttft
    assert found is not None
    assert (found.n, found.foreign) == (n, 0)
    assert found.network_s == pytest.approx(network_s, abs=5e-4)


@pytest.mark.parametrize("name", ["overload_loaded", "sweep"])
@pytest.mark.parametrize("window_s", [10.0, 60.0])
def test_in_no_window_of_a_real_session_is_a_request_foreign_or_missing(name: str, window_s: float) -> None:
    session = recorded(name)
    for t in session.servers[0].t[1:]:
        now_s = t + 0.02
        scrapes = window(session.servers, now_s, window_s)
        found = own_ttft(scrapes, session.servers, session.load.answered, now_s)
        assert found is None or found.n == scrapes.observed(Quantity.E2E), now_s
