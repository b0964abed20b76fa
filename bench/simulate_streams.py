"""What a simulated server costs on the wall clock: core and events by number of streams, and how late its tokens are.

Run from the repository: python bench/simulate_streams.py [--streams 16,64,128,256] [--seconds 10]. A server in a
process of its own, an H200's timing, prompts of 128 tokens, answers of 256; the load is vtop's. `events` are writes per
token: fewer than one where the server was late and put several into one. `late` is the client's mean gap between tokens
against the engine's own on virtual time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import httpx

from vtop.engine.core.flags import Flags
from vtop.engine.server.simulated import Settings
from vtop.engine.server.subprocess import Started

IN, OUT = 128, 256


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def number(page: str, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name + "{"))


def run(streams: int, seconds: int) -> str:
    flags = Flags(num_gpu_blocks=16384, max_num_seqs=512, enable_prefix_caching=False)
    with Started(Settings(flags, enable_mfu_metrics=True)) as server:
        httpx.get(f"{server.url}/health", timeout=30)
        before_s = cpu_s(server.process.pid)
        spec = f"c={streams} in={IN} out={OUT} for={seconds}s"
        done = subprocess.run(
            [sys.executable, "-m", "vtop", "load", server.url, spec], capture_output=True, check=False
        )
        page = httpx.get(f"{server.url}/metrics").text
        used_s = cpu_s(server.process.pid) - before_s
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    ended = [line for line in lines if line["type"] == "request" and line.get("end_s") and not line.get("error")]
    tokens = sum(line["output_tokens"] for line in ended)
    chunks = sum(line["chunks"] for line in ended)
    gaps_s = sum(sum(line["gaps_us"]) for line in ended) / 1e6
    first_s, last_s = min(line["sent_s"] for line in ended), max(line["end_s"] for line in ended)
    name = "vllm:inter_token_latency_seconds"
    engine_ms = 1e3 * number(page, f"{name}_sum") / number(page, f"{name}_count")
    client_ms = 1e3 * gaps_s / (tokens - len(ended))
    rate = tokens / (last_s - first_s)
    return (
        f"{streams:>7} {rate:>9,.0f} {used_s / (last_s - first_s):>7.0%} {used_s / tokens * 1e6:>9.1f} "
        f"{chunks / tokens:>7.2f} {engine_ms:>10.2f} {client_ms:>10.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="16,64,128,256")
    parser.add_argument("--seconds", type=int, default=10)
    asked = parser.parse_args()
    print(
        f"{'streams':>7} {'tokens/s':>9} {'core':>7} {'µs/token':>9} {'events':>7} {'engine ms':>10} {'client ms':>10}"
    )
    for streams in map(int, asked.streams.split(",")):
        print(run(streams, asked.seconds), flush=True)


if __name__ == "__main__":
    main()
