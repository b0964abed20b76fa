"""Exports a day: how long check, cut and each export of a 24-hour recording at 1 Hz take, and in how much memory.

Run from the repository: python bench/export.py [--hours 24] [--file DAY.jsonl]. The recording is that of bench/day.py,
or --file, which is made where it is not there. A fresh process for each; wall time and peak memory are the process's.
Parquet is left out where pyarrow is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path

from day import run
from day import write as write_day

from vtop.recording import FileRecording


def verbs(path: Path, out: Path, hours: float) -> dict[str, list[str]]:
    """What is timed, by what it is called in the table."""
    middle_s = hours * 1800
    export = ["export", str(path), "--to"]
    found = {
        "check": ["check", str(path)],
        "cut, 10 minutes": [
            "cut",
            str(path),
            "--from",
            f"{middle_s}",
            "--to",
            f"{middle_s + 600}",
            "-o",
            str(out / "c"),
        ],
        "csv": [*export, "csv", "-o", str(out / "csv")],
        "parquet": [*export, "parquet", "-o", str(out / "parquet")],
        "perfetto": [*export, "perfetto", "-o", str(out / "trace.json")],
        "prometheus --every 15s": [*export, "prometheus", "--every", "15s", "-o", str(out / "15.om")],
        "prometheus": [*export, "prometheus", "-o", str(out / "all.om")],
    }
    if importlib.util.find_spec("pyarrow") is None:
        del found["parquet"]
    return found


def length_s(path: Path) -> float:
    recording = FileRecording(path)
    end_s = 0.0
    while events := recording.take(1000):
        end_s = events[-1].t
    recording.close()
    return end_s


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--file", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vtop-export-") as name:
        path = asked.file or Path(name) / "day.jsonl"
        if not path.exists():
            write_day(path, asked.hours)
        print(f"{path.name}: {path.stat().st_size / 2**20:.0f} MiB")
        for what, words in verbs(path, Path(name), length_s(path) / 3600).items():
            before = set(Path(name).iterdir())
            wall_s, peak, _ = run([sys.executable, "-m", "vtop", *words])
            made = set(Path(name).iterdir()) - before
            size = sum(one.stat().st_size for one in made)
            print(f"{what:24} {wall_s:7.2f} s   {peak / 2**20:5.0f} MiB   makes {size / 2**20:7.1f} MiB")
            for one in made:
                one.unlink()
    print(f"a fresh process each; Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
