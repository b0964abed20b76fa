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
