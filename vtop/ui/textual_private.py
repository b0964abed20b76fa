"""The private pieces of Textual that vtop builds on; no other file of vtop touches one.

Textual may change these in any minor version, so pyproject.toml holds Textual to the one they were tried with: 8.2,
each release from 8.2.5 to 8.2.8. Before the bound is raised: `pytest tests/ui tests/test_textual_private.py`.

What they are for:

- The screen sends only the cells that changed. Textual crops an update at the right edge of a changed region and sends
  the line from the widget's left edge on; over SSH that is most of what vtop would send. `ExactScreen` crops on both
  sides.
- The driver writes to a terminal that may hang up or be slow, and reads keys without a timer (`Terminal`).
- A fault that ends the screen is one line for a person (`OneLineApp`).
- The screen as text and as a picture is the compositor's whole update (`print_screen`, `screen_lines`), as in
  Textual's own screenshot.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import sys
from codecs import getincrementaldecoder
from time import monotonic
from typing import Any, Final

from rich.console import Console
from rich.control import Control
from rich.segment import Segment
from textual import constants
from textual._compositor import ChopsUpdate, Compositor, LayoutUpdate
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen

from vtop import faults
from vtop.ui.driver import ANSWER, ASK, RESUME, Line, Wire

PIECES: Final = (  # module, class or "", name
    ("textual.constants", "", "ESCAPE_DELAY"),
    ("textual.screen", "Screen", "_compositor"),
    ("textual._compositor", "Compositor", "render_update"),
    ("textual._compositor", "Compositor", "render_partial_update"),
    ("textual._compositor", "LayoutUpdate", "strips"),
    ("textual.app", "App", "_background_screens"),
    ("textual.app", "App", "_fatal_error"),
    ("textual.app", "App", "_exit_renderables"),
    ("textual._compositor", "ChopsUpdate", "chops"),
    ("textual._compositor", "ChopsUpdate", "spans"),
    ("textual._compositor", "ChopsUpdate", "chop_ends"),
    ("textual._compositor", "ChopsUpdate", "render_segments"),
    ("textual._xterm_parser", "XTermParser", "feed"),
    ("textual._xterm_parser", "XTermParser", "tick"),
    ("textual.drivers.linux_driver", "LinuxDriver", "_file"),
    ("textual.drivers.linux_driver", "LinuxDriver", "_debug"),
    ("textual.drivers.linux_driver", "LinuxDriver", "_writer_thread"),
    ("textual.drivers.linux_driver", "LinuxDriver", "fileno"),
    ("textual.drivers.linux_driver", "LinuxDriver", "exit_event"),
    ("textual.drivers.linux_driver", "LinuxDriver", "process_message"),
    ("textual.drivers.linux_driver", "LinuxDriver", "run_input_thread"),
    ("textual.drivers.linux_driver", "LinuxDriver", "start_application_mode"),
    ("textual.drivers.linux_driver", "LinuxDriver", "stop_application_mode"),
    ("textual.drivers.linux_driver", "LinuxDriver", "disable_input"),
)

_TAIL: Final = re.compile(r"(?:\x1b\[0?)?$")  # what may be the beginning of an answer
ESCAPE_MS: Final = 20  # an escape followed by nothing for so long is the key, not the beginning of a sequence
vars(constants)["ESCAPE_DELAY"] = ESCAPE_MS / 1000


class ExactUpdate(ChopsUpdate):
    """An update whose spans are sent from their first cell to their last."""

    def render_segments(self, console: Console) -> str:
        sequences: list[str] = []
        for y, x1, x2 in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= x2 or end <= x1:
                    continue
                begin = max(x, x1)
                sequences.append(Control.move_to(begin, y).segment.text)
                sequences.append(strip.crop(begin - x, min(end, x2) - x).render(console))
        return "".join(sequences)


class ExactCompositor(Compositor):
    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        return ExactUpdate(update.chops, update.spans, update.chop_ends) if update is not None else None


class ExactScreen(Screen[None], inherit_bindings=False):
    """A screen that is repainted cell by cell. Tab is the app's: nothing here has a focus to move."""

    def __init__(self) -> None:
        super().__init__(id="_default")
        self._compositor: Compositor = ExactCompositor()


class OneLineApp(App[None]):
    """When it cannot go on, the traceback goes to vtop's log, not with the values of all variables to the terminal."""

    def _fatal_error(self) -> None:
        if (error := sys.exc_info()[1]) is not None:
            faults.put_down(error, "at the screen, which ended")
        super()._fatal_error()
        self._exit_renderables.clear()


class Terminal(LinuxDriver):
    """Textual's driver on a wire that may be cut, reading keys without a timer.

    Textual's own looks for keys every 0.1 s: an escape waits for that, and so does quitting, twice.
    """

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file: Any = Wire(self._file)
        self.line = Line()
        self._awake, self._waker = os.pipe()

    def behind(self) -> bool:
        """Whether what was written before is still on its way to the terminal."""
        return self._file.writing or self.line.behind(monotonic())

    def frame_is_written(self) -> None:
        """Ask, where it is time to, when the terminal has shown it."""
        if self.line.wants_asking(monotonic()):
            self.line.asked(monotonic())
            self.write(ASK)

    def start_application_mode(self) -> None:
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if self._writer_thread is not None:  # it is stopped where there is no terminal any more
            self.line.asked(monotonic())
            self.write(ASK)

    def stop_application_mode(self) -> None:
        self._file.drop()
        self.write(RESUME)
        super().stop_application_mode()

    def disable_input(self) -> None:
        os.write(self._waker, b".")
        super().disable_input()

    def run_input_thread(self) -> None:
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")("replace").decode
        watched = select.poll()
        watched.register(self.fileno, select.POLLIN)
        watched.register(self._awake, select.POLLIN)
        typed = False
        begun = ""  # of an answer
        while not self.exit_event.is_set():
            ready = {number for number, _ in watched.poll(ESCAPE_MS + 1 if typed else None)}
            if self._awake in ready:
                break
            typed = self.fileno in ready
            if typed:
                read = os.read(self.fileno, 4096)
                if not read:
                    break
                text = begun + decode(read)
                if ANSWER in text:
                    self.line.answered(monotonic())
                    text = text.replace(ANSWER, "")
                begun = _TAIL.findall(text)[0]
                text = text.removesuffix(begun)
            elif begun:
                text, begun = begun, ""
            else:
                text = ""
            for event in parser.feed(text) if text else ():
                self.process_message(event)
            for event in parser.tick():
                self.process_message(event)
        os.set_blocking(self._awake, False)
        with contextlib.suppress(BlockingIOError):  # so that input can be enabled again, after a suspension
            os.read(self._awake, 1024)


def print_screen(app: App[Any], console: Console) -> None:
    """Print all that stands on the screen to a console of its size."""
    console.print(app.screen._compositor.render_update(full=True))


def screen_lines(app: App[Any]) -> list[list[Segment]]:
    """All that stands on the screen, a line a row."""
    update = app.screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    assert isinstance(update, LayoutUpdate)
    return [[segment for strip in line for segment in strip] for line in update.strips]
