"""One worker process as the controller has it: started, told what to do, and what is known of it so far."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
import threading

import msgspec

from vtop.load.workers.protocol import Done, Order, Pulse, Setup
from vtop.recording.events import Request


class WorkerHandle:
    """Its process runs from the start on; `gone` once it has ended and everything it said is on record."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._errors = tempfile.TemporaryFile()  # its standard error: a screen may be where vtop's goes
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "vtop.load.workers.worker"],  # -P: what lies in this folder is none of ours
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # ctrl-c in the terminal is vtop's to pass on
        )
        self.gone = False
        self.under_way: dict[tuple[int, int], Request] = {}  # sent, not ended; by phase and id
        self.ready: int | None = None  # the phase that it said so of; as are the next two
        self.steady: int | None = None
        self.done: Done | None = None
        self.pulse: Pulse | None = None
        self.listener: threading.Thread | None = None

    def tell(self, what: Order | Setup) -> None:
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # it ended, or a second signal came
            assert self.process.stdin is not None
            self.process.stdin.write(msgspec.json.encode(what) + b"\n")
            self.process.stdin.flush()

    def hang_up(self) -> None:
        """The end of its orders, which is the end of it."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()

    def last_word(self) -> str:
        """Wait for its end: how it came, in words. To be called once."""
        code = self.process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").split("\n")
        self._errors.close()
        for pipe in (self.process.stdout, self.process.stdin):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        why = next((line.strip() for line in reversed(said) if line.strip()), "")
        if code < 0:
            why = f"killed by {signal.Signals(-code).name}"
        return f"a load process ended unexpectedly ({why or f'exit code {code}'})"
