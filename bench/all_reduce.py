"""How long an all-reduce takes among the GPUs of this host, as nccl-tests' all_reduce_perf prints it.

For hosts without nccl-tests: `python bench/all_reduce.py > two.txt`, then `vtop plan tp … --all-reduce 2:two.txt`.
Needs torch. Times are medians over all repeats of the slowest rank; NCCL by CUDA events, gloo (a CPU) by the clock.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from typing import Any

COLUMNS = "\n".join(
    (
        "#" + " " * 62 + "out-of-place" + " " * 23 + "in-place",
        f"#{'size':>11} {'count':>13} {'type':>9} {'redop':>7} {'root':>7}" + "     time   algbw   busbw #wrong" * 2,
        f"#{'(B)':>11} {'(elements)':>13}" + " " * 26 + "     (us)  (GB/s)  (GB/s)       " * 2,
    )
)


def timed_us(torch: Any, tensor: Any, repeats: int, backend: str) -> list[float]:
    """One time a repeat, in microseconds, of this rank."""
    reduce = torch.distributed.all_reduce
    for _ in range(max(5, repeats // 10)):
        reduce(tensor)
    if backend == "nccl":
        marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
        torch.cuda.synchronize()
        for before, after in marks:
            before.record()
            reduce(tensor)
            after.record()
        torch.cuda.synchronize()
        return [before.elapsed_time(after) * 1e3 for before, after in marks]
    found = []
    for _ in range(repeats):
        began_s = time.perf_counter()
        reduce(tensor)
        found.append((time.perf_counter() - began_s) * 1e6)
    return found


def rank(number: int, asked: argparse.Namespace) -> None:
    import torch

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(asked.port)}
    device = torch.device("cpu")
    if asked.backend == "nccl":
        device = torch.device("cuda", number)
        torch.cuda.set_device(device)
    torch.distributed.init_process_group(asked.backend, rank=number, world_size=asked.ranks)
    if number == 0:
        print(f"# {asked.ranks} ranks, {asked.backend}, torch {torch.__version__}, bf16, median of {asked.repeats}")
        for one in range(asked.ranks):
            print(f"#  Rank {one:>2} Group  0 Pid {os.getpid():>6} on localhost device {one:>2}")
        print(COLUMNS)
    size = asked.least
    while size <= asked.most:
        tensor = torch.zeros(size // 2, dtype=torch.bfloat16, device=device)
        times = torch.tensor(timed_us(torch, tensor, asked.repeats, asked.backend), device=device)
        torch.distributed.all_reduce(
            times, op=torch.distributed.ReduceOp.MAX
        )  # a collective is over with its last rank
        if number == 0:
            us = statistics.median(times.tolist())
            alg = size / us / 1e3
            bus = alg * 2 * (asked.ranks - 1) / asked.ranks
            half = f"{us:8.2f} {alg:7.2f} {bus:7.2f} {'0':>6}"
            print(f"{size:>12} {size // 2:>13} {'bfloat16':>9} {'sum':>7} {-1:>7} {half} {half}", flush=True)
        size *= 2
    torch.distributed.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--backend", choices=("nccl", "gloo"), default="nccl")
    parser.add_argument("--least", type=int, default=16 << 10, help="bytes")
    parser.add_argument("--most", type=int, default=4 << 20, help="bytes")
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--port", type=int, default=29577)
    asked = parser.parse_args()
    import torch.multiprocessing

    torch.multiprocessing.spawn(rank, args=(asked,), nprocs=asked.ranks)


if __name__ == "__main__":
    main()
