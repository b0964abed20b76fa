"""Times a newcomer's first use: from a clone to the first live screen, the first recording and the first report.

Run from the repository: python bench/first_use.py [--wheels FOLDER]. It clones the repository into a temporary folder,
follows the README there (a virtual environment, pip install), starts a simulated server, and runs vtop on a
pseudo-terminal. What pip downloads is in the time and depends on the line; --wheels FOLDER installs from wheels that
are there (pip wheel . -w FOLDER), without a network.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from pseudo_terminal import Program

ROOT = Path(__file__).resolve().parent.parent
ESCAPE = re.compile(rb"\x1b\[[^a-zA-Z]*[a-zA-Z]")
VALUE = re.compile(rb"running\s+\d")  # a first number on the screen
RECORDED_S = 20


def run(*command: str | Path, cwd: Path) -> None:
    subprocess.run([str(word) for word in command], cwd=cwd, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--wheels", type=Path, help="a folder of wheels to install from, without a network")
    asked = parser.parse_args()
    more: Sequence[str] = ["--no-index", "--find-links", str(asked.wheels.absolute())] if asked.wheels else []
    with tempfile.TemporaryDirectory(prefix="vtop-first-") as folder:
        place = Path(folder) / "vtop"
        began_s = time.monotonic()

        def told(what: str) -> None:
            print(f"{time.monotonic() - began_s:7.1f} s  {what}", flush=True)

        run("git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", place, cwd=Path(folder))
        told("cloned")
        run(sys.executable, "-m", "venv", ".venv", cwd=place)
        told("virtual environment")
        run(place / ".venv/bin/pip", "install", "-q", *more, ".", cwd=place)
        told("installed")
        vtop = str(place / ".venv/bin/vtop")
        demo = Program([vtop, "demo"], cwd=place)
        while not VALUE.search(ESCAPE.sub(b"", b"".join(data for _, data in demo.chunks))):
            time.sleep(0.05)
            if demo.ended_s is not None:
                raise SystemExit("vtop demo ended by itself")
        told("first live screen with numbers (vtop demo)")
        demo.stop()
        server = subprocess.Popen([vtop, "simulate", "--port", "0"], stderr=subprocess.PIPE)
        try:
            assert server.stderr is not None
            url = server.stderr.readline().decode().split()[-1]
            load = ["--load", "c=8 in=512 out=64 for=60s", "--for", f"{RECORDED_S}s"]
            run(vtop, "record", "--url", url, "--no-gpu", *load, "-o", "first.jsonl", cwd=place)
            told(f"first recording, {RECORDED_S} s of it with a load (vtop record --load)")
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(10)
        run(vtop, "report", "first.jsonl", "-o", "first.html", cwd=place)
        told("first report (vtop report)")


if __name__ == "__main__":
    main()
