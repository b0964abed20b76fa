"""Where the window's seconds went."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.session.made import RECORDINGS, SMALL, Log, Server, fold, read, recorded
from tests.session.scheduler import Job, serve
from vtop.session.frame.frame import Frame, View
from vtop.session.frame.tokens import WallClock

WHOLE = View(window_s=100_000.0)


def parts(clock: WallClock) -> float:
    found = (clock.decode_s, clock.prefill_s, clock.recompute_s, clock.idle_s)
    assert all(part is not None and part >= 0 for part in found)
    return sum(part for part in found if part is not None)


def test_overload_spent_its_time_decoding() -> None:
    session = recorded("overload")
    frame = session.frame(session.end_s, View(window_s=300.0))
    clock = frame.wallclock
    assert parts(clock) == pytest.approx(frame.window_s)
    assert clock.step_from == "steps that only decode"
    assert clock.step_s == pytest.approx(0.0062, abs=1e-4)
    assert clock.idle_s == pytest.approx(167.0 - 164.10, abs=0.3)  # less the time in which its client had requests out
    assert clock.recompute_s is not None
    assert clock.prefill_s is not None
    assert clock.recompute_s / clock.prefill_s == pytest.approx(258_301 / (129 * 6144))
    assert clock.stolen_ratio == pytest.approx(0.1745, abs=1e-3)


def test_scrapes_that_only_decode_give_the_step_and_own_load_s_median_gap_is_near_it() -> None:
    session = recorded("overload_loaded")
    frame = session.frame(session.end_s)
    clock = frame.wallclock
    assert clock.step_from == "steps that only decode"
    assert frame.load is not None
    assert clock.step_s == pytest.approx(frame.load.itl.p50_s, rel=0.03)
    assert parts(clock) == pytest.approx(frame.window_s)
    later = (128 * 2048 + 1) / 129 - 1  # the warm-up request gave one token
    assert clock.undisturbed_decode_s == pytest.approx(later * (clock.step_s or 0.0), rel=0.03)  # mean and median


def test_where_prompts_never_pause_own_load_s_median_gap_is_the_step() -> None:
    session = recorded("sweep_batch512")
    end_s = session.load.phases[4].changes[-1].t
    frame = session.frame(end_s, View(window_s=6.0))
    assert frame.load is not None
    assert frame.wallclock.step_from == "own load"
    assert frame.wallclock.step_s == frame.load.itl.p50_s


@pytest.mark.parametrize("blocks", [90, 400])
def test_parts_add_up_to_every_window(blocks: int) -> None:
    served = serve([Job(100, 200)], [Job(120, 150) for _ in range(16)], blocks=blocks)
    session = served.log.session()
    for scrape in range(len(served.truth)):
        for window_s in (3.0, 20.0, 1000.0):
            frame = session.frame(scrape + 0.5, View(window_s=window_s))
            if frame.wallclock.decode_s is not None:
                assert parts(frame.wallclock) == pytest.approx(frame.window_s)


def test_a_server_that_does_nothing_is_idle() -> None:
    log, server = Log(), Server()
    for second in range(5):
        log.scrape(second, server)
    assert log.frame().wallclock.idle_s == 4.0


def decoding(seconds: int = 10, *, steps: int = 50, running: int = 4, engines: int = 1) -> Frame:
    log, server = Log(), Server([str(number) for number in range(engines)])
    for engine in server.engines.values():
        engine.running = running
    log.scrape(0, server)
    for second in range(1, seconds + 1):
        for engine in server.engines.values():
            engine.count(generation_tokens=steps * running)
            for _ in range(steps):
                engine.observe(iteration=running)
        log.scrape(second, server)
    return log.frame()


def test_the_time_in_which_a_server_was_down_is_nobody_s_work() -> None:
    """A real one was killed and came back anew 91 s later: half of the window had been called prefill."""
    log, server = Log(), Server()
    server.engine.running = 4
    for at_s in range(1, 11):
        server.engine.count(generation_tokens=400, prompt_tokens=40)
        log.scrape(float(at_s), server)
    before = log.frame(view=WHOLE)
    for at_s in range(11, 101):
        log.outage(float(at_s))
    server.restart()
    server.engine.running = 0
    log.scrape(101.0, server)
    after = log.frame(view=WHOLE)
    assert after.window_s == pytest.approx(100.0)
    assert after.generation_tokens.per_s == before.generation_tokens.per_s == pytest.approx(400)
    assert (after.wallclock.idle_s, before.wallclock.idle_s) == (0.0, 0.0)
    log.scrape(102.0, server)
    log.scrape(103.0, server)
    assert log.frame(view=WHOLE).wallclock.idle_s == pytest.approx(2.0)
    assert log.frame(view=WHOLE).generation_tokens.per_s == pytest.approx(400 * 9 / 11)


def test_an_outage_after_which_the_counters_went_on_is_time_in_which_they_grew() -> None:
    log, server = Log(), Server()
    log.scrape(1.0, server)
    for at_s in range(2, 11):
        log.outage(float(at_s))
    server.engine.count(generation_tokens=1000)
    log.scrape(11.0, server)
    assert log.frame(view=WHOLE).generation_tokens.per_s == pytest.approx(100)


def test_a_server_that_only_decodes_spends_all_its_time_so() -> None:
    clock = decoding().wallclock
    assert (clock.decode_s, clock.prefill_s, clock.recompute_s, clock.idle_s) == (10.0, 0.0, 0.0, 0.0)
    assert clock.step_s == pytest.approx(0.02)


def test_engines_step_side_by_side() -> None:
    clock = decoding(engines=2).wallclock
    assert clock.decode_s == pytest.approx(10.0)
    assert clock.step_s == pytest.approx(0.02)


def test_requests_that_came_and_went_between_two_scrapes_were_no_idle_time() -> None:
    log, server = Log(), Server()
    log.scrape(0, server)
    server.engine.count(prompt_tokens=100, generation_tokens=1)
    server.engine.observe(time_to_first=0.1, iteration=101)
    log.scrape(1, server)
    log.scrape(2, server)
    assert log.frame(view=WHOLE).wallclock.idle_s is None  # how long it took is not told yet
    server.engine.finish(prefill=0.1, decode=0.3, frontend=0.0)
    server.engine.count(generation_tokens=1)
    log.scrape(3, server)
    log.scrape(4, server)
    frame = log.frame(view=View(window_s=2.0))
    assert frame.wallclock.idle_s == pytest.approx(1.6)
    assert frame.throughput.output_per_s == pytest.approx(1 / 0.4)


def test_nothing_is_stolen_from_requests_that_decode_undisturbed() -> None:
    frame = decoding()
    assert frame.wallclock.stolen_ratio is None  # none finished
    session = recorded("sweep_c1")
    assert session.frame(session.end_s).wallclock.stolen_ratio == pytest.approx(0.0, abs=0.01)


def test_a_host_that_drifts_leaves_each_stretch_its_own_step() -> None:
    """A step went from 6.7 to 10.4 ms within the run: by the latest ones prefill took none of the time."""
    session = recorded("attached_seqs10")
    clock = session.frame(session.end_s, View(window_s=1000.0, whole=True)).wallclock
    assert clock.step_from == "steps that only decode"
    assert clock.step_s == pytest.approx(0.0073, rel=0.05)  # the median of all its steps
    assert clock.prefill_s == pytest.approx(17.3 - 0.0073 * 128, rel=0.1)  # less what those steps decoded
    assert clock.stolen_ratio == pytest.approx((17.3 - 0.93) / 232.4, abs=0.02)
    assert parts(clock) == pytest.approx(session.frame(session.end_s, View(window_s=1000.0)).window_s)


@pytest.mark.slow
@pytest.mark.parametrize("path", [*RECORDINGS, *SMALL], ids=lambda path: path.name.partition(".")[0])
def test_prompts_that_were_computed_took_time(path: Path) -> None:
    session = recorded(path.name.partition(".")[0])
    for part in (0.3, 0.6, 1.0):
        for window_s in (15.0, 1000.0):
            frame = session.frame(session.end_s * part, View(window_s=window_s))
            clock = frame.wallclock
            if clock.prefill_s is None or not (frame.prompt_tokens.in_window or 0.0) > 2048:
                continue
            assert clock.prefill_s > 0
            assert parts(clock) == pytest.approx(frame.window_s, rel=0.5 if frame.servers[0].restarts else 1e-6)


def test_scrapes_far_apart_do_not_tell_what_happens_within_seconds() -> None:
    (path,) = [path for path in RECORDINGS if path.name == "overload.jsonl.gz"]
    start, events = read(path)
    frames = []
    for interval_s in (1.0, 15.0):
        session = fold(msgspec.structs.replace(start, interval_s=interval_s), events)
        frames.append(session.frame(100.0, View(window_s=60.0)))
    fine, coarse = frames
    assert fine.account.full_in_s is not None
    assert coarse.account.full_in_s is None
    clock = coarse.wallclock
    assert (clock.decode_s, clock.recompute_s, clock.idle_s, clock.stolen_ratio) == (None, None, None, None)
    assert [event.count for event in coarse.staircase.events] == [event.count for event in fine.staircase.events]
    assert coarse.staircase.trigger_mean_ratio is None
    told = [one.text for one in coarse.event_log if one.kind == "preemption"]
    assert told[-1] == "preempted 1"
