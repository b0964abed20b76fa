"""A load as vtop runs it, against the mock server, for the benchmarks: its request lines and what it cost."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from vtop.access import Endpoint
from vtop.load.workers.controller import Controller
from vtop.load.workers.link import Hosts
from vtop.load.workload.spec import phases
from vtop.recording.events import Event, Host, Load, Request

MOCK = Path(__file__).resolve().parent / "load_mock.py"


@dataclass(slots=True)
class Result:
    requests: list[Request] = field(default_factory=list)  # that ended, without warm-up and trial
    hosts: list[Host] = field(default_factory=list)
    cpu_s: float = 0.0  # of all its workers
    took_s: float = 0.0  # of the phase
    failed: str | None = None


@contextlib.contextmanager
def mock(*options: str, core: int | None = None) -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, str(MOCK), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        if core is not None:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(process.pid, {core})
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.communicate("")


def run(url: str, spec: str, hosts: Hosts | None = None) -> Result:
    """The one phase of `spec`, to its end. hosts: of its workers, where that is not this machine; what they cost is not
    known then."""
    found = Result()
    origin_s = time.monotonic()
    began_s = 0.0

    def append(event: Event) -> None:
        nonlocal began_s
        if isinstance(event, Request) and event.end_s is not None and event.phase >= 0 and not event.warmup:
            found.requests.append(event)
        elif isinstance(event, Host):
            found.hosts.append(event)
        elif isinstance(event, Load) and event.state == "end":
            found.took_s = time.monotonic() - began_s
            found.cpu_s = spent_s() - found.cpu_s
        elif isinstance(event, Load):
            began_s = time.monotonic()
            found.cpu_s = spent_s()

    def spent_s() -> float:
        return sum(_cpu_s(pid) for pid in controller.pids) if hosts is None else 0.0

    clock = lambda: time.monotonic() - origin_s  # noqa: E731
    controller = Controller(phases((spec,)), Endpoint(url), append, clock, origin_s, hosts=hosts)
    controller.start()
    controller.finished.wait()
    controller.stop()
    found.failed = controller.failed or controller.short
    return found


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(values: list[float], q: float) -> float:
    return values[min(len(values) - 1, int(q * len(values)))]
