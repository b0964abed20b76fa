"""How TTFT grows with load: the rows of a sweep, its factors, and the load at which queue overtakes prefill."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from tests.session.made import Log, Server, recorded
from vtop.recording import Load
from vtop.session.frame.frame import View
from vtop.session.frame.ttft import Growth, PhaseParts
from vtop.session.latency.load_scaling import crossing
from vtop.session.session import Session


def parts(
    in_flight: float, queue_s: float, prefill_s: float, *, finished: float = 100.0, rate_per_s: float | None = None
) -> PhaseParts:
    return PhaseParts(
        phase=0,
        concurrency=in_flight if rate_per_s is None else None,
        rate_per_s=rate_per_s,
        finished=finished,
        queue_s=queue_s,
        prefill_s=prefill_s,
        frontend_s=0.1,
        network_s=None,
        total_s=queue_s + prefill_s + 0.1,
    )


# --- the crossing -----------------------------------------------------------------------------------------------------

# A 1,024 / 256 sweep on an RTX 4090: prefill 461 ms and queue 379 ms at 64 in flight; at 32 queue is 30.4 % of prefill,
# and from there to 64 queue grows with slope 1.60, prefill with 0.16
AT_64 = parts(64, 0.379, 0.461)
AT_32 = parts(32, 0.379 / 2**1.60, 0.461 / 2**0.16)


def test_the_published_sweep_crosses_at_73() -> None:
    queue_s, prefill_s = AT_32.queue_s, AT_32.prefill_s
    assert queue_s is not None
    assert prefill_s is not None
    assert queue_s / prefill_s == pytest.approx(0.304, abs=0.002)
    assert crossing([AT_32, AT_64]) == pytest.approx(73, abs=0.5)


def test_only_the_last_two_loads_count() -> None:
    assert crossing([parts(16, 0.3, 0.31), AT_32, AT_64]) == crossing([AT_32, AT_64])


@pytest.mark.parametrize(
    "steps",
    [
        [AT_64],
        [AT_32, parts(64, 0.5, 0.461)],  # it has crossed
        [AT_32, parts(64, 0.13, 0.461)],  # they draw apart
        [parts(32, 0.0, 0.4), AT_64],  # no queue, no slope
        [AT_32, parts(64, 0.15, 0.461)],  # further than four times the highest load
        [AT_32, parts(64, 0.379, 0.461, finished=29)],  # too few to lay a slope through
    ],
)
def test_where_there_is_nothing_to_extrapolate_nothing_is(steps: Sequence[PhaseParts]) -> None:
    assert crossing(steps) is None


# --- rows -------------------------------------------------------------------------------------------------------------


def of(session: Session, now_s: float | None = None) -> Growth:
    return session.frame(session.end_s if now_s is None else now_s, View(window_s=300.0, columns=1)).growth


def test_a_sweep_of_an_h200_in_rows() -> None:
    found = of(recorded("sweep"))
    ms = [tuple(round((s or 0.0) * 1000, 1) for s in (row.queue_s, row.prefill_s, row.frontend_s, row.network_s))
          for row in found.phases]  # fmt: skip
    assert [row.concurrency for row in found.phases] == [1, 2, 4, 8, 16, 32, 64]
    assert [row.finished for row in found.phases] == [128] * 6 + [192]  # the last scrape is from before the last end
    assert ms == [
        (0.0, 28.7, 2.6, 3.6),
        (0.0, 36.0, 13.1, 3.0),
        (0.0, 60.3, 16.7, 5.0),
        (0.0, 134.9, 16.5, 9.7),
        (1.3, 203.4, 24.3, 9.1),
        (66.4, 290.3, 60.7, 12.0),
        (215.6, 336.1, 99.8, 15.0),
    ]


def test_every_part_of_a_sweep_grows_with_load_and_nothing_but_queue_begins_at_zero() -> None:
    rows = of(recorded("sweep")).phases
    prefill = [row.prefill_s or 0.0 for row in rows]
    assert prefill == sorted(prefill)
    assert all((row.queue_s or 0.0) < 0.002 for row in rows[:5])
    assert rows[5].queue_s is not None
    assert rows[6].queue_s is not None
    assert 0.01 < rows[5].queue_s < rows[6].queue_s


def test_the_client_s_ttft_of_a_phase_is_the_sum_of_its_row() -> None:
    session = recorded("sweep")
    for row in of(session).phases[:-1]:
        load = session.load.part_of(row.phase, session.end_s)
        assert load is not None
        assert row.finished == load.done
        assert row.total_s == pytest.approx(load.ttft.mean_s, abs=1e-5)


def test_growth_is_against_the_lowest_load_and_the_crossing_is_marked_as_not_reached() -> None:
    found = of(recorded("sweep"))
    assert found.prefill_factor == pytest.approx(336.1 / 28.65, rel=1e-3)
    assert found.frontend_factor == pytest.approx(99.75 / 2.632, rel=1e-3)
    assert found.queue_added_s == pytest.approx(0.2156, abs=1e-4)
    assert found.crossing == pytest.approx(86.3, abs=0.1)
    assert (found.crossing_unit, found.crossed_at) == ("in flight", None)


def test_where_queue_was_above_prefill_nothing_is_extrapolated() -> None:
    found = of(recorded("overload_loaded"))
    assert (found.crossing, found.crossed_at) == (None, 64)
    assert found.queue_of_ttft_ratio == pytest.approx(0.988, abs=1e-3)


def test_without_a_load_the_shares_are_known_and_nothing_else() -> None:
    found = of(recorded("sweep_c64"))
    assert found.phases == ()
    assert found.queue_of_prefill_ratio == pytest.approx(323.8 / 325.8, abs=1e-3)
    assert (found.prefill_factor, found.crossing, found.crossing_unit, found.crossed_at) == (None, None, None, None)


def test_a_phase_that_runs_counts_up_to_now_and_one_that_is_over_stands_still() -> None:
    session = recorded("sweep")
    early, later = of(session, 60.0).phases, of(session, 120.0).phases
    assert [row.finished for row in early] == [45]
    assert [row.finished for row in later] == [93]
    assert [of(session, at_s).phases[0].finished for at_s in (170.0, 371.0)] == [128, 128]


# --- made -------------------------------------------------------------------------------------------------------------


def phase(number: int, state: str, concurrency: int | None = 8, **rest: object) -> Load:
    shape = "closed" if concurrency is not None else "open"
    known: dict[str, object] = {"spec": "", "input_tokens": (9, 9), "output_tokens": (9, 9)}
    return Load(phase=number, state=state, shape=shape, concurrency=concurrency, **{**known, **rest})  # type: ignore[arg-type]


def ran(*phases: tuple[Load, float], seconds: int = 10) -> Log:
    """One phase after another, each with its queue time; forty requests finish a second. 1 s of warm-up waits 9 s."""
    log, server = Log(), Server()
    at_s = 0.0
    log.scrape(at_s, server)
    for begin, queue_s in phases:
        log.add(begin, at_s + 0.1)
        for second in range(seconds):
            at_s += 1.0
            for _ in range(40):
                server.engine.finish(queue=queue_s if second else 9.0, prefill=0.1)
            log.scrape(at_s, server)
            if second == 0:
                log.add(phase(begin.phase, "steady"), at_s - 0.1)
        log.add(phase(begin.phase, "end"), at_s + 0.05)
        at_s += 1.0
        log.scrape(at_s, server)
    return log


def test_the_warm_up_is_in_no_row() -> None:
    found = ran((phase(0, "begin"), 0.02)).frame().growth
    assert found.phases[0].queue_s == pytest.approx(0.02)
    assert found.phases[0].finished == 8 * 40  # from the first scrape on that knows of the end of the warm-up


def test_phases_that_are_not_alike_are_not_compared() -> None:
    found = ran((phase(0, "begin", 1, input_tokens=(5, 5)), 0.01), (phase(1, "begin", 8), 0.02)).frame().growth
    assert len(found.phases) == 2
    assert (found.prefill_factor, found.queue_added_s) == (None, None)
    found = ran((phase(0, "begin", 1), 0.01), (phase(1, "begin", 8), 0.02)).frame().growth
    assert found.queue_added_s == pytest.approx(0.01)


def test_rows_are_in_the_order_of_load_whatever_came_first() -> None:
    log = ran((phase(0, "begin", 16), 0.05), (phase(1, "begin", 4), 0.01), (phase(2, "begin", 8), 0.02))
    found = log.frame().growth
    assert [row.concurrency for row in found.phases] == [4, 8, 16]
    assert found.queue_added_s == pytest.approx(0.01)  # of the latest phase, at 8 in flight


def test_loads_by_rate_are_told_in_requests_a_second() -> None:
    slow, fast = (phase(k, "begin", None, rate_per_s=rate) for k, rate in ((0, 10.0), (1, 20.0)))
    found = ran((slow, 0.01), (fast, 0.04)).frame().growth
    assert found.crossing_unit == "requests/s"
    assert found.crossing == pytest.approx(20 * 2.5**0.5)  # from 0.04 to 0.1 s with the square of the load


def test_a_change_by_hand_begins_the_row_anew() -> None:
    log = ran((phase(0, "begin", 8), 0.02))
    log.events.append(msgspec.structs.replace(phase(0, "change", 10), t=6.1))
    log.events.sort(key=lambda event: event.t)
    row = log.frame().growth.phases[0]
    assert (row.concurrency, row.finished) == (10, 3 * 40)


def test_a_server_that_is_gone_leaves_its_row_as_it_was() -> None:
    log = ran((phase(0, "begin", 8), 0.02))
    before = log.frame().growth.phases[0].finished
    log.outage(13.0)
    log.add(phase(1, "begin", 9), 14.0)
    found = log.frame(20.0).growth
    assert [row.finished for row in found.phases] == [before, 0]
    assert found.phases[1].total_s is None
