"""How late the requests of an open loop leave: 1,000 a second for ten seconds, with one worker and with two.

Run from the repository: python bench/lateness.py [--rate 1000] [--for 10]. Late is sent - due, of every request. The
mock server and all else that runs take their part of the machine: the first line says how busy it was.
"""

from __future__ import annotations

import argparse
import os
import sys

from load_run import mock, percentile, run  # type: ignore[import-not-found, unused-ignore]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--for", dest="for_s", type=int, default=10)
    args = parser.parse_args()
    print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    print(
        f"{'workers':>7} {'arrival':>9} {'in':>6} {'sent':>7} {'failed':>6} {'p50 ms':>7} {'p90':>7} {'p99':>7} "
        f"{'p99.9':>7} {'max':>7} {'cores':>6}"
    )
    with mock("--itl-ms=5", "--tokens=4", "--spread=4") as url:
        for workers in (1, 2):
            for arrival, tokens in (("poisson", 64), ("constant", 64), ("poisson", 1024)):
                spec = f"rate={args.rate} for={args.for_s}s arrival={arrival} in={tokens} out=4 workers={workers}"
                found = run(url, spec)
                late = sorted(
                    1000 * (one.sent_s - one.due_s)
                    for one in found.requests
                    if one.sent_s is not None and one.due_s is not None
                )
                failed = sum(one.error is not None for one in found.requests)
                figures = " ".join(f"{percentile(late, q):7.3f}" for q in (0.5, 0.9, 0.99, 0.999, 1.0))
                print(
                    f"{workers:7} {arrival:>9} {tokens:6} {len(late):7,} {failed:6} {figures} "
                    f"{found.cpu_s / found.took_s:6.2f}" + (f"  {found.failed}" if found.failed else ""),
                    flush=True,
                )


if __name__ == "__main__":
    main()
