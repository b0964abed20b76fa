"""Measures the screen on a slow line: how old what is seen is, how long keys take, and how soon q ends it.

Run from the repository: python bench/slow_line.py [--rate 960] [--seconds 40]. vtop shows a simulated server in a
pseudo-terminal that is read at so many bytes a second, by a terminal that answers when it has shown what came, as
real ones do. `--deep` reads at once and shows at that rate, as with sshd and a modem between.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

import pyte

ROOT = Path(__file__).resolve().parent.parent
COLUMNS, LINES = 80, 24
ASK, ANSWER = b"\x1b[5n", b"\x1b[0n"
STEP_S = 0.05


class SlowTerminal:
    """vtop behind a line of `rate` bytes a second; `screen` is what has been shown."""

    def __init__(self, argv: list[str], rate: float, *, deep: bool, cwd: Path) -> None:
        self._fd, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=cwd, start_new_session=True
        )
        os.close(slave)
        self._rate, self._deep = rate, deep
        self._held = b""  # read, and not shown
        self._tail = b""  # of what was shown, which may be half a question
        self._budget = 0.0
        self._last_s = time.monotonic()
        self.shown = 0
        self.screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self.screen)

    def run(self, for_s: float) -> None:
        end_s = time.monotonic() + for_s
        while time.monotonic() < end_s:
            self.step()

    def step(self) -> None:
        time.sleep(STEP_S)
        now_s = time.monotonic()
        self._budget = min(self._rate, self._budget + (now_s - self._last_s) * self._rate)
        self._last_s = now_s
        wanted = 1 << 20 if self._deep else max(0, int(self._budget) - len(self._held))
        if wanted and select.select([self._fd], [], [], 0)[0]:
            try:
                self._held += os.read(self._fd, wanted)
            except OSError:
                return
        piece, self._held = self._held[: int(self._budget)], self._held[int(self._budget) :]
        self._budget -= len(piece)
        self.shown += len(piece)
        seen = self._tail + piece
        for _ in range(seen.count(ASK)):
            os.write(self._fd, ANSWER)
        self._tail = seen[-len(ASK) + 1 :]
        self._stream.feed(re.sub(rb"\x1b\[[<>=?][0-9;]*[a-zA-Z$]+|\x1b\[5n", b"", piece))

    def press(self, keys: bytes) -> float:
        os.write(self._fd, keys)
        return time.monotonic()

    def clock(self) -> int | None:
        """The session's time that the first line shows, in seconds."""
        found = re.search(r"(\d+):(\d\d)", self.screen.display[0])
        return int(found[1]) * 60 + int(found[2]) if found else None


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rate", type=float, default=960.0, help="bytes a second")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--deep", action="store_true", help="with a buffer between that takes anything")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vtop-slow-") as folder:
        server = subprocess.Popen(
            [sys.executable, "-m", "vtop", "simulate", "--port", "0"], stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        try:
            assert server.stderr is not None
            url = server.stderr.readline().decode().split()[-1]
            argv = [sys.executable, "-m", "vtop", url, "--no-gpu"]
            load = subprocess.Popen(
                [sys.executable, "-m", "vtop", "load", url, "c=8", "in=64", "out=64", "for=300s"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
            began_s = time.monotonic()
            terminal = SlowTerminal(argv, asked.rate, deep=asked.deep, cwd=Path(folder))
            while terminal.clock() is None and time.monotonic() < began_s + 60:
                terminal.step()
            first_s = time.monotonic() - began_s
            print(f"first line seen after {first_s:.1f} s, {terminal.shown:,} bytes")
            behind = []
            while time.monotonic() < began_s + asked.seconds:
                terminal.run(1.0)
                if (at_s := terminal.clock()) is not None:
                    behind.append(time.monotonic() - began_s - at_s)
            start_up_s = min(behind)
            late = [one - start_up_s for one in behind[5:]]
            print(f"seen behind the session: median {sorted(late)[len(late) // 2]:.1f} s, most {max(late):.1f} s")
            print(f"{terminal.shown:,} bytes in {time.monotonic() - began_s:.0f} s")
            pressed_s = terminal.press(b" ")
            while "paused" not in terminal.screen.display[0] and time.monotonic() < pressed_s + 60:
                terminal.step()
            print(f"space is seen after {time.monotonic() - pressed_s:.1f} s")
            terminal.press(b" ")
            terminal.run(3.0)
            pressed_s = terminal.press(b"q")
            while terminal.process.poll() is None and time.monotonic() < pressed_s + 30:
                terminal.step()
            print(f"q ends vtop after {time.monotonic() - pressed_s:.2f} s")
            if terminal.process.poll() is None:
                terminal.process.kill()
            load.send_signal(signal.SIGINT)
            load.wait(10)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(10)


if __name__ == "__main__":
    main()
