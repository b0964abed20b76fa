"""`vtop.open`: a session and plain records for a notebook."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import vtop
from tests.export.recorded import OVERLOAD, loaded, opened, request, watched, written
from tests.session.made import read
from vtop.errors import VtopError
from vtop.recording import End, Mark, encode
from vtop.session.frame.frame import View


def test_a_frame_is_the_session_s() -> None:
    run = opened(OVERLOAD)
    assert run.frame(100.0).requests.waiting.now == 47
    assert run.frame().now_s == run.end_s == run.session.end_s
    assert run.frame(100.0, window_s=20.0).window_s == run.session.frame(100.0, View(window_s=20.0)).window_s


def test_the_lines_are_the_recording_s() -> None:
    start, events = read(OVERLOAD)
    run = opened(OVERLOAD)
    assert list(run.lines()) == events
    assert run.start == start


def test_what_was_written_after_it_was_opened_is_not_in_it(tmp_path: Path) -> None:
    path = written(loaded(), tmp_path / "a.jsonl", end=False)
    run = vtop.open(path)
    count = len(run.requests())
    with open(path, "ab") as file:
        for event in (request(98.0, 7, sent_s=98.0), Mark(t=99.0), End(t=99.0)):
            file.write(encode(event) + b"\n")
    assert run.end_s == pytest.approx(9.601)
    assert len(run.requests()) == count == 4
    assert vtop.open(path).end_s == 99.0


def test_a_path_may_be_a_word_or_a_path(tmp_path: Path) -> None:
    path = written(watched(2), tmp_path / "a.jsonl")
    assert vtop.open(str(path)).samples() == vtop.open(path).samples()


def test_it_says_what_it_is(tmp_path: Path) -> None:
    path = written(watched(2), tmp_path / "a.jsonl")
    assert repr(vtop.open(path)) == f"<recording {path}: 1.6 s, 1 servers>"


def test_a_file_that_is_none_is_an_error_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("hello\n")
    with pytest.raises(VtopError, match="not a vtop recording"):
        vtop.open(path)
    with pytest.raises(VtopError, match="cannot be read"):
        vtop.open(tmp_path / "none.jsonl")


def test_importing_vtop_loads_nothing() -> None:
    code = "import sys, vtop; print(*sorted(name for name in sys.modules if name.startswith(('vtop', 'msgspec'))))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == ["vtop"]
