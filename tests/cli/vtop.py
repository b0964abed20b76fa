"""vtop as a shell runs it: what came out on each stream, and the exit code."""

from __future__ import annotations

import signal
import subprocess
from inspect import signature
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from tests.cli.server import Server
from tests.ui.pty import VTOP, environment


def runner() -> CliRunner:
    """click's, with stdout and stderr apart: click 8.1 mixes them unless told not to, later ones take no such word."""
    apart: dict[str, Any] = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
    return CliRunner(**apart)


def vtop(*words: str | bytes, folder: Path, **env: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*VTOP, *words], capture_output=True, stdin=subprocess.DEVNULL, cwd=folder, env=environment(**env), timeout=60,
        check=False,
    )  # fmt: skip


def recorded(
    server: Server, *words: str | bytes, folder: Path, number: signal.Signals = signal.SIGTERM, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """`vtop record`, ended by a signal as soon as two scrapes are on record."""
    command = [*VTOP, "record", "--interval", "0.1", "--no-gpu", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=environment(**env)
    ) as process:
        try:
            server.forget()
            server.asked(3)
        finally:
            process.send_signal(number)
        out, err = process.communicate(timeout=30)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def refused(done: subprocess.CompletedProcess[bytes]) -> str:
    """The one line that says what was wrong."""
    assert done.returncode == 2, done
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("vtop: ")
    return line
