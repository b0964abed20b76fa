"""Events a second and core of vtop's load beside `vllm bench serve`, guidellm and aiperf: one mock, one run.

Run from the repository: VTOP_VLLM=/opt/vllm VTOP_GUIDELLM=... VTOP_AIPERF=... python bench/load_peers.py [-c 64]
[--tokens 256] [--itl-ms 6] [--rounds 12] [--times 3] [--tokenizer DIR], each variable the virtual environment with
that peer, DIR a tokenizer for the peers' prompts (else tiny-model in vLLM's environment). Without its variable a peer
is left out.

All keep `c` streamed completions of 64 prompt tokens in flight, each run as a person would from its command line, with
few requests and with many: the difference of the two is what the requests cost, start-up, imports and the report
cancel. Start-up takes vLLM's some 20 s of CPU: on a busy machine its two are not alike, so --times, and the range is
shown. CPU is that of all processes of the command. An event is one streamed token; the last column holds the tokens
that the client itself says it got against those the mock sent: all four take them from the server's usage, vtop holds
token_ids against it. Prompts are text, but vtop's, which are token ids. A client that cannot follow is given several
events by a read, which makes each cheaper: its wall time shows it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from load_run import mock, run  # type: ignore[import-not-found, unused-ignore]

IN = 64
WITHIN_S = 10.0  # the processes that a command leaves behind are ended by then
ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER: their CPU is known here


@dataclass(frozen=True, slots=True)
class Task:
    url: str
    c: int
    n: int
    tokens: int
    tokenizer: str
    folder: Path


@dataclass(frozen=True, slots=True)
class Cost:
    cpu_s: float
    took_s: float
    counted: int  # tokens, as the client says


@dataclass(frozen=True, slots=True)
class Peer:
    """`counted` is given what the command wrote to its standard output."""

    name: str
    variable: str | None  # of its virtual environment
    program: str
    arguments: Callable[[Task], list[str]]
    counted: Callable[[Task, str], int]


def vllm(task: Task) -> list[str]:
    return [
        "bench", "serve", "--backend", "vllm", "--base-url", task.url, "--model", "tiny", "--tokenizer", task.tokenizer,
        "--dataset-name", "random", "--random-input-len", str(IN), "--random-output-len", str(task.tokens),
        "--num-prompts", str(task.n), "--max-concurrency", str(task.c), "--ignore-eos", "--disable-tqdm",
        "--ready-check-timeout-sec", "0",
    ]  # fmt: skip


def guidellm(task: Task) -> list[str]:
    return [
        "run", "--backend", f"kind=openai_http,target={task.url},model=tiny,request_format=/v1/completions",
        "--profile", f"kind=concurrent,streams={task.c}", "--constraint", f"kind=max_requests,count={task.n}",
        "--data", f"kind=synthetic_text,prompt_tokens={IN},output_tokens={task.tokens}",
        "--tokenizer", f"kind=huggingface_auto,model={task.tokenizer}",
        "--output", f"kind=json,path={task.folder}/guidellm.json", "--disable-console",
    ]  # fmt: skip


def aiperf(task: Task) -> list[str]:
    return [
        "profile", "--model", "tiny", "--url", task.url, "--endpoint-type", "completions", "--streaming",
        "--tokenizer", task.tokenizer, "--isl", str(IN), "--osl", str(task.tokens), "--concurrency", str(task.c),
        "--request-count", str(task.n), "--extra-inputs", "ignore_eos:true", "--use-server-token-count", "--ui", "none",
        "--no-gpu-telemetry", "--no-server-metrics", "--artifact-dir", f"{task.folder}/aiperf",
    ]  # fmt: skip


def vtop(task: Task) -> list[str]:
    return ["-m", "vtop", "load", task.url, f"c={task.c} n={task.n} in={IN} out={task.tokens}"]


def of_vtop(task: Task, said: str) -> int:
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    ended = [line for line in lines if line.get("end_s") is not None and not line.get("warmup")]
    return sum(line.get("output_tokens") or 0 for line in ended)


def of_vllm(task: Task, said: str) -> int:
    found = re.search(r"Total generated tokens:\s+(\d+)", said)
    return int(found[1]) if found else 0


def of_guidellm(task: Task, said: str) -> int:
    report = json.loads((task.folder / "guidellm.json").read_text())
    return int(report["benchmarks"][0]["metrics"]["output_token_count"]["successful"]["total_sum"])


def of_aiperf(task: Task, said: str) -> int:
    report = json.loads((task.folder / "aiperf" / "profile_export_aiperf.json").read_text())
    return int(report["total_usage_completion_tokens"]["avg"])  # of the run's one sum


PEERS = (
    Peer("vtop load, all of it", None, sys.executable, vtop, of_vtop),
    Peer("vllm bench serve", "VTOP_VLLM", "vllm", vllm, of_vllm),
    Peer("guidellm", "VTOP_GUIDELLM", "guidellm", guidellm, of_guidellm),
    Peer("aiperf", "VTOP_AIPERF", "aiperf", aiperf, of_aiperf),
)


def cost(peer: Peer, program: str, task: Task) -> Cost:
    environment = os.environ | {"HF_HUB_DISABLE_TELEMETRY": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    command = [program, *peer.arguments(task)]
    others = children()
    began_s = time.monotonic()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=environment, cwd=task.folder, text=True
        )
        assert process.stdout is not None
        said = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        took_s = time.monotonic() - began_s
        if status:
            errors.seek(0)
            why = said[-1000:] + errors.read().decode(errors="replace")[-2000:]
            raise SystemExit(f"{' '.join(command)} failed:\n{why}")
    cpu_s = usage.ru_utime + usage.ru_stime
    while left := children() - others:
        if time.monotonic() > began_s + took_s + WITHIN_S:
            raise SystemExit(f"{peer.name} left processes behind: {sorted(left)}")
        for orphan in left:
            ended, _, usage = os.wait4(orphan, os.WNOHANG)
            cpu_s += usage.ru_utime + usage.ru_stime if ended else 0.0
        time.sleep(0.02)
    return Cost(cpu_s, took_s, peer.counted(task, said))


def children() -> set[int]:
    """Of this process, adopted ones too."""
    return {int(pid) for path in Path("/proc/self/task").glob("*/children") for pid in path.read_text().split()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-c", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--itl-ms", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=12, help="requests of the longer run, for each in flight")
    parser.add_argument("--times", type=int, default=1, help="the middle one of so many is shown")
    parser.add_argument("--tokenizer", help="a folder with a tokenizer, for the peers' prompts")
    args = parser.parse_args()
    ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    c, tokens = args.c, args.tokens
    few, many = 2 * c, args.rounds * c
    events = (many - few) * tokens
    print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, Python {sys.version.split()[0]}")
    print(f"{c} in flight, {tokens} events an answer, one each {args.itl_ms:g} ms; {few} and {many} requests")
    print(
        f"{'client':<24} {'events':>8} {'wall s':>7} {'CPU s':>7} {'us/event':>9} {'(range)':>15} "
        f"{'events/s/core':>14}  counted"
    )

    def row(name: str, costs: list[tuple[Cost, Cost]]) -> None:
        spent_s = sorted(b.cpu_s - a.cpu_s for a, b in costs)
        cpu_s, took_s = median(spent_s), median(b.took_s - a.took_s for a, b in costs)
        low, high = spent_s[0] / events * 1e6, spent_s[-1] / events * 1e6
        print(
            f"{name:<24} {events:8,} {took_s:7.1f} {cpu_s:7.2f} {cpu_s / events * 1e6:9.1f} {low:7.1f}-{high:<7.1f} "
            f"{events / cpu_s:14,.0f}  {min(b.counted for _, b in costs):,} of {many * tokens:,}",
            flush=True,
        )

    def loaded(n: int) -> Cost:
        result = run(url, f"c={c} n={n} in={IN} out={tokens}")
        return Cost(result.cpu_s, result.took_s, sum(request.output_tokens or 0 for request in result.requests))

    with mock(f"--itl-ms={args.itl_ms}", f"--tokens={tokens}", "--spread=4", "--ids") as url:
        row("vtop, its load process", [(loaded(few), loaded(many)) for _ in range(args.times)])
        for peer in PEERS:
            folder = os.environ.get(peer.variable) if peer.variable else None
            if peer.variable and folder is None:
                print(f"{peer.name}: left out ({peer.variable} names its virtual environment)")
                continue
            program = str(Path(folder) / "bin" / peer.program) if folder else peer.program
            tokenizer = args.tokenizer or f"{os.environ.get('VTOP_VLLM', '')}/tiny-model"
            costs = []
            for _ in range(args.times):
                with tempfile.TemporaryDirectory() as place:
                    tasks = (Task(url, c, n, tokens, tokenizer, Path(place)) for n in (few, many))
                    first, second = (cost(peer, program, task) for task in tasks)
                    costs.append((first, second))
            row(peer.name, costs)


if __name__ == "__main__":
    main()
