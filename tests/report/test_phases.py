"""Which stretches a report speaks of, and at which page it asks about them."""

from __future__ import annotations

import pytest

from tests.report.loops import Loop, session
from tests.report.reports import path_of
from tests.session.made import Log, Server, read
from vtop import units
from vtop.errors import VtopError
from vtop.recording import Load, Mark, Request
from vtop.report.model import of_session
from vtop.report.phases import STEADY, Pages, TimeRange, asked_phases, ranges
from vtop.session.session import Session


def busy(begin: int, end: int, pages: int, marks: dict[float, str] | None = None) -> Session:
    """A page a second, requests running on the pages begin to end, both included."""
    log, server = Log(), Server()
    waiting = dict(marks or {})
    for at in range(pages):
        for mark in [mark for mark in waiting if mark <= at]:
            log.add(Mark(text=waiting.pop(mark)), mark)
        server.engine.running = float(begin <= at <= end)
        log.scrape(float(at), server)
    return log.session()


def spans(found: tuple[TimeRange, ...]) -> list[tuple[str, float, float]]:
    return [(one.name, one.begin_s, one.end_s) for one in found]


def test_without_anything_else_it_is_the_stretch_in_which_requests_ran() -> None:
    assert spans(ranges(busy(3, 7, 12))) == [("all requests", 2.0, 8.0)]


def test_no_request_no_phase() -> None:
    assert ranges(busy(99, 99, 5)) == ()


def test_marks_cut_it() -> None:
    found = ranges(busy(3, 12, 20, {5.0: "small", 9.0: "large", 18.0: "over"}))
    assert spans(found) == [("before the first mark", 2.0, 5.0), ("small", 5.0, 9.0), ("large", 9.0, 13.0)]


def test_what_is_asked_for_comes_before_everything_else() -> None:
    asked = asked_phases("0:04-0:06,late=7-8s")
    assert spans(ranges(busy(3, 7, 12, {5.0: "mark"}), asked)) == [("0:04–0:06", 4.0, 6.0), ("late", 7.0, 8.0)]


@pytest.mark.parametrize("text", ["", "0:30", "0:30-", "x-y", "=1-2", "2:00-1:00", "1-1", "0:30-1:00,"])
def test_a_phase_that_is_none_is_said(text: str) -> None:
    with pytest.raises(VtopError, match="--phase"):
        asked_phases(text)


def test_a_phase_beyond_the_end_is_said() -> None:
    with pytest.raises(VtopError, match="the recording ends at 0:11"):
        ranges(busy(3, 7, 12), asked_phases("0:05-1:00"))


def test_a_load_is_a_phase_from_the_end_of_its_warm_up_to_its_end() -> None:
    log, server = Log(), Server()
    begin = Load(phase=0, state="begin", spec="c=2 warmup=2", shape="closed", concurrency=2, warmup=2)
    for at in range(12):
        for state, instant in (("begin", 1), ("steady", 4), ("end", 9)):
            if at == instant:
                log.add(Load(**{**{n: getattr(begin, n) for n in begin.__struct_fields__}, "state": state}), at - 0.5)
        log.scrape(float(at), server)
    (found,) = ranges(log.session())
    assert (found.name, found.begin_s, found.end_s, found.load) == ("c=2 warmup=2", 3.5, 8.5, 0)


def test_the_page_after_a_phase_is_not_asked_about_when_the_next_load_has_begun() -> None:
    pages = Pages(busy(0, 9, 12).servers)
    whole = pages.covering(2.5, 6.5)
    cut = pages.covering(2.5, 6.5, until_s=6.8)
    assert whole is not None
    assert cut is not None
    assert (whole.begin_s, whole.end_s) == (3.0, 7.0)
    assert (cut.begin_s, cut.end_s) == (3.0, 6.0)


def test_a_stretch_without_two_pages_has_no_numbers() -> None:
    report = of_session(busy(3, 7, 12), "x", asked_phases("3.2-3.8"))
    assert report.phases[0].whole is None
    assert report.run is None


def test_the_steady_part_is_the_middle_of_a_phase() -> None:
    begin_s, end_s = TimeRange("x", "asked", 10.0, 20.0).steady
    assert begin_s == pytest.approx(12.0)
    assert end_s - begin_s == pytest.approx(STEADY * 10.0)


def test_phases_with_the_same_target_have_labels_of_their_own() -> None:
    report = of_session(session((Loop(c=2, n=8), Loop(c=4, n=8), Loop(c=2, n=8))), "x")
    assert [phase.label for phase in report.phases] == ["c=2 #1", "c=4", "c=2 #2"]


def watched(name: str) -> Session:
    """A recording without its load."""
    start, events = read(path_of(name))
    session = Session(start)
    for event in events:
        if not isinstance(event, Request | Load):
            session.apply(event)
    return session


def test_loads_that_were_only_watched_are_told_apart_by_the_pauses_between_them() -> None:
    """A sweep of 4 to 64 in flight had been one stretch with means over all of it."""
    found = ranges(watched("sweep_batch512_again"))
    assert [one.source for one in found] == ["pause"] * 4
    assert [one.name for one in found] == ["0:00–0:47", "0:48–1:05", "1:07–1:21", "1:23–1:42"]


def test_a_trial_before_a_load_and_waves_of_one_load_are_no_loads_of_their_own() -> None:
    assert [one.name for one in ranges(watched("sweep_c64"))] == ["all requests"]
    log, server = Log(), Server()
    for at in range(40):
        server.engine.running = 16.0 * (at % 10 != 5)
        log.scrape(float(at), server)
    assert [one.name for one in ranges(log.session())] == ["all requests"]


@pytest.mark.parametrize(
    ("loads", "found"),
    [
        ([(2, 12), (15, 16)], ["all requests"]),
        ([(2, 12), (15, 26), (29, 30)], ["0:01–0:13", "0:14–0:31"]),
    ],
)
def test_a_short_rest_of_a_load_belongs_to_the_one_before_it(loads: list[tuple[int, int]], found: list[str]) -> None:
    log, server = Log(), Server()
    for at in range(40):
        server.engine.running = float(any(begin <= at <= end for begin, end in loads))
        log.scrape(float(at), server)
    assert [one.name for one in ranges(log.session())] == found


def test_requests_now_and_then_are_one_stretch() -> None:
    log, server = Log(), Server()
    for at in range(280):
        server.engine.running = float(at % 20 < 10)
        log.scrape(float(at), server)
    assert [one.name for one in ranges(log.session())] == ["all requests"]


@pytest.mark.parametrize("apart_s", [3, 40])
def test_a_trial_is_no_part_of_the_load_that_follows_it(apart_s: int) -> None:
    """Of a run with 38 idle seconds after a trial request the median of running had been 0, and its KV use 0 %."""
    log, server = Log(), Server()
    for at in range(apart_s + 30):
        if at == 2:  # came and went between two scrapes
            server.engine.count(generation_tokens=16)
            server.engine.finish()
        server.engine.running = 32.0 * (apart_s < at < apart_s + 20)
        server.engine.count(generation_tokens=1000 * (apart_s < at <= apart_s + 20))
        for _ in range(15 * (apart_s < at <= apart_s + 20)):
            server.engine.finish()
        log.scrape(float(at), server)
    (phase,) = of_session(log.session(), "x").phases
    assert phase.whole is not None
    assert phase.steady is not None
    assert phase.label == f"{units.clock(apart_s)}–{units.clock(apart_s + 21)}"
    assert phase.steady.running.median == 32
    assert phase.whole.finished == 300


def in_flight(counts: list[float]) -> list[str]:
    log, server = Log(), Server()
    for at, many in enumerate((0.0, *counts, 0.0, 0.0, 0.0)):
        server.engine.running = min(many, 68.0)
        server.engine.waiting = max(0.0, many - 68.0)
        log.scrape(float(at), server)
    return [one.name for one in ranges(log.session())]


def test_a_closed_loop_that_follows_a_smaller_one_without_a_pause_is_a_load_of_its_own() -> None:
    """Throughput had been the mean of both, and 6 had waited where 90 were in flight."""
    waves = [98.0, 98, 90, 74, 90, 90, 74, 74, 90, 90, 74, 90]
    assert in_flight([8.0] * 20 + waves) == ["0:00–0:20", "0:20–0:33"]


@pytest.mark.parametrize(
    "counts",
    [
        [16.0 + 3.5 * at for at in range(40)],  # the queue of an open loop
        [64.0] * 20 + [28.0] * 10 + [18.0] * 10,  # a load that runs out
        [11.0, 30, 45, 56, 55, 48, 57, 51, 51, 64, 81, 88, 86, 82, 91, 92, 89, 92, 104, 97],  # chance
    ],
)
def test_what_grows_little_by_little_or_runs_out_is_one_load(counts: list[float]) -> None:
    assert in_flight(counts) == ["all requests"]


def test_two_stretches_beside_a_gap_share_no_second_of_it() -> None:
    """The one had ended with the first scrape after the gap, the other begun with the last one before it."""
    log, server = Log(), Server()
    for at in range(60):
        server.engine.running = 32.0 * (2 < at < 55)
        if not 20 <= at < 41:
            log.scrape(float(at), server)
    assert [(one.begin_s, one.end_s) for one in ranges(log.session())] == [(2.0, 19.0), (41.0, 55.0)]
