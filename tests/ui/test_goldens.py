"""The screen of a known instant, letter by letter. VTOP_WRITE=1 rewrites the files; look at what changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.ui.screens import OVERLOAD, SIZES
from vtop.draw import theme as looks
from vtop.recording import FileRecording
from vtop.session.session import Session
from vtop.ui import run

FOLDER = Path(__file__).with_name("goldens")


@pytest.mark.parametrize("size", SIZES)
def test_the_overload_looks_as_it_did(size: tuple[int, int]) -> None:
    recording = FileRecording(OVERLOAD)
    session = Session(recording.start)
    while events := recording.take():
        for event in events:
            session.apply(event)
    recording.close()
    _, shown = run.still(session, looks.load("dark"), now_s=151.0, size=size, window_s=300.0, hidden=frozenset())
    golden = FOLDER / f"overload-{size[0]}x{size[1]}.txt"
    if os.environ.get("VTOP_WRITE"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8")
