"""The terminal's end: whoever looks at the screen may be gone at any moment."""

from __future__ import annotations

import select
import sys
from typing import IO, Final

GONE: Final = "the terminal is gone"  # why a screen was left, in its recording's last line


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


def is_gone() -> bool:
    """Whether whoever looked at the screen hung up; Textual would go on reading an ended input at full speed."""
    try:
        watched = select.poll()
        watched.register(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0, 0)
        return any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in watched.poll(0))
    except (OSError, ValueError):
        return True
