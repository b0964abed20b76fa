"""The terminal's end: whoever looks at the screen may be gone at any moment."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
from typing import Final, TextIO

ASK: Final = "\x1b[5n"  # a terminal answers it with ANSWER, after all that was written before it
ANSWER: Final = "\x1b[0n"
SLOW_S: Final = 0.5  # from which on a line is slow
GIVE_UP_S: Final = 30.0  # an answer that is not there by then is lost
ASK_EVERY_S: Final = 10.0  # on a fast line
PIECE_BYTES: Final = 1024
POLL_MS: Final = 50
RESUME: Final = "\x00resume"  # written through the queue of texts: from here on nothing is dropped
GONE: Final = "the terminal is gone"  # why a screen was left, in its recording's last line


class Wire:
    """Where the screen is written, a little at a time, so that what a slow line has not taken can still be dropped.

    Once the terminal hung up it takes nothing more and raises nothing: Textual's writer would die of the first error,
    and whoever waits for room in its queue would then wait for ever.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._cut = False
        self._dropping = False
        self._texts: list[str] = []
        self.writing = False  # a text is on its way, and the line has not taken it in full

    def write(self, text: str) -> None:
        """Keep a text for `flush`, which comes when no other waits."""
        if text is RESUME:
            self._texts.clear()
            self._dropping = False
        elif not self._dropping:
            self._texts.append(text)

    def flush(self) -> None:
        text, self._texts = "".join(self._texts), []
        rest = memoryview(text.encode(self._file.encoding or "utf-8", self._file.errors or "replace"))
        watched = select.poll()
        self.writing = True
        try:
            watched.register(self.fileno(), select.POLLOUT)
            while rest and not (self._cut or self._dropping):
                if watched.poll(POLL_MS):
                    rest = rest[os.write(self.fileno(), rest[:PIECE_BYTES]) :]
        except (OSError, ValueError):
            self._cut = True
        self.writing = False

    def drop(self) -> None:
        """Drop what is on its way and all that comes, as far as RESUME; also what the line itself still holds."""
        if self.writing:
            with contextlib.suppress(termios.error):
                termios.tcflush(self.fileno(), termios.TCOFLUSH)
        self._dropping = True

    def fileno(self) -> int:
        return self._file.fileno()


class Line:
    """How far the terminal is behind: it is asked for a sign after a frame, and gives it once it has shown the frame.

    Between vtop and an eye may stand buffers that take anything at once (sshd, a modem), so that only an answer tells.
    Of a fast line it is asked now and then, of a slow one after each frame, and no frame is drawn before the answer.
    The first question, before any frame, tells whether the terminal answers; one that does not is taken to be as fast
    as it takes what is written. Instants are monotonic seconds.
    """

    def __init__(self) -> None:
        self.late_s: float | None = None  # how long the latest frame took to be shown; None: not known
        self._asked_s: float | None = None  # and not answered
        self._next_s = 0.0  # when to ask again on a fast line

    def wants_asking(self, now_s: float) -> bool:
        return self.late_s is not None and self._asked_s is None and (self.slow or now_s >= self._next_s)

    def asked(self, now_s: float) -> None:
        if self.late_s is not None:
            self._next_s = now_s + ASK_EVERY_S
        self._asked_s = now_s

    def answered(self, now_s: float) -> None:
        if self._asked_s is not None:
            self.late_s, self._asked_s = now_s - self._asked_s, None

    @property
    def slow(self) -> bool:
        return self.late_s is not None and self.late_s >= SLOW_S

    def behind(self, now_s: float) -> bool:
        """Whether a frame drawn now would only queue behind the one before."""
        if self._asked_s is None or self.late_s is None:
            return False
        waits_s = now_s - self._asked_s
        return waits_s < GIVE_UP_S and (self.slow or waits_s >= SLOW_S)


def is_gone() -> bool:
    """Whether whoever looked at the screen hung up; Textual would go on reading an ended input at full speed."""
    try:
        watched = select.poll()
        watched.register(sys.__stdin__.fileno() if sys.__stdin__ is not None else 0, 0)
        return any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in watched.poll(0))
    except (OSError, ValueError):
        return True
