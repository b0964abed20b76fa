"""The page about reports names what a report holds, and its example works."""

from __future__ import annotations

import re
from pathlib import Path

from tests.report.reports import report_of
from vtop.report.expectations import judge, read
from vtop.report.render.document import Drawing, Table
from vtop.report.report_document import document

PAGE = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")


def test_every_figure_and_table_stands_in_the_page() -> None:
    reports = [report_of(name) for name in ("sweep", "overload_loaded")]
    for section in document(reports).sections:
        for block in section.blocks:
            if isinstance(block, Drawing):
                assert block.figure.title in PAGE, block.figure.title
            if isinstance(block, Table):
                assert block.title.lower() in PAGE.lower(), block.title


def test_the_example_of_expectations_can_be_judged(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "rules.toml"
    path.write_text(example, encoding="utf-8")
    results = {one.name: one.result for one in judge(report_of("overload_loaded"), read(path))}
    assert results == {"no-preemption": "not met", "kv-has-room": "not met", "first-token": "not observable"}


def test_every_field_that_the_page_names_is_one(tmp_path: Path) -> None:
    from vtop.report.expectations import known

    named = re.search(r"A field is named as in the JSON.*?…", PAGE, re.DOTALL)
    assert named is not None
    fields = [field for field in re.findall(r"`([\w.]+)`", named.group(0)) if field not in ("run", "whole", "steady")]
    assert len(fields) >= 10
    assert [field for field in fields if not known(field)] == []
