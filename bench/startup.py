"""What vtop costs before it does anything: wall time and imports of each verb, and megabytes installed.

Run from the repository: python bench/startup.py [--tree PATH] [--runs 15] [--size]. --tree measures another checkout
with the same Python and the same dependencies. Wall time is the median of the runs, with compiled files in place.
Import time is the sum over all modules by `-X importtime` (median of three; the switch itself makes imports slower),
the number of modules is what that run imported. --size installs the tree into a fresh virtual environment in a
temporary folder and weighs each distribution, compiled files included.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

VERBS = (
    "--version",
    "--help",
    "check sweep_c64",
    "show overload --text",
    "show overload --json",
    "export overload --to csv -o OUT/",
    "compare sweep_c64 sweep_c64 -o OUT/compare.txt",
    "report sweep_c64 -o OUT/report.html",
    "show overload --png OUT/screen.png",
    "whatif sweep_c64 --max-num-seqs 32",
)
IMPORTED = re.compile(r"^import time:\s+(\d+) \|\s+\d+ \|\s*(\S+)", re.MULTILINE)
WEIGH = """
import importlib.metadata, json, os
found = {}
for one in importlib.metadata.distributions():
    files = [one.locate_file(file) for file in one.files or ()]
    found[one.metadata["Name"]] = sum(os.path.getsize(file) for file in files if os.path.isfile(file))
print(json.dumps(found))
"""
NOT_NEEDED = ("pip", "setuptools")


def run(environment: dict[str, str], words: list[str], *switches: str) -> tuple[float, str]:
    """Wall seconds of `python SWITCHES WORDS` in an empty folder, and its stderr."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, *switches, *(word.replace("OUT", folder) for word in words)]
        began_s = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        took_s = time.perf_counter() - began_s
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-500:]}")
    return took_s, done.stderr


def speed(tree: Path, runs: int, compiled: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    print(f"{'':<50} {'wall ms':>8} {'imports ms':>10} {'modules':>8} {'of vtop':>8}")
    for line in ("", *VERBS):
        words = ["-m", "vtop", *line.split()] if line else ["-c", "pass"]
        run(environment, words)  # compiles
        walls_s = [run(environment, words)[0] for _ in range(runs)]
        logs = [IMPORTED.findall(run(environment, words, "-X", "importtime")[1]) for _ in range(3)]
        imports_ms = median(sum(int(own_us) for own_us, _ in log) / 1e3 for log in logs)
        names = {name for _, name in logs[0]}
        own = sum(name.partition(".")[0] == "vtop" for name in names)
        face = f"vtop {line}" if line else "python -c pass"
        print(f"{face:<50} {1e3 * median(walls_s):8.0f} {imports_ms:10.0f} {len(names):8d} {own:8d}", flush=True)


def size(tree: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        python = f"{folder}/bin/python"
        subprocess.run([python, "-m", "pip", "install", "-qq", str(tree)], check=True)
        weighed = subprocess.run([python, "-c", WEIGH], check=True, capture_output=True, text=True).stdout
    found: dict[str, int] = {name: held for name, held in json.loads(weighed).items() if name not in NOT_NEEDED}
    for name, held in sorted(found.items(), key=lambda one: -one[1]):
        print(f"{name:<50} {held / 1e6:8.1f} MB")
    print(f"{'all ' + str(len(found)):<50} {sum(found.values()) / 1e6:8.1f} MB")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--tree", type=Path, default=Path(__file__).parents[1])
    asked.add_argument("--runs", type=int, default=15)
    asked.add_argument("--size", action="store_true")
    given = asked.parse_args()
    if given.size:
        size(given.tree.resolve())
    else:
        with tempfile.TemporaryDirectory() as compiled:
            speed(given.tree.resolve(), given.runs, compiled)


if __name__ == "__main__":
    main()
