"""Events a second and core of vtop's load beside `vllm bench serve`, guidellm and aiperf: one mock, one run.

Run from the repository: VTOP_VLLM=/opt/vllm-cpu python bench/load_peers.py [-c 64] [--tokens 256] [--itl-ms 6]. Each is
run as a person would, with few requests and with many, and the difference of the two is what the requests cost:
start-up, imports and the report cancel. CPU is that of all processes of the command. A peer that is not installed is
said to be missing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from load_run import mock, run  # type: ignore[import-not-found, unused-ignore]

IN = 64


@dataclass(frozen=True, slots=True)
class Cost:
    cpu_s: float
    took_s: float


def vtop(url: str, c: int, n: int, tokens: int) -> list[str]:
    return [sys.executable, "-m", "vtop", "load", url, f"c={c} n={n} in={IN} out={tokens}"]


def vllm(venv: Path, url: str, c: int, n: int, tokens: int) -> list[str]:
    return [
        str(venv / "bin" / "vllm"), "bench", "serve", "--backend", "vllm", "--base-url", url, "--model", "tiny",
        "--tokenizer", str(venv / "tiny-model"), "--dataset-name", "random", "--random-input-len", str(IN),
        "--random-output-len", str(tokens), "--num-prompts", str(n), "--max-concurrency", str(c), "--ignore-eos",
        "--disable-tqdm", "--ready-check-timeout-sec", "0",
    ]  # fmt: skip


def cost(command: list[str]) -> Cost:
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    began_s = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command[:3]} failed:\n{said.decode(errors='replace')[-2000:]}")
    return Cost(usage.ru_utime + usage.ru_stime, time.monotonic() - began_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-c", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--itl-ms", type=float, default=6.0)
    args = parser.parse_args()
    c, tokens = args.c, args.tokens
    few, many = 2 * c, 8 * c
    print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    print(f"{c} in flight, {tokens} events an answer, one each {args.itl_ms:g} ms; {few} and {many} requests")
    print(f"{'client':<28} {'events':>8} {'wall s':>7} {'CPU s':>7} {'us/event':>9} {'events/s/core':>14}")
    venv = Path(os.environ["VTOP_VLLM"]) if "VTOP_VLLM" in os.environ else None
    events = (many - few) * tokens

    def row(name: str, cpu_s: float, took_s: float) -> None:
        print(
            f"{name:<28} {events:8,} {took_s:7.1f} {cpu_s:7.2f} {cpu_s / events * 1e6:9.1f} {events / cpu_s:14,.0f}",
            flush=True,
        )

    with mock(f"--itl-ms={args.itl_ms}", f"--tokens={tokens}", "--spread=4", "--ids") as url:
        small, large = (run(url, f"c={c} n={n} in={IN} out={tokens}") for n in (few, many))
        row("vtop, its load process", large.cpu_s - small.cpu_s, large.took_s - small.took_s)
        first, second = (cost(vtop(url, c, n, tokens)) for n in (few, many))
        row("vtop load, all of it", second.cpu_s - first.cpu_s, second.took_s - first.took_s)
        if venv is not None and (venv / "bin" / "vllm").exists():
            first, second = (cost(vllm(venv, url, c, n, tokens)) for n in (few, many))
            row("vllm bench serve", second.cpu_s - first.cpu_s, second.took_s - first.took_s)
        else:
            print("vllm bench serve: not installed (VTOP_VLLM names its virtual environment)")
    for peer in ("guidellm", "aiperf"):
        print(f"{peer}: {'installed, not measured' if shutil.which(peer) else 'not installed'}")


if __name__ == "__main__":
    main()
