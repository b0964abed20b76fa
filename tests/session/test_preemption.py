"""When each preemption happened, what triggered it, and whether it is a steady cycle."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.session.made import Log, Server, recorded
from tests.session.scheduler import Job, serve
from vtop.session.frame.frame import View
from vtop.session.frame.requests import Staircase

WHOLE = View(window_s=100_000.0)


class Overload:
    """Scrapes of a full server, one a second; each method is what the gauges show on the next scrape."""

    def __init__(self) -> None:
        self.log, self.server = Log(), Server()
        self.engine = self.server.engine
        self.server.pool_tokens = 1600
        self.engine.running, self.engine.waiting, self.engine.kv = 10.0, 5.0, 0.97
        self.second = -1
        self.scrape()

    def scrape(self) -> None:
        self.second += 1
        self.log.scrape(float(self.second), self.server)

    def thrown_out(self, *, many: int = 1, counted: int = 0, finished: int = 0, freed: float = 0.0625) -> None:
        self.engine.running -= many + finished
        self.engine.waiting += many
        self.engine.kv -= freed
        for _ in range(finished):
            self.engine.finish()
        self.engine.count(num_preemptions=counted)
        self.scrape()

    def refilled(self, *, many: int = 1, counted: int = 0, finished: int = 0) -> None:
        self.engine.running += many
        self.engine.waiting -= many
        self.engine.kv = 0.97
        for _ in range(finished):
            self.engine.finish()
        self.engine.count(num_preemptions=counted)
        self.scrape()

    def detector(self, at_s: float | None = None) -> Staircase:
        return self.log.frame(self.second + 0.5 if at_s is None else at_s, WHOLE).staircase


def test_overload_s_37_preemptions_each_have_their_instant() -> None:
    session = recorded("overload")
    detector = session.frame(session.end_s).staircase
    assert sum(event.count for event in detector.events) == 37
    assert detector.unconfirmed == 0
    assert [event.dated_by for event in detector.events].count("gauges") == 33
    first = detector.events[0]
    assert (first.running_before, first.running_after, first.waiting_before, first.waiting_after) == (14, 13, 50, 51)
    assert first.kv_before_ratio == pytest.approx(0.9923, abs=1e-4)
    assert first.kv_after_ratio == pytest.approx(0.9438, abs=1e-4)
    assert first.freed_ratio == pytest.approx(0.0484, abs=1e-4)


def test_overload_is_a_steady_cycle() -> None:
    session = recorded("overload")
    detector = session.frame(session.end_s).staircase
    assert detector.steady
    assert detector.cycle == (
        "admit, fill, preempt, refill: every 4.4 s ± 1.9, at KV 98.8 %, 7,013 tokens freed each time"
    )
    assert detector.cycle_s == pytest.approx((162.0 - 5.0) / 36, abs=0.01)
    assert detector.slope_per_s == pytest.approx(13.7 / 60, abs=0.001)
    assert detector.straightness is not None
    assert detector.straightness > 0.99
    assert detector.trigger_low_ratio is not None
    assert detector.trigger_mean_ratio is not None
    assert 0.92 < detector.trigger_low_ratio < detector.trigger_mean_ratio < 1


def test_overload_s_happenings_are_its_events() -> None:
    session = recorded("overload")
    frame = session.frame(session.end_s)
    told = [one for one in frame.event_log if one.kind == "preemption"]
    assert [one.at_s for one in told] == [event.at_s for event in frame.staircase.events]
    assert told[1].text == "preempted 1, KV 99.2 % → 93.7 %, running 13 → 12, 6,683 tokens freed"


def test_a_preemption_is_dated_by_the_gauges_though_the_counter_comes_late() -> None:
    overload = Overload()
    overload.thrown_out()
    assert overload.detector().events == ()
    assert overload.detector().unconfirmed == 1
    for _ in range(3):
        overload.scrape()
    overload.refilled(counted=1, finished=1)
    (event,) = overload.detector().events
    assert (event.at_s, event.dated_by, event.count) == (1.0, "gauges", 1)
    assert event.freed_tokens == pytest.approx(100)
    assert overload.detector().unconfirmed == 0
    told = [one for one in overload.log.frame().event_log if one.kind == "preemption"]
    assert [one.at_s for one in told] == [1.0]


def test_what_was_not_known_yet_is_not_shown_before_it_was() -> None:
    overload = Overload()
    overload.thrown_out()
    overload.scrape()
    overload.refilled(counted=1)
    assert overload.detector(at_s=2.5).events == ()
    assert overload.detector(at_s=2.5).unconfirmed == 1
    assert len(overload.detector(at_s=3.5).events) == 1


def test_the_counter_is_matched_to_the_oldest_sign_first() -> None:
    overload = Overload()
    overload.thrown_out()
    overload.refilled(many=0)
    overload.thrown_out()
    overload.refilled(counted=1)
    assert [event.at_s for event in overload.detector().events] == [1.0]
    overload.refilled(counted=1)
    assert [event.at_s for event in overload.detector().events] == [1.0, 3.0]


def test_several_between_two_scrapes_are_one_event() -> None:
    overload = Overload()
    overload.thrown_out(many=3, counted=3, freed=0.1875)
    (event,) = overload.detector().events
    assert event.count == 3
    assert event.freed_tokens == pytest.approx(300)
    assert overload.detector().freed_mean_tokens == pytest.approx(100)


def test_an_event_that_the_counter_tells_in_two_parts_stays_one_event() -> None:
    overload = Overload()
    overload.thrown_out(many=2, freed=0.125)
    overload.refilled(counted=1)
    assert [event.count for event in overload.detector().events] == [1]
    overload.refilled(counted=1)
    assert [event.count for event in overload.detector().events] == [2]
    assert [event.count for event in overload.detector(at_s=2.5).events] == [1]
    told = [one.text.partition(",")[0] for one in overload.log.frame().event_log if one.kind == "preemption"]
    assert told == ["preempted 1", "preempted 1"]


def test_a_rise_without_a_sign_is_dated_by_itself() -> None:
    overload = Overload()
    overload.scrape()
    overload.refilled(many=0, counted=2)
    (event,) = overload.detector().events
    assert (event.at_s, event.dated_by, event.count) == (2.0, "counter", 2)
    assert event.freed_tokens is None
    assert overload.detector().trigger_mean_ratio is None


def test_requests_that_finish_are_no_preemption() -> None:
    overload = Overload()
    overload.thrown_out(many=0, finished=2)
    overload.engine.waiting += 1  # and one arrived
    overload.scrape()
    assert overload.detector().unconfirmed == 0


def test_running_that_falls_with_room_in_the_pool_is_no_preemption() -> None:
    overload = Overload()
    overload.engine.kv = 0.5
    overload.scrape()
    overload.thrown_out()
    assert overload.detector().unconfirmed == 0


def test_a_sign_that_nothing_confirms_is_dropped_once_all_who_ran_then_have_finished() -> None:
    overload = Overload()
    overload.thrown_out()  # in truth a client hung up, and another request came
    for left in range(9, -1, -1):
        assert overload.detector().unconfirmed == 1, left
        overload.refilled(many=0, finished=1)
    assert overload.detector().unconfirmed == 0
    overload.refilled(many=0, counted=1)
    assert [event.at_s for event in overload.detector().events] == [overload.second]


def test_an_engine_without_requests_leaves_nothing_unconfirmed() -> None:
    overload = Overload()
    overload.thrown_out()
    overload.engine.running = overload.engine.waiting = overload.engine.kv = 0.0
    overload.scrape()
    assert overload.detector().unconfirmed == 0


def test_a_restart_leaves_nothing_unconfirmed_and_makes_no_event() -> None:
    overload = Overload()
    overload.thrown_out(counted=1)
    overload.refilled()
    overload.thrown_out()
    overload.server.restart()
    overload.scrape()
    assert overload.detector().unconfirmed == 0
    assert [event.at_s for event in overload.detector().events] == [1.0]


def test_engines_are_looked_at_one_by_one() -> None:
    log, server = Log(), Server(["0", "1"])
    server.pool_tokens = 1600
    one, other = server.engines["0"], server.engines["1"]
    for engine in (one, other):
        engine.running, engine.waiting, engine.kv = 10.0, 5.0, 0.98
    log.scrape(0, server)
    one.running, one.waiting, one.kv = 9.0, 6.0, 0.92
    one.count(num_preemptions=1)
    other.running, other.waiting = 11.0, 4.0  # the sums stand still
    log.scrape(1, server)
    (event,) = log.frame().staircase.events
    assert (event.dated_by, event.running_before, event.running_after) == ("gauges", 10, 9)
    assert event.freed_tokens == pytest.approx(0.06 * 1600)


def test_events_that_come_by_chance_are_no_cycle() -> None:
    overload, chance = Overload(), random.Random(1)
    for _ in range(20):
        overload.thrown_out(counted=1)
        for _ in range(int(chance.expovariate(1 / 8))):
            overload.scrape()
        overload.refilled()
    detector = overload.detector()
    assert len(detector.events) == 20
    assert not detector.steady
    assert detector.cycle is None


def test_one_on_every_scrape_is_how_often_vtop_looks_and_no_cycle() -> None:
    overload = Overload()
    for _ in range(10):
        overload.thrown_out(counted=1)
        overload.engine.running, overload.engine.waiting, overload.engine.kv = 10.0, 5.0, 0.97
    assert not overload.detector().steady


def test_a_regular_one_is_a_cycle() -> None:
    overload = Overload()
    for _ in range(8):
        overload.thrown_out(counted=1)
        for _ in range(4):
            overload.scrape()
        overload.refilled()
    assert overload.detector().cycle == (
        "admit, fill, preempt, refill: every 6.0 s ± 0.0, at KV 97.0 %, 100 tokens freed each time"
    )


def test_thrashing_and_preemptions_of_a_request_are_those_of_the_finished() -> None:
    log, server = Log(), Server()
    log.scrape(0, server)
    for preemptions in (0, 0, 1, 7, 12):
        server.engine.finish(preemptions=preemptions)
    log.scrape(1, server.exposition('vllm:num_preemptions_by_reason_total{engine="0",reason="kv_cache"} 20\n'))
    detector = log.frame().staircase
    assert (detector.per_request, detector.thrashing) == (4.0, 2)
    assert detector.by_reason == (("kv_cache", 20.0),)


def test_of_a_server_that_does_not_export_them_nothing_is_said() -> None:
    log, server = Log(), Server()
    server.without = {"vllm:request_num_preemptions", "vllm:num_preemptions_total"}
    log.scrape(0, server)
    log.scrape(1, server)
    detector = log.frame().staircase
    assert (detector.per_request, detector.thrashing, detector.by_reason, detector.events) == (None, None, (), ())


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.booleans(), st.integers(60, 140))
def test_events_add_up_to_the_counter_at_every_moment(seed: int, lag: bool, blocks: int) -> None:
    chosen = random.Random(seed)
    served = serve([Job(chosen.randint(50, 200), chosen.randint(80, 300)) for _ in range(20)], lag=lag, blocks=blocks)
    session = served.log.session()
    for scrape in range(len(served.truth)):
        frame = session.frame(scrape + 0.5, WHOLE)
        told = sum(event.count for event in frame.staircase.events)
        assert told == frame.preemption.count.since_start
    assert told == served.scheduler.preempted
    assert frame.staircase.unconfirmed == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attached_pool7168_c128", "overload", "open_loop", "killed", "pool7168"])
@pytest.mark.parametrize("window_s", [30.0, 100_000.0])
def test_there_is_one_time_between_preemptions_and_one_rate_and_they_agree(name: str, window_s: float) -> None:
    """Not over those scrapes alone that saw one: "every 1.36 s" beside "276 a minute"."""
    session = recorded(name)
    for part in (0.4, 0.7, 1.0):
        frame = session.frame(session.end_s * part, View(window_s=window_s))
        of, count = frame.staircase, frame.preemption.count
        if not count.in_window:
            assert (of.interval_mean_s, of.per_minute) == (None, None)
            continue
        assert of.interval_mean_s is not None
        assert of.per_minute == pytest.approx(60 / of.interval_mean_s)
        assert count.per_s == pytest.approx(1 / of.interval_mean_s)
        assert of.interval_mean_s * count.in_window <= frame.window_s + 1e-6


def test_recomputed_tokens_stand_beside_the_preemptions_of_the_same_window() -> None:
    session = recorded("overload")
    frame = session.frame(100.0, View(window_s=30.0))
    found, count = frame.recompute, frame.preemption.count.in_window
    assert count
    assert found.tokens is not None
    assert found.since_start is not None
    assert found.tokens < 0.5 * found.since_start
    assert found.per_preemption == pytest.approx(found.tokens / count)
    assert found.per_preemption == pytest.approx(6_981, rel=0.25)  # that of the whole run


def test_steps_that_were_given_up_change_nothing_of_what_comes_after() -> None:
    kept, trimmed = recorded("overload"), recorded("overload")
    for before_s in (40.0, 80.0):
        trimmed.forget(before_s)
    view = View(window_s=30.0)
    for at_s in (120.0, 160.0):
        one, other = (made.frame(at_s, view) for made in (kept, trimmed))
        assert msgspec.json.encode(one.staircase) == msgspec.json.encode(other.staircase)
        assert one.recompute.tokens == other.recompute.tokens
    (detector,) = trimmed._detectors.values()
    assert all(step.event is None for step in detector._steps if detector.at_s(step) < 79.0)
