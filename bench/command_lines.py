"""Runs every command line that the documents and --help print, word for word, and says what became of each.

Run from the repository: python bench/command_lines.py [--limit 60] [--only WORD]. What a line leads into a pipe or a
file is left out. A simulated server answers on port 8000, which must be free. A screen gets `q` once it has drawn, a
server ctrl-c, and so does what is asked to run for minutes; --only takes the lines that hold a word.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from pseudo_terminal import Program  # noqa: E402

from tests.command_lines import furnish, printed, words_of  # noqa: E402

VTOP = [sys.executable, "-m", "vtop"]
ENDLESS = ("record", "sweep", "load", "simulate", "capacity", "web")  # these are broken off
BROKEN_OFF_S = 8.0
CODES = {0: "done", 1: "done, exit code 1"}


def kind_of(words: list[str]) -> str:
    """screen, broken off, or to its end"""
    if "--help" in words:
        return "to its end"
    verb = next((word for word in words if not word.startswith(("-", ":"))), "")
    if verb in ("replay", "demo") or ((not words or words[0].startswith(("-", ":"))) and "--once" not in words):
        return "screen"
    return "broken off" if verb in ENDLESS else "to its end"


def on_a_screen(words: list[str], folder: Path) -> str:
    program = Program([*VTOP, *words], cwd=folder)
    end_s = time.monotonic() + 30.0
    while program.written() < 4000 and program.ended_s is None and time.monotonic() < end_s:
        time.sleep(0.1)
    time.sleep(2.0)
    if program.ended_s is not None:
        said = b"".join(data for _, data in program.chunks).decode(errors="replace").strip().splitlines()
        return f"FAILED: ended by itself: {said[-1:]}"
    program.press(b"q")
    left = program.wait_end(10.0) is not None
    program.stop()
    return f"drawn ({program.written():,} bytes), left by q" if left else "FAILED: q did not end it"


def as_a_program(words: list[str], folder: Path, limit_s: float, *, broken_off: bool) -> str:
    began_s = time.monotonic()
    with subprocess.Popen(
        [*VTOP, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        try:
            _, err = process.communicate(timeout=BROKEN_OFF_S if broken_off else limit_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
            if broken_off and process.returncode in (0, 1, 2, 130):
                return f"begun, broken off after {BROKEN_OFF_S:.0f} s"
            return f"not run to its end: longer than {limit_s:.0f} s"
    said = err.decode(errors="replace").strip().splitlines()
    if process.returncode == 2 and "pip install 'vtop[" in "".join(said[-1:]):
        return "not run: its extra is not installed here"
    if process.returncode not in CODES or "Traceback" in err.decode(errors="replace"):
        return f"FAILED with {process.returncode}: {said[-1:]}"
    return f"{CODES[process.returncode]} in {time.monotonic() - began_s:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for a line that ends by itself")
    parser.add_argument("--only", default="", help="lines with this word")
    asked = parser.parse_args()
    os.environ["PYTHONPATH"] = str(ROOT)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="vtop-lines-") as place:
        server = subprocess.Popen([*VTOP, "simulate", "--port", "8000"], stderr=subprocess.PIPE)
        try:
            assert server.stderr is not None
            if b"simulated" not in (first := server.stderr.readline()):
                raise SystemExit(f"no simulated server: {first.decode().strip()}")
            for number, (where, line) in enumerate(printed()):
                if asked.only not in line:
                    continue
                folder = Path(place) / str(number)
                folder.mkdir()
                furnish(folder)
                words, kind = words_of(line), kind_of(words_of(line))
                for option, value in itertools.pairwise(words):
                    if option in ("-o", "--record") and (folder / value).is_symlink():
                        (folder / value).unlink()  # there it stands in for what another line reads
                if words[:1] == ["simulate"]:
                    words = [*words, "--port", "0"]  # the one on 8000 is busy
                if kind == "screen":
                    became = on_a_screen(words, folder)
                else:
                    became = as_a_program(words, folder, asked.limit, broken_off=kind == "broken off")
                failed += became.startswith("FAILED")
                print(f"{where:22} vtop {' '.join(words)}\n{'':22} → {became}", flush=True)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(10)
    if failed:
        raise SystemExit(f"{failed} failed")


if __name__ == "__main__":
    main()
