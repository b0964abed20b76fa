"""What is written: the same bytes for the same recording, escaped whatever a name holds, and by its schema.

VTOP_WRITE=1 rewrites the golden files and the schema; look at what changed.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import xml.etree.ElementTree as xml
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest

from tests.report.reports import NAMES, made, path_of, report_of
from vtop.report.expectations import judge, read
from vtop.report.figures.figure import Figure, FigurePanel, Series
from vtop.report.figures.figures import FIGURES, figures
from vtop.report.model import Phase, Report
from vtop.report.render import json_schema
from vtop.report.render.document import Document, FindingBlock, Findings, Section, Table
from vtop.report.render.html import html
from vtop.report.render.json import json as written_json
from vtop.report.render.markdown import markdown
from vtop.report.render.terminal import natural_width, text
from vtop.report.render.vega import svg
from vtop.report.report_document import document

GOLDENS = Path(__file__).with_name("goldens")
SCHEMA = Path(__file__).parents[2] / "docs" / "report.schema.json"
NASTY = "</script><img src=x onerror=alert(1)>\x00\x1b[31m`|*_[a](b)\u2028&amp;\ud800"


def golden(path: Path, content: bytes) -> None:
    if os.environ.get("VTOP_WRITE"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    assert content == path.read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_markdown_is_what_it_was(name: str) -> None:
    golden(GOLDENS / f"{name}.md", markdown(document([report_of(name)])).encode())


@pytest.mark.parametrize("name", NAMES)
def test_json_is_what_it_was(name: str) -> None:
    golden(GOLDENS / f"{name}.json", written_json([report_of(name)]))


def test_the_schema_is_that_of_the_records() -> None:
    golden(SCHEMA, json_schema.text().encode())


def test_json_keeps_to_its_schema(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[x]\nthat = "preemptions == 0"\nphase = "*"\n', encoding="utf-8")
    reports = [report_of(name) for name in NAMES]
    outcomes = [outcome for report in reports for outcome in judge(report, read(rules))]
    content = json.loads(written_json(reports, outcomes), parse_constant=_no_number)
    about = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(about)
    jsonschema.Draft202012Validator(about).validate(content)
    content["recordings"][0]["run"]["kv"]["peak"] = 1.0  # a field that the schema does not name is an error
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(about).validate(content)


def _no_number(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


class Tags(HTMLParser):
    """The elements of a page, each closed where it has to be."""

    VOID = ("meta", "br", "hr", "img", "input", "link")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.seen: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        found = dict(attrs)
        self.ids += [found["id"]] if found.get("id") else []  # type: ignore[list-item]
        self.links += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset", "action")
        ]
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def nasty(report: Report) -> Report:
    """The same with names that try to get out of where they stand."""
    servers = tuple(replace(one, models=(NASTY,), url=NASTY) for one in report.servers)
    phases = tuple(_nasty(phase) for phase in report.phases)
    return replace(report, file=NASTY, origin=NASTY, servers=servers, phases=phases, faults=(NASTY,))


def _nasty(phase: Phase) -> Phase:
    load = replace(phase.load, spec=NASTY, limited=NASTY) if phase.load is not None else None
    return replace(phase, name=NASTY, label=phase.label + NASTY, load=load)


@cache
def page() -> str:
    """Of two recordings, one with such names: together they have every figure there is."""
    return html(document([nasty(report_of("sweep")), report_of("overload_loaded")]))


@pytest.mark.slow
def test_html_holds_no_script_no_address_and_every_id_once() -> None:
    tags = Tags()
    tags.feed(page())
    tags.close()
    assert tags.open == []
    assert not {"script", "iframe", "object", "embed", "img", "link", "base", "form", "image"} & set(tags.seen)
    assert all(link.startswith("#") for link in tags.links)
    assert {link[1:] for link in tags.links} <= set(tags.ids)
    assert len(tags.ids) == len(set(tags.ids))
    assert not re.search(r"url\((?!#)|@import", page())
    assert "\x00" not in page()
    assert "\x1b" not in page()
    page().encode()


@pytest.mark.slow
def test_every_figure_is_xml_with_a_title_and_words() -> None:
    drawn = re.findall(r"<svg\b.*?</svg>", page(), re.DOTALL)
    assert len(drawn) > 2 * (len(FIGURES) - 2)
    for figure in drawn:
        kinds = {child.tag.rpartition("}")[2]: child.text for child in xml.fromstring(figure)}
        assert kinds["title"]
        assert len(kinds["desc"] or "") > 20


def test_figures_take_their_colours_from_the_page() -> None:
    drawn = "".join(re.findall(r"<svg\b.*?</svg>", page(), re.DOTALL))
    assert {"var(--queue)", "var(--kv)", "var(--text)"} <= set(re.findall(r"var\(--\w+\)", drawn))
    assert set(re.findall(r"#[0-9a-fA-F]{6}", drawn)) <= {"#000000", "#ffffff"}
    known = set(re.findall(r"(--[\w-]+):", page()))
    assert {name[4:-1] for name in re.findall(r"var\(--[\w-]+\)", page())} <= known


@pytest.mark.parametrize("write", [markdown, text])
def test_text_lets_no_name_out_of_its_place(write: Callable[[Document], str]) -> None:
    written = write(document([nasty(report_of("sweep"))]))
    assert "\x00" not in written
    assert "\x1b" not in written
    assert "\u2028" not in written
    if write is markdown:
        prose = re.sub(r"^```sh\n.*?^```\n", "", written, flags=re.MULTILINE | re.DOTALL)
        assert "<img" not in prose.replace("\\<img", "")
        assert "](b)" not in prose.replace("\\](b)", "")
        written.encode()
        for table in re.findall(r"(?:^\|.*\n)+", written, re.MULTILINE):
            rows = [len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()]
            assert len(set(rows)) == 1


def test_text_is_no_wider_than_asked() -> None:
    from rich.cells import cell_len

    written = text(document([report_of("sweep")]), width=100)
    assert max(map(cell_len, written.splitlines())) <= 110  # a figure's labels may stand out by a few columns


@pytest.mark.parametrize("names", [(name,) for name in NAMES] + [("sweep", "overload_loaded")])
def test_a_table_of_numbers_fits_160_columns_as_it_stands(names: tuple[str, ...]) -> None:
    for section in document([report_of(name) for name in names]).sections:
        for block in section.blocks:
            if isinstance(block, Table) and len(block.words) == 1:
                assert natural_width(block) <= 160, block.title


def test_nothing_is_drawn_of_a_single_phase_or_point() -> None:
    for name in NAMES:
        drawn, missing = figures(report_of(name))
        assert not any(figure.single for figure in drawn)
        if len(report_of(name).phases) == 1:
            assert "TTFT stacked: there is one phase only, and the tables have its numbers." in missing


def test_the_preemption_cycle_has_an_axis_of_its_own_and_says_so() -> None:
    cycle = next(one for one in figures(report_of("overload_loaded"))[0] if one.key == "cycle")
    assert (cycle.panels[0].bottom, cycle.panels[0].top) == (0.91, 1.0)
    assert "goes from 91 % to 100 %" in cycle.caption


def test_loads_of_unlike_shape_stand_on_no_common_axis() -> None:
    assert "crossing" not in {figure.key for figure in figures(report_of("killed"))[0]}
    assert "From load to load" not in markdown(document([report_of("killed")]))


def test_several_recordings_are_set_side_by_side_phase_by_phase() -> None:
    written = markdown(document([report_of("sweep"), report_of("overload_loaded")]))
    row = next(line for line in written.splitlines() if line.startswith("| overload\\_loaded c=64 |"))
    assert row == (
        "| overload\\_loaded c=64 | 8,192 | 6.03 × | 100.0 % | 14 / 64 | 61 | 37 | 1,575 | 6,299 | 60.8 s | 6.22 ms | "
        "6.68 ms | 8.19 ms | 74.9 s |"
    )
    assert "| sweep c=64 | 1,280 | 0.94 × | 94.3 % | 64 / 64 |" in written


def test_a_phase_in_the_table_says_its_window_and_how_many_there_were() -> None:
    written = markdown(document([report_of("overload_loaded")]))
    assert "| c=64 | c=64 in=6144 out=2048 n=128 seed=77 | 0:01–2:48 | 168 |" in written
    assert "262,016" in written


def test_what_cannot_be_drawn_is_said() -> None:
    written = markdown(document([report_of("sweep_c64")]))
    assert "The staircase: fewer than two preemptions." in written
    assert "Queue against prefill: it takes two or more loads" in written


@pytest.mark.parametrize("few", [2, 3, 12])
def test_a_recording_of_a_few_scrapes_has_figures_too(tmp_path: Path, few: int) -> None:
    whole = gzip.decompress(path_of("overload_loaded").read_bytes()).splitlines(keepends=True)
    scrapes = [at for at, line in enumerate(whole) if b'"type":"scrape"' in line]
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(whole[: scrapes[few] + 1]))
    drawn = html(document([made(cut)]))
    assert "<svg" in drawn
    assert "NaN" not in drawn


def test_a_narrow_axis_of_shares_has_no_per_cent_twice() -> None:
    """From 99 to 100 % it had "100 %" three times and "99 %" three times."""
    kv = Series("KV", "kv", ((0.0, 0.995), (1.0, 0.991)))
    panel = FigurePanel("KV use", (kv,), top=1.0, unit="share", bottom=0.99)
    drawn = svg(Figure(key="x", title="x", caption="x", alt="x", x_title="time", x_kind="time", panels=(panel,)))
    ticks = re.findall(r">(\d+\.?\d*%)<", drawn)
    assert len(ticks) == len(set(ticks)) >= 4


def test_the_axis_of_the_cycle_holds_half_of_what_it_shows() -> None:
    """Where few preemptions tell what they left, as of several a scrape, it began at 99 %, above most scrapes."""
    report = report_of("overload_loaded")
    first, *rest = report.staircase.events
    events = (
        replace(first, kv_after_ratio=0.991, freed_ratio=0.001),
        *(replace(one, freed_ratio=None) for one in rest),
    )
    few = replace(report, staircase=replace(report.staircase, events=events))
    (cycle,) = [one for one in figures(few)[0] if one.key == "cycle"]
    shown = [y for x, y in cycle.panels[0].series[0].points if y and cycle.ticks[0] <= float(x) <= cycle.ticks[-1]]
    assert cycle.panels[0].bottom is not None
    assert sum(y >= cycle.panels[0].bottom for y in shown) >= len(shown) / 2


def test_no_line_of_the_html_ends_between_a_number_and_its_unit() -> None:
    found = FindingBlock("5.74 s or 3.5 % of the time, 1.20 × prefill in 3 steps", ("700 W",))
    page = html(Document("a", (Section("a", "a", 2, (Findings((found,)),)),)))
    assert "5.74\xa0s or 3.5\xa0% of the time, 1.20\xa0× prefill in 3 steps" in page
    assert "700\xa0W" in page
