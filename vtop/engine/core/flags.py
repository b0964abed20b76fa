"""The flags of a vLLM server that decide how its scheduler behaves, with vLLM's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.errors import VtopError

POLICIES = ("fcfs", "priority")
TAKEN_SEQS, TAKEN_BUDGET = 128, 8192  # where nothing tells: /metrics does not


@dataclass(frozen=True, slots=True)
class Flags:
    """What `vllm serve` was started with. A pool of num_gpu_blocks blocks holds one fewer: the null block.

    Raises VtopError for a combination that vLLM refuses too (vLLM: config/scheduler.py).
    """

    num_gpu_blocks: int
    max_num_seqs: int = TAKEN_SEQS
    max_num_batched_tokens: int = TAKEN_BUDGET
    block_size: int = 16
    max_model_len: int = 8192
    policy: str = "fcfs"
    watermark: float = 0.0  # fraction of the pool that an admission must leave free
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    async_scheduling: bool = True
    long_prefill_token_threshold: int = 0  # most prompt tokens of one request in a step; 0: no bound
    scheduler_reserve_full_isl: bool = True  # admission asks for room for the whole prompt, not the first chunk

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_num_batched_tokens", "block_size", "max_model_len"):
            if getattr(self, name) < 1:
                raise VtopError(f"{option(name)} must be at least 1")
        if self.num_gpu_blocks < 2:
            raise VtopError("the KV pool must have at least 2 blocks: one of them is the null block")
        if self.policy not in POLICIES:
            raise VtopError(f"--scheduling-policy is one of {', '.join(POLICIES)}, not {self.policy!r}")
        if not 0.0 <= self.watermark < 1.0:
            raise VtopError("--watermark is a fraction from 0 up to, not including, 1")
        if self.long_prefill_token_threshold < 0:
            raise VtopError("--long-prefill-token-threshold must not be negative")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise VtopError(
                f"--max-num-batched-tokens {self.max_num_batched_tokens} must be at least "
                f"--max-num-seqs {self.max_num_seqs}"
            )
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise VtopError(
                f"without chunked prefill --max-num-batched-tokens {self.max_num_batched_tokens} must be at least "
                f"--max-model-len {self.max_model_len}"
            )

    @property
    def usable_blocks(self) -> int:
        """Blocks that requests can hold: all but the null block."""
        return self.num_gpu_blocks - 1

    @property
    def kv_tokens(self) -> int:
        """The pool as vLLM's log says it: `GPU KV cache size: 86,896 tokens`."""
        return self.num_gpu_blocks * self.block_size

    def most_tokens(self) -> int:
        """Tokens of the longest request that can ever finish: more fit neither the model nor the pool."""
        return min(self.max_model_len, self.usable_blocks * self.block_size)


def option(name: str) -> str:
    """The flag as it is typed: max_num_seqs is --max-num-seqs."""
    return "--" + name.replace("_", "-")
