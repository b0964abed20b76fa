"""Events a second that several workers of one load take together, and whether each arrives on record; also on Ray.

Run from the repository: python bench/load_hosts.py [--ray ADDRESS] [--workers 1 2 4] [--itl-ms 0] [--seconds 5]. A mock
server streams, whole answers at once with --itl-ms 0, and the events that it says it sent are held against those in
the recording: what is more is whole answers to the workers' trials before the phase. Where mock and workers share few
cores, the CPU per event says what more cores would give.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from load_run import MOCK, Result, run

from vtop.load.workers.link import Hosts


def measure(workers: int, args: argparse.Namespace) -> None:
    options = ["--itl-ms", str(args.itl_ms), "--burst", str(args.burst), "--tokens", str(args.tokens)]
    process = subprocess.Popen(
        [sys.executable, str(MOCK), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert process.stdout is not None
    url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
    hosts: Hosts | None = None
    if args.ray is not None:
        from vtop.load.workers.ray_cluster import RayCluster

        hosts = RayCluster(args.ray, url, print)
    spec = f"c={args.streams} for={args.seconds}s in=8 out={args.tokens} workers={workers}"
    found = run(url, spec, hosts)
    _, said = process.communicate("")
    served = int(said.split()[0])
    tell(workers, args, found, served=served, mock_s=float(said.split()[2]))


def tell(workers: int, args: argparse.Namespace, found: Result, *, served: int, mock_s: float) -> None:
    ended = [one for one in found.requests if one.error is None]
    events = sum(one.chunks or 0 for one in ended)
    cost = f"{found.cpu_s / events * 1e6:.2f}" if found.cpu_s else "–"
    trials = (served - events) / args.tokens
    late_s = max((one.load_lag_max_s or 0.0 for one in found.hosts), default=0.0)
    print(
        f"{'ray' if args.ray else 'local':<6} {workers:>7} {events:>11,} {events / found.took_s:>10,.0f} "
        f"{len(found.requests) - len(ended):>6} {trials:>9.4g} {cost:>9} "
        f"{mock_s / served * 1e6:>9.2f} {late_s * 1000:>7.1f}  {found.failed or ''}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ray", default=None)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--burst", type=int, default=16)
    parser.add_argument("--itl-ms", type=float, default=0.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    args = parser.parse_args()
    print(
        f"{'where':<6} {'workers':>7} {'events':>11} {'events/s':>10} {'failed':>6} {'trials':>9} {'us/event':>9} "
        f"{'of mock':>9} {'lag ms':>7}"
    )
    for workers in args.workers:
        measure(workers, args)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
