"""The panel TTFT by load has a row a load, and is there from the second load on."""

from __future__ import annotations

from dataclasses import replace

from tests.draw import frames
from tests.draw.panels import text
from vtop.draw import theme as looks
from vtop.draw.layout import arrange
from vtop.draw.panels.by_load import by_load
from vtop.session.frame.ttft import Growth

LOOK = looks.load("dark")


def test_each_load_has_a_row_with_its_parts() -> None:
    lines = text(by_load(frames.overload(), 78, 4, LOOK)).splitlines()
    assert lines[1].split() == ["c=1", "0", "ms", "400", "ms", "100", "ms", "10.0", "ms", "510", "ms", "30"]
    assert lines[2].split() == ["c=64", "48.1", "s", "400", "ms", "100", "ms", "10.0", "ms", "48.6", "s", "30"]


def test_one_load_alone_is_not_compared() -> None:
    many = frames.overload()
    one = replace(many, growth=Growth(phases=many.growth.phases[:1]))
    assert "by_load" in {place.panel for place in arrange(160, 48, many)}
    assert "by_load" not in {place.panel for place in arrange(160, 48, one)}


def test_where_there_is_no_room_the_lowest_and_the_highest_loads_stay() -> None:
    few = frames.overload()
    loads = [replace(few.growth.phases[0], concurrency=2.0**k) for k in range(7)]
    lines = text(by_load(replace(few, growth=Growth(phases=tuple(loads))), 78, 6, LOOK)).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["c=1", "3", "c=16", "c=32", "c=64"]
    assert lines[2].split() == ["3", "more"]
    assert len(lines) == 6
