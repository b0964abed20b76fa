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
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from vtop import __version__
from vtop.load.workers.link import LocalProcess

HEAR_S = 1.0  # how long a call waits for something to be said
DEAF_S = 120.0  # nobody asked what is said for so long: whoever led the load is gone


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
        self._folder: TemporaryDirectory[str] | None = None
        self._said: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._turn = threading.Lock()
        self._told = 0  # orders
        self._early: dict[int, bytes] = {}  # orders that wait for one before
        self._called_s = time.monotonic()
        self._over = threading.Event()
        threading.Thread(target=self._listen, name="load news", daemon=True).start()
        threading.Thread(target=self._watch, name="load watch", daemon=True).start()

    def about(self) -> About:
        return About(__version__, platform.python_version(), self._process.pid, machine())

    def clock(self) -> float:
        """Of this host, monotonic: the one that its worker takes its stamps from."""
        return time.monotonic()

    def tell(self, number: int, line: bytes) -> None:
        """Order `number`, from 0: calls that come at once may overtake each other, and orders must not."""
        with self._turn:
            self._early[number] = line
            while (following := self._early.pop(self._told, None)) is not None:
                self._process.tell(following)
                self._told += 1

    def hear(self) -> bytes | None:
        """The lines that were said since the last call; empty where there is none for a while, None after the end."""
        self._called_s = time.monotonic()
        lines: list[bytes] = []
        with contextlib.suppress(queue.Empty):
            line = self._said.get(timeout=HEAR_S)
            while line is not None:
                lines.append(line)
                line = self._said.get_nowait()
            self._said.put(None)  # for the next call
            return b"".join(lines) if lines else None
        return b"".join(lines)

    def keep(self, files: Mapping[str, bytes]) -> dict[str, str]:
        """Files that the worker is to read, under their own names: where each lies on this host, as long as it runs."""
        self._called_s = time.monotonic()
        self._folder = self._folder or TemporaryDirectory(prefix="vtop-")
        found = {}
        for number, (path, content) in enumerate(files.items()):
            place = Path(self._folder.name, str(number), Path(path).name)
            place.parent.mkdir()
            place.write_bytes(content)
            found[path] = str(place)
        return found

    def hang_up(self) -> None:
        self._process.hang_up()
        if self._folder is not None:
            self._folder.cleanup()

    def last_word(self) -> str:
        return self._process.last_word()

    def _listen(self) -> None:
        for line in self._process.lines():
            self._said.put(line)
        self._said.put(None)
        self._over.set()

    def _watch(self) -> None:
        """No load goes on where nobody asks for it any more, as behind a network that was cut."""
        while not self._over.wait(HEAR_S):
            if time.monotonic() - self._called_s > DEAF_S:
                self.hang_up()
                return


def machine() -> str:
    """What tells a machine from others, and from itself before it was last started; empty where that is not known."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
