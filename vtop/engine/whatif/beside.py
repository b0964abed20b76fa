"""The prices of a recording's loads, made beside a screen: in a process of its own, so that no key waits for it.

The process prints a load's prices as one JSON line, the heaviest load first; only it loads the engine.
    python -m vtop.engine.whatif.beside FILE
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from vtop.errors import VtopError
from vtop.session.frame.prices import Prices

LONGEST_S: Final = 30.0  # of simulation, roughly, that a load may take
NICE: Final = 10


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


def each(path: Path) -> Iterator[Prices]:
    """Of each load that can be simulated in time, by the profile of its GPU that comes with vtop, heaviest first."""
    from vtop.engine.fit import profile
    from vtop.engine.fit.calibration import host_factors_of
    from vtop.engine.runs.runs import Run, read
    from vtop.engine.runs.settled import at_limit
    from vtop.engine.whatif.prices import cost_s, prices

    found = [at_limit(run)[0] for run in read(path) if isinstance(run, Run)]
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
        for one in each(Path(sys.argv[1])):
            sys.stdout.buffer.write(msgspec.json.encode(one) + b"\n")
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
