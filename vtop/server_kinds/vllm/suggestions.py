"""What to try against a limit: a flag of vLLM's that would move it, by what the server's command has on record.

A flag that is set already is named with another value than it has, and one that takes no effect beside it is not named
at all: the pool has as many blocks as --num-gpu-blocks-override says, whatever memory there is, and by
--kv-cache-memory-bytes whatever --gpu-memory-utilization says. The most telling words stand first.
Source: vLLM v1/core/kv_cache_utils.py, v1/worker/gpu_worker.py, config/cache.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vtop.recording.events import FlagValue
from vtop.server_kinds.kind import Hint
from vtop.server_kinds.vllm.flags import NAMES

_FIXED: Final = ("num-gpu-blocks-override", "kv-cache-memory-bytes")  # the first goes before the second
_UTILIZATION: Final = 0.95  # of the GPU's memory: hardly more can be had
_WIDE: Final = ("auto", "bfloat16", "float16", "float32")  # of the KV cache: fp8 takes half of it or less


def larger_pool(flags: Mapping[str, FlagValue]) -> Hint:
    """More tokens of KV cache."""
    fixed = next((name for name in _FIXED if name in flags), None)
    if fixed is not None:
        return Hint(f"--{fixed} above {flags[fixed]}, or unset it", f"vllm serve … without --{fixed}")
    utilization = flags.get("gpu-memory-utilization")
    found = []
    if not isinstance(utilization, int | float) or utilization < _UTILIZATION:
        found.append(("--gpu-memory-utilization", f"--gpu-memory-utilization {_UTILIZATION}"))
    if flags.get("kv-cache-dtype", "auto") in _WIDE:
        found.append(("--kv-cache-dtype fp8", "--kv-cache-dtype fp8"))
    if not found:
        devices = 2 * _whole(flags, "tensor-parallel-size", 1)
        found.append((f"--tensor-parallel-size {devices}", f"--tensor-parallel-size {devices}"))
    return Hint(" or ".join(name for name, _ in found), f"vllm serve … {found[-1][1]}")


def more_api_servers(flags: Mapping[str, FlagValue]) -> Hint:
    """Twice as many processes that tokenise and stream."""
    typed = f"--api-server-count {2 * _whole(flags, 'api-server-count', 1)}"
    return Hint(typed, f"vllm serve … {typed}")


def max_num_seqs(each: int) -> Hint:
    """So many requests at once on an engine."""
    return Hint(f"--{NAMES.max_num_seqs} {each}", f"vllm serve … --{NAMES.max_num_seqs} {each}")


def other_budget(now: int | None) -> Hint:
    """Steps of another size than `now`, in tokens, where that is known."""
    name = NAMES.max_num_batched_tokens
    return Hint(f"--{name}", f"vllm serve … --{name} {2048 if now is None else 2 * now}")


def smaller_steps(tokens: int) -> Hint:
    """Steps of so many tokens."""
    typed = f"--{NAMES.max_num_batched_tokens} {tokens}"
    return Hint(typed, f"vllm serve … {typed}")


def count_work() -> Hint:
    """Counters of FLOPs and bytes per step."""
    return Hint(f"--{NAMES.count_work}", f"vllm serve … --{NAMES.count_work}")


def _whole(flags: Mapping[str, FlagValue], name: str, usual: int) -> int:
    value = flags.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else usual
