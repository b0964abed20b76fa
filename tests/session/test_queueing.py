"""Little's law and the trend of a queue: on real recordings, on made ones, and against noise."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import pytest

from tests.session.made import Log, Server, recorded
from vtop.session.bottleneck.queueing import ALPHA, BATCHES, batches, sen, trend
from vtop.session.frame.frame import View
from vtop.session.frame.requests import Queueing
from vtop.session.session import Session

Step = Callable[[int, Server], None]


def ran(step: Step, *, scrapes: int = 60, servers: int = 1, skip: Sequence[int] = ()) -> Log:
    log = Log(servers)
    made = [Server() for _ in range(servers)]
    for second in range(scrapes):
        for number, server in enumerate(made):
            step(second, server)
            if second not in skip:
                log.scrape(float(second), server, server=number)
    return log


def queueing(step: Step, **how: int) -> Queueing:
    return ran(step, **how).frame().queueing  # type: ignore[arg-type]


def whole(session: Session) -> Queueing:
    return session.frame(session.end_s, View(window_s=3600.0)).queueing


# --- Little -----------------------------------------------------------------------------------------------------------


def steady(second: int, server: Server) -> None:
    """Two a second, each 3 s in the queue and 5 s in the engine."""
    server.engine.running, server.engine.waiting = 10.0, 6.0
    for _ in range(2 if second else 0):
        server.engine.observe(time_to_first=3.0)
        server.engine.finish(queue=3.0, prefill=1.0, decode=4.0)


def test_in_a_steady_state_present_is_arrivals_times_stay() -> None:
    found = queueing(steady)
    for place, present, stay_s in ((found.running, 10, 5), (found.waiting, 6, 3)):
        assert place is not None
        assert place.present == present
        assert place.per_s == pytest.approx(2.0)
        assert place.stay_s == pytest.approx(stay_s)
        assert place.residual_ratio == pytest.approx(0)
    assert found.waiting_share == pytest.approx(3 / 8.01)


def test_of_two_servers_present_and_arrivals_add_up_and_stays_do_not() -> None:
    found = queueing(steady, servers=2).running
    assert found is not None
    assert found.present == 20
    assert found.per_s == pytest.approx(4.0)
    assert found.stay_s == pytest.approx(5.0)
    assert found.residual_ratio == pytest.approx(0)


def test_the_overload_obeys_the_law_and_spends_three_quarters_of_a_life_waiting() -> None:
    found = whole(recorded("overload"))
    assert found.running is not None
    assert found.waiting is not None
    assert found.running.residual_ratio == pytest.approx(-0.08, abs=0.01)  # preempted requests wait in inference time
    assert found.waiting.residual_ratio == pytest.approx(0.01, abs=0.01)
    assert found.waiting_share == pytest.approx(0.756, abs=1e-3)


def test_a_sweep_of_six_minutes_obeys_the_law_to_half_a_percent() -> None:
    found = whole(recorded("sweep")).running
    assert found is not None
    assert found.residual_ratio == pytest.approx(0, abs=0.005)


def test_nothing_that_finished_is_no_law() -> None:
    def stuck(_: int, server: Server) -> None:
        server.engine.running, server.engine.waiting = 10.0, 6.0

    found = queueing(stuck)
    assert (found.running, found.waiting, found.waiting_share) == (None, None, None)


def test_gauges_that_stand_still_show_in_the_residual() -> None:
    def aborted(second: int, server: Server) -> None:
        if second < 30:
            steady(second, server)

    found = queueing(aborted).running
    assert found is not None
    assert found.present == 10
    assert found.residual_ratio == pytest.approx(59 / 29 - 1)


def test_gaps_and_restarts_are_left_out_on_both_sides() -> None:
    def dies(second: int, server: Server) -> None:
        if second == 40:
            server.restart()
        steady(second, server)

    log = ran(dies, skip=range(20, 30))
    for place in (log.frame().queueing.running, log.frame().queueing.waiting):
        assert place is not None
        assert place.residual_ratio == pytest.approx(0)
        assert place.per_s == pytest.approx(2.0)


def test_a_server_that_fell_silent_is_not_in_the_law() -> None:
    log = Log(2)
    alive, dead = Server(), Server()
    for second in range(60):
        steady(second, alive)
        log.scrape(float(second), alive)
        if second < 30:
            steady(second, dead)
            log.scrape(float(second), dead, server=1)
    found = log.frame().queueing.running
    assert found is not None
    assert found.present == 10
    assert found.per_s == pytest.approx(2.0)


# --- trend ------------------------------------------------------------------------------------------------------------


def waits(of: Callable[[int], float]) -> Step:
    def step(second: int, server: Server) -> None:
        server.engine.running, server.engine.waiting = 1.0, of(second)
        server.engine.count(generation_tokens=10)

    return step


def test_a_queue_that_grows_is_growing_and_says_how_fast() -> None:
    found = queueing(waits(lambda second: 3.0 * second + 5 * (second % 3)))
    assert found.trend == "growing"
    assert found.slope_per_s == pytest.approx(3.0, rel=0.05)
    assert found.p_value is not None
    assert found.p_value < ALPHA


@pytest.mark.parametrize("of", [lambda s: s * s / 10, lambda s: 200 * math.log1p(s), lambda s: 1.1**s])
def test_bent_growth_is_growth(of: Callable[[int], float]) -> None:
    assert queueing(waits(of)).trend == "growing"
    assert queueing(waits(lambda second: 500 - of(second))).trend == "draining"


def test_a_queue_that_stands_or_swings_is_steady() -> None:
    assert queueing(waits(lambda _: 53.0)).trend == "steady"
    assert queueing(waits(lambda _: 0.0)).trend == "steady"
    assert queueing(waits(lambda second: 50 + 20 * math.sin(second / 3))).trend == "steady"
    assert queueing(waits(lambda second: 30.0 * (second % 20 == 0))).trend == "steady"


def test_a_growth_of_nothing_to_speak_of_is_steady() -> None:
    found = queueing(waits(lambda second: 1000 + second))
    assert found.trend == "steady"
    assert found.slope_per_s == pytest.approx(1.0)


def test_a_step_that_is_over_is_no_growth() -> None:
    assert queueing(waits(lambda second: 50.0 * (second > 20) + second % 2)).trend == "steady"


def test_where_nothing_runs_or_waits_any_more_no_trend_is_said() -> None:
    """The overload at the end of its recording: all 128 are done, the queue of an hour's window fell to 0."""
    session = recorded("overload_seqs12")
    found = session.frame(session.end_s, View(window_s=3600.0))
    assert (found.requests.running.now, found.requests.waiting.now) == (0, 0)
    assert (found.queueing.trend, found.queueing.slope_per_s) == (None, None)
    assert session.frame(190.0, View(window_s=3600.0)).queueing.trend == "draining"


def test_in_a_server_that_answers_no_more_no_trend_is_said() -> None:
    session = recorded("killed")
    assert session.frame(90.0).queueing.trend == "steady"
    found = session.frame(106.0)
    assert (found.status.kind, found.requests.waiting.now) == ("down", 33)
    assert found.queueing.trend is None


def test_a_window_that_is_over_keeps_the_trend_it_had() -> None:
    session = recorded("overload_seqs12")
    assert session.frame(session.end_s, View(window_s=3600.0, whole=True)).queueing.trend == "draining"


def test_a_few_scrapes_tell_no_trend() -> None:
    found = queueing(waits(float), scrapes=8)
    assert (found.trend, found.slope_per_s, found.p_value) == (None, None, None)


def test_the_trend_begins_after_the_latest_gap() -> None:
    log = ran(waits(lambda second: 5.0 * second if second < 30 else 40.0), skip=range(30, 40), scrapes=70)
    assert log.frame().queueing.trend == "steady"


def test_the_overload_drains_at_its_end_and_not_before() -> None:
    session = recorded("overload")
    words = [session.frame(at_s).queueing.trend for at_s in (40.0, 80.0, 160.0)]
    assert words == ["steady", "steady", "draining"]


def autoregressive(phi: float, many: int, noise: random.Random) -> list[float]:
    """A stationary series of mean 50 and deviation 10 that forgets by phi a step."""
    now, series = noise.gauss(0, 10), []
    for _ in range(many):
        now = phi * now + math.sqrt(1 - phi * phi) * noise.gauss(0, 10)
        series.append(50 + now)
    return series


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8, 0.9, 0.95])
def test_noise_that_remembers_is_hardly_ever_taken_for_growth(phi: float) -> None:
    noise = random.Random(7)
    alarms = sum(trend(batches(autoregressive(phi, 300, noise), BATCHES)).p_value < ALPHA for _ in range(300))
    assert alarms <= 12  # of 300, at p < 0.01


@pytest.mark.parametrize(("phi", "detected"), [(0.0, 300), (0.5, 298), (0.8, 270)])
def test_growth_by_four_deviations_is_seen_through_noise(phi: float, detected: int) -> None:
    noise = random.Random(7)
    found = 0
    for _ in range(300):
        series = [value + 40 * k / 300 for k, value in enumerate(autoregressive(phi, 300, noise))]
        one = trend(batches(series, BATCHES))
        found += one.p_value < ALPHA and one.slope > 0
    assert found >= detected


def test_ties_are_counted_as_ties() -> None:
    """Of 12 values in four steps of three, S = 54 of 66; its variance without ties would be 212.7, with them 198."""
    detectors = [float(k // 3) for k in range(12)]
    assert sen(detectors) == pytest.approx(1 / 3, abs=0.04)
    assert trend(detectors).p_value <= math.erfc(53 / math.sqrt(2 * 198))
    assert trend([1.0] * 12).p_value == 1.0


def test_batches_are_as_equal_as_can_be_and_lose_nothing() -> None:
    assert batches([1.0, 2.0, 3.0], 30) == [1.0, 2.0, 3.0]
    assert batches([float(k) for k in range(60)], 30) == [2 * k + 0.5 for k in range(30)]
    assert len(batches([0.0] * 101, 30)) == 30
