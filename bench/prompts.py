"""Times the planning of a load: building a request's payload, and walking a schedule of arrivals.

Run from the repository: python bench/prompts.py. Each payload is another one, as in a run; the time is the least of
several rounds. Beside them stands json.dumps of a list of as many numbers, already drawn.
"""

from __future__ import annotations

import json
import random
import sys
from collections import deque
from time import perf_counter

from vtop.load.workload.arrivals import due_times
from vtop.load.workload.dataset import Item
from vtop.load.workload.prompts import Prompts
from vtop.load.workload.spec import phases

ROUNDS = 7
BLOCK = 512


def payload_s(prompts: Prompts, requests: int) -> float:
    """Seconds for one payload, the least over rounds."""
    best = float("inf")
    for round_ in range(ROUNDS):
        start = perf_counter()
        for k in range(round_ * requests, (round_ + 1) * requests):
            prompts.payload(k)
        best = min(best, (perf_counter() - start) / requests)
    return best


def dumps_s(tokens: int, requests: int) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        ids = random.choices(range(300, 4000), k=tokens)
        start = perf_counter()
        for _ in range(requests):
            json.dumps({"prompt": ids}).encode()
        best = min(best, (perf_counter() - start) / requests)
    return best


def arrival_s(spec: str, worker: int, workers: int) -> float:
    """Seconds that a worker spends on each of the arrivals of the whole schedule, the least over rounds."""
    (phase,) = phases([spec])
    best = float("inf")
    for _ in range(ROUNDS):
        start = perf_counter()
        deque(due_times(phase, worker, workers), maxlen=0)
        best = min(best, (perf_counter() - start) / (phase.requests or 1))
    return best


def main() -> None:
    blocks = tuple(range(24))
    trace = (Item(input_tokens=24 * BLOCK, output_tokens=256, hash_ids=blocks, at_s=0.0),)
    rows: tuple[tuple[str, int, tuple[Item, ...]], ...] = (
        ("c=1 in=128", 128, ()),
        ("c=1 in=1024", 1024, ()),
        ("c=1 in=1024 prefix=512", 1024, ()),
        ("c=1 in=512~1536", 1024, ()),
        ("c=1 in=1024 api=chat", 1024, ()),
        ("c=1 in=8192", 8192, ()),
        ("c=1 in=32768", 32768, ()),
        ("trace=t", 24 * BLOCK, trace),
    )
    print(f"{'payload':26} {'tokens':>7} {'bytes':>8} {'µs':>8} {'ns/token':>9} {'json.dumps µs':>14}")
    for spec, tokens, items in rows:
        (phase,) = phases([spec])
        prompts = Prompts(phase, model="model", entropy="bench", items=items)
        requests = max(5, 200_000 // tokens)
        took_s = payload_s(prompts, requests)
        size = len(prompts.payload(0))
        dumps = dumps_s(tokens, requests) * 1e6
        print(f"{spec:26} {tokens:>7,} {size:>8,} {took_s * 1e6:>8.1f} {took_s / tokens * 1e9:>9.1f} {dumps:>14.1f}")
    print(f"\n{'schedule':34} {'µs/arrival':>10}")
    for arrival in ("poisson", "constant", "gamma:0.5"):
        for workers in (1, 4):
            spec = f"rate=1000 arrival={arrival} n=100000"
            took_s = arrival_s(spec, 0, workers)
            print(f"{f'{arrival}, one of {workers}':34} {took_s * 1e6:>10.2f}")
    print(f"\nPython {sys.version.split()[0]}, least of {ROUNDS} rounds")


if __name__ == "__main__":
    main()
