"""A fleet of servers before the real screen: processor time, memory, time to a key's answer, bytes to the terminal.

Run from the repository: python bench/fleet.py [--servers 200] [--minutes 10] [--size 120x40]. One process serves a
page on a port a server: those of a recorded overload on an H200, with the counters carried on, each server at another
place of it. vtop runs in a pseudo-terminal, reads the ports from a file of targets, asks each once a second, and gets a
key about every two seconds, in turn of those that draw anew.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from prometheus_history import counts_up, pages_of
from pseudo_terminal import TICKS_PER_S, Program

RECORDING = Path(__file__).resolve().parent.parent / "recordings" / "overload.jsonl.gz"
APART = 11  # pages, from one server to the next one
KEYS = {
    "space": b" ", "+": b"+", "-": b"-", "o": b"o", "b": b"b", "?": b"?", "esc": b"\x1b",
    "down": b"\x1b[B", "up": b"\x1b[A", "page down": b"\x1b[6~", "page up": b"\x1b[5~",
}  # fmt: skip
ROUND = (  # none of them finds nothing to do: after another order or group the choice begins at the top again
    "down", "down", "down", "page down", "up", "up", "page up", "space", "space", "down", "down", "o", "esc", "down",
    "down", "up", "+", "-", "down", "b", "esc", "down", "b", "esc", "down", "?", "esc",
)  # fmt: skip
SETTLE_S = 20.0
ROW_S = 10.0


def texts(seconds: int, model: str = "Qwen/Qwen2.5-7B-Instruct") -> tuple[list[bytes], int]:
    """A page for each second, and after how many they begin anew, their counters carried on."""
    pages = pages_of(RECORDING)
    columns = {series: [page[series] for page in pages] for series in pages[0]}
    rows: list[list[str]] = [[] for _ in range(seconds + len(pages))]
    family = ""
    for series, values in columns.items():
        name, _, labels = series.partition("{")
        up = counts_up(series, values)
        base = name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
        if base != family:
            family = base
            kind = "histogram" if base != name else "counter" if up else "gauge"
            for row in rows:
                row.append(f"# HELP {base} of a recorded server\n# TYPE {base} {kind}")
        inside = labels.removesuffix("}")
        own = f'model_name="{model}"' if name.startswith("vllm:") else ""
        both = ",".join(part for part in (inside, own) if part)
        head = f"{name}{{{both}}}" if both else name
        by = values[-1] - values[0] if up else 0.0
        for n, row in enumerate(rows):
            turn, place = divmod(n, len(values))
            row.append(f"{head} {values[place] + turn * by!r}")
    return ["\n".join([*row, ""]).encode() for row in rows], len(pages)


class Server(asyncio.Protocol):
    """Answers GET on kept connections."""

    def __init__(self, pages: list[bytes], first: int, began_s: float) -> None:
        self._pages, self._first, self._began_s = pages, first, began_s
        self._asked = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._asked += data
        while b"\r\n\r\n" in self._asked:
            head, _, self._asked = self._asked.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1]
            kind, body = b"application/json", b""
            if path == b"/metrics":
                page = self._first + int(time.monotonic() - self._began_s)
                kind, body = b"text/plain; version=0.0.4", self._pages[page % len(self._pages)]
            elif path == b"/version":
                body = b'{"version": "0.32.0"}'
            elif path == b"/v1/models":
                body = b'{"data": [{"id": "Qwen/Qwen2.5-7B-Instruct", "max_model_len": 32768}]}'
            head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, len(body))
            self._transport.write(head + body)


async def serve(servers: int, seconds: int) -> None:
    pages, turn = texts(seconds)
    began_s = time.monotonic()
    loop = asyncio.get_running_loop()
    ports = []
    for index in range(servers):
        first = index * APART % turn
        made = await loop.create_server(lambda first=first: Server(pages, first, began_s), "127.0.0.1", 0)  # type: ignore[misc]
        ports.append(made.sockets[0].getsockname()[1])
    print(json.dumps({"ports": ports, "bytes": len(pages[0])}), flush=True)
    await asyncio.sleep(seconds)


def cpu_s(pid: int) -> float:
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])) / TICKS_PER_S


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def pressed(program: Program, until_s: float, moments: random.Random, turn: int) -> list[tuple[str, float]]:
    """Keys, and seconds to the first byte after each, pressed at moments when nothing is being written."""
    found: list[tuple[str, float]] = []
    while time.monotonic() < until_s - 2.5:
        time.sleep(moments.uniform(0.8, 2.0))
        program.quiet(0.03, 0.5)
        key = ROUND[(turn + len(found)) % len(ROUND)]
        at_s = program.press(KEYS[key])
        answered_s = program.answer_s(at_s)
        first_s = program.first_s(at_s) if answered_s is not None else None
        found.append((key, (first_s or float("inf")) - at_s))
    time.sleep(max(0.0, until_s - time.monotonic()))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--servers", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--size", default="120x40")
    parser.add_argument("--row", type=float, default=ROW_S, help="seconds of a row of the table")
    parser.add_argument("--serve", type=int, metavar="SECONDS", help=argparse.SUPPRESS)
    parser.add_argument("--keep", type=Path, help="write what the terminal was sent to this file")
    asked, more = parser.parse_known_args()
    if asked.serve:
        asyncio.run(serve(asked.servers, asked.serve))
        return
    for_s = asked.minutes * 60
    words = [sys.executable, __file__, "--servers", str(asked.servers), "--serve", str(round(for_s + SETTLE_S + 30))]
    columns, lines = map(int, asked.size.split("x"))
    served = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        assert served.stdout is not None
        told = json.loads(served.stdout.readline())
        with tempfile.TemporaryDirectory(prefix="vtop-fleet-") as folder:
            targets = Path(folder) / "targets.json"
            targets.write_text(json.dumps([{"targets": [f"127.0.0.1:{port}" for port in told["ports"]]}]))
            argv = [sys.executable, "-m", "vtop", "--targets", str(targets), "--no-gpu", *more]
            program = Program(argv, columns=columns, lines=lines, cwd=Path(folder))
            try:
                watch(program, served.pid, for_s, asked.row, told["bytes"])
            finally:
                if asked.keep is not None:
                    asked.keep.write_bytes(b"".join(data for _, data in program.chunks))
                program.stop()
    finally:
        served.kill()
        served.wait()


def watch(program: Program, served: int, for_s: float, row_s: float, page_bytes: int) -> None:
    time.sleep(SETTLE_S)
    moments = random.Random(7)
    by_key: dict[str, list[float]] = {}
    took_s: list[float] = []
    rows: list[int] = []
    print(f"pages of {page_bytes:,} bytes; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    print(
        f"{'minute':>6} {'core':>6} {'MB':>6} {'keys':>5} {'p50 ms':>7} {'p99 ms':>7} {'max ms':>7} {'B/s':>7}  server"
    )
    began_s, first_cpu_s, first_served_s = time.monotonic(), program.cpu_s(), cpu_s(served)
    while (now_s := time.monotonic()) < began_s + for_s:
        before, before_served = program.cpu_s(), cpu_s(served)
        told = pressed(program, now_s + row_s, moments, len(took_s))
        keys = [seconds for _, seconds in told]
        for key, seconds in told:
            by_key.setdefault(key, []).append(seconds)
        passed_s = time.monotonic() - now_s
        if program.ended_s is not None:
            said = b"".join(data for _, data in program.chunks).decode(errors="replace").splitlines()
            raise SystemExit("vtop ended by itself: " + " / ".join(said[-3:]))
        took_s += keys
        rows.append(program.rss_bytes())
        shown = tuple(
            1e3 * one for one in (percentile(keys, 0.5), percentile(keys, 0.99), max(keys, default=float("nan")))
        )
        print(
            f"{(now_s + passed_s - began_s) / 60:6.1f} {(program.cpu_s() - before) / passed_s:6.1%} "
            f"{rows[-1] / 1e6:6.0f} {len(keys):5} {shown[0]:7.1f} {shown[1]:7.1f} {shown[2]:7.1f} "
            f"{program.written(now_s) / passed_s:7,.0f}  {(cpu_s(served) - before_served) / passed_s:.1%}",
            flush=True,
        )
    passed_s = time.monotonic() - began_s
    print(
        f"{'all':>6} {(program.cpu_s() - first_cpu_s) / passed_s:6.1%} {max(rows) / 1e6:6.0f} {len(took_s):5} "
        f"{1e3 * percentile(took_s, 0.5):7.1f} {1e3 * percentile(took_s, 0.99):7.1f} {1e3 * max(took_s):7.1f} "
        f"{program.written(began_s) / passed_s:7,.0f}  {(cpu_s(served) - first_served_s) / passed_s:.1%}"
    )
    within = sum(one <= 0.05 for one in took_s)
    print(f"{within} of {len(took_s)} within 50 ms")
    for key, all_s in sorted(by_key.items(), key=lambda one: -percentile(one[1], 0.5)):
        print(
            f"{key:>10} {len(all_s):4}: median {1e3 * percentile(all_s, 0.5):6.1f} ms, slowest {1e3 * max(all_s):6.1f}"
        )


if __name__ == "__main__":
    main()
