"""What vtop's looking on costs the server: output tokens a second of one load with and without it, in turn.

Run from the repository, with a vLLM server running: python bench/watched.py --url http://127.0.0.1:8000 [--pairs 4]
[--load 'c=64 in=1024 out=256 n=256'] [--interval 1]. The load's own process asks for no page; in every other run vtop
looks on, recording, in a pseudo-terminal of 160 x 48. Pairs go without, with, with, without, so that a drift of the
GPU falls on both. ± is the interval at 95 % of the mean difference, over the pairs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

from load_run import run
from pseudo_terminal import Program

T_95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}  # by degrees of freedom
SETTLE_S = 3.0


def figures(url: str, load: str) -> tuple[float, float, float]:
    """Output tokens a second, mean TTFT and mean ITL in ms, of one run without its warm-up."""
    found = run(url, load)
    if found.failed or any(one.error for one in found.requests):
        raise SystemExit(f"the load failed: {found.failed or next(one.error for one in found.requests if one.error)}")
    begin_s = min(one.sent_s for one in found.requests if one.sent_s is not None)
    end_s = max(one.end_s for one in found.requests if one.end_s is not None)
    ttft_s = fmean(one.first_s - one.sent_s for one in found.requests if one.first_s and one.sent_s)
    gaps_us = [gap for one in found.requests for gap in one.gaps_us or ()]
    tokens = sum(one.output_tokens or 0 for one in found.requests)
    return tokens / (end_s - begin_s), 1e3 * ttft_s, fmean(gaps_us) / 1e3


def watched(url: str, load: str, interval: str, folder: Path) -> tuple[tuple[float, float, float], float, int]:
    """The same with vtop looking on; and vtop's CPU seconds a second, and the bytes it wrote to the terminal."""
    record = folder / f"{time.monotonic_ns()}.jsonl"
    program = Program(
        [sys.executable, "-m", "vtop", "--url", url, "--interval", interval, "--record", str(record)],
        columns=160,
        lines=48,
        cwd=folder,
    )
    try:
        time.sleep(SETTLE_S)
        began_s, cpu_s = time.monotonic(), program.cpu_s()
        found = figures(url, load)
        took_s = time.monotonic() - began_s
        if program.ended_s is not None:
            raise SystemExit("vtop ended by itself")
        return found, (program.cpu_s() - cpu_s) / took_s, int(program.written(began_s) / took_s)
    finally:
        program.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--load", default="c=64 in=1024 out=256 n=256")
    parser.add_argument("--interval", default="1")
    args = parser.parse_args()
    if not 2 <= args.pairs <= len(T_95) + 1:
        raise SystemExit(f"--pairs {args.pairs}: from 2 to {len(T_95) + 1}")
    alone, beside = [], []
    figures(args.url, args.load)  # the server's first run is slower
    print(f"{'pair':>4} {'':>8} {'tok/s':>8} {'TTFT ms':>8} {'ITL ms':>7}   vtop: core, terminal B/s")
    with tempfile.TemporaryDirectory() as name:
        for pair in range(args.pairs):
            for looks_on in (False, True) if pair % 2 == 0 else (True, False):
                more = ""
                if looks_on:
                    found, cpu, written = watched(args.url, args.load, args.interval, Path(name))
                    beside.append(found)
                    more = f"   {cpu:.1%}, {written:,}"
                else:
                    found = figures(args.url, args.load)
                    alone.append(found)
                print(f"{pair + 1:4} {'watched' if looks_on else 'alone':>8} {found[0]:8,.0f} {found[1]:8.1f} "
                      f"{found[2]:7.3f}{more}", flush=True)  # fmt: skip
    for what, index in (("output tok/s", 0), ("TTFT", 1), ("ITL", 2)):
        apart = [100 * (one[index] / other[index] - 1) for one, other in zip(beside, alone, strict=True)]
        half = T_95[len(apart) - 1] * stdev(apart) / sqrt(len(apart))
        print(f"{what}: {fmean(apart):+.2f} ± {half:.2f} % with vtop looking on")
    print(f"{args.load}; {os.cpu_count()} cores, load average {os.getloadavg()[0]:.2f}")


if __name__ == "__main__":
    main()
