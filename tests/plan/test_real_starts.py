"""plan kv against the pools that real servers logged when they started: the same blocks and the same concurrency.

vLLM 0.32.0 on the CPU, dummy weights, --max-model-len 1024 --max-num-batched-tokens 512, one step in flight; the pool
of each rank is VLLM_CPU_KVCACHE_SPACE. The recordings that come with vtop are of an H200 whose blocks were set by hand.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from vtop.plan.kv_plan import Asked, plan
from vtop.plan.model_config import load

TINY: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 4096,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Start:
    """What a server was given, and what it logged."""

    name: str
    blocks: int
    tokens: int
    concurrency: str
    numbers: dict[str, Any] = field(default_factory=dict)
    block_size: int = 32
    pool_bytes: int = GIB
    cache_dtype: str | None = None
    tp: int = 1
    dp: int = 1


STARTS = [
    Start("grouped queries", 16_384, 524_288, "512.00x"),
    Start("fp8 KV", 32_768, 1_048_576, "1024.00x", cache_dtype="fp8"),
    Start(
        "a head each, float32",
        1_365,
        87_360,
        "85.31x",
        {"num_key_value_heads": 4, "num_hidden_layers": 6, "torch_dtype": "float32"},
        block_size=64,
    ),
    Start("wide heads", 21_845, 699_040, "682.66x", {"head_dim": 128, "num_hidden_layers": 3}, pool_bytes=2 * GIB),
    Start(
        "Qwen2, its window off",
        13_107,
        419_424,
        "409.59x",
        {"model_type": "qwen2", "num_hidden_layers": 5, "sliding_window": None, "use_sliding_window": False},
    ),
    Start("Mistral, all layers slide", 16_384, 671_088, "655.36x", {"model_type": "mistral", "sliding_window": 256}),
    Start(
        "Gemma 3, one of six layers is full",
        32_768,
        213_722,
        "208.71x",
        {"model_type": "gemma3_text", "num_hidden_layers": 12, "sliding_window": 256, "sliding_window_pattern": 6},
    ),
    Start(
        "Gemma 2, every other layer is full",
        21_845,
        392_443,
        "383.25x",
        {"model_type": "gemma2", "num_hidden_layers": 6, "sliding_window": 256},
    ),
    Start(
        "DeepSeek-V2, MLA",
        9_709,
        310_688,
        "303.41x",
        {
            "model_type": "deepseek_v2",
            "num_hidden_layers": 3,
            "head_dim": None,
            "num_key_value_heads": 4,
            "kv_lora_rank": 512,
            "qk_rope_head_dim": 64,
        },
    ),
    Start("two ranks", 32_768, 1_048_576, "1024.00x", tp=2),
    Start("two replicas, each its own pool", 16_384, 524_288, "512.00x", dp=2),
]


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.name)
def test_the_pool_is_the_one_that_the_server_logged(tmp_path: Path, start: Start) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TINY | start.numbers))
    asked = Asked(
        pool_bytes=start.pool_bytes,
        block_size=start.block_size,
        max_model_len=1024,
        max_num_batched_tokens=512,
        async_scheduling=False,
        tp=start.tp,
        dp=start.dp,
    )
    pool = plan(asked, load(config, start.cache_dtype)).pool
    assert pool is not None
    assert (pool.blocks, pool.tokens) == (start.blocks, start.tokens)
    assert f"{pool.full_length_requests:.2f}x" == start.concurrency
