"""A comparison written down: every form says the same, nothing in a name is taken for markup, bytes never change."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as xml
from dataclasses import fields
from pathlib import Path

import pytest

from tests.report.loops import Loop, run
from vtop.report.compare import compare, compared_phase, comparison_json, difference_figure
from vtop.report.compare.compare_document import document
from vtop.report.compare.compared_numbers import NUMBERS
from vtop.report.compare.parts import Comparison, Difference, NumberPart, PhasePart, SidePart
from vtop.report.compare.unlike_runs import DifferingSetting, Unlike
from vtop.report.render.document import Table
from vtop.report.render.html import html
from vtop.report.render.markdown import markdown
from vtop.report.render.terminal import text

HOSTILE = "run<script>|`*\x1b[31m[x](y).jsonl"
PAGE = Path(__file__).parents[2] / "docs" / "compare.md"


@pytest.fixture(scope="module")
def found() -> Comparison:
    two = (Loop(c=2, n=40), Loop(c=4, n=80))
    return compare.of([run(*two, seed=1, file=HOSTILE), run(*two, seed=2), run(Loop(c=2, n=40, itl_s=0.06), seed=3)])


def test_every_form_has_every_cell(found: Comparison) -> None:
    content = document(found)
    said = {"txt": text(content, 200), "html": html(content), "md": markdown(content)}
    cells = [cell for section in content.sections for block in section.blocks if isinstance(block, Table)
             for row in block.rows for cell in row]  # fmt: skip
    assert len(cells) > 300
    for form, written in said.items():
        plain = written.replace("&lt;", "<").replace("\\", "")
        assert [cell for cell in cells if cell not in plain] == [], form


def test_the_finding_stands_first_and_counts_what_is_beyond_the_noise(found: Comparison) -> None:
    beyond = sum(one.beyond for phase in found.phases for number in phase.numbers for one in number.differences)
    assert beyond >= 4  # C's tokens come slower
    assert f"• {beyond} of " in text(document(found, drawn=False)).splitlines()[3]


def test_where_nothing_differs_that_is_the_finding() -> None:
    of = run(seed=1)
    written = text(document(compare.of([of, of]), drawn=False))
    assert "• No difference beyond the noise among 20" in written
    assert "Settings that differ" not in written
    assert "Output tokens/s, B against A: 0.00 %." in written


def test_a_hostile_name_stays_a_name(found: Comparison) -> None:
    content = document(found)
    assert "<script>" not in html(content)
    assert "\x1b" not in text(content)
    assert re.search(r"(?<!\\)\[x\]", markdown(content)) is None
    assert "\x1b" not in markdown(content)


def test_the_figure_is_whole_and_needs_nothing_from_outside(found: Comparison) -> None:
    figure = difference_figure.figure(found)
    assert figure is not None
    drawn = difference_figure.svg(figure)
    root = xml.fromstring(drawn)
    assert "c=2" in "".join(root.itertext())
    asked, given = set(re.findall(r"var\((--\w+)\)", drawn)), set(re.findall(r"(--\w+):", drawn))
    assert asked <= given
    assert "http" not in drawn.replace('"http://www.w3.org/2000/svg"', "")
    assert [len(panel.series) for panel in figure.panels] == [6, 6, 6]  # two sides: points, noise up and down


def test_the_same_recordings_give_the_same_bytes() -> None:
    first, second = (compare.of([run(seed=1), run(seed=2)]) for _ in range(2))
    assert comparison_json.json(first) == comparison_json.json(second)
    assert html(document(first)) == html(document(second))


def test_json_is_strict_and_holds_what_the_page_says(found: Comparison) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    content = json.loads(comparison_json.json(found), parse_constant=refuse)
    assert set(content) == {"format", *(field.name for field in fields(Comparison))}
    assert content["sides"][0]["runs"] == [[HOSTILE]]
    (itl,) = [number for number in content["phases"][0]["numbers"] if number["name"] == "itl.mean_s"]
    assert [one["verdict"] for one in itl["differences"]] == ["within noise", "worse"]
    assert itl["unit"] == "s"


def test_the_page_names_every_number_and_every_field() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for number in NUMBERS:
        assert f"`{number.name}`" in page, number.name
    for part in (Comparison, SidePart, PhasePart, NumberPart, Difference, DifferingSetting, Unlike):
        for field in fields(part):
            assert f"`{field.name}`" in page, (part.__name__, field.name)
    for verdict in re.findall(r'"(same|within noise|better|worse|higher|lower|noise not known|[a-z]+ bucket|not \w+)"',
                              Path(compared_phase.__file__).read_text(encoding="utf-8")):  # fmt: skip
        assert f"*{verdict}*" in page, verdict
