"""A simulated server in a process of its own on a free port of this machine, as long as whoever started it lives."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from types import TracebackType

import msgspec

from vtop.engine.server.simulated import Settings

LOOPBACK = "127.0.0.1"
STOP_S = 1.5


class Started:
    """It listens from the start on: who asks before it is up waits for its answer. It ends when the pipe to it does,
    also when this process is killed. A context manager."""

    def __init__(self, settings: Settings) -> None:
        with listen(LOOPBACK, 0) as listening:
            self.url = f"http://{LOOPBACK}:{listening.getsockname()[1]}"
            self.process = subprocess.Popen(
                # -P: what lies in this folder is none of ours
                [sys.executable, "-P", "-m", "vtop.engine.server.serve", str(listening.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # a screen may be where vtop's goes
                pass_fds=(listening.fileno(),),
                start_new_session=True,  # ctrl-c in the terminal is vtop's
            )
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone already, and the screen will say so
            self.process.stdin.write(msgspec.json.encode(settings) + b"\n")
            self.process.stdin.flush()

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Leave no process behind."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(STOP_S)
        self.process.kill()
        self.process.wait()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(1024)
    except BaseException:
        listening.close()
        raise
    return listening
