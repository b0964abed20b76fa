"""What a person makes of the screen: panels hidden, own keys and themes, what is copied, what is remembered."""

from __future__ import annotations

import base64
import os
import re
from pathlib import Path

import pytest
from textual.widgets import Input

from tests.cli.vtop import runner
from tests.ui.screens import SWEEP, replay, said, text
from vtop.cli import main
from vtop.cli.common import view_of
from vtop.cli.config import own_keys
from vtop.draw import theme as looks
from vtop.errors import VtopError
from vtop.recording import Mark
from vtop.ui import remembered
from vtop.ui.board import Board, number_at
from vtop.ui.keys import BY_DIGIT, KEYS, footers, mapped, spelled


@pytest.fixture(autouse=True)
def homes_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def settings(tmp_path: Path, said: str) -> None:
    (tmp_path / "config" / "vtop").mkdir(parents=True)
    (tmp_path / "config" / "vtop" / "config.toml").write_text(said)


def asked(**changes: object) -> dict[str, object]:
    return {"theme": None, "ascii_only": False, "window_s": None, "hide": None, **changes}


# --- panels ----------------------------------------------------------------------------------------------------------


async def test_a_digit_hides_a_panel_and_shows_it_again() -> None:
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        whole = text(shown.app)
        await shown.pilot.press("2")
        assert " KV cache " not in text(shown.app)
        assert said(shown.app) == ["KV cache: hidden; 2 shows it again"]
        assert remembered.load().hidden == ("kv",)
        assert "H show 1 hidden" in text(shown.app).splitlines()[-1]
        await shown.pilot.press("2")
        shown.app.clear_notifications()
        await shown.pilot.pause()
        assert text(shown.app) == whole
        assert remembered.load().hidden == ()


async def test_h_hides_the_chosen_panel_and_its_capital_shows_all() -> None:
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        await shown.pilot.press("h")
        assert "choose a panel first" in said(shown.app)[0]
        await shown.pilot.press("tab", "h", "3")
        assert shown.app.hidden == {"requests", "gpus"}
        assert shown.app.chosen is None
        await shown.pilot.press("H")
        assert shown.app.hidden == frozenset()


async def test_a_screen_with_every_panel_hidden_is_a_screen() -> None:
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        await shown.pilot.press(*"1234567890", "tab", "enter", "w", "w")
        assert shown.app.hidden == set(BY_DIGIT)
        assert "GPU BINDS" in text(shown.app)


async def test_the_keys_of_the_last_line_take_clicks() -> None:
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        row = shown.app.board_text(None)[-1]

        async def click(what: str, further: int = 0) -> None:
            await shown.pilot.click(Board, offset=(row.index(what) + further, 35))

        await click("pause", 2)
        assert not shown.app.playhead.paused
        await click("␣")
        assert shown.app.playhead.paused
        speed = shown.app.playhead.speed
        await click("[ ]", 2)
        assert shown.app.playhead.speed > speed
        await click("why", 1)
        assert shown.app.only == "why"


# --- what is remembered ----------------------------------------------------------------------------------------------


async def test_theme_window_and_panels_are_as_they_were_left() -> None:
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        await shown.pilot.press("t", "plus", "5")
        assert shown.app.look is not None
        name, window_s = shown.app.look.name, shown.app.window_s()
    view = view_of(asked())
    assert (view["window_s"], view["hidden"]) == (window_s, {"tokens"})
    assert remembered.load().theme == name
    typed = view_of(asked(window_s=60.0, hide=""))
    assert (typed["window_s"], typed["hidden"]) == (60.0, frozenset()), "what is typed comes first"
    document = view_of(asked(), document=True)
    assert (document["look"].name, document["window_s"], document["hidden"]) == ("dark", None, frozenset())
    async with replay(SWEEP) as shown:
        await shown.pilot.press("a")
        assert remembered.load().window_s is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"theme": 7}', b'{"hidden": ["no such panel"]}'])
def test_what_is_remembered_may_be_damaged(content: bytes) -> None:
    remembered.path().parent.mkdir(parents=True)
    remembered.path().write_bytes(content)
    view = view_of(asked())
    assert (view["hidden"], view["window_s"]) == (frozenset(), None)


def test_what_cannot_be_remembered_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    remembered.keep(theme="light")
    assert remembered.load().theme is None


# --- keys of one's own -----------------------------------------------------------------------------------------------


def test_keys_are_written_as_they_are_pressed() -> None:
    pressed = ("q", "M", "+", "-", "<", "ctrl+k", "ctrl++", "f5", "space", "/")
    assert [spelled(one) for one in pressed] == [
        "q", "M", "plus", "minus", "less_than_sign", "ctrl+k", "ctrl+plus", "f5", "space", "slash",
    ]  # fmt: skip


def test_keys_of_ones_own_stand_in_the_settings(tmp_path: Path) -> None:
    settings(tmp_path, '[keys]\nmark = "k"\nzoom-in = ["z", "+"]\n')
    keys = {key.id: key for key in mapped(own_keys())}
    assert (keys["mark"].keys, keys["zoom-in"].keys, keys["quit"].keys) == ("k", "z,plus", "q")
    assert ("k", "mark") in footers(list(keys.values()))["live"]
    shown = runner().invoke(main, ["config"])
    assert shown.exit_code == 0
    assert "key zoom-in  z, +  file" in shown.stdout


@pytest.mark.parametrize(
    ("own", "what"),
    [
        ({"makr": "k"}, "no such key; did you mean 'mark'"),
        ({"mark": "q"}, "q is bound to quit and to mark|q is bound to mark and to quit"),
        ({"mark": ""}, "write a key, such as"),
        ({"mark": 7}, "write a key, such as"),
    ],
)
def test_a_wrong_key_is_told_in_one_line(own: dict[str, str], what: str) -> None:
    with pytest.raises(VtopError, match=what):
        mapped(own)


async def test_a_key_of_ones_own_does_it_and_the_old_one_does_not() -> None:
    async with replay(SWEEP) as shown:
        shown.app.set_keymap({key.id: key.keys for key in mapped({"pause": "P"}) if key not in KEYS})
        await shown.pilot.press("space")
        assert shown.app.playhead.paused
        await shown.pilot.press("P")
        assert not shown.app.playhead.paused


# --- themes of one's own ---------------------------------------------------------------------------------------------


async def test_a_theme_of_ones_own_is_seen_as_it_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "vtop" / "themes"
    folder.mkdir(parents=True)
    written = looks.path_of("dark").read_text(encoding="utf-8")
    mine = folder / "mine.toml"
    mine.write_text(written, encoding="utf-8")
    assert "mine" in looks.names()
    async with replay(SWEEP, look=looks.load("mine")) as shown:
        shown.app.look_at_theme()
        for step, colour in enumerate(("#123456", "no colour", "#654321"), 1):
            mine.write_text(re.sub(r"(?m)^text = .*", f'text = "{colour}"', written), encoding="utf-8")
            os.utime(mine, ns=(step, step))
            shown.app.look_at_theme()
            await shown.pilot.pause()
            assert shown.app.look is not None
            seen = shown.app.look.colours["text"]
            assert seen == (colour if colour.startswith("#") else "#123456")
        assert "theme 'mine'" in said(shown.app)[0]


# --- copies ----------------------------------------------------------------------------------------------------------


async def test_c_copies_ten_lines_and_y_the_chosen_panel() -> None:
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        await shown.pilot.press("c")
        lines = shown.app.clipboard.splitlines()
        assert len(lines) == 10
        assert lines[1].startswith("GPU BINDS")
        assert "at 0:12 of sweep_c64.jsonl.gz" in lines[-1]
        assert shown.app.scene is not None
        frame = shown.app.scene.frame
        assert f"running {frame.requests.running.now:.0f} " in lines[3]
        await shown.pilot.press("tab", "tab", "y")
        assert shown.app.clipboard.splitlines()[0].strip("━─▌ ").startswith("KV cache")
        await shown.pilot.press("escape", "y")
        assert len(shown.app.clipboard.splitlines()) == 36


async def test_a_click_with_ctrl_copies_the_number_under_it() -> None:
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        rows = shown.app.board_text(None)
        (y,) = (y for y, row in enumerate(rows) if row.startswith(" running "))
        x = re.search(r"\d", rows[y]).start()  # type: ignore[union-attr]
        await shown.pilot.click(Board, offset=(x, y), control=True)
        assert shown.app.scene is not None
        assert shown.app.clipboard == f"{shown.app.scene.frame.requests.running.now:.0f}"


@pytest.mark.parametrize(
    ("row", "x", "number"),
    [
        ("out 1,592 /s", 5, "1592"),
        ("out 1,592 /s", 1, None),
        ("KV 94.9 %", 6, "94.9"),
        ("漢 7", 3, "7"),
        ("a", 9, None),
    ],
)
def test_a_number_is_copied_without_the_commas_between_its_digits(row: str, x: int, number: str | None) -> None:
    assert number_at(row, x) == number


async def test_the_terminal_is_asked_to_take_a_copy() -> None:
    """OSC 52: the text, in base64."""
    async with replay(SWEEP) as shown:
        await shown.at(12.0)
        wrote: list[str] = []
        assert shown.app._driver is not None
        shown.app._driver.write = wrote.append  # type: ignore[method-assign, assignment]
        await shown.pilot.press("c")
        (sent,) = (one for one in wrote if one.startswith("\x1b]52;c;"))
        assert base64.b64decode(sent.removeprefix("\x1b]52;c;").removesuffix("\a")).decode() == shown.app.clipboard


async def test_the_capital_s_saves_a_png(tmp_path: Path) -> None:
    async with replay(SWEEP, size=(40, 10)) as shown:
        await shown.at(12.0)
        await shown.pilot.press("S")
        await shown.app.workers.wait_for_complete()
        (path,) = tmp_path.glob("vtop-*.png")
        assert path.read_bytes().startswith(b"\x89PNG")


async def test_a_slash_in_the_enlarged_events_keeps_those_that_hold_a_text() -> None:
    async with replay(SWEEP, size=(80, 12)) as shown:
        shown.app.session.mark(Mark(t=9.0, text="a new flag"))
        await shown.at(12.0)
        shown.app.show_only("events")
        await shown.pilot.press("slash")
        shown.app.screen.query_one(Input).value = "FLAG"
        await shown.pilot.press("enter")
        assert "with 'FLAG'" in shown.app.board_text("events")[0]
        assert [row.split()[0] for row in shown.app.board_text("events")[1:] if row] == ["0:09"]
        await shown.pilot.press("escape")
        assert shown.app.only == "events", "the first takes the search back"
        assert len([row for row in shown.app.board_text("events")[1:] if row]) == 2
        await shown.pilot.press("escape")
        assert shown.app.only is None
