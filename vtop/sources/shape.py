"""The model's shape from its config.json: the numbers that KV size and FLOPs are made of, and nothing else."""

from __future__ import annotations

import json
import os
import stat
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
_LONGEST_NAME = 100


def fits(value: object) -> bool:
    """Whether a number or a word of a model's description can stand in a recording: 64 bits, a short printable word."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_NAME and value.isprintable()
    return isinstance(value, int) and abs(value) < 1 << 63


def shape_of(config: Path) -> dict[str, int | str] | None:
    """The numbers of a config.json that vtop reads; None when there is no such file or it is none."""
    try:
        # a FIFO would be waited at for ever, and /dev/zero has no end
        with open(os.open(config, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            text = file.read(LIMIT_BYTES + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
        found = json.loads(text) if len(text) <= LIMIT_BYTES else None
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    inner = found.get("text_config")  # a model that also sees keeps its language model's numbers there
    merged = {**found, **inner} if isinstance(inner, dict) else found
    shape = {name: merged[name] for name in KEPT if fits(merged.get(name))}
    return shape or None
