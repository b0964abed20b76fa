"""The manual page and the line of progress: nothing is left out of the one, nothing but a terminal gets the other."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.vtop import runner
from tests.ui.pty import VTOP, Terminal
from tests.ui.screens import SWEEP
from vtop.cli import main
from vtop.cli.progress import Progress
from vtop.recording import FileRecording
from vtop.ui.keys import KEYS


def test_the_manual_has_every_verb_every_option_and_every_key() -> None:
    done = runner().invoke(main, ["man"])
    assert (done.exit_code, done.stderr) == (0, "")
    text = done.stdout.replace("\\-", "-")
    for name, command in main.commands.items():
        assert f".SS vtop {name}" in text
        for option in command.params:
            assert any(face in text for face in option.opts) or option.param_type_name == "argument"
    assert all(f"({key.id})" in text for key in KEYS)
    assert "VTOP_WINDOW" in text


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_manual_is_roff() -> None:
    page = runner().invoke(main, ["man"]).stdout
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-wall", "-k"], input=page.encode(), capture_output=True, check=True
    )
    assert done.stderr == b""
    assert b"The instrument panel of a vLLM server" in done.stdout


def test_progress_says_how_much_of_a_file_is_read_and_then_what_is_done() -> None:
    recording = FileRecording(SWEEP)
    progress = Progress("comparing")
    progress.reading("sweep_c64", lambda: recording.read_ratio)
    recording.take(1)
    assert progress.line().startswith("reading sweep_c64 ") or recording.read_ratio == 1.0
    while recording.take():
        pass
    assert progress.line() == "comparing … 0:00"
    recording.close()
    assert recording.read_ratio == 1.0


def test_a_pipe_gets_no_progress_and_a_terminal_keeps_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("vtop.cli.progress.FIRST_S", 0.0)
    done = runner().invoke(main, ["check", str(SWEEP)])
    assert done.stderr == ""
    with Terminal([*VTOP, "check", str(SWEEP)], folder=tmp_path) as terminal:
        assert terminal.exit_code() == 0
    assert terminal.written.rstrip().endswith(b"no problem found")
