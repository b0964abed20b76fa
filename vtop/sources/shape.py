"""The model's shape from its config.json: the numbers that KV size and FLOPs are made of, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path

KEPT = (
    "model_type",
    "torch_dtype",
    "dtype",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "vocab_size",
    "kv_lora_rank",
    "q_lora_rank",
    "qk_rope_head_dim",
    "qk_nope_head_dim",
    "v_head_dim",
    "num_experts",
    "moe_num_experts",
    "n_routed_experts",
    "num_local_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "n_shared_experts",
    "num_shared_experts",
    "first_k_dense_replace",
    "moe_layer_freq",
    "interleave_moe_layer_step",
)

LIMIT_BYTES = 1 << 20


def shape_of(config: Path) -> dict[str, int | str] | None:
    """The numbers of a config.json that vtop reads; None when there is no such file or it is none."""
    try:
        if config.stat().st_size > LIMIT_BYTES:
            return None
        found = json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    inner = found.get("text_config")  # a model that also sees keeps its language model's numbers there
    merged = {**found, **inner} if isinstance(inner, dict) else found
    shape = {name: merged[name] for name in KEPT if isinstance(merged.get(name), int | str)}
    return shape or None
