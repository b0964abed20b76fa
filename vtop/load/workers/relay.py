"""A worker on another host: what stands beside its process there and passes its lines on, in both directions.

The process is the same as on vtop's own machine, so nothing of the cluster's runs in what
measures. It ends with the relay.
"""

from __future__ import annotations

import contextlib
import platform
import queue
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from vtop import __version__
from vtop.load.workers.link import LocalProcess

HEAR_S = 1.0  # how long a call waits for something to be said


@dataclass(frozen=True, slots=True)
class About:
    """Who a relay is. machine: the same for all that run on one machine since it was started."""

    vtop: str
    python: str
    pid: int
    machine: str


class Relay:
    """Called from afar, each call on a thread of its own; it starts its worker at once."""

    def __init__(self) -> None:
        self._process = LocalProcess()
        self._said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, name="load news", daemon=True).start()

    def about(self) -> About:
        return About(__version__, platform.python_version(), self._process.pid, machine())

    def clock(self) -> float:
        """Of this host, monotonic: the one that its worker takes its stamps from."""
        return time.monotonic()

    def tell(self, line: bytes) -> None:
        self._process.tell(line)

    def hear(self) -> bytes | None:
        """The lines that were said since the last call; empty where there is none for a while, None after the end."""
        lines: list[bytes] = []
        with contextlib.suppress(queue.Empty):
            line = self._said.get(timeout=HEAR_S)
            while line is not None:
                lines.append(line)
                line = self._said.get_nowait()
            self._said.put(None)  # for the next call
            return b"".join(lines) if lines else None
        return b"".join(lines)

    def hang_up(self) -> None:
        self._process.hang_up()

    def last_word(self) -> str:
        return self._process.last_word()

    def _listen(self) -> None:
        for line in self._process.lines():
            self._said.put(line)
        self._said.put(None)


def machine() -> str:
    """What tells a machine from others, and from itself before it was last started; empty where that is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
