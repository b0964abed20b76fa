"""Every command line that the documents and --help print is one that vtop takes, word for word.

Here each is read as far as its verb, with its verb put out of action; bench/command_lines.py lets them all run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from tests.cli.vtop import runner
from tests.command_lines import furnish, printed, words_of
from vtop.cli import main
from vtop.cli.common import open_recording
from vtop.load.workload.spec import phases

LINES = sorted({(where, " ".join(words_of(line))): line for where, line in printed()}.items())


def commands(group: click.Group) -> Iterator[click.Command]:
    for command in group.commands.values():
        yield command
        if isinstance(command, click.Group):
            yield from commands(command)


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[dict[str, Any]]:
    """What the verbs are called with, instead of doing it; in a folder with the files that the documents name."""
    calls: list[dict[str, Any]] = []
    for command in (main, *commands(main)):
        monkeypatch.setattr(command, "callback", lambda *context, **asked: calls.append(asked))
    furnish(tmp_path)
    monkeypatch.chdir(tmp_path)
    return calls


def test_the_documents_print_command_lines() -> None:
    assert len(LINES) > 90
    assert {where for (where, _), _ in LINES} >= {"README.md", "planning.md", "vtop --help", "vtop capacity --help"}


def test_every_printed_line_is_one_that_vtop_takes(reached: list[dict[str, Any]]) -> None:
    wrong = []
    for (where, _), line in LINES:
        reached.clear()
        words = words_of(line)
        done = runner().invoke(main, words)
        if done.exit_code or not (reached or "--help" in words):
            wrong.append(f"{where}: {line}\n    {done.stderr}")
        for asked in reached:
            wrong += [f"{where}: {line}\n    {why}" for why in unknown(asked)]
    assert not wrong, "\n".join(wrong)


def unknown(asked: dict[str, Any]) -> Iterator[str]:
    """What in a verb's values is no load, or no recording that is there."""
    try:
        phases(asked.get("loads") or ())
        with click.Context(main).scope():
            for file in (*asked.get("files", ()), *([asked["file"]] if "file" in asked else [])):
                if isinstance(file, Path):
                    open_recording(file)
    except Exception as error:
        yield str(error)
