"""Puts vtop beside vllmstat: processor, memory, terminal output, and the time to the first full frame.

Run from the repository, with a vLLM server running: python bench/beside_peer.py --url http://127.0.0.1:8000
[--peer vllmstat] [--seconds 60] [--starts 10] [--no-load]. Both run at once on the same server, each in a drained
pseudo-terminal of 120 x 36 of its own, vtop recording; then one at a time, to see that they do not disturb each other;
idle, then under bursts of 40 requests of 100 + 400 tokens. A first frame is full when the model's name and at least
3 kB were written and then nothing for 150 ms; its time is that of the last byte. Without the peer: vtop's rows only.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import httpx
from pseudo_terminal import Program

SETTLE_S = 4.0  # the start is measured apart
QUIET_S, FULL_BYTES = 0.15, 3000
BURST, BURST_EVERY_S, PROMPT_TOKENS, OUTPUT_TOKENS = 40, 20.0, 100, 400


@dataclass(frozen=True, slots=True)
class Used:
    """What a program took over a span of time."""

    cpu_ratio: float  # of one core
    rss_bytes: float  # median
    bytes_per_s: float  # to the terminal


NUMBERS = (  # title, of Used, shown times, target ratio
    ("CPU, % of a core", "cpu_ratio", 100.0, 0.45),
    ("memory, MiB", "rss_bytes", 2**-20, 1.1),
    ("output, kB/s", "bytes_per_s", 1e-3, 0.2),
)


class Bench:
    def __init__(self, url: str, peer: str | None, folder: Path) -> None:
        self.url = url.rstrip("/")
        self.folder = folder
        self.model = httpx.get(f"{self.url}/v1/models", trust_env=False).json()["data"][0]["id"]
        self.names = ("vtop", "vllmstat") if peer else ("vtop",)
        self._peer = peer

    def start(self, name: str) -> Program:
        if name == "vllmstat":
            assert self._peer is not None
            return Program([self._peer, "-u", self.url], cwd=self.folder)
        record = self.folder / f"{time.monotonic_ns()}.jsonl"
        vtop = [sys.executable, "-c", "from vtop.cli import main; main()"]  # what the command does
        return Program([*vtop, "--url", self.url, "--record", str(record)], cwd=self.folder)

    def used(self, names: Sequence[str], seconds: float) -> dict[str, Used]:
        """Programs run at the same time for so many seconds behind their start."""
        programs = {name: self.start(name) for name in names}
        try:
            time.sleep(SETTLE_S)
            began_s = time.monotonic()
            cpu_s = {name: program.cpu_s() for name, program in programs.items()}
            rss: dict[str, list[int]] = {name: [] for name in names}
            while (passed_s := time.monotonic() - began_s) < seconds:
                time.sleep(min(2.0, seconds - passed_s))
                for name, program in programs.items():
                    rss[name].append(program.rss_bytes())
            passed_s = time.monotonic() - began_s
            found = {}
            for name, program in programs.items():
                if program.ended_s is not None:
                    raise SystemExit(f"{name} ended by itself")
                cpu_ratio = (program.cpu_s() - cpu_s[name]) / passed_s
                written = program.written(began_s, began_s + passed_s) / passed_s
                found[name] = Used(cpu_ratio, median(rss[name]), written)
            return found
        finally:
            for program in programs.values():
                program.stop()

    def first_frame_s(self, name: str) -> tuple[float, float]:
        """Seconds from exec to the model's name, and to the full frame."""
        program = self.start(name)
        try:
            named_s, size, before_s = None, 0, program.began_s
            while time.monotonic() - program.began_s < 15.0:
                program.quiet(QUIET_S)
                size, named_s = 0, None
                for before_s, data in list(program.chunks):
                    size += len(data)
                    if named_s is None and self.model.encode() in data:
                        named_s = before_s
                if named_s is not None and size >= FULL_BYTES:
                    return named_s - program.began_s, self._full_s(program, named_s)
                time.sleep(0.01)
            raise SystemExit(f"{name}: no full frame in 15 s")
        finally:
            program.stop()

    def _full_s(self, program: Program, named_s: float) -> float:
        """The last byte before the first silence, once the name and enough else were there."""
        size, last_s = 0, program.began_s
        for at_s, data in list(program.chunks):
            if at_s - last_s >= QUIET_S and last_s >= named_s and size >= FULL_BYTES:
                break
            size, last_s = size + len(data), at_s
        return last_s - program.began_s


@contextmanager
def load(url: str, model: str) -> Iterator[None]:
    """Bursts of requests until it is left; waits for those under way."""
    over = threading.Event()
    client = httpx.Client(trust_env=False, timeout=120.0, limits=httpx.Limits(max_connections=BURST))

    def one(number: int) -> None:
        prompt = [10 + (number * 131 + place * 17) % 240 for place in range(PROMPT_TOKENS)]
        asked = {"model": model, "prompt": prompt, "max_tokens": OUTPUT_TOKENS, "ignore_eos": True}
        client.post(f"{url}/v1/completions", json=asked).raise_for_status()

    def bursts() -> None:
        number = 0
        with ThreadPoolExecutor(BURST) as pool:
            while not over.is_set():
                began_s = time.monotonic()
                list(pool.map(one, range(number, number + BURST)))
                number += BURST
                over.wait(max(0.0, began_s + BURST_EVERY_S - time.monotonic()))

    with client:
        sender = threading.Thread(target=bursts)
        sender.start()
        try:
            yield
        finally:
            over.set()
            sender.join()


def table(title: str, runs: Sequence[dict[str, Used]]) -> None:
    print(title)
    for what, field, scale, target in NUMBERS:
        told = []
        values: dict[str, list[float]] = {}
        for run in runs:
            for name, used in run.items():
                values.setdefault(name, []).append(getattr(used, field) * scale)
        for name, found in values.items():
            spread = f" ({min(found):.2f} to {max(found):.2f})" if len(found) > 1 else ""
            told.append(f"{name} {median(found):.2f}{spread}")
        if "vllmstat" in values:
            told.append(verdict(median(values["vtop"]) / median(values["vllmstat"]), target))
        print(f"  {what:18} " + "   ".join(told))


def verdict(ratio: float, target: float) -> str:
    return f"ratio {ratio:.3f}, target {target}: {'met' if ratio <= target else 'MISSED'}"


def first_frames(bench: Bench, starts: int) -> None:
    """One after the other in turn, so that the machine's moods fall on both."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in bench.names}
    for number in range(starts + 1):
        for name in bench.names if number % 2 else reversed(bench.names):
            took = bench.first_frame_s(name)
            if number:  # the first start reads the disk
                found[name].append(took)
    print(f"first frame, ms from exec, median of {starts} (least to most)")
    for place, what in ((0, "the model's name"), (1, "full frame")):
        told = []
        for name, pairs in found.items():
            values = [pair[place] * 1e3 for pair in pairs]
            told.append(f"{name} {median(values):.0f} ({min(values):.0f} to {max(values):.0f})")
        if "vllmstat" in found:
            ratio = median(pair[place] for pair in found["vtop"]) / median(pair[place] for pair in found["vllmstat"])
            told.append(verdict(ratio, 1.0) if place else f"ratio {ratio:.3f}")
        print(f"  {what:18} " + "   ".join(told))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--peer", default="vllmstat", help="command or path")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=1, help="times at once")
    parser.add_argument("--no-load", action="store_true")
    asked = parser.parse_args()
    peer = shutil.which(asked.peer)
    if peer is None:
        print(f"{asked.peer}: not found, so only vtop is measured (pip install vllmstat==0.9.1)")
    with tempfile.TemporaryDirectory(prefix="vtop-beside-") as folder:
        bench = Bench(asked.url, peer, Path(folder))
        load_before = os.getloadavg()[0]
        if asked.starts:
            first_frames(bench, asked.starts)
        together = [bench.used(bench.names, asked.seconds) for _ in range(asked.repeat)]
        table(f"idle server, both at once, {asked.seconds:.0f} s", together)
        if peer:
            alone = {name: bench.used([name], asked.seconds)[name] for name in bench.names}
            table(f"idle server, one at a time, {asked.seconds:.0f} s each", [alone])
        if not asked.no_load:
            with load(bench.url, bench.model):
                together = [bench.used(bench.names, asked.seconds) for _ in range(asked.repeat)]
            table(f"{BURST} requests every {BURST_EVERY_S:.0f} s, both at once, {asked.seconds:.0f} s", together)
            if peer:
                alone = {}
                for name in reversed(bench.names):
                    with load(bench.url, bench.model):
                        alone |= bench.used([name], asked.seconds)
                table(f"{BURST} requests every {BURST_EVERY_S:.0f} s, one at a time", [alone])
    print(
        f"120 x 36, vtop records, CPU of children included; {os.cpu_count()} cores, "
        f"load average before {load_before:.2f}, after {os.getloadavg()[0]:.2f}"
    )


if __name__ == "__main__":
    main()
