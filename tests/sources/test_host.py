"""How busy the machine is, and what of it is vtop's own doing: ratios of what was counted between two readings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

from vtop.recording.events import Event, Host
from vtop.sources.host import HostSource, Ticks, ticks

T = TypeVar("T")


def told(
    readings: Iterable[tuple[float, Ticks | None, float]], *, stopping: Callable[[HostSource], None] = lambda _: None
) -> list[Event]:
    """The events of a source for which these instants, ticks and CPU seconds are read, one after another."""
    instants, cores, spent = zip(*readings, strict=True)
    left = iter(range(len(instants) - 1))
    events: list[Event] = []

    def wait(_: float) -> bool:
        stopping(source)
        return next(left, None) is None

    def given(values: tuple[T, ...]) -> Callable[[], T]:
        return iter(values).__next__

    source = HostSource(events.append, given(instants), cores=given(cores), spent=given(spent), wait=wait)
    source.run()
    return events


def test_a_line_tells_of_the_time_since_the_reading_before() -> None:
    assert told([(0.0, (100, 1000), 1.0), (5.0, (350, 2000), 1.1), (10.0, (1350, 3000), 3.6)]) == [
        Host(at_s=5.0, cpu_ratio=0.25, vtop_cpu_ratio=0.02),
        Host(at_s=10.0, cpu_ratio=1.0, vtop_cpu_ratio=0.5),
    ]


def test_a_system_that_does_not_say_is_not_known_and_vtops_share_is() -> None:
    assert told([(0.0, None, 0.0), (5.0, None, 0.5)]) == [Host(at_s=5.0, vtop_cpu_ratio=0.1)]
    assert told([(0.0, (5, 9), 0.0), (5.0, (5, 9), 0.5)]) == [Host(at_s=5.0, vtop_cpu_ratio=0.1)]


def test_a_count_that_goes_back_is_no_negative_share() -> None:
    assert told([(0.0, (100, 1000), 0.0), (5.0, (99, 2000), 0.0)]) == [
        Host(at_s=5.0, cpu_ratio=0.0, vtop_cpu_ratio=0.0)
    ]


def test_nothing_comes_after_it_was_stopped() -> None:
    assert told([(0.0, None, 0.0), (5.0, None, 0.5)], stopping=HostSource.stop) == []


def test_waiting_for_a_disk_is_not_busy_and_what_a_hypervisor_took_is(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 2 5 800 100 1 2 80 10 2\ncpu0 5 1 2 400 50 0 1 40 5 1\n")
    assert ticks(stat) == (10 + 2 + 5 + 1 + 2 + 80, 1000)


@pytest.mark.parametrize("text", ["", "cpu 1 x 3 4", "intr 1 2 3 4 5", None])
def test_a_file_of_another_kind_says_nothing(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "stat").write_text(text)
    assert ticks(tmp_path / "stat") is None


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/stat is Linux's")
def test_this_machine_says() -> None:
    first, second = ticks(), ticks()
    assert first is not None
    assert second is not None
    assert 0 < first[0] <= first[1] <= second[1]
