"""What a server's page says of its own process: process_* and python_*, as prometheus_client reads them from Linux."""

from __future__ import annotations

import gc
import os
import platform
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

from vtop.engine.server.exposition import Family

STATM = Path("/proc/self/statm")
PAGE_BYTES = os.sysconf("SC_PAGESIZE")
GENERATION = "generation"


def process_lines(born_unix_s: float) -> Iterator[str]:
    """born_unix_s: when the server says it started, which a simulated restart moves."""
    garbage: tuple[tuple[str, str, str], ...] = (
        ("python_gc_objects_collected", "collected", "Objects collected during gc"),
        ("python_gc_objects_uncollectable", "uncollectable", "Uncollectable objects found during GC"),
        ("python_gc_collections", "collections", "Number of times this generation was collected"),
    )
    for name, key, help in garbage:
        family = Family(f"{name}_total", "counter", help)
        for generation, stats in enumerate(gc.get_stats()):
            family.row({GENERATION: str(generation)}).value = float(stats[key])
        yield from _uncreated(family)
    info = Family("python_info", "gauge", "Python platform information")
    major, minor, patchlevel = platform.python_version_tuple()
    labels = {"implementation": platform.python_implementation(), "major": major, "minor": minor}
    info.row({**labels, "patchlevel": patchlevel, "version": platform.python_version()}).value = 1.0
    yield from info.lines()
    if not STATM.exists():  # no Linux: prometheus_client leaves them out, too
        return
    memory = STATM.read_text(encoding="ascii").split()
    single: tuple[tuple[str, str, str, Callable[[], float]], ...] = (
        ("virtual_memory_bytes", "gauge", "Virtual memory size in bytes.", lambda: int(memory[0]) * PAGE_BYTES),
        ("resident_memory_bytes", "gauge", "Resident memory size in bytes.", lambda: int(memory[1]) * PAGE_BYTES),
        (
            "start_time_seconds",
            "gauge",
            "Start time of the process since unix epoch in seconds.",
            lambda: round(born_unix_s, 2),
        ),
        ("cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.", _cpu_s),
        ("open_fds", "gauge", "Number of open file descriptors.", lambda: len(os.listdir("/proc/self/fd"))),
        (
            "max_fds",
            "gauge",
            "Maximum number of open file descriptors.",
            lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        ),
    )
    for name, kind, help, read in single:
        family = Family(f"process_{name}", kind, help)
        family.row({}).value = float(read())
        yield from _uncreated(family)


def _uncreated(family: Family) -> Iterator[str]:
    """A collector's counters have no row of when they were made."""
    for line in family.lines():
        if "_created" not in line:
            yield line


def _cpu_s() -> float:
    used = os.times()
    return round(used.user + used.system, 2)
