"""The way to a worker, wherever it runs: lines down, lines up, its end. Here: to a process on this machine."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from vtop.load.workers.clock_offset import Offset
from vtop.load.workers.protocol import Setup
from vtop.recording.events import LoadHost


class WorkerLink(Protocol):
    """A worker that was started. host: its place among the load's hosts; None where it is on this machine."""

    @property
    def host(self) -> int | None: ...

    @property
    def pid(self) -> int:
        """Of the worker, on its host."""
        ...

    def set_up(self, setup: Setup) -> None:
        """Tell it all that it needs, with the files that it names where its host has them."""

    def tell(self, line: bytes) -> None:
        """An order; of no effect once the worker is gone."""

    def lines(self) -> Iterator[bytes]:
        """What it says, until it has ended; a last line without a line end was broken off."""
        ...

    def hang_up(self) -> None:
        """The end of its orders, which is the end of it."""

    def wait(self, timeout_s: float) -> None:
        """For its end, no longer than that."""

    def kill(self) -> None: ...

    def last_word(self) -> str:
        """Wait for its end: how it came, in words. To be called once."""
        ...


@dataclass(frozen=True, slots=True)
class HostClock:
    """A host other than this machine, its workers, and its monotonic clock less this machine's (clock_offset.py)."""

    host: int
    name: str
    workers: tuple[int, ...]
    offset: Offset

    def line(self, phase: int, at_s: float, *, after: bool) -> LoadHost:
        """What the recording says of it, before a phase and after it."""
        return LoadHost(
            host=self.host,
            name=self.name,
            at_s=round(at_s, 6),
            workers=self.workers,
            offset_s=round(self.offset.offset_s, 6),
            rtt_s=round(self.offset.rtt_s, 6),
            phase=phase,
            after=after,
        )


class Hosts(Protocol):
    """Where the workers of a load run."""

    def start(self, workers: int) -> Sequence[WorkerLink]:
        """So many of them. Raises VtopError where there is no room."""
        ...

    def clocks(self) -> Sequence[HostClock]:
        """Each host's, measured now; those that do not answer are left out."""
        ...


class LocalProcess:
    """A worker process on this machine; it runs from the start on."""

    host = None

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()  # its standard error: a screen may be where vtop's goes
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "vtop.load.workers.worker"],  # -P: what lies in this folder is none of ours
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # ctrl-c in the terminal is vtop's to pass on
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def set_up(self, setup: Setup) -> None:
        self.tell(msgspec.json.encode(setup))

    def tell(self, line: bytes) -> None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # it ended, or a second signal came
            assert self._process.stdin is not None
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()

    def lines(self) -> Iterator[bytes]:
        assert self._process.stdout is not None
        return iter(self._process.stdout)

    def hang_up(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def wait(self, timeout_s: float) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)

    def kill(self) -> None:
        self._process.kill()

    def last_word(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").split("\n")
        self._errors.close()
        for pipe in (self._process.stdout, self._process.stdin):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        why = next((line.strip() for line in reversed(said) if line.strip()), "")
        if code < 0:
            why = f"killed by {signal.Signals(-code).name}"
        return f"a load process ended unexpectedly ({why or f'exit code {code}'})"


class ThisMachine:
    """Workers as processes beside vtop's own."""

    def start(self, workers: int) -> Sequence[LocalProcess]:
        return [LocalProcess() for _ in range(workers)]

    def clocks(self) -> Sequence[HostClock]:
        return ()
