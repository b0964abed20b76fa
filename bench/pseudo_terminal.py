"""A program in a pseudo-terminal of its own, drained all the time: for the benchmarks of a screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Program:
    """Started at once. `chunks` are what it wrote: (monotonic seconds, bytes), oldest first."""

    def __init__(self, argv: Sequence[str], *, columns: int = 120, lines: int = 36, cwd: Path | None = None) -> None:
        self.chunks: list[tuple[float, bytes]] = []
        self.ended_s: float | None = None
        self._fd, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        dropped = ("COLUMNS", "LINES", "NO_COLOR", "TEXTUAL", "COLORTERM", "PYTHONDONTWRITEBYTECODE")  # pip compiles
        environment = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        environment |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
        self.began_s = time.monotonic()
        self._process = subprocess.Popen(
            argv, env=environment, cwd=cwd, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)
        self.pid = self._process.pid
        threading.Thread(target=self._drain, daemon=True).start()
        threading.Thread(target=self._wait, daemon=True).start()

    def press(self, keys: bytes) -> float:
        """Type; the instant just before."""
        at_s = time.monotonic()
        os.write(self._fd, keys)
        return at_s

    def answer_s(self, after_s: float, patience_s: float = 2.0) -> float | None:
        """When the first byte after an instant came; None when none does."""
        return self._when(lambda: next((at_s for at_s, _ in reversed(self.chunks) if at_s > after_s), None), patience_s)

    def first_s(self, after_s: float) -> float | None:
        """The earliest chunk after an instant, of those that are here."""
        return next((at_s for at_s, _ in list(self.chunks) if at_s > after_s), None)

    def quiet(self, for_s: float, patience_s: float = 10.0) -> None:
        """Wait until nothing was written for so long."""
        until = time.monotonic() + patience_s
        while time.monotonic() < until:
            last_s = self.chunks[-1][0] if self.chunks else self.began_s
            if time.monotonic() - last_s >= for_s:
                return
            time.sleep(0.002)

    def wait_end(self, patience_s: float) -> float | None:
        """When it ended; None when it does not."""
        return self._when(lambda: self.ended_s, patience_s)

    def stop(self) -> None:
        """q, then a signal, then a stronger one."""
        if self.ended_s is None:
            with contextlib.suppress(OSError):
                self.press(b"q")
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.wait_end(3.0) is not None:
                return
            self._process.send_signal(number)
        self.wait_end(3.0)

    def written(self, begin_s: float = 0.0, end_s: float = float("inf")) -> int:
        """Bytes written between two instants."""
        return sum(len(data) for at_s, data in list(self.chunks) if begin_s <= at_s < end_s)

    def cpu_s(self) -> float:
        """CPU seconds so far, of its children too."""
        ticks = 0
        for pid in family(self.pid):
            with contextlib.suppress(OSError, IndexError):
                ticks += sum(int(word) for word in _stat(pid)[11:15])
        return ticks / TICKS_PER_S

    def rss_bytes(self) -> int:
        pages = 0
        for pid in family(self.pid):
            with contextlib.suppress(OSError, IndexError):
                pages += int(_stat(pid)[21])
        return pages * PAGE_BYTES

    def _when(self, ask: Callable[[], float | None], patience_s: float) -> float | None:
        until = time.monotonic() + patience_s
        while (at_s := ask()) is None and time.monotonic() < until:
            time.sleep(0.001)
        return at_s

    def _drain(self) -> None:
        while True:
            try:
                data = os.read(self._fd, 1 << 16)
            except OSError:  # the other side is closed
                return
            self.chunks.append((time.monotonic(), data))

    def _wait(self) -> None:
        self._process.wait()
        self.ended_s = time.monotonic()


def family(pid: int) -> list[int]:
    """A process and its living descendants."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(child) for child in task.read_text().split()]
    return found


def _stat(pid: int) -> list[str]:
    """The words of /proc/PID/stat from the third on: the second may hold blanks."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
