"""A file with a list of servers that is read again when it changes, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from vtop.errors import VtopError

LOOK_EVERY_S: Final = 5.0


class TargetList:
    """changed: take in what the file says now; raises VtopError for a file that says nothing of use.

    said: told once what is wrong with a file; what it said before goes on.
    """

    def __init__(self, file: Path, changed: Callable[[], object], said: Callable[[str], object]) -> None:
        self._file = file
        self._changed = changed
        self._said = said
        self._seen = self._written()
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="vtop targets", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def look(self) -> None:
        """Take the file in again where it is another than when it was last looked at."""
        now = self._written()
        if now is None or now == self._seen:
            return  # gone for the moment, as while it is written anew
        self._seen = now
        try:
            self._changed()
        except VtopError as error:
            self._said(f"{error}; the servers watched stay as they were")

    def _written(self) -> tuple[int, int, int] | None:
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _run(self) -> None:
        while not self._stopped.wait(LOOK_EVERY_S):
            self.look()
