"""A Ray cluster of two nodes on this machine, small and short-lived; the second node's monotonic clock can be ahead."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.vllm_server import until

STORE_BYTES = 80_000_000  # the least that Ray takes
AWAIT = """
import logging, ray, sys, time
ray.init(address=sys.argv[1], logging_level=logging.CRITICAL, log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) < 2:
    time.sleep(0.05)
"""


def can_shift_clocks() -> bool:
    """Whether a process of its own time can be started here: unshare --time, for root on Linux."""
    tool = shutil.which("unshare")
    return (
        tool is not None and subprocess.run([tool, "--time", "true"], capture_output=True, check=False).returncode == 0
    )


@contextlib.contextmanager
def cluster(*, ahead_s: int = 0, cpus: int = 2) -> Iterator[tuple[str, str]]:
    """Its address from within and from outside; the second node's clock is so far ahead."""
    pytest.importorskip("ray", reason="no Ray: pip install 'vtop[ray]'")
    port, outside = _free_ports(2)
    # short: Ray's sockets lie in it
    with (
        tempfile.TemporaryDirectory(prefix="r", dir="/tmp", ignore_cleanup_errors=True) as folder,
        ExitStack() as stack,
    ):
        common = [f"--num-cpus={cpus}", f"--object-store-memory={STORE_BYTES}", "--disable-usage-stats", "--block"]
        head = ["--head", "--node-ip-address=127.0.0.1", f"--port={port}", f"--ray-client-server-port={outside}"]
        _start(stack, [*head, "--include-dashboard=false", f"--temp-dir={folder}", "--node-name=left", *common])
        _await(port)
        clock = ["unshare", "--time", "--monotonic", str(ahead_s), "--fork", "--kill-child"] if ahead_s else []
        _start(stack, [f"--address=127.0.0.1:{port}", "--node-name=right", *common], clock)
        subprocess.run([sys.executable, "-c", AWAIT, f"127.0.0.1:{port}"], check=True, capture_output=True, timeout=90)
        yield f"127.0.0.1:{port}", f"ray://127.0.0.1:{outside}"


def _start(stack: ExitStack, words: Sequence[str], before: Sequence[str] = ()) -> None:
    ray = Path(sys.executable).with_name("ray")
    process = subprocess.Popen(
        [*before, ray, "start", *words],
        env=os.environ | {"RAY_USAGE_STATS_ENABLED": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )

    def stop() -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):  # with --block it ends all that it has started
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(3)

    stack.callback(stop)


def _free_ports(many: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(many)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in found]


def _await(port: int) -> None:
    def there() -> bool:
        with socket.socket() as asked:
            return asked.connect_ex(("127.0.0.1", port)) == 0

    until(there, "Ray's head listens", within_s=60.0)
