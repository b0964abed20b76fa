"""A replay is gone through by time, by event and by the row of time; marks set on the way are there the next time."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.ui.screens import OVERLOAD, SWEEP, live, replay, said, text
from vtop.draw.panels.timeline import instant_at, track
from vtop.recording import Mark, ShapedRecording
from vtop.recording.marks_beside import add_mark, path_beside, read_marks
from vtop.session.session import read
from vtop.ui.board import Board
from vtop.ui.prompt import Prompt
from vtop.ui.seeking import instant


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return Path(shutil.copy(SWEEP, tmp_path / "own.jsonl.gz"))


@pytest.mark.parametrize(
    ("typed", "at_s"), [("2:30", 150.0), ("90s", 90.0), ("50%", 100.0), ("-30", 170.0), ("-9:00", 0.0), ("0", 0.0)]
)
def test_a_time_is_written_as_everywhere(typed: str, at_s: float) -> None:
    assert instant(typed, 200.0) == at_s


@pytest.mark.parametrize("typed", ["soon", "200%", "-5%", "nan", "--3"])
def test_what_is_no_time_is_refused(typed: str) -> None:
    with pytest.raises(ValueError, match="is no"):
        instant(typed, 200.0)


async def test_g_asks_for_a_time_and_goes_there() -> None:
    async with replay(SWEEP) as shown:
        await shown.pilot.press("g", *"0:09", "enter")
        assert shown.app.playhead.now() == 9.0
        await shown.pilot.press("g", *"9:99", "enter")
        assert said(shown.app) == ["9:99 is behind the end at 0:18"]
        await shown.pilot.press("g", "q")
        assert isinstance(shown.app.screen, Prompt), "q is a letter there"
        await shown.pilot.press("escape")
        assert shown.app.playhead.now() == 9.0


async def test_n_and_its_capital_go_from_event_to_event() -> None:
    async with replay(OVERLOAD) as shown:
        await shown.at(60.0)
        events = [event.at_s for event in shown.app.session.event_log(1e9)]
        await shown.pilot.press("n")
        after = shown.app.playhead.now()
        assert after == min(at_s for at_s in events if at_s > 60.05)
        assert "preempted" in said(shown.app)[-1]
        await shown.pilot.press("n", "N")
        assert shown.app.playhead.now() == after
        await shown.at(shown.app.session.end_s)
        await shown.pilot.press("n")
        assert said(shown.app)[-1] == "no event after this one"


async def test_the_row_of_time_shows_the_whole_recording_and_takes_clicks() -> None:
    async with replay(SWEEP, size=(100, 30)) as shown:
        await shown.at(9.0)
        row = shown.app.board_text(None)[-1]
        assert "q quit" in row
        assert re.search(r" 0:09 [━─↻◆╵]+●[━─↻◆╵]+ 0:18$", row)
        end_s = shown.app.session.end_s
        begin, cells = track(end_s, 44)
        await shown.pilot.click(Board, offset=(99 - 44 + begin + cells // 4, 29))
        assert shown.app.playhead.now() == instant_at(end_s, 44, begin + cells // 4)
    async with live(SWEEP) as session:
        await session.feed(5.0)
        assert "●" not in session.app.board_text(None)[-1], "a live session has its end at hand"


async def test_a_mark_in_a_replay_is_kept_beside_the_recording(own: Path) -> None:
    before = own.read_bytes()
    async with replay(own) as shown:
        await shown.at(9.0)
        await shown.pilot.press("M", *"half way", "enter")
        assert "0:09 ◆ mark half way" in text(shown.app)
        await shown.at(4.0)
        await shown.pilot.press("m")
        assert "half way" not in text(shown.app), "it was not known then"
        await shown.pilot.press("n", "n")
    assert own.read_bytes() == before
    assert [(mark.t, mark.text) for mark in read_marks(own)] == [(4.0, ""), (9.0, "half way")]
    recording = ShapedRecording(own)
    logged = read(recording).event_log(10.0)
    recording.close()
    assert [one.text for one in logged if one.kind == "mark"] == ["mark", "half way"], "every verb reads them"


def test_marks_of_a_shipped_recording_are_in_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert path_beside(SWEEP) == tmp_path / "vtop" / "marks" / f"{SWEEP.name}.marks"
    add_mark(SWEEP, Mark(t=1.0))
    assert [mark.t for mark in read_marks(SWEEP)] == [1.0]


def test_lines_that_are_no_marks_are_left_out(own: Path) -> None:
    path_beside(own).write_bytes(
        b'{"type":"mark","t":3.0,"text":"a"}\nnonsense\n{"type":"note","t":1.0}\n{"type":"mark"}\n'
    )
    assert [mark.text for mark in read_marks(own) if mark.t] == ["a"]


async def test_a_named_mark_of_a_live_session_is_in_its_recording() -> None:
    async with live(SWEEP, path=Path("live.jsonl")) as session:
        await session.feed(6.0)
        await session.pilot.press("M", *"now", "enter")
    assert b'"text":"now"' in Path("live.jsonl").read_bytes()
