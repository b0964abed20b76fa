"""Kills vtop with SIGKILL at random moments while it records: what the file still holds.

Run from the repository: python bench/kill.py [--kills 20] [--seed 1]. Every file must open, and lack no more than the
scrapes of the latest interval.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from keys import Server

from vtop.recording import FileRecording, Scrape
from vtop.session.session import read

INTERVAL_S = 0.1
LATEST_S = 3.0  # of a run, before it is killed


def killed(folder: Path, after_s: float) -> tuple[int, float]:
    """Scrapes that the file holds, and how long before the kill the last of them was written."""
    server = Server(float("inf"))
    path = folder / "killed.jsonl"
    path.unlink(missing_ok=True)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    verb = ["record", "--url", url, "-o", str(path), "--interval", str(INTERVAL_S), "--no-gpu"]
    process = subprocess.Popen(
        [sys.executable, "-m", "vtop", *verb],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not path.exists() or path.stat().st_size < 100:
        time.sleep(0.01)
        if process.poll() is not None:
            raise SystemExit(f"vtop ended by itself: exit code {process.returncode}")
    time.sleep(after_s)
    os.kill(process.pid, signal.SIGKILL)
    at_unix_s = time.time()
    process.wait()
    server.shutdown()
    recording = FileRecording(path)
    session = read(recording)
    events = FileRecording(path).take()
    scrapes = [event for event in events if isinstance(event, Scrape)]
    session.frame(session.end_s)
    last_s = at_unix_s - session.start.unix_s - (scrapes[-1].t if scrapes else 0.0)
    return len(scrapes), last_s


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    moments = random.Random(asked.seed)
    scrapes, ages_s = 0, []
    with tempfile.TemporaryDirectory(prefix="vtop-kill-") as folder:
        for _ in range(asked.kills):
            found, age_s = killed(Path(folder), moments.uniform(0.0, LATEST_S))
            scrapes += found
            ages_s += [age_s] if found else []  # none: killed before its first scrape
    late = sum(age_s > 3 * INTERVAL_S for age_s in ages_s)
    print(f"{asked.kills} kills: {scrapes:,} scrapes read back, every file opened")
    print(f"the last one before the kill: median {median(ages_s):.2f} s, at most {max(ages_s):.2f} s")
    print(f"older than three intervals of {INTERVAL_S} s: {late}")


if __name__ == "__main__":
    main()
