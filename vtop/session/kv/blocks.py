"""A request's KV in whole blocks: what it takes of the pool, and what it leaves empty of its last block. Tokens.

Source: vLLM v1/core/single_type_kv_cache_manager.py (get_num_blocks_to_allocate: ceil of tokens / block size).
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestLengths:
    """Tokens of a request; `exact` when all have the same."""

    input: float
    output: float
    exact: bool

    @property
    def total(self) -> float:
        return self.input + self.output


def blocks_of(tokens: float, block: int) -> int:
    return math.ceil(tokens / block - 1e-9)


def waste_of(lengths: RequestLengths, block: int) -> tuple[float, float]:
    """Tokens of the last block that a request leaves empty: (at its end, on average while it gives its output)."""
    if not lengths.exact:
        return (block - 1) / 2, (block - 1) / 2
    output = int(lengths.output)
    begin = int(lengths.input)
    cycles, rest = divmod(output, block)
    left = cycles * block * (block - 1) // 2 + sum(-(begin + k) % block for k in range(1, rest + 1))
    return float(-(begin + output) % block), left / output if output else 0.0
