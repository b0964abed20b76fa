"""How soon vtop answers a key, and ends, while its server misbehaves: a row a way to.

Run from the repository: python bench/misbehaving.py [--presses 12] [--only NAME,…]. vtop runs in a pseudo-terminal
against a server on this machine that answers /metrics in one odd way. Keys: 50 ms, quit: 0.3 s.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import os
import random
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from keys import KEY_TARGET_S, KEYS, PAGES, QUIT_TARGET_S, still_runs
from pseudo_terminal import Program

ROUND: Final = ("space", "-", "+", "?", "escape", "t")  # each changes the screen whatever came before
WITHOUT_CHARTS: Final = ("space", "?", "escape", "t")  # likewise while there is no page to draw
PAGE: Final = (PAGES / "03_preempt_mid3.txt").read_bytes()
BOMB: Final = gzip.compress(b"a 1\n" * 2**26, 9)
SERIES: Final = b'vllm:request_success_total{engine="0",finished_reason="r%d_%d",model_name="tiny"} %d\n'


def answer(body: bytes, status: bytes = b"200 OK", more: bytes = b"") -> bytes:
    return b"HTTP/1.1 %s\r\ncontent-length: %d\r\n%s\r\n" % (status, len(body), more) + body


def drip(line: socket.socket, page: int) -> None:
    for byte in answer(PAGE):
        line.sendall(bytes([byte]))
        time.sleep(0.5)


def endless(line: socket.socket, page: int) -> None:
    line.sendall(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
    while True:
        line.sendall(b"# " + b"x" * 65536 + b"\n")


def reset(line: socket.socket, page: int) -> None:
    line.sendall(answer(PAGE)[:20000])
    line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    line.close()


def hang(line: socket.socket, page: int) -> None:
    if page < 4:
        line.sendall(answer(PAGE))
    else:
        time.sleep(3600)


def says(body: Callable[[int], bytes]) -> Callable[[socket.socket, int], None]:
    return lambda line, page: line.sendall(body(page))


WAYS: Final[dict[str, Callable[[socket.socket, int], None]]] = {
    "nothing odd": says(lambda page: answer(PAGE)),
    "hangs after four pages": hang,
    "drips a byte each 0.5 s": drip,
    "an answer without end": endless,
    "cut in the middle": reset,
    "no HTTP": says(lambda page: os.urandom(5000)),
    "500 with escapes": says(lambda page: answer(b"\x1b[2J\x1b]0;x\x07" * 30, b"500 No")),
    "429, Retry-After: 3": says(lambda page: answer(b"busy", b"429 Busy", b"retry-after: 3\r\n")),
    "a gzip bomb of 256 MiB": says(lambda page: answer(BOMB, more=b"content-encoding: gzip\r\n")),
    "a page of 31 MiB": says(lambda page: answer(PAGE + b'x{a="b"} 1\n' * (30 * 2**20 // 11))),
    "10,000 values of a label": says(
        lambda page: answer(PAGE + b"".join(SERIES % (0, n, page + n) for n in range(10_000)))
    ),
    "1,000 new values a page": says(
        lambda page: answer(PAGE + b"".join(SERIES % (page, n, page + n) for n in range(1_000)))
    ),
    "now full, now short": says(lambda page: answer(PAGE if page % 2 else PAGE[: len(PAGE) // 2])),
}


NO_PAGE: Final = (
    *("drips a byte each 0.5 s", "an answer without end", "cut in the middle", "no HTTP", "500 with escapes"),
    *("429, Retry-After: 3", "a gzip bomb of 256 MiB", "a page of 31 MiB"),
)


class Server:
    def __init__(self, way: Callable[[socket.socket, int], None]) -> None:
        self._way, self._page = way, 0
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                threading.Thread(target=self._converse, args=(line,), daemon=True).start()

    def _converse(self, line: socket.socket) -> None:
        with contextlib.suppress(OSError), line:
            while head := self._head(line):
                path = head.split(b" ")[1]
                if path == b"/metrics":
                    self._page += 1
                    self._way(line, self._page)
                else:
                    line.sendall(answer(b'{"version": "0.32.0", "data": []}'))

    def _head(self, line: socket.socket) -> bytes:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (piece := line.recv(65536)):
                return b""
            head += piece
        return head

    def close(self) -> None:
        self._listening.close()


def measured(name: str, folder: Path, presses: int) -> tuple[list[float], float, float]:
    """Seconds from each key to the first byte of the answer, seconds to quit, peak memory in bytes."""
    server, moments = Server(WAYS[name]), random.Random(11)
    keys = WITHOUT_CHARTS if name in NO_PAGE else ROUND
    program = Program([sys.executable, "-m", "vtop", "--url", f"127.0.0.1:{server.port}", "--no-gpu"], cwd=folder)
    try:
        time.sleep(5.0)
        took_s = []
        for key in (keys * presses)[:presses]:
            program.quiet(0.05, patience_s=2.0)
            time.sleep(moments.uniform(0.0, 0.3))
            at_s = program.press(KEYS[key])
            program.answer_s(at_s)
            first_s = program.first_s(at_s)
            took_s.append(first_s - at_s if first_s is not None else float("inf"))
            still_runs(program)
        peak = _peak(program.pid)
        at_s = program.press(b"q")
        ended_s = program.wait_end(5.0)
        return took_s, ended_s - at_s if ended_s is not None else float("inf"), peak
    finally:
        program.stop()
        server.close()


def _peak(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024.0 * int(status.partition("VmHWM:")[2].split()[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--presses", type=int, default=12)
    parser.add_argument("--only", default=",".join(WAYS))
    asked = parser.parse_args()
    print(f"{'the server':28} {'key, median':>12} {'key, longest':>13} {'quit':>8} {'memory':>9}")
    with tempfile.TemporaryDirectory(prefix="vtop-misbehaving-") as folder:
        for name in WAYS:
            if name not in asked.only.split(",") and asked.only != ",".join(WAYS):
                continue
            took_s, quit_s, peak = measured(name, Path(folder), asked.presses)
            late = "  late" if max(took_s) > KEY_TARGET_S or quit_s > QUIT_TARGET_S else ""
            times = f"{1e3 * median(took_s):9.0f} ms {1e3 * max(took_s):10.0f} ms {quit_s:6.2f} s"
            print(f"{name:28} {times} {peak / 2**20:5.0f} MiB{late}", flush=True)


if __name__ == "__main__":
    main()
