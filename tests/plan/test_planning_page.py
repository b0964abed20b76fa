"""docs/planning.md: every command that it prints runs, and prints every line that it shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.vtop import runner
from vtop.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")


def blocks() -> list[tuple[list[str], list[str]]]:
    """The commands of a block, and the lines that the next one shows of what they print."""
    found: list[tuple[list[str], list[str]]] = []
    for kind, content in re.findall(r"```(\w*)\n(.*?)```", PAGE, re.DOTALL):
        lines = [line for line in content.splitlines() if line.strip()]
        if kind == "sh":
            found.append(([line.partition(" #")[0].strip() for line in lines], []))
        else:
            found[-1][1].extend(lines)
    return found


def plain(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def cases() -> list[object]:
    """Those that simulate for seconds are run apart."""
    found = blocks()
    marks = [
        (pytest.mark.slow,) if any("--simulate" in line or "overload_loaded" in line for line in commands) else ()
        for commands, _ in found
    ]
    return [pytest.param(*block, marks=mark) for block, mark in zip(found, marks, strict=True)]


@pytest.mark.parametrize(("commands", "shown"), cases(), ids=lambda one: one[0][:50] if one else "")
def test_every_command_runs_and_prints_what_the_page_shows(
    commands: list[str], shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    printed = ""
    for command in commands:
        verb, *words = shlex.split(command)
        assert verb == "vtop"
        result = runner().invoke(main, words)
        assert result.exit_code == 0, (command, result.output)
        printed += result.output
    for line in shown:
        assert plain(line).strip() in plain(printed), line
