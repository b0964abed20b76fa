"""A profiler trace (torch's Chrome JSON, one rank) against the model: 2 all-reduces a layer, T x H x e_a bytes each.

Counted are the kernels on the GPU whose names are those of all-reduces: NCCL's, vLLM's custom ones, symmetric memory's,
FlashInfer's fused ones. Steps are vLLM's own annotations, which say how many tokens each had, else ProfilerStep. NCCL's
kernels carry their message's elements and type; others do not, and then the payload cannot be checked. One call more
than 2 L is the embedding's, whose vocabulary is split too. A step in a CUDA graph is padded to the captured size, so a
payload may be that of a few more tokens.
Source: vLLM v1/worker/gpu_worker.py (annotate_profile).
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from vtop import small_file
from vtop.errors import VtopError

LIMIT_BYTES: Final = 1 << 30
NEAR: Final = 0.05
PADDED: Final = 0.25  # by which a captured size may exceed the tokens of a step
_KERNEL: Final = re.compile(r"all_?reduce|AllReduce|cross_device_reduce|multimem_|one_?shot_|two_?shot_", re.IGNORECASE)
_FUSED: Final = re.compile(r"fusion|fused|rmsnorm|residual", re.IGNORECASE)
_STEP: Final = re.compile(r"execute_context_\d+\((\d+)[^)]*\)_generation_\d+\((\d+)[^)]*\)")
_BYTES: Final = {"BFloat16": 2, "Half": 2, "Float": 4, "Float8_e4m3fn": 1, "Char": 1, "Byte": 1}


@dataclass(frozen=True, slots=True)
class TraceCheck:
    """calls_per_step: mean. payload_ratio: of the bytes over T x H x e_a, the median. None: the trace does not tell."""

    file: str
    steps: int
    calls: int
    calls_per_step: float
    expected_per_step: int
    fused_calls: int
    payload_bytes: float | None
    payload_ratio: float | None
    seconds_per_call: float  # the median
    kernels: tuple[tuple[str, int], ...]
    problems: tuple[str, ...]  # none: the formula may be used

    @property
    def holds(self) -> bool:
        return not self.problems


def check(path: Path, layers: int, hidden: int, activation_bytes: int) -> TraceCheck:
    """Raises VtopError where it is no trace, or holds no step."""
    events = _events(path)
    kernels = [one for one in events if one.get("cat") == "kernel" and _KERNEL.search(str(one.get("name", "")))]
    device = min((_device(one) for one in kernels), default=0)
    kernels = [one for one in kernels if _device(one) == device]
    steps = _steps(events)
    if not steps:
        raise VtopError(f"{path}: no step in it: neither vLLM's execute_context_… nor ProfilerStep")
    expected = 2 * layers
    each = len(kernels) / len(steps)
    sizes = [size for one in kernels if (size := _payload(one)) is not None]
    tokens = [one for one in steps if one is not None and one > 0]
    payload = median(sizes) if sizes else None
    ratio = payload / (median(tokens) * hidden * activation_bytes) if payload is not None and tokens else None
    problems = []
    if not kernels:
        problems.append("no all-reduce in it: was it one GPU, or are its kernels of names that vtop does not know?")
    elif abs(each - expected) > max(1.0, NEAR * expected):
        problems.append(f"{each:.1f} all-reduces a step where 2 L = {expected}: the formula does not hold here")
    if ratio is not None and not 1 - NEAR <= ratio <= 1 + PADDED:
        problems.append(f"a call carries {ratio:.2f} times T × H × e_a bytes: the formula does not hold here")
    names = Counter(re.sub(r"[<(].*", "", str(one["name"])).strip() for one in kernels)
    return TraceCheck(
        file=str(path),
        steps=len(steps),
        calls=len(kernels),
        calls_per_step=each,
        expected_per_step=expected,
        fused_calls=sum(_FUSED.search(str(one["name"])) is not None for one in kernels),
        payload_bytes=payload,
        payload_ratio=ratio,
        seconds_per_call=median([_seconds(one) for one in kernels]) if kernels else 0.0,
        kernels=tuple(names.most_common(4)),
        problems=tuple(problems),
    )


def _events(path: Path) -> list[Mapping[str, Any]]:
    try:
        raw = small_file.read_bytes(path, LIMIT_BYTES)
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.GzipFile(fileobj=io.BytesIO(raw)).read(LIMIT_BYTES + 1)
        if len(raw) > LIMIT_BYTES:
            raise VtopError(f"{path}: holds more than {LIMIT_BYTES >> 20} MiB: record fewer steps")
        content = json.loads(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise VtopError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    except (ValueError, RecursionError) as error:
        raise VtopError(f"{path}: no JSON, or cut short ({error})") from error
    events = content.get("traceEvents") if isinstance(content, dict) else content
    if not isinstance(events, list):
        raise VtopError(f"{path}: no Chrome trace: it has no traceEvents")
    return [one for one in events if isinstance(one, dict) and isinstance(one.get("args", {}), dict)]


def _steps(events: list[Mapping[str, Any]]) -> list[int | None]:
    """The tokens of each step, None where only ProfilerStep stands."""
    for cat in ("gpu_user_annotation", "user_annotation"):
        named = [_STEP.match(str(one.get("name", ""))) for one in events if one.get("cat") == cat]
        if found := [int(one[1]) + int(one[2]) for one in named if one is not None]:
            return list(found)
    of_torch = [one for one in events if str(one.get("name", "")).startswith("ProfilerStep#")]
    return [None] * len({one["name"] for one in of_torch})


def _seconds(event: Mapping[str, Any]) -> float:
    took = event.get("dur", 0)
    return took / 1e6 if isinstance(took, int | float) and 0 <= took < 1e15 else 0.0


def _device(event: Mapping[str, Any]) -> int:
    device = (event.get("args") or {}).get("device", 0)
    return device if isinstance(device, int) else 0


def _payload(event: Mapping[str, Any]) -> int | None:
    args = event.get("args") or {}
    many, size = args.get("In msg nelems"), _BYTES.get(str(args.get("dtype")))
    return many * size if isinstance(many, int) and 0 <= many < 1 << 63 and size is not None else None
