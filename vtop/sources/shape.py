"""The model's shape from its config.json: the numbers that KV size and FLOPs are made of, and nothing else."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

from vtop.errors import VtopError
from vtop.session.kv.model_numbers import WHOLE, nonsense

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
    # which layers keep what of a token, by the names that families give it
    "num_layers",
    "n_layer",
    "n_layers",
    "n_head",
    "n_heads",
    "n_embd",
    "d_model",
    "kv_channels",
    "num_kv_heads",
    "multi_query",
    "multi_query_group_num",
    "layer_types",
    "layers_block_type",
    "block_types",
    "hybrid_override_pattern",
    "attn_layer_period",
    "attn_layer_offset",
    "full_attention_interval",
    "num_nextn_predict_layers",
    "sliding_window",
    "sliding_window_size",
    "sliding_window_pattern",
    "use_sliding_window",
    "max_window_layers",
    "attention_chunk_size",
    "global_head_dim",
    "num_global_key_value_heads",
    "swa_num_key_value_heads",
    "swa_head_dim",
    "swa_v_head_dim",
    "num_kv_shared_layers",
    "index_topk",
    "is_encoder_decoder",
    "mamba_d_state",
    "mamba_n_heads",
    "ssm_state_size",
    "state_size",
    "linear_num_value_heads",
    "linear_num_key_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
    "mamba_d_head",
    "mamba_n_groups",
    "mamba_d_conv",
    "mamba_ssm_dtype",
    "max_position_embeddings",
    "tie_word_embeddings",
    "attention_bias",
)
PRESENT = ("block_configs", "cross_attention_layers", "linear_attn_config")  # kept as 1: that they are there is all

LIMIT_BYTES = 1 << 20
LONGEST = 1024  # of a list with an entry a layer
_LONGEST_NAME = 100


def fits(value: object) -> bool:
    """Whether a number or a word of a model's description can stand in a recording: 64 bits, a short printable word."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_NAME and value.isprintable()
    return isinstance(value, int) and abs(value) < 1 << 63


def shape_of(config: Path) -> dict[str, int | str] | None:
    """The numbers of a config.json that vtop reads; None when there is no such file or it is none."""
    merged = _read(config)
    return None if merged is None else _shape(merged)


def _shape(merged: dict[str, object]) -> dict[str, int | str] | None:
    shape = {name: kept for name in KEPT if (kept := _kept(merged.get(name))) is not None}
    shape |= {name: 1 for name in PRESENT if merged.get(name)}
    return shape | _quantization(merged) or None


def told_shape(config: Path) -> dict[str, int | str]:
    """The same of a file that somebody named. Raises VtopError where it is none, or holds what no model has."""
    merged = _read(config) or {}
    shape = _shape(merged)
    if shape is None:
        raise VtopError(f"{config}: no config.json of a model; name the one in the model's folder")
    odd = next((name for name in KEPT if name in WHOLE and not _whole(merged.get(name))), None)
    if odd is not None:
        raise VtopError(f"{config}: its {odd} is {json.dumps(merged[odd])[:40]}, and a whole number is meant")
    if (why := nonsense(shape)) is not None:
        raise VtopError(f"{config}: {why}")
    return shape


def _read(config: Path) -> dict[str, object] | None:
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
    return {**found, **inner} if isinstance(inner, dict) else found


def _whole(value: object) -> bool:
    """What stands for a whole number, for one a layer, or for none."""
    each = value if isinstance(value, list) else [value]
    return all(one is None or (isinstance(one, int) and not isinstance(one, bool)) for one in each)


def _kept(value: object) -> int | str | None:
    """A number or a name as it is, a switch as 0 or 1, a list of either as its parts with commas between."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | str):
        return value if fits(value) else None
    if isinstance(value, list) and 0 < len(value) <= LONGEST and all(map(fits, value)):
        return ",".join(map(str, value))
    return None


def _quantization(config: dict[str, object]) -> dict[str, int | str]:
    """The checkpoint's own KV type, and the group size of its weights: what tensor parallelism must divide."""
    told = config.get("quantization_config")
    if not isinstance(told, dict):
        return {}
    found: dict[str, int | str] = {}
    for name in ("quant_method", "group_size", "bits"):
        if fits(told.get(name)):
            found[f"quantization_{name}"] = told[name]
    scheme = told.get("kv_cache_scheme")  # compressed-tensors; ModelOpt names the type instead
    if (isinstance(scheme, dict) and scheme.get("num_bits") == 8) or str(
        told.get("kv_cache_quant_algo", "")
    ).upper() == "FP8":
        found["checkpoint_kv_dtype"] = "fp8"
    return found
