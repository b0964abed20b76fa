"""What the terminal holds after any number of partial updates is the screen that `vtop show` prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ui.pty import VTOP, Terminal
from tests.ui.screens import OVERLOAD
from vtop.draw import theme as looks
from vtop.recording import FileRecording
from vtop.session.session import Session
from vtop.ui import run

pyte = pytest.importorskip("pyte", reason="a terminal emulator: pip install pyte")

NOT_ANSI = re.compile(rb"\x1b\[[<>=][0-9;]*[a-zA-Z]|\x1b\[\?[0-9;]*\$p")  # kitty, queries: pyte prints them
LEFT, RIGHT, FAR_LEFT, FAR_RIGHT = b"\x1b[D", b"\x1b[C", b"\x1b[1;2D", b"\x1b[1;2C"
STEPS = ((b"", 0.0), *((RIGHT, 2.0), (LEFT, -2.0), (FAR_RIGHT, 20.0), (RIGHT, 2.0), (FAR_LEFT, -20.0)) * 2)


class Screen:
    """A terminal's cells, as an emulator makes them from the bytes that came."""

    def __init__(self, terminal: Terminal, size: tuple[int, int]) -> None:
        self._terminal, self._fed = terminal, 0
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)

    def text(self) -> str:
        come = self._terminal.written
        whole = come.rfind(b"\x1b") if come.rfind(b"\x1b") > len(come) - 40 else len(come)  # no half sequence
        self._stream.feed(NOT_ANSI.sub(b"", come[self._fed : whole]))
        self._fed = whole
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip("\n") + "\n"

    def has_reverse(self) -> bool:
        return any(cell[-1] for row in self.colours() for cell in row)

    def colours(self) -> list[list[tuple[str, str, str, bool, bool]]]:
        self.text()
        rows, columns = self._screen.lines, self._screen.columns
        cell = self._screen.buffer
        return [
            [
                (cell[y][x].data, cell[y][x].fg, cell[y][x].bg, cell[y][x].bold, cell[y][x].reverse)
                for x in range(columns)
            ]
            for y in range(rows)
        ]


@pytest.mark.parametrize("size", [(80, 24), pytest.param((120, 36), marks=pytest.mark.slow)])
def test_no_cell_is_stale_after_partial_updates(size: tuple[int, int], tmp_path: Path) -> None:
    recording = FileRecording(OVERLOAD)
    session = Session(recording.start)
    while events := recording.take():
        for event in events:
            session.apply(event)
    recording.close()

    def shown(at_s: float) -> str:
        return run.still(session, looks.load(), now_s=at_s, size=size, window_s=60.0, hidden=frozenset())[1]

    command = [*VTOP, "replay", str(OVERLOAD), "--at", "90", "--window", "60"]
    with Terminal(command, size=size, folder=tmp_path) as terminal:
        screen = Screen(terminal, size)
        at_s = 90.0
        for keys, by_s in STEPS:
            at_s += by_s
            wanted = shown(at_s)
            if keys:
                terminal.press(keys)
            terminal.until(lambda wanted=wanted: screen.text() == wanted)  # type: ignore[misc]
        terminal.press(b"+-\t\t\x1b[Z?")  # other windows, other panels, the help over it
        terminal.until(lambda: "JSON requests.running" in screen.text())
        terminal.press(b"\x1b[27u\x1b[27u")  # and back again
        terminal.until(lambda: screen.text() == wanted and not screen.has_reverse())  # no panel is chosen any more
        partly = screen.colours()
        terminal.press(b"q")
        assert terminal.exit_code() == 0
    with Terminal([*command[:-4], "--at", str(int(at_s)), "--window", "60"], size=size, folder=tmp_path) as terminal:
        fresh = Screen(terminal, size)
        terminal.until(lambda: fresh.text() == wanted and fresh.colours() == partly)  # as a screen drawn whole
        terminal.press(b"q")
        assert terminal.exit_code() == 0
