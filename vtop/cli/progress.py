"""One line on stderr for verbs that take longer than a moment: what is being read and how far, what is being computed.

A terminal gets it, a file or a pipe never. It is gone when the verb has its answer.
"""

from __future__ import annotations

import functools
import shutil
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

import click

from vtop import plain, units

P = ParamSpec("P")
R = TypeVar("R")
FIRST_S: Final = 0.7  # what is quicker needs no line
EVERY_S: Final = 0.25
CLEAR: Final = "\r\x1b[K"


class Progress:
    """The line, rewritten by a thread; `say` and `reading` change what it says."""

    def __init__(self, words: str) -> None:
        self._words = words
        self._ratio: tuple[str, Callable[[], float]] | None = None
        self._began_s = time.monotonic()
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._rewrite, name="progress", daemon=True)
        self._seen = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Progress:
        if self._seen:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._seen:
            self._thread.join()

    def say(self, words: str) -> None:
        self._words = words

    def reading(self, name: str, ratio: Callable[[], float]) -> None:
        """A file that is being read, and how far: 0 to 1."""
        self._ratio = (name, ratio)

    def aside(self) -> None:
        """Make room for another line on stderr."""
        if self._seen:
            with self._lock:
                click.echo(CLEAR, nl=False, err=True)

    def line(self) -> str:
        """What it says now: reading run.jsonl 34 %; or what is being done, and for how long."""
        if self._ratio is not None and (ratio := self._ratio[1]()) < 1.0:
            return f"reading {self._ratio[0]} {units.whole_percent(ratio)}"
        return f"{self._words} … {units.clock(time.monotonic() - self._began_s)}"

    def _rewrite(self) -> None:
        wait_s, written = FIRST_S, False
        while not self._over.wait(wait_s):
            wait_s, written = EVERY_S, True
            width = max(20, shutil.get_terminal_size().columns - 1)
            with self._lock:
                click.echo(f"{CLEAR}{plain.line(self.line())[:width]}", nl=False, err=True)
        if written:
            click.echo(CLEAR, nl=False, err=True)


_now: list[Progress] = []


def current() -> Progress | None:
    """That of the verb that runs."""
    return _now[-1] if _now else None


def shown(words: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Of a verb: while it runs, it says how far it is."""

    def of(verb: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(verb)
        def told(*args: P.args, **kwargs: P.kwargs) -> R:
            with Progress(words) as progress:
                _now.append(progress)
                try:
                    return verb(*args, **kwargs)
                finally:
                    _now.remove(progress)

        return told

    return of


def watched(name: str, recording: Any) -> None:
    """Says how far a recording has been read; nothing where no verb says so."""
    if (progress := current()) is not None:
        progress.reading(name, lambda: float(recording.read_ratio))
