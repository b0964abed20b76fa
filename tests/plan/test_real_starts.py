"""plan kv against the pools that real servers logged when they started: the same blocks and the same concurrency.

vLLM 0.32.0 on the CPU, dummy weights, --max-model-len 1024 --max-num-batched-tokens 512, one step in flight; the pool
of each rank is VLLM_CPU_KVCACHE_SPACE. vLLM 0.26.0 on an H200: the same, but for --max-num-batched-tokens 1024 and a
pool set by --kv-cache-memory-bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from vtop.plan.kv_plan import KvQuestion, plan
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
    budget: int = 512
    async_scheduling: bool = False


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

QWEN_7B = {"model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28}
QWEN_7B |= {"num_key_value_heads": 4, "head_dim": None}
LLAMA_8B = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
LLAMA_8B |= {"head_dim": 128}
DEEPSEEK = {"model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 6, "num_attention_heads": 16}
DEEPSEEK |= {"num_key_value_heads": 16, "head_dim": None, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
GEMMA_1B = {"model_type": "gemma3_text", "hidden_size": 1152, "num_hidden_layers": 26, "num_key_value_heads": 1}
GEMMA_1B |= {"head_dim": 256, "sliding_window": 512, "sliding_window_pattern": 6}
SLIDING = {"model_type": "mistral", "hidden_size": 2048, "num_hidden_layers": 12, "num_attention_heads": 16}
SLIDING |= {"num_key_value_heads": 4, "head_dim": 128, "sliding_window": 1024}


def on_h200(name: str, numbers: dict[str, Any], pool_bytes: int, logged: tuple[int, int, str], **more: Any) -> Start:
    more = {"block_size": 16, "budget": 1024, "async_scheduling": True, "pool_bytes": pool_bytes} | more
    return Start(f"H200: {name}", *logged, numbers, **more)


STARTS += [
    on_h200("Llama-3.1-8B", LLAMA_8B, 6_569_114_112, (3_132, 50_112, "48.94x")),
    on_h200("Llama-3.1-8B, blocks of 64", LLAMA_8B, 4 * GIB, (512, 32_768, "32.00x"), block_size=64),
    on_h200("Qwen2.5-7B, fp8 KV", QWEN_7B, 4 * GIB, (9_362, 149_792, "146.28x"), cache_dtype="fp8"),
    on_h200("DeepSeek-V2, MLA", DEEPSEEK, 4 * GIB, (9_709, 621_376, "606.81x"), block_size=64),
    on_h200("DeepSeek-V2, fp8", DEEPSEEK, 4 * GIB, (19_418, 1_242_752, "1213.62x"), block_size=64, cache_dtype="fp8"),
    on_h200("Gemma 3 1B", GEMMA_1B, 4 * GIB, (65_536, 147_816, "144.35x")),
    on_h200("all layers slide", SLIDING, 3 * GIB, (8_192, 129_055, "126.03x")),
]


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.name)
def test_the_pool_is_the_one_that_the_server_logged(tmp_path: Path, start: Start) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(TINY | start.numbers))
    asked = KvQuestion(
        pool_bytes=start.pool_bytes,
        block_size=start.block_size,
        max_model_len=1024,
        max_num_batched_tokens=start.budget,
        async_scheduling=start.async_scheduling,
        tp=start.tp,
        dp=start.dp,
    )
    pool = plan(asked, load(config, start.cache_dtype)).pool
    assert pool is not None
    assert (pool.blocks, pool.tokens) == (start.blocks, start.tokens)
    assert f"{pool.full_length_requests:.2f}x" == start.concurrency
