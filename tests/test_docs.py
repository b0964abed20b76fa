"""The documents say what the code does. VTOP_WRITE=1 rewrites docs/numbers.md from the table of numbers."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from packaging.requirements import Requirement

from vtop.cli import main
from vtop.recording.events import FORMAT, Event, GpuReading
from vtop.session.glossary.numbers import NUMBERS

ROOT = Path(__file__).resolve().parent.parent

HEAD = """# Every number on the screen

Made from the table in `vtop/session/glossary/numbers.py`, which the help screen reads too. Field names are those of
`vtop show --json` and `vtop --once --json`; seconds, bytes and ratios there.
"""


def numbers_page() -> str:
    page = HEAD
    for panel in dict.fromkeys(number.panel for number in NUMBERS):
        page += f"\n## {panel}\n"
        for number in (one for one in NUMBERS if one.panel == panel):
            fields = ", ".join(f"`{one}`" for one in (number.field, *number.also))
            page += f"\n**{number.name}** ({number.unit}, {fields}): {number.formula}.\n"
            if not number.on_screen:
                page += "Not on the screen: in JSON and reports.\n"
            page += f"From {', '.join(f'`{one}`' for one in number.source().split(', '))}.\n"
            if number.caveat:
                page += f"Caveat: {number.caveat}.\n"
    return page


def test_the_page_of_numbers_is_the_table_of_numbers() -> None:
    path = ROOT / "docs" / "numbers.md"
    if os.environ.get("VTOP_WRITE"):
        path.write_text(numbers_page(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == numbers_page()


def test_the_format_page_names_every_event_and_every_field() -> None:
    page = (ROOT / "docs" / "recording-format.md").read_text(encoding="utf-8")
    assert f"version {FORMAT}" in page
    kinds: list[type[msgspec.Struct]] = [*Event.__subclasses__(), GpuReading]
    for kind in kinds:
        for field in kind.__struct_fields__:
            assert f"`{field}`" in page, (kind.__name__, field)
        if kind is not GpuReading:
            assert f"`{kind.__struct_config__.tag}`" in page


def test_every_verb_stands_in_the_readme() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    for verb in main.commands:
        assert f"vtop {verb}" in page, verb


def test_the_readme_links_to_what_is_there() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)]+)\)", page):
        assert (ROOT / link).exists(), link


def test_a_recording_says_how_it_was_made() -> None:
    page = (ROOT / "recordings" / "README.md").read_text(encoding="utf-8")
    for path in (ROOT / "recordings").glob("*.jsonl*"):
        assert f"`{path.name.partition('.')[0]}`" in page, path.name


def test_every_test_that_the_hard_cases_name_is_one() -> None:
    page = (ROOT / "docs" / "hard-cases.md").read_text(encoding="utf-8")
    files = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "tests").rglob("test_*.py")}
    texts = [path.read_text(encoding="utf-8") for path in files.values()]
    there = {name for text in texts for name in re.findall(r"def (test_\w+)", text)}
    named = set(re.findall(r"`(test_\w+)`", page))
    assert len(named) > 100
    assert named <= there
    assert set(re.findall(r"`(tests/\S+\.py)`", page)) <= files.keys()
    assert len(re.findall(r"^\| [A-H]\d\d \|", page, re.MULTILINE)) == 118


@pytest.mark.parametrize(
    ("file", "more"), [("locked.txt", ("test", "parquet")), ("locked-extras.txt", ("test", "parquet", "web", "ray"))]
)
def test_what_ci_installs_is_locked_with_hashes_at_versions_that_are_allowed(file: str, more: tuple[str, ...]) -> None:
    page = (ROOT / ".ci" / file).read_text(encoding="utf-8")
    assert "://" not in page  # of any index
    entries = re.findall(r"^([a-z0-9.-]+)==(\S+)( \\\n    --hash=sha256:[0-9a-f]{64})?$", page, re.MULTILINE)
    assert all(hashed for _, _, hashed in entries)
    locked = {name: version for name, version, _ in entries}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [Requirement(one) for one in (*project["dependencies"], *(one for name in more for one in extras[name]))]
    for one in wanted:
        if one.name != "vtop":
            assert one.specifier.contains(locked[one.name]), one
