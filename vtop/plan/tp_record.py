"""The steps of a recording and tensor parallelism: which all-reduces to measure, and the speed-up over them all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from vtop.engine.core.model_shape import ModelShape
from vtop.plan.observed import Steps
from vtop.plan.tensor_parallel import StepTime, payload_bytes

VLLM_ROW_BYTES: Final = 8192 * 2  # vLLM's benchmark has 8,192 columns of bfloat16, whatever the model


@dataclass(frozen=True, slots=True)
class OnRecord:
    """Over the steps of a recording, each bucket at its middle: time on one GPU over time on p."""

    steps: float
    mean_tokens: float
    least_tokens: int
    most_tokens: int
    speed_up: float


def commands(shape: ModelShape, ps: Sequence[int], tokens: tuple[int, int], activation_bytes: int) -> tuple[str, ...]:
    """all_reduce_perf over the payloads of the T asked for, or on record: in CUDA graphs, as JSON, a group a line; and
    vLLM's own benchmark, which measures what its decode steps use on NVLink."""
    sizes = [payload_bytes(shape, one, activation_bytes) for one in tokens]
    low, high = 1 << math.floor(math.log2(sizes[0])), 1 << math.ceil(math.log2(sizes[1]))
    kind = {2: "bfloat16", 4: "float"}[activation_bytes]
    many = [p for p in ps if p > 1]
    made = [
        f"./build/all_reduce_perf -b {_short(low)} -e {_short(high)} -f 2 -g {p} -d {kind} -n 200 -w 50 -G 10 "
        f"-J all_reduce_{p}.json"
        for p in many
    ]
    lengths = " ".join(str(one) for one in _powers(low // VLLM_ROW_BYTES, high // VLLM_ROW_BYTES))
    script = f"benchmarks/kernels/benchmark_device_communicators.py --sequence-lengths {lengths}"
    made += [f"torchrun --nproc_per_node={p} {script} --output-json communicators_{p}.json" for p in many]
    return tuple(made)


def on_record(steps: Steps, one: StepTime, other: StepTime) -> OnRecord:
    """one, other: seconds of a step on one GPU and on p, by its tokens."""
    alone = split = 0.0
    for (low, high), many in _buckets(steps):
        middle = max(1, round((low + 1 + high) / 2))
        alone += many * one(middle)
        split += many * other(middle)
    least, most = span(steps)
    return OnRecord(steps.steps, steps.mean_tokens, least, most, alone / split if split else 1.0)


def _buckets(steps: Steps) -> list[tuple[tuple[float, float], float]]:
    """((above, up to), how many) of the buckets that hold steps; the last one, without an end, at twice its begin."""
    found, below = [], 0.0
    for le, many in zip(steps.le, steps.n, strict=True):
        high = le if math.isfinite(le) else 2 * below
        if many > 0:
            found.append(((below, high), many))
        below = le
    return found


def span(steps: Steps) -> tuple[int, int]:
    """The least and the most tokens that a step on record may have had."""
    buckets = _buckets(steps)
    return int(buckets[0][0][0]) + 1, max(1, int(buckets[-1][0][1]))


def _powers(low: int, high: int) -> list[int]:
    """Of two, from one to the other; the least is one row."""
    return [1 << at for at in range(max(1, low).bit_length() - 1, max(1, high).bit_length())]


def _short(size: int) -> str:
    for unit, scale in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if size >= scale:
            return f"{size // scale}{unit}"
    return str(size)
