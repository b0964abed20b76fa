"""Joules, idle power and what holds a GPU down: claims on made readings, and on the recorded ones."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.session.made import Log, Server, device, recorded
from vtop.recording import GpuReading, Target
from vtop.session.frame.frame import View
from vtop.session.frame.gpus import Energy
from vtop.session.hardware.energy import COUNTERS, READINGS
from vtop.session.history.gpus import DeviceHistory

Reading = Callable[[int], list[GpuReading]]


def ran(of: Reading, *, scrapes: int = 21, busy: Callable[[int], bool] = lambda _: True) -> Log:
    """A scrape and a reading a second; 100 tokens out and 300 in a second while busy."""
    log, server = Log(), Server()
    for second in range(scrapes):
        server.engine.running = float(busy(second))
        if second and busy(second):
            server.engine.count(generation_tokens=100.0, prompt_tokens=300.0)
        log.scrape(float(second), server)
        log.gpu(float(second), *of(second))
    return log


def of_two(second: int) -> list[GpuReading]:
    """One serves at 500 W, by its counter a little more; the other does something else."""
    serving = msgspec.structs.replace(device(power_w=500.0, serving=True), energy_j=1e6 + 510.0 * second)
    return [serving, msgspec.structs.replace(device(1, power_w=300.0, serving=False), energy_j=1e6 + 300.0 * second)]


def energy(of: Reading, **how: Callable[[int], bool]) -> Energy:
    return ran(of, **how).frame().energy  # type: ignore[arg-type]


def test_joules_are_the_counters_of_the_devices_that_serve() -> None:
    found = energy(of_two)
    assert found.joules == pytest.approx(20 * 510.0)
    assert found.source == COUNTERS
    assert found.per_output_token_j == pytest.approx(5.1)
    assert found.per_token_j == pytest.approx(510 / 400)


def test_without_a_counter_power_is_integrated_and_says_so() -> None:
    found = energy(lambda second: [device(power_w=400.0 + 10 * second)])
    assert found.joules == pytest.approx(20 * 500.0)
    assert found.source == READINGS
    assert found.per_output_token_j == pytest.approx(5.0)


def test_one_device_without_a_counter_is_enough_to_integrate_them_all() -> None:
    def of(second: int) -> list[GpuReading]:
        counted = msgspec.structs.replace(device(power_w=500.0), energy_j=9.0 * second)
        return [counted, device(1, power_w=100.0)]

    assert energy(of).joules == pytest.approx(20 * 600.0)


def test_a_counter_that_fell_is_not_believed() -> None:
    def loaded_anew(second: int) -> list[GpuReading]:
        return [
            msgspec.structs.replace(device(power_w=500.0), energy_j=500.0 * (second if second < 10 else second - 10))
        ]

    found = energy(loaded_anew)
    assert found.joules == pytest.approx(10_000.0)
    assert found.source == READINGS


@given(st.lists(st.none() | st.integers(0, 4).map(float), min_size=2, max_size=12))
def test_whether_it_fell_is_told_of_any_stretch(energy_j: list[float | None]) -> None:
    one = DeviceHistory(device(power_w=500.0))
    for number, joules in enumerate(energy_j):
        one.put(number, msgspec.structs.replace(device(power_w=500.0), energy_j=joules))
    for first in range(len(energy_j)):
        for last in range(first, len(energy_j)):
            begin, end = energy_j[first], energy_j[last]
            known = [joules for joules in energy_j[first : last + 1] if joules is not None]
            told = begin is not None and end is not None and known == sorted(known)
            assert one.counted_j(first, last) == (end - begin if told else None)  # type: ignore[operator]


def test_a_gap_in_the_readings_is_left_out_and_tokens_cost_what_is_not_known() -> None:
    log = Log()
    server = Server()
    for second in range(21):
        server.engine.running = 1.0
        server.engine.count(generation_tokens=100.0)
        log.scrape(float(second), server)
        if not 5 < second < 12:
            log.gpu(float(second), device(power_w=500.0))
    found = log.frame().energy
    assert found.joules == pytest.approx((20 - 7) * 500.0)
    assert (found.per_output_token_j, found.per_token_j) == (None, None)


def test_devices_of_another_host_cost_no_token_anything() -> None:
    log = ran(of_two)
    log.start = msgspec.structs.replace(log.start, servers=(Target(url="http://far:8000", local=False),))
    found = log.frame().energy
    assert found.joules == pytest.approx(20 * 510.0)
    assert (found.per_output_token_j, found.per_token_j, found.idle_w, found.idle_share) == (None, None, None, None)


def test_idle_power_is_the_lowest_between_two_scrapes_on_which_nothing_ran() -> None:
    def of(second: int) -> list[GpuReading]:
        return [device(power_w=100.0 + second if second < 8 else 50.0 if second == 15 else 500.0)]

    log = ran(of, busy=lambda second: second >= 8)
    found = log.frame().energy
    assert found.idle_w == 101  # the first reading has no scrape before it, and the 50 W were not idle
    assert found.idle_share == pytest.approx(101 * 20 / (found.joules or 0))
    assert log.frame(0.5).energy.idle_w is None


def test_what_runs_between_two_idle_scrapes_is_not_idle() -> None:
    log, server = Log(), Server()
    for second in range(6):
        server.engine.count(generation_tokens=5.0)
        log.gpu(second - 0.5 if second else 0.0, device(power_w=90.0))
        log.scrape(float(second), server)
    assert log.frame().energy.idle_w is None


def test_idle_power_is_that_of_the_same_devices() -> None:
    def of(second: int) -> list[GpuReading]:
        return [device(power_w=100.0, serving=second >= 5), device(1, power_w=200.0, serving=False)]

    log = ran(of, busy=lambda _: False)
    assert log.frame(4.5).energy.idle_w == 300
    assert log.frame().energy.idle_w == 100


def test_no_share_is_known_of_what_no_reading_tells() -> None:
    found = energy(lambda _: [GpuReading(index=0, uuid="GPU-0")])
    assert (found.joules, found.source, found.near_limit_share, found.throttled_share) == (None, None, None, None)


def test_a_reading_is_near_the_limit_when_one_device_is() -> None:
    def of(second: int) -> list[GpuReading]:
        return [
            msgspec.structs.replace(device(power_w=679.0 if second % 3 == 0 else 500.0), power_limit_w=700.0),
            msgspec.structs.replace(device(1, power_w=600.0), power_limit_w=700.0),
        ]

    assert energy(of).near_limit_share == pytest.approx(7 / 21)


def test_reasons_have_shares_and_being_idle_is_none() -> None:
    def of(second: int) -> list[GpuReading]:
        words = (("gpu idle",), ("power cap",), ("power cap", "thermal (hw)"))[second % 3]
        return [msgspec.structs.replace(device(), throttle=words), device(1)]

    found = energy(of)
    assert found.throttled_share == pytest.approx(2 / 3)
    assert dict(found.throttle) == pytest.approx({"power cap": 2 / 3, "thermal (hw)": 1 / 3})


def test_an_idle_host_without_scrapes_has_no_energy_part() -> None:
    log = Log()
    log.gpu(0.0, device())
    assert log.frame().energy.joules is None


def test_the_overload_s_joules_are_its_counter_s_and_agree_with_its_power() -> None:
    session = recorded("overload")
    found = session.frame(session.end_s, View(window_s=300.0)).energy
    assert found.source == COUNTERS
    assert found.joules == pytest.approx(89_250, abs=1)
    assert found.per_output_token_j == pytest.approx(89_250 / (128 * 2048 + 16), rel=1e-5)
    assert found.idle_w == pytest.approx(122.1, abs=0.1)
    assert found.idle_share == pytest.approx(122.1 * 167 / 89_250, rel=1e-3)
    power = session.gpus.power_w.every(0, len(session.gpus.t) - 1)
    assert found.joules == pytest.approx(sum(power[1:-1]) + (power[0] + power[-1]) / 2, rel=0.01)


def test_counters_that_do_not_agree_with_power_are_told() -> None:
    def of(second: int) -> list[GpuReading]:
        return [msgspec.structs.replace(device(power_w=400.0), energy_j=500.0 * second)]

    assert energy(of).apart_ratio == pytest.approx(0.25)
    assert energy(of_two).apart_ratio == pytest.approx(0.02)
    assert energy(lambda second: [device(power_w=400.0)]).apart_ratio is None  # nothing to hold against it


def test_of_two_cards_one_without_power_the_sum_says_that_it_is_a_part() -> None:
    gpus = ran(lambda second: [device(power_w=400.0), device(1, power_w=None)]).frame().gpus
    assert (gpus.power_w, gpus.least_power_w, gpus.powered, gpus.counted) == (None, 400.0, 1, 2)


def test_power_holds_nothing_down_by_readings_that_have_grown_old() -> None:
    log = ran(lambda second: [device(power_w=700.0)], scrapes=20)
    server = Server()
    for second in range(20, 42):  # NVML is silent
        server.engine.running = 1.0
        log.scrape(float(second), server)
    session = log.session()
    frame = session.frame(41.5)
    assert frame.gpus.age_s == pytest.approx(22.5, abs=0.1)
    assert frame.pressure is None or frame.pressure.power is None
