"""The KV account: what the pool should hold, held against what it held on real and on made recordings."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import median

import msgspec
import pytest

from tests.session.made import RECORDINGS, Log, Server, fold, read, recorded
from vtop.metrics.quantity import Quantity
from vtop.recording import Load, Request
from vtop.session.frame.frame import View
from vtop.session.frame.kv import KvAccount
from vtop.session.kv.blocks import RequestLengths, waste_of
from vtop.session.kv.occupancy import _growth
from vtop.session.session import Session

SWEEP = {1: 0.0, 2: 0.0, 4: -0.2, 8: -0.2, 16: -0.6}  # in flight: points that the highest scrape lies from the expected
POOL = 86_896


def whole(session: Session) -> KvAccount:
    return session.frame(session.end_s, View(window_s=3600.0)).account


@pytest.mark.parametrize("in_flight", SWEEP)
def test_the_account_of_a_sweep_is_right_to_a_point(in_flight: int) -> None:
    found = whole(recorded(f"sweep_c{in_flight}")).nominal
    assert found is not None
    assert found.concurrency == in_flight
    assert found.peak_ratio == pytest.approx(in_flight * 1280 / POOL, rel=0.02)  # with the short warm-up in the mean
    assert found.peak_error_ratio == pytest.approx(SWEEP[in_flight] / 100, abs=1e-3)
    assert found.mean_error_ratio == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize(("name", "in_flight", "highest"), [("sweep_c32", 32, 0.426), ("sweep_c64", 64, 0.886)])
def test_waves_that_a_scrape_a_second_misses_leave_the_measured_peak_below(
    name: str, in_flight: int, highest: float
) -> None:
    found = whole(recorded(name)).nominal
    assert found is not None
    assert found.peak_error_ratio == pytest.approx(highest - in_flight * 1280 / POOL, abs=1e-3)


def test_the_latest_phase_of_a_sweep_fills_the_pool_as_its_spec_says() -> None:
    session = recorded("sweep")
    for phase in session.load.phases.values():
        end = phase.changes[-1]
        found = session.frame(end.t, View(window_s=300.0)).account
        assert found.lengths_from == "the load's spec"
        assert (found.input_tokens, found.output_tokens) == (1024, 256)
        assert found.nominal is not None
        assert found.nominal.concurrency == phase.begin.concurrency
        assert found.nominal.peak_ratio == pytest.approx((phase.begin.concurrency or 0) * 1280 / POOL)
        missed = 0.035 if phase.begin.concurrency == 32 else 0.0  # its waves last two scrapes
        assert found.nominal.peak_error_ratio == pytest.approx(-missed, abs=0.005)


@pytest.mark.parametrize("name", ["overload", "overload_loaded"])
def test_the_overload_asks_six_times_the_pool_and_eleven_reside(name: str) -> None:
    found = whole(recorded(name))
    assert found.nominal is not None
    assert found.nominal.concurrency == 64
    assert found.oversubscription == pytest.approx(6.03, abs=0.02)
    assert found.predicted_residents == pytest.approx(10.6, abs=0.05)
    assert found.measured_residents == 11
    assert found.nominal.peak_ratio > 6
    assert found.effective is not None
    assert found.effective.peak_error_ratio == pytest.approx(0, abs=0.04)


def test_while_the_overload_fills_the_pool_it_says_when_it_is_full() -> None:
    """From 92.0 to 98.5 % on scrapes 11 to 14, 2.16 points a second; on scrape 15 a request has been preempted."""
    session = recorded("overload")
    found = session.frame(session.servers[0].t[14]).account
    assert found.growth_tokens_per_s == pytest.approx(0.0216 * POOL, rel=0.03)
    assert found.full_in_s == pytest.approx(0.015 / 0.0216, rel=0.1)


# --- made -------------------------------------------------------------------------------------------------------------


def ran(step: Callable[[int, Server], None], *, scrapes: int = 20, servers: int = 1, engines: str = "0") -> Log:
    log = Log(servers)
    made = [Server(engines) for _ in range(servers)]
    for second in range(scrapes):
        for number, server in enumerate(made):
            server.pool_tokens = 16_000
            step(second, server)
            log.scrape(float(second), server, server=number)
    return log


def steady(second: int, server: Server) -> None:
    for engine in server.engines.values():
        engine.running, engine.waiting, engine.kv = 10.0, 2.0, 0.08
        engine.finish(prompt=100, output=50)


def test_lengths_are_rounded_up_to_blocks_and_peak_is_not_mean() -> None:
    found = ran(steady).frame().account
    assert found.lengths_from == "finished requests"
    assert found.nominal is not None
    assert found.nominal.peak_ratio == pytest.approx(12 * 160 / 16_000)  # 150 tokens in 10 blocks
    assert found.nominal.mean_ratio == pytest.approx(12 * 128 / 16_000)  # 125 tokens in 8
    assert found.effective is not None
    assert found.effective.peak_ratio == pytest.approx(10 * 160 / 16_000)
    assert found.effective.peak_error_ratio == pytest.approx(0.08 - 0.10)


def test_two_engines_and_two_servers_add_up_tokens_and_no_ratio() -> None:
    for log, pools in (
        (ran(steady, engines="01"), 2),
        (ran(steady, servers=2), 2),
        (ran(steady, servers=2, engines="01"), 4),
    ):
        found = log.frame().account
        assert found.nominal is not None
        assert found.nominal.concurrency == 12 * pools
        assert found.nominal.peak_ratio == pytest.approx(12 * 160 / 16_000)
        assert found.nominal.peak_error_ratio == pytest.approx(0.08 - 12 * 160 / 16_000)
        assert found.predicted_residents == pytest.approx(pools * 16_000 / 150)
        assert found.measured_residents == 10 * pools


def test_uneven_engines_are_held_against_the_mean_of_their_pools() -> None:
    def uneven(second: int, server: Server) -> None:
        steady(second, server)
        server.engines["1"].kv = 0.04

    found = ran(uneven, engines="01").frame().account
    assert found.nominal is not None
    assert found.nominal.peak_error_ratio == pytest.approx(0.06 - 24 * 160 / 32_000)


def test_what_was_before_a_restart_is_not_in_the_account() -> None:
    def dies(second: int, server: Server) -> None:
        if second == 10:
            server.restart()
        steady(second, server)
        server.engine.kv = 0.9 if second < 10 else 0.08

    found = ran(dies).frame().account
    assert found.nominal is not None
    assert found.nominal.peak_error_ratio == pytest.approx(0.08 - 12 * 160 / 16_000)
    assert found.growth_tokens_per_s == 0


def test_a_pool_that_is_not_told_leaves_the_account_open() -> None:
    def poolless(second: int, server: Server) -> None:
        steady(second, server)
        server.pool_tokens = None

    found = ran(poolless).frame().account
    assert (found.nominal, found.effective, found.predicted_residents, found.full_in_s) == (None, None, None, None)
    assert found.measured_residents == 10


def test_without_lengths_there_is_nothing_to_expect() -> None:
    def nothing_ends(second: int, server: Server) -> None:
        server.engine.running, server.engine.kv = 10.0, 0.08

    found = ran(nothing_ends).frame().account
    assert (found.input_tokens, found.nominal, found.waste_tokens) == (None, None, None)


def test_growth_is_that_since_the_last_fall_and_says_when_the_pool_is_full() -> None:
    def sawtooth(second: int, server: Server) -> None:
        steady(second, server)
        server.engine.kv = 0.50 + 0.02 * (second % 8)

    log = ran(sawtooth, scrapes=24)
    found = log.frame(21.1).account  # 0.50 on scrape 16, 0.60 on scrape 21
    assert found.growth_tokens_per_s == pytest.approx(0.02 * 16_000)
    assert found.full_in_s == pytest.approx((1 - 0.60) / 0.02)


def test_what_does_not_grow_is_never_full() -> None:
    found = ran(steady).frame().account
    assert (found.growth_tokens_per_s, found.full_in_s) == (0, None)
    assert _growth([0.0, 1.0, 2.0], [0.5, 0.4, 0.3]) == 0
    assert _growth([0.0, 1.0], [0.5, 0.6]) is None  # two scrapes tell nothing
    assert _growth([0.0, 1.0, 2.0], [math.nan] * 3) is None


@pytest.mark.parametrize(("tokens", "at_end"), [((1000, 256), 8), ((1024, 256), 0), ((1, 16), 15)])
def test_waste_is_what_the_last_block_lacks(tokens: tuple[int, int], at_end: int) -> None:
    found = waste_of(RequestLengths(*tokens, exact=True), 16)
    assert found[0] == at_end
    lives = [-(tokens[0] + k) % 16 for k in range(1, tokens[1] + 1)]
    assert found[1] == pytest.approx(sum(lives) / len(lives))
    assert waste_of(RequestLengths(*tokens, exact=False), 16) == (7.5, 7.5)


# --- vtop's own load --------------------------------------------------------------------------------------------------


def loaded(*, foreign: int = 0, output: tuple[int, int] = (50, 50)) -> Log:
    """Ten in flight, one finished a second, and so many others."""
    log, server = Log(), Server()
    server.pool_tokens = 16_000
    begin = Load(
        phase=0, state="begin", spec="", shape="closed", concurrency=10, input_tokens=(100, 100), output_tokens=output
    )
    for second in range(20):
        server.engine.running, server.engine.kv = 10.0, 0.08
        log.scrape(float(second), server)
        if second == 0:
            log.add(begin, 0.1)
            continue
        for _ in range(foreign + 1):
            server.engine.finish(prompt=100, output=50)
        last_s = second + 0.3
        log.add(
            Request(id=second, phase=0, sent_s=last_s - 1, first_s=last_s - 0.8, last_s=last_s, end_s=last_s), last_s
        )
    return log


def test_the_load_s_own_lengths_are_taken_where_nobody_else_is_served() -> None:
    found = loaded().frame().account
    assert found.lengths_from == "the load's spec"
    assert found.nominal is not None
    assert found.nominal.concurrency == 10
    assert found.waste_tokens_per_request == 10
    assert found.waste_tokens == pytest.approx(10 * sum(-length % 16 for length in range(101, 151)) / 50)


def test_with_other_traffic_or_other_lengths_the_finished_requests_are_asked() -> None:
    assert loaded(foreign=1).frame().account.lengths_from == "finished requests"
    assert loaded(output=(20, 80)).frame().account.lengths_from == "finished requests"
    assert loaded(output=(80, 80)).frame().account.lengths_from == "finished requests"  # they stop before


def test_the_account_of_a_phase_knows_nothing_of_the_one_before() -> None:
    """In the sweep's second phase 64 are in flight, where 16 were: at its first scrapes as at its last."""
    session = recorded("repeat_first")
    begin_s = session.load.phases[1].begin.t
    server = session.servers[0]
    for at_s in (begin_s + 1, begin_s + 4, 50.0, 60.0):
        found = session.frame(at_s).account
        running = server.total(Quantity.RUNNING)
        assert running is not None
        own = [
            count
            for scrape in range(server.visible(at_s))
            if server.at_s[scrape] >= begin_s and (count := running.at(scrape))
        ]
        assert found.measured_residents == (median(own) if own else None), at_s
        assert found.nominal is not None
        assert found.nominal.concurrency == 64


def test_a_load_changed_by_hand_is_accounted_since_then() -> None:
    log, server = Log(), Server()
    server.pool_tokens = 16_000
    asked = Load(phase=0, state="begin", spec="", shape="closed", concurrency=10, input_tokens=(100, 100))
    asked = msgspec.structs.replace(asked, output_tokens=(50, 50))
    log.add(asked, 0.0)
    for second in range(20):
        more = 4 if second >= 12 else 1
        server.engine.running, server.engine.kv = 10.0 * more, 0.08 * more
        server.engine.finish(prompt=100, output=50)
        log.scrape(second + 0.1, server)
        log.add(Request(id=second, phase=0, sent_s=second, first_s=second + 0.05, end_s=second + 0.08), second + 0.2)
        if second == 11:
            log.add(msgspec.structs.replace(asked, state="change", concurrency=40), 11.5)
    found = log.frame().account
    assert found.lengths_from == "the load's spec"
    assert found.nominal is not None
    assert found.nominal.concurrency == found.measured_residents == 40
    assert found.nominal.peak_error_ratio == pytest.approx(0.32 - 40 * 160 / 16_000)


def test_who_only_watches_holds_no_peak_of_four_times_the_load_against_the_median() -> None:
    """The same sweep seen by one who did not put it on: 16 run on most scrapes of the window, 64 on its last."""
    (path,) = [path for path in RECORDINGS if path.name.startswith("repeat_first.")]
    start, events = read(path)
    session = fold(start, [event for event in events if not isinstance(event, Load | Request)])
    before = session.frame(43.0).account
    assert before.nominal is not None
    assert (before.nominal.concurrency, before.measured_residents) == (16, 16)
    for at_s in (48.0, 50.0, 55.0, 60.0):
        found = session.frame(at_s).account
        assert found.nominal is not None
        assert found.nominal.concurrency > 50, at_s
        assert found.effective is not None
        assert abs(found.effective.peak_error_ratio or 1.0) < 0.25


def test_a_load_of_another_s_that_comes_and_goes_by_chance_is_one_load() -> None:
    noise = random.Random(5)

    def arrives(second: int, server: Server) -> None:
        steady(second, server)
        server.engine.running, server.engine.waiting = 20 + noise.gauss(0, math.sqrt(20)), 0.0

    found = ran(arrives, scrapes=120).frame().account
    assert found.nominal is not None
    assert found.nominal.concurrency == pytest.approx(20, abs=0.7)  # the median of all scrapes: 20 ± 0.5


def test_a_load_of_another_s_that_drains_stays_one_load() -> None:
    def drains(second: int, server: Server) -> None:
        steady(second, server)
        server.engine.running, server.engine.waiting = (12.0, 0.0) if second < 15 else (2.0, 0.0)

    assert ran(drains).frame().account.measured_residents == 12
