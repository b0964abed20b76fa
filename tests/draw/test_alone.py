"""A panel that has the whole body fills it with what it has no room for else."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from tests.draw import frames
from tests.draw.panels import text
from tests.session.made import recorded
from vtop.draw import theme as looks
from vtop.draw.layout import assembled, columns_for, drawn
from vtop.draw.panels.registry import PANELS
from vtop.session.frame.frame import Frame, View

LOOK = looks.load("dark")
SIZE = (120, 40)


def frame() -> Frame:
    return recorded("overload_loaded").frame(100.0, View(window_s=60.0, columns=columns_for(120, "kv"), buckets=True))


def alone(panel: str, of: Frame, size: tuple[int, int] = SIZE) -> str:
    return text(assembled(drawn(of, *size, LOOK, only=panel), *size, LOOK))


@pytest.mark.parametrize("panel", [name for name, panel in PANELS.items() if panel.alone is not None])
@pytest.mark.parametrize("size", [(30, 5), (80, 24), (120, 40), (210, 70)])
def test_it_fills_the_screen_exactly_from_any_frame(panel: str, size: tuple[int, int]) -> None:
    for of in (frame(), *(make(40) for make in frames.ALL.values())):
        assert [cell_len(line) for line in alone(panel, of, size).splitlines()] == [size[0]] * size[1]


def test_latencies_are_heat_maps_whose_buckets_say_how_many_lie_in_them() -> None:
    of = frame()
    shown = alone("latencies", of)
    itl = next(one for one in of.heat_maps if one.name == "ITL")
    latency = next(one for one in of.latencies if one.name == "ITL")
    assert sum(itl.n) == latency.n
    assert "≤ 10.0 ms" in shown
    assert "█" in shown


def test_the_kv_cache_shows_residents_and_what_waits_for_it() -> None:
    shown = alone("kv", frame())
    assert all(word in shown for word in ("residents", "waiting", "free", "expected"))


def test_the_load_shows_its_requests() -> None:
    assert "#" in alone("load", frame())
