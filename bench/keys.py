"""Times the keys: from a key typed to the first byte of the answer, and from q to the end of the process.

Run from the repository: python bench/keys.py [--rounds 6]. vtop runs in a pseudo-terminal against a scripted server
on this machine: one that answers, one that answers a few pages and then hangs, and none at all. Keys come at random
instants (seeded), so some meet a redraw.
"""

from __future__ import annotations

import argparse
import itertools
import random
import socket
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

from pseudo_terminal import Program

PAGES = Path(__file__).resolve().parent.parent / "tests" / "scrapes"
SCRIPT = ("03_preempt_before", "03_preempt_mid3", "03_preempt_after")
KEYS = {"space": b" ", "+": b"+", "-": b"-", "?": b"?", "escape": b"\x1b", "t": b"t"}
ROUND = ("space", "+", "-", "?", "escape", "t", "space", "-", "+", "t", "?", "escape")
QUITS = 5
KEY_TARGET_S, QUIT_TARGET_S = 0.05, 0.3


class Server(ThreadingHTTPServer):
    """Answers each of the pages in turn; after `answers` of them it accepts and is silent."""

    daemon_threads = True

    def __init__(self, answers: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.left = answers
        self.texts = itertools.cycle([(PAGES / f"{name}.txt").read_bytes() for name in SCRIPT])
        self.hung = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request: object, client_address: object) -> None:
        return  # vtop went


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self.server.left -= 1
        if self.server.left < 0:
            self.server.hung.set()
            time.sleep(3600)
        body = b'{"version": "0.32.0"}' if self.path == "/version" else b""
        if self.path == "/metrics":
            body = next(self.server.texts)
        elif self.path == "/v1/models":
            body = b'{"data": [{"id": "tiny", "max_model_len": 1024}]}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


def start(state: str, folder: str) -> Program:
    """vtop on the screen, past its first second, the server in its state."""
    if state == "no server":
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = None
    else:
        server = Server(3 if state == "server hangs" else float("inf"))
        port = server.server_address[1]
    record = Path(folder) / f"{time.monotonic_ns()}.jsonl"
    program = Program(
        [sys.executable, "-m", "vtop", "--url", f"127.0.0.1:{port}", "--record", str(record)], cwd=Path(folder)
    )
    if server is not None and state == "server hangs":
        server.hung.wait(20.0)
    time.sleep(2.5)
    still_runs(program)
    return program


def still_runs(program: Program) -> None:
    if program.ended_s is not None:
        said = b"".join(data for _, data in program.chunks).decode(errors="replace").splitlines()
        raise SystemExit("vtop ended by itself: " + " / ".join(said[-3:]))


def press_all(program: Program, rounds: int) -> dict[str, list[float]]:
    """Seconds to the first byte after each press, by key."""
    moments = random.Random(11)
    found: dict[str, list[float]] = {name: [] for name in KEYS}
    for name in ROUND * rounds:
        program.quiet(0.05)
        time.sleep(moments.uniform(0.0, 0.3))
        at_s = program.press(KEYS[name])
        program.answer_s(at_s)
        first_s = program.first_s(at_s)
        found[name].append(first_s - at_s if first_s is not None else float("inf"))
        still_runs(program)
    return found


def quit_s(state: str, folder: str) -> float:
    program = start(state, folder)
    at_s = program.press(b"q")
    ended_s = program.wait_end(5.0)
    program.stop()
    return ended_s - at_s if ended_s is not None else float("inf")


def row(state: str, what: str, took_s: list[float], target_s: float) -> None:
    late = sum(one > target_s for one in took_s)
    verdict = f"{late} late" if late else "all in time"
    print(
        f"{state:14} {what:8} {len(took_s):4} {median(took_s) * 1e3:9.1f} {max(took_s) * 1e3:9.1f} "
        f"{target_s * 1e3:7.0f}   {verdict}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=6, help=f"of {len(ROUND)} presses")
    asked = parser.parse_args()
    print(f"{'state':14} {'key':8} {'n':>4} {'median ms':>9} {'max ms':>9} {'target':>7}")
    with tempfile.TemporaryDirectory(prefix="vtop-keys-") as folder:
        for state in ("server answers", "server hangs", "no server"):
            program = start(state, folder)
            try:
                found = press_all(program, asked.rounds)
            finally:
                program.stop()
            for name, took_s in found.items():
                row(state, name, took_s, KEY_TARGET_S)
            row(state, "all keys", [one for took_s in found.values() for one in took_s], KEY_TARGET_S)
            row(state, "q to end", [quit_s(state, folder) for _ in range(QUITS)], QUIT_TARGET_S)


if __name__ == "__main__":
    main()
