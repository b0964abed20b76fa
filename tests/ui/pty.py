"""A program under a pseudo-terminal: what it wrote, keys pressed, hanging up. Every wait ends at what it waits for."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic

LONGEST_S = 20.0  # what is waited for has come long before, or never comes
VTOP = (sys.executable, "-m", "vtop")
ROOT = Path(__file__).resolve().parents[2]
# The shell leads the session, so the terminal it opens becomes its own: closing it hangs up on the program.
OPEN = 'tty=$1; shift; exec "$@" <"$tty" >"$tty" 2>"$tty"'


def environment(**changes: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("VTOP", "TEXTUAL", "LC_"))}
    for name in ("NO_COLOR", "COLUMNS", "LINES", "LANG", "PYTHONUNBUFFERED"):
        own.pop(name, None)
    return {**own, "TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8",
            **changes}  # fmt: skip


class Terminal:
    """`written` is all that the program wrote so far. A context manager: the program does not outlive it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        size: tuple[int, int] = (80, 24),
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
        hears_hangup: bool = True,
    ) -> None:
        self._master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
        self.written = b""
        own = ["sh", "-c", OPEN, "sh", os.ttyname(slave), *command] if hears_hangup else list(command)
        self.process = subprocess.Popen(
            own, stdin=slave, stdout=slave, stderr=slave, env=environment() if env is None else env, cwd=folder,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if self._master >= 0:
            os.close(self._master)

    def read(self, within_s: float) -> bool:
        """What comes next; False at the end of all, or of the time."""
        if not select.select([self._master], [], [], max(0.0, within_s))[0]:
            return False
        try:
            came = os.read(self._master, 1 << 16)
        except OSError:  # the program is gone
            return False
        self.written += came
        return bool(came)

    def until(self, wanted: Callable[[], bool] | bytes) -> None:
        end = monotonic() + LONGEST_S
        reached = wanted if callable(wanted) else lambda: wanted in self.written
        while not reached():
            assert self.read(end - monotonic()), f"never came, but: {self.written[-2000:].decode(errors='replace')}"

    def press(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def hang_up(self) -> None:
        os.close(self._master)
        self._master = -1

    def exit_code(self) -> int:
        """Read to the end; what the program ended with."""
        end = monotonic() + LONGEST_S
        while self._master >= 0 and self.read(end - monotonic()):
            pass
        return self.process.wait(max(0.1, end - monotonic()))
