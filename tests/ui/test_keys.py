"""What each key and the mouse do, in a live session and in a replay."""

from __future__ import annotations

import errno
import io
import os
import threading
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest
from rich.segment import Segment
from textual.command import CommandPalette
from textual.events import MouseScrollDown, MouseScrollUp

from tests.ui.screens import SWEEP, cells, live, replay, said, text
from vtop import faults, units
from vtop.draw import layout
from vtop.draw import theme as looks
from vtop.recording import End, Mark, Start, decode
from vtop.recording import recording as recordings
from vtop.recording.recording_file import RecordingFile
from vtop.session.glossary.numbers import NUMBERS
from vtop.ui.app import VtopApp
from vtop.ui.board import Board
from vtop.ui.help import HelpScreen
from vtop.ui.keys import BY_DIGIT, FOOTERS, KEYS


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def lines(path: Path) -> list[object]:
    return [decode(line) for line in path.read_bytes().splitlines()]


def plain(row: list[Segment]) -> str:
    return "".join(segment.text for segment in row)


# --- time ------------------------------------------------------------------------------------------------------------


async def test_space_holds_the_screen_and_loses_nothing() -> None:
    async with live(SWEEP) as session:
        await session.feed(6.0)
        await session.pilot.press("space")
        held = cells(session.app)
        await session.feed(12.0)
        assert cells(session.app) == held
        assert "paused 0:06" in session.state()
        await session.pilot.press("space")  # goes on from where it stands, at the pace of the session
        session.clock.now_s += 2.0
        assert session.app.playhead.now() == 8.0
        await session.pilot.press("end")
        assert session.app.playhead.live
        assert [server.t[-1] for server in session.app.session.servers] == pytest.approx([11.0], abs=1.0)


async def test_scrubbing_back_while_the_server_goes_on_being_recorded() -> None:
    async with live(SWEEP, window_s=60.0, path=Path("going-on.jsonl")) as session:
        await session.feed(10.0)
        await session.pilot.press("left", "left")
        assert session.app.playhead.now() == pytest.approx(6.0)
        then = cells(session.app)
        await session.feed(16.0)
        assert session.app.playhead.now() == pytest.approx(6.0)
        assert cells(session.app) == then
        await session.pilot.press("end")
        assert session.app.playhead.now() == 16.0
    assert isinstance(lines(Path("going-on.jsonl"))[-1], End)


@pytest.mark.parametrize(
    ("keys", "at_s"),
    [
        (("left",), 10.0),
        (("left", "right", "right"), 12.0),
        (("shift+left",), 0.0),
        (("home",), 0.0),
        (("home", "right", "right"), 4.0),
        (("home", "end"), 12.0),
        (("home", "shift+right"), 12.0),
        (("right",), 12.0),
    ],
)
async def test_arrows_home_and_end(keys: tuple[str, ...], at_s: float) -> None:
    async with live(SWEEP, window_s=60.0) as session:
        await session.feed(12.0)
        await session.pilot.press(*keys)
        assert session.app.playhead.now() == pytest.approx(at_s)
        assert session.app.playhead.live == (at_s == 12.0), "at the end it is live again"


async def test_home_goes_on_playing_a_replay_from_its_beginning() -> None:
    async with replay(SWEEP) as shown:
        await shown.pilot.press("space")
        await shown.passes(5.0)
        await shown.pilot.press("home")
        await shown.passes(1.0)
        assert shown.app.playhead.now() == pytest.approx(1.0)


async def test_space_holds_a_file_that_is_still_growing() -> None:
    async with live(SWEEP, path=Path("growing.jsonl")) as session:
        await session.feed(6.0)
        async with replay(Path("growing.jsonl")) as follower:
            await follower.pilot.press("end", "space")
            held_s = follower.app.playhead.now()
            await session.feed(9.0)
            await follower.passes(1.0)
            assert follower.app.playhead.now() == held_s > 5.0


async def test_zoom_by_key_and_by_wheel() -> None:
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        assert shown.app.scene is not None
        windows = []
        for key in ("plus", "equals_sign", "minus", "minus", "minus"):
            await shown.pilot.press(key)
            windows.append(shown.app.scene.frame.asked_window_s)
        assert windows == [120.0, 60.0, 120.0, 300.0, 600.0]
        board = shown.app.query_one(Board)
        for kind, wanted in ((MouseScrollUp, 300.0), (MouseScrollDown, 600.0)):
            board.post_message(kind(board, 1, 1, 0, 0, 0, False, False, False))
            await shown.pilot.pause()
            assert shown.app.scene.frame.asked_window_s == wanted
        await shown.pilot.press(*["minus"] * 7)
        assert shown.app.scene.frame.asked_window_s == 86400.0
        await shown.pilot.press(*["plus"] * 11)
        assert shown.app.scene.frame.asked_window_s == 30.0


async def test_brackets_change_the_speed_and_the_screen_says_so() -> None:
    async with replay(SWEEP) as shown:
        await shown.pilot.press("space", "right_square_bracket", "right_square_bracket")
        assert "▶ 5× " in plain(cells(shown.app)[0])
        await shown.passes(2.0)
        assert shown.app.playhead.now() == pytest.approx(10.0)
        await shown.pilot.press(*["left_square_bracket"] * 9)
        assert "▶ 0.25× " in plain(cells(shown.app)[0])


# --- what is kept ----------------------------------------------------------------------------------------------------


async def test_m_marks_the_moment_in_the_recording_and_on_the_screen() -> None:
    async with live(SWEEP, path=Path("marked.jsonl")) as session:
        await session.feed(6.0)
        await session.pilot.press("m")
        assert "0:06 ◆ mark" in text(session.app)
    assert [event.t for event in lines(Path("marked.jsonl")) if isinstance(event, Mark)] == [6.0]


async def test_a_replay_records_nothing() -> None:
    async with replay(SWEEP) as shown:
        await shown.pilot.press("r")
        assert said(shown.app)[-1] == "this is a recording already"


async def test_r_records_from_the_beginning_of_the_session_and_again_ends_the_file() -> None:
    async with live(SWEEP) as session:
        await session.feed(6.0)
        assert session.state().startswith("○ live")
        await session.pilot.press("r")
        assert session.state().startswith("● rec")
        await session.feed(9.0)
        await session.pilot.press("r")
        assert session.state().startswith("○ live")
        await session.feed(12.0)
        (path,) = Path().glob("vtop-*.jsonl")
        size = units.bytes_(path.stat().st_size)
        assert said(session.app)[-1] == f"recorded {path} in {Path.cwd()}: 0:08, {size}; vtop replay {path}"
        events = lines(path)
        assert isinstance(events[0], Start)
        assert isinstance(events[-1], End)
        assert [event.t for event in events][-1] < 9.1  # type: ignore[attr-defined]
        await session.pilot.press("r")  # a second file, beside the first
    assert len(list(Path().glob("vtop-*.jsonl"))) == 2
    async with live(SWEEP) as whole, replay(path) as again:
        await whole.feed(6.0)
        await again.at(6.0)
        await whole.pilot.press("space")
        assert cells(whole.app)[:-1] == cells(again.app)[:-1], "but for the keys"


async def test_a_load_that_does_not_run_is_said_until_somebody_clicks() -> None:
    async with live(SWEEP) as session:
        load = session.app._load = LostLoad()
        await session.feed(3.0)
        await session.feed(4.0)
        (toast,) = session.app._notifications
        assert toast.message == "the load does not run: no model 'nope' there; it serves tiny"
        assert toast.timeout > 3600
        session.app.clear_notifications()
        assert "stop load" in session.app.board_text(None)[-1]
        load.finished.set()
        await session.pilot.press(">")
        assert said(session.app)[-1].startswith("the load is over")
        session.app.draw()
        await session.pilot.pause()
        assert "stop load" not in session.app.board_text(None)[-1]


class LostLoad:
    failed: str | None = "no model 'nope' there; it serves tiny"

    def __init__(self) -> None:
        self.finished = threading.Event()

    def change(self, direction: int) -> bool:
        return False

    def abort(self) -> None:
        raise AssertionError


async def test_r_leaves_a_file_that_the_command_line_named_alone() -> None:
    async with live(SWEEP, path=Path("named.jsonl")) as session:
        await session.feed(3.0)
        await session.pilot.press("r")
        assert session.state().startswith("● rec")
        assert "named.jsonl" in said(session.app)[0]


@pytest.mark.parametrize("key", ["r", "s"])
async def test_a_folder_that_is_gone_is_said_and_survived(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    async with live(SWEEP) as session:
        await session.feed(3.0)
        monkeypatch.chdir(gone)
        gone.rmdir()
        await session.pilot.press(key)
        assert "No such file" in said(session.app)[0]
        monkeypatch.chdir(tmp_path)
        await session.pilot.press(key)
        assert len(list(tmp_path.iterdir())) == 1


async def test_a_full_disk_is_said_and_the_screen_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async with live(SWEEP) as session:
        await session.feed(3.0)
        with monkeypatch.context() as full:
            full.setattr(recordings, "new", lambda path: RecordingFile(open("/dev/full", "wb", buffering=0)))
            await session.pilot.press("r")
        assert "No space left" in said(session.app)[0]
        await session.feed(6.0)
        assert session.state() == "○ live 0:06"


async def test_r_again_while_the_disk_is_full_says_what_is_lost_and_the_screen_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = {"bytes": 1 << 20}

    class Small(io.FileIO):
        """A file on a disk that fills."""

        def write(self, line: Any) -> int:
            taken = min(len(line), room["bytes"])
            if not taken:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            room["bytes"] -= taken
            return super().write(line[:taken])

    async with live(SWEEP) as session:
        await session.feed(3.0)
        monkeypatch.setattr(recordings, "new", lambda path: RecordingFile(Small(tmp_path / "small", "xb")))
        await session.pilot.press("r")
        room["bytes"] = 0
        await session.feed(6.0)
        await session.pilot.press("r")
        await session.feed(7.0)
        assert "No space left on device; no longer recorded there" in said(session.app)[-1]
        assert session.state() == "○ live 0:07"


async def test_a_key_whose_action_fails_says_so_and_the_screen_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(app: VtopApp) -> None:
        raise RuntimeError("a fault of vtop's own, with sk-a-key in it")

    monkeypatch.setattr("vtop.ui.keeping.picture", broken)
    async with live(SWEEP) as session:
        await session.feed(3.0)
        await session.pilot.press("s")
        assert "vtop itself failed at the screen (RuntimeError in app.py" in said(session.app)[0]
        await session.feed(6.0)
        assert session.state() == "○ live 0:06"
    faults.told.clear()


async def test_a_disk_that_fills_while_recording_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as full:
        full.setattr(recordings, "new", lambda path: RecordingFile(open("/dev/full", "wb", buffering=0)))
        async with live(SWEEP, path=Path("full.jsonl")) as session:
            await session.feed(3.0)
            assert "No space left" in said(session.app)[0]
            assert session.state() == "○ not saved 0:03"
            assert session.app.scene is not None
            assert any("waits in memory" in one.text for one in session.app.scene.frame.event_log)
            await session.pilot.press("r")
            assert f"recording to full.jsonl in {Path.cwd()} until the end" in said(session.app)[-1]


async def test_s_saves_a_picture_that_is_xml_and_needs_no_network() -> None:
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        await shown.pilot.press("s", "s")
        pictures = sorted(Path().glob("vtop-*.svg"))
        assert len(pictures) == 2
        for path in pictures:
            drawn = path.read_text(encoding="utf-8")
            assert drawn.count("http") == drawn.count('xmlns="http://www.w3.org/2000/svg"') == 1
            assert "GPU BINDS" in "".join(xml.fromstring(drawn).itertext()).replace("\xa0", " ")


# --- what is looked at -----------------------------------------------------------------------------------------------


async def test_t_goes_through_all_themes() -> None:
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        seen, words = [], text(shown.app)
        for _ in looks.names():
            assert shown.app.look is not None
            seen.append((shown.app.look.name, cells(shown.app)[0][1].style))
            await shown.pilot.press("t")
        assert {name for name, _ in seen} == set(looks.names())
        assert len({style for _, style in seen}) == len(seen)
        assert shown.app.look is not None
        assert (shown.app.look.name, text(shown.app)) == ("dark", words)


async def test_tab_chooses_enter_enlarges_escape_gives_back() -> None:
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        before = cells(shown.app)
        await shown.pilot.press("tab")
        assert shown.app.chosen == "requests"
        assert cells(shown.app) != before, "the chosen panel is marked"
        await shown.pilot.press("tab", "shift+tab", "enter")
        assert shown.app.only == "requests"
        assert "KV cache" not in text(shown.app)
        await shown.pilot.press("tab")
        assert shown.app.only == "kv", "one enlarged panel after the other"
        await shown.pilot.press("enter")
        assert shown.app.only is None
        await shown.pilot.press("escape")
        assert cells(shown.app) == before
        await shown.pilot.press("shift+tab")
        assert shown.app.chosen == "events"


async def test_enter_without_a_chosen_panel_says_how_to_choose() -> None:
    async with replay(SWEEP) as shown:
        await shown.pilot.press("enter")
        assert said(shown.app) == ["choose a panel first: tab, or a click"]


@pytest.mark.slow
async def test_every_panel_can_be_enlarged_at_every_size() -> None:
    for size in ((46, 19), (120, 36)):
        async with replay(SWEEP, size=size) as shown:
            await shown.at(12.0)
            await shown.pilot.press("tab", "enter")
            for _ in layout.body():
                assert all(sum(one.cell_length for one in row) == size[0] for row in cells(shown.app))
                await shown.pilot.press("tab")


async def test_a_click_chooses_a_panel() -> None:
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        rows = [plain(row) for row in cells(shown.app)]
        (y,) = (y for y, row in enumerate(rows) if " KV cache " in row)
        await shown.pilot.click(Board, offset=(4, y + 1))
        assert shown.app.chosen == "kv"
        await shown.pilot.click(Board, offset=(4, 0))  # the header is no panel
        assert shown.app.chosen is None


# --- help ------------------------------------------------------------------------------------------------------------


async def test_help_explains_every_key_and_every_number() -> None:
    async with replay(SWEEP) as shown:
        await shown.pilot.press("question_mark")
        help_screen = shown.app.screen
        assert isinstance(help_screen, HelpScreen)
        page = help_screen.page().plain
        for key in KEYS:
            assert key.does in page
        for number in NUMBERS:
            assert number.formula in page
            assert number.field in page
        await shown.passes(3.0)  # what lies under it goes on
        await shown.pilot.press("escape")
        assert not isinstance(shown.app.screen, HelpScreen)


async def test_help_for_a_panel_is_about_that_panel() -> None:
    async with replay(SWEEP) as shown:
        for panel in layout.body():
            page = HelpScreen(panel).page().plain
            own = [number for number in NUMBERS if number.panel == panel]
            assert all(number.formula in page for number in own)
        await shown.pilot.press("tab", "question_mark")
        assert "preempt" in text(shown.app)
        await shown.pilot.press("q")
        assert shown.app.is_running, "q closes the help, not vtop"


async def test_the_palette_knows_every_key_and_every_theme() -> None:
    async with replay(SWEEP) as shown:
        named = [command.title for command in shown.app.get_system_commands(shown.app.screen)]
        assert set(named) == {
            *(key.does for key in KEYS if key.id not in ("interrupt", "palette")),
            *(f"theme {name}" for name in looks.names()),
            *(f"enlarge {layout.title(panel)}" for panel in layout.body()),
            *(f"hide or show {layout.title(panel)}" for panel in layout.body() if panel not in BY_DIGIT),
        }
        for word in ("zoom", "screenshot", "scroll", "copy", "suspend", "hide", "load", "mark", "replay", "record"):
            assert any(word in title for title in named), word
        await shown.pilot.press("ctrl+p")
        assert isinstance(shown.app.screen, CommandPalette)
        await shown.pilot.press(*"theme light")
        await shown.app.workers.wait_for_complete()
        await shown.pilot.pause()
        await shown.pilot.press("enter")
        await shown.pilot.pause()
        assert shown.app.look is not None
        assert shown.app.look.name == "light"


def test_the_line_of_keys_names_only_keys_there_are() -> None:
    faces = {key.face for key in KEYS} | {"␣", "^p", "−"}
    for keys in (layout.KEYS, *FOOTERS.values()):
        assert {face for faced, _ in keys for face in faced.split()} <= faces


@pytest.mark.parametrize(("keys", "named"), [((), "speed"), (("tab", "enter"), "all panels")])
async def test_the_line_of_keys_follows_the_mode_of_a_replay(keys: tuple[str, ...], named: str) -> None:
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        await shown.pilot.press(*keys)
        assert named in plain(cells(shown.app)[-1])


async def test_the_line_of_keys_of_a_live_session_records_and_sets_no_speed() -> None:
    async with live(SWEEP) as session:
        await session.feed(3.0)
        last = plain(cells(session.app)[-1])
        assert "r record" in last
        assert "speed" not in last


def test_no_key_is_bound_twice() -> None:
    bound = [key for one in KEYS for key in one.keys.split(",")]
    assert len(bound) == len(set(bound))
    assert all(hasattr(VtopApp, f"action_{one.action.partition('(')[0]}") for one in KEYS), (
        "every key leads to an action"
    )


@pytest.mark.parametrize(
    ("size", "key"),
    [((20, 4), "q"), ((30, 8), "ctrl+c"), ((46, 19), "q"), ((60, 15), "q"), ((1, 1), "q"), ((2, 2), "q")],
)
async def test_the_way_out_is_open_at_any_size(size: tuple[int, int], key: str) -> None:
    async with replay(SWEEP, size=size) as shown:
        await shown.at(12.0)
        await shown.pilot.press("tab", "enter", "question_mark", "escape", "plus", key)
        assert not shown.app.is_running
    assert shown.app.return_code == 0
