"""The terminal: it is sent only the cells that changed, and it may be gone at any moment.

Textual crops an update at the right edge of a changed region and sends the line from the widget's left edge on; over
SSH that is most of what vtop would send. This screen crops on both sides.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
from codecs import getincrementaldecoder
from typing import IO, Any, Final

from rich.console import Console
from rich.control import Control
from textual import constants
from textual._compositor import ChopsUpdate, Compositor
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen

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


class Wire:
    """Where the screen is written. Once the terminal hung up it takes nothing more and raises nothing.

    Textual's writer would die of the first error, and whoever waits for room in its queue would then wait for ever.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._cut = False

    def write(self, text: str) -> None:
        if not self._cut:
            try:
                self._file.write(text)
            except OSError:
                self._cut = True

    def flush(self) -> None:
        if not self._cut:
            try:
                self._file.flush()
            except OSError:
                self._cut = True

    def fileno(self) -> int:
        return self._file.fileno()


class Terminal(LinuxDriver):
    """Textual's driver on a wire that may be cut, reading keys without a timer.

    Textual's own looks for keys every 0.1 s: an escape waits for that, and so does quitting, twice.
    """

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._file: Any = Wire(self._file)
        self._awake, self._waker = os.pipe()

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
        while not self.exit_event.is_set():
            ready = {number for number, _ in watched.poll(ESCAPE_MS + 1 if typed else None)}
            if self._awake in ready:
                break
            typed = self.fileno in ready
            if typed:
                text = decode(os.read(self.fileno, 4096))
                if not text:
                    break
                for event in parser.feed(text):
                    self.process_message(event)
            for event in parser.tick():
                self.process_message(event)
        os.set_blocking(self._awake, False)
        with contextlib.suppress(BlockingIOError):  # so that input can be enabled again, after a suspension
            os.read(self._awake, 1024)


def is_gone() -> bool:
    """Whether whoever looked at the screen hung up; Textual would go on reading an ended input at full speed."""
    try:
        watched = select.poll()
        watched.register(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0, 0)
        return any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in watched.poll(0))
    except (OSError, ValueError):
        return True
