"""The panel capacity shows the bracket, the run that is under way, what was simulated, and each rate tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.draw import frames
from tests.draw.loads import searched
from tests.draw.panels import text
from vtop.draw import theme as looks
from vtop.draw.layout import arrange
from vtop.draw.panels.capacity import at_stake, capacity

LOOK = looks.load("dark")


def drawn(width: int = 100, height: int = 10, **changes: Any) -> list[str]:
    frame = replace(frames.overload(), capacity=searched(**changes))
    return [line.rstrip() for line in text(capacity(frame, width, height, LOOK)).splitlines()]


def test_the_bracket_the_run_and_the_rates_stand_below_one_another() -> None:
    lines = drawn()
    assert lines[0] == "between 14.0 and 15.0 requests/s · 95.0 % within ttft ≤ 800 ms tpot ≤ 50.0 ms"
    assert lines[1] == "running 14.6 requests/s · run 4 of 12 · about 13 runs, 6:50 of load left"
    assert lines[2].startswith("simulated 15.1 to 15.9 requests/s · measured 88.1 % to 99.3 % of it")
    assert lines[3] == "! 1 run not counted: the client was the limit: requests left 100 ms late"
    assert [line.split()[:2] for line in lines[5:9]] == [
        ["14.0", "pass"], ["14.6", "not"], ["15.0", "fail"], ["28.0", "fail"],
    ]  # fmt: skip


def test_where_there_is_little_room_the_rates_next_to_the_bracket_stay() -> None:
    lines = drawn(60, 5, simulated=None, not_counted=0)
    assert [line.split()[0] for line in lines[3:5]] == ["14.6", "15.0"]


def test_an_end_is_told_with_its_reason() -> None:
    lines = drawn(end="server changed", why="its version is 0.33, and was 0.32", running=None)
    assert lines[1] == "ended: server changed: its version is 0.33, and was 0.32"


def test_a_search_without_a_verdict_shows_no_bracket() -> None:
    assert drawn(passes_per_s=None, fails_per_s=None)[0].startswith("no rate judged yet")
    assert drawn(passes_per_s=None)[0].startswith("below 15.0 requests/s")
    assert drawn(fails_per_s=None)[0].startswith("at least 14.0 requests/s")


def test_it_is_there_only_where_there_is_a_search() -> None:
    frame = frames.overload()
    assert "capacity" not in {place.panel for place in arrange(160, 48, frame)}
    for size in ((160, 48), (80, 40)):
        assert "capacity" in {place.panel for place in arrange(*size, replace(frame, capacity=searched()))}
    assert at_stake(replace(frame, capacity=searched())) == ["floor of 12 × 500", "18 runs so far"]
