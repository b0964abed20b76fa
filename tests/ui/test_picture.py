"""A picture of the screen: charts are shapes without seams, letters are text on the grid of cells."""

from __future__ import annotations

import re
from xml.etree import ElementTree as xml

from rich.segment import Segment
from rich.style import Style

from vtop.ui import picture

RED, BLUE = Style(color="#ff0000", bgcolor="#000000"), Style(color="#0000ff", bgcolor="#000000")
SVG = "{http://www.w3.org/2000/svg}"


def drawn(*lines: list[Segment]) -> xml.Element:
    return xml.fromstring(picture.svg(lines, 12, len(lines), "of a test"))


def boxes(found: xml.Element, ink: str) -> list[tuple[float, ...]]:
    """x, y, width, height of each shape of a colour."""
    paths = [path.attrib["d"] for path in found.iter(f"{SVG}path") if path.attrib["fill"] == ink]
    number = r"(-?[\d.]+)"
    return [
        tuple(float(part) for part in box)
        for d in paths
        for box in re.findall(rf"M{number} {number}h{number}v{number}", d)
    ]


def test_neighbouring_blocks_are_one_shape_that_ends_where_the_next_begins() -> None:
    found = drawn([Segment("run ", RED), Segment("████", BLUE)], [Segment("    ", RED), Segment("████", BLUE)])
    assert boxes(found, "#0000ff") == [(40, 0, 40, 20), (40, 20, 40, 20)]
    assert [text.text for text in found.iter(f"{SVG}text")] == ["run"]


def test_a_half_cell_is_half_as_wide_and_an_eighth_stands_on_the_floor() -> None:
    assert boxes(drawn([Segment("▐▂", RED)]), "#ff0000") == [(5, 0, 5, 20), (10, 15, 10, 5)]


def test_letters_begin_in_their_cell_and_say_how_long_they_are() -> None:
    texts = drawn([Segment("  模型 é   n", RED)]).iter(f"{SVG}text")
    found = [(text.attrib["x"], text.attrib["textLength"], text.text) for text in texts]
    assert found == [("20", "60", "模型 é"), ("110", "10", "n")]
