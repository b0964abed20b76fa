"""A process that a test starts. It leads a process group, and that group does not outlive the test run."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

# Waits for the end of its input, which comes when the test run ends, however it ends
_GUARD = 'read -r _; kill -s KILL -- "-$1"'


class Child:
    def __init__(
        self, command: Sequence[str | Path], *, stdout: IO[bytes], stderr: IO[bytes], env: Mapping[str, str]
    ) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=env, process_group=0
        )
        self.pid = self._process.pid
        self._guard = subprocess.Popen(
            ["sh", "-c", _GUARD, "guard", str(self.pid)], stdin=subprocess.PIPE, process_group=0
        )

    @property
    def exited(self) -> bool:
        return self._process.poll() is not None

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, within_s: float) -> int:
        """Its exit code. Raises subprocess.TimeoutExpired."""
        return self._process.wait(within_s)

    def end(self) -> None:
        """SIGKILL to all that is left of the group. May be called again."""
        if self._guard.returncode is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._guard.kill()
        self._guard.communicate()

    def group(self) -> list[int]:
        """The living processes of its group."""
        found = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                state, _, group = stat.read_text().rpartition(")")[2].split()[:3]
                if int(group) == self.pid and state != "Z":
                    found.append(int(stat.parent.name))
        return found
