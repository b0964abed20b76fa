"""The prices of a recording's loads, made beside a screen: in a process of its own, so that no key waits for it.

The process prints a load's prices as one JSON line, the heaviest load first; only it loads the engine.
    python -m vtop.engine.whatif.beside FILE [PHASE …]      # phases to leave out
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from vtop.errors import VtopError
from vtop.session.frame.prices import Prices

LONGEST_S: Final = 30.0  # of simulation, roughly, that a load may take
NICE: Final = 10
AGAIN_S: Final = 30.0  # after a process ended, at least, and twice what it took
LONGEST_SESSION_S: Final = 3600.0  # that is read anew each time


class PricesBeside:
    """What is known so far. Nothing of a recording without a profile of its GPU, or with a load of no kind that can be
    simulated: nothing is reported then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[int | None, Prices] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._hearing: threading.Thread | None = None

    @property
    def made(self) -> int:
        """Of how many loads there are prices."""
        return len(self._known)

    def of(self, phase: int | None) -> Prices | None:
        """phase: of vtop's own load, from 0; None: of a load that was watched."""
        return self._known.get(phase)

    def start(self) -> None:
        command = [sys.executable, "-m", "vtop.engine.whatif.beside", str(self._path)]
        with contextlib.suppress(OSError):  # a machine that starts no process has a screen without prices
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            self._hearing = threading.Thread(target=self._hear, name="prices", daemon=True)
            self._hearing.start()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._hearing is not None:
            self._hearing.join(1.0)

    def _hear(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with contextlib.suppress(msgspec.DecodeError):
                    one = msgspec.json.decode(line, type=Prices)
                    self._known[one.phase] = one

    def asked(self, now_s: float) -> None:
        """They are being made from the start."""


class LivePrices:
    """The prices of the loads of a session that goes on, made anew while somebody looks at them: one process at a time,
    each on what is recorded by then, with a pause after it."""

    def __init__(self, copy_to: Callable[[Path], Path | None]) -> None:
        """copy_to: gives a file with the session so far, the given one or another."""
        self._copy_to = copy_to
        self._known: dict[int | None, Prices] = {}
        self._made = 0
        self._next_s = 0.0
        self._working: threading.Thread | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._lock = threading.Lock()

    @property
    def made(self) -> int:
        """How often a load was priced."""
        return self._made

    def of(self, phase: int | None) -> Prices | None:
        """phase: of vtop's own load, from 0; None: of a load that was watched."""
        return self._known.get(phase)

    def asked(self, now_s: float) -> None:
        """Somebody looks. now_s: of the session."""
        busy = self._working is not None and self._working.is_alive()
        if busy or self._stopped or now_s > LONGEST_SESSION_S or time.monotonic() < self._next_s:
            return
        self._working = threading.Thread(target=self._work, name="prices", daemon=True)
        self._working.start()

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.kill()
        if self._working is not None:
            self._working.join(1.0)

    def _work(self) -> None:
        began_s = time.monotonic()
        with contextlib.suppress(OSError), tempfile.TemporaryDirectory(prefix="vtop-") as folder:
            path = self._copy_to(Path(folder) / "session.jsonl")
            if path is not None:
                self._price(path)
        self._next_s = time.monotonic() + max(AGAIN_S, 2 * (time.monotonic() - began_s))

    def _price(self, path: Path) -> None:
        latest = max((phase for phase in self._known if phase is not None), default=0)
        over = [str(phase) for phase in self._known if phase is not None and phase < latest]
        command = [sys.executable, "-m", "vtop.engine.whatif.beside", str(path), *over]
        with self._lock:
            if self._stopped:
                return
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                with contextlib.suppress(msgspec.DecodeError):
                    one = msgspec.json.decode(line, type=Prices)
                    self._known[one.phase] = one
                    self._made += 1
        self._process.wait()


def each(path: Path, over: frozenset[int] = frozenset()) -> Iterator[Prices]:
    """Of each load that can be simulated in time, by the profile of its GPU that comes with vtop, heaviest first. over:
    phases to leave out."""
    from vtop.engine.fit import profile
    from vtop.engine.fit.calibration import host_factors_of
    from vtop.engine.runs.runs import Run, read
    from vtop.engine.runs.settled import at_limit
    from vtop.engine.whatif.prices import cost_s, prices

    found = [at_limit(run)[0] for run in read(path, unended=True) if isinstance(run, Run) and run.phase not in over]
    if sum(run.phase is None for run in found) > 1:
        return  # loads that were watched one after another: which of them is looked at nobody tells
    for run in sorted(found, key=lambda one: -(one.observed.running or 0.0)):
        known = profile.of_gpu(run.gpu)
        if known is not None and cost_s(run) <= LONGEST_S:
            with contextlib.suppress(VtopError):  # an error that is absurd
                yield prices(run, known, host_factors_of(run, known))


def main() -> None:
    os.nice(NICE)
    with contextlib.suppress(VtopError, BrokenPipeError):
        for one in each(Path(sys.argv[1]), frozenset(int(phase) for phase in sys.argv[2:])):
            sys.stdout.buffer.write(msgspec.json.encode(one) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
