"""What the load's client costs on the stock event loop, and how much later than the server wrote it stamps an event.

Run from the repository: python bench/load_client.py [--profile N]. The mock server is a process of its own (on CPU 1,
the client on CPU 0, where there are two). Where the machine is shared, believe the CPU per event, not the wall clock:
events a second and core are its inverse. A read that brings more than one event makes each event cheaper; so the table
says how many events a read brought. The streams move in step, in one group or in several one after the other; how late
a stamp is counts from the write of its own event, so the time that the mock needs to write to all is in none. Where
others compute on the machine, `chrt -f 10` in front keeps their share out of the delays (needs root).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import gc
import os
import pstats
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, monotonic_ns, process_time

from vtop.load.http.client import Client
from vtop.load.http.deferred import AT_ONCE
from vtop.load.http.exchange import Exchange
from vtop.load.http.response import ExpectedAnswer, Reading
from vtop.load.http.sse import StreamEvent

MOCK = Path(__file__).resolve().parent / "load_mock.py"
PAYLOAD = b'{"model":"tiny","prompt":[1,2,3],"max_tokens":64,"stream":true,"ignore_eos":true}'


@dataclass(slots=True)
class Run:
    connections: int
    tokens: int
    itl_ms: float
    requests: int  # per connection
    burst: int = 1
    spread: int = 1
    stamp: bool = False
    ids: bool = True
    failed: list[str] = field(default_factory=list)


class Late(Reading):
    """Also notes how long ago each event was written."""

    __slots__ = ()
    delays_ns: list[int] = []  # noqa: RUF012 (one list for the one run at a time)

    def event(self, event: StreamEvent, at: float) -> None:
        written = int(event.data[12:28]) if event.data[:12] == b'{"id":"cmpl-' and event.data[28:29] == b'"' else 0
        if written:
            Late.delays_ns.append(int(at * 1e9) - written)
        super().event(event, at)


@contextlib.contextmanager
def mock(run: Run) -> Iterator[str]:
    numbers = {"itl-ms": run.itl_ms, "tokens": run.tokens, "burst": run.burst, "spread": run.spread}
    line = [sys.executable, str(MOCK), *(f"--{name}={value}" for name, value in numbers.items())]
    line += ["--stamp"] * run.stamp + ["--ids"] * run.ids
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with contextlib.suppress(OSError):
            os.sched_setaffinity(process.pid, {1})
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.communicate("")


async def drive(run: Run, url: str) -> tuple[float, float, int, int]:
    """Wall and CPU seconds, events, reads that brought tokens."""
    client = Client(url, clock=monotonic)
    failure = await client.warm(run.connections)
    assert failure is None, failure
    wire = client.lay("/v1/completions", PAYLOAD)
    asked = ExpectedAnswer(output_tokens=run.tokens, exact=True)
    events = reads = 0

    async def loop_of_one() -> None:
        nonlocal events, reads
        for _ in range(run.requests):
            exchange = Exchange(wire, asked)
            if run.stamp:
                exchange.reading = Late(asked)
            await client.run(exchange)
            if exchange.error is not None:
                run.failed.append(f"{exchange.error}: {exchange.detail}")
            events += exchange.reading.chunks
            reads += len(exchange.reading.read_tokens)

    gc.set_threshold(100_000, 50, 50)  # as in a worker
    gc.collect()
    gc.freeze()
    began, began_cpu = monotonic(), process_time()
    async with asyncio.TaskGroup() as tasks:
        for number in range(run.connections):
            tasks.create_task(loop_of_one())
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)  # as a phase begins
    took, cpu = monotonic() - began, process_time() - began_cpu
    client.abort()
    await asyncio.sleep(0)
    return took, cpu, events, reads


def percentile(sorted_values: list[int], q: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, int(q * len(sorted_values)))] / 1e6


def measure(run: Run) -> None:
    with mock(run) as url:
        Late.delays_ns.clear()
        took, cpu, events, reads = asyncio.run(drive(run, url))
    line = (
        f"{run.connections:6} {run.tokens:7} {run.itl_ms:7.1f} {run.spread:6} {events:9,} {events / took:11,.0f} "
        f"{events / reads:7.2f} {cpu / took:6.2f} {cpu / events * 1e6:9.2f} {events / cpu:14,.0f}"
    )
    if run.stamp:
        late = sorted(Late.delays_ns)
        line += "  " + " ".join(f"{percentile(late, q):8.3f}" for q in (0.5, 0.99, 0.999, 1.0))
    if run.failed:
        line += f"  {len(run.failed)} failed, {run.failed[0]}"
    print(line, flush=True)


RUNS = (
    Run(64, 512, 1.4, 4),  # about as fast as one core goes with one event a read
    Run(64, 512, 1.4, 4, ids=False),
    Run(1024, 64, 20.0, 4),
    Run(1024, 64, 40.0, 4),
    Run(64, 512, 20.0, 1, stamp=True),
    Run(1024, 64, 40.0, 4, stamp=True),
    Run(1024, 64, 40.0, 4, spread=40, stamp=True),
    Run(1024, 64, 25.0, 6, spread=25, stamp=True),
    Run(64, 2048, 0.0, 20),  # the whole answer at once: how fast it catches up
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--profile", type=int, help="profile this run of the table (from 0)")
    parser.add_argument("--only", type=int, help="do this run only")
    parser.add_argument("--nice", type=int, default=0, help="such as -10: ahead of what else runs here (needs root)")
    args = parser.parse_args()
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, {0})
    os.nice(args.nice)
    print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    print(
        f"{'conns':>6} {'tokens':>7} {'ITL ms':>7} {'groups':>6} {'events':>9} {'events/s':>11} {'a read':>7} "
        f"{'cores':>6} {'us/event':>9} {'events/s/core':>14}  {'late p50':>8} {'p99':>8} {'p99.9':>8} {'max ms':>8}"
    )
    if args.profile is not None:
        profile = cProfile.Profile()
        profile.runcall(measure, RUNS[args.profile])
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    for number, run in enumerate(RUNS):
        if args.only is None or args.only == number:
            measure(run)


if __name__ == "__main__":
    assert monotonic_ns() > 0
    main()
