"""Whether the numbers of a config.json can be those of a model, before anything is computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Shape = Mapping[str, int | str]
MOST: Final = 1 << 31  # that no number of a model reaches
MOST_LAYERS: Final = 10_000

LAYERS: Final = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
HEADS: Final = ("num_attention_heads", "n_head", "n_heads")
KV_HEADS: Final = ("num_key_value_heads", "num_kv_heads", "multi_query_group_num")
HIDDEN: Final = ("hidden_size", "n_embd", "d_model")
# of a list with an entry a layer in place of one number
LISTED: Final = ("num_key_value_heads", "num_kv_heads")
ABOVE_ZERO: Final = (
    *LAYERS, *HEADS, *KV_HEADS, *HIDDEN,
    "head_dim", "kv_channels", "v_head_dim", "intermediate_size", "vocab_size", "max_position_embeddings",
    "kv_lora_rank", "global_head_dim", "num_global_key_value_heads", "swa_num_key_value_heads", "swa_head_dim",
    "swa_v_head_dim", "attn_layer_period", "full_attention_interval", "sliding_window_pattern", "attention_chunk_size",
    "mamba_d_state", "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_conv", "linear_num_value_heads",
    "linear_num_key_heads", "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim",
)  # fmt: skip
NOT_NEGATIVE: Final = (
    "qk_rope_head_dim", "qk_nope_head_dim", "q_lora_rank", "sliding_window", "sliding_window_size", "max_window_layers",
    "num_kv_shared_layers", "attn_layer_offset", "moe_intermediate_size", "num_experts", "n_routed_experts",
    "num_local_experts", "moe_num_experts", "num_experts_per_tok", "n_shared_experts", "num_shared_experts",
    "first_k_dense_replace", "num_nextn_predict_layers",
)  # fmt: skip
WHOLE: Final = frozenset({*ABOVE_ZERO, *NOT_NEGATIVE})
_TYPE_LISTS: Final = ("layer_types", "layers_block_type")  # an entry a layer; block_types is a pattern that repeats


def nonsense(shape: Shape) -> str | None:
    """The first number that no model has, in words; None where there is none. What is not there is no nonsense."""
    for names, least in ((ABOVE_ZERO, 1), (NOT_NEGATIVE, 0)):
        for name in names:
            value = shape.get(name)
            if value is None or (name in LISTED and isinstance(value, str)):
                continue
            if isinstance(value, str):
                if all(map(str.isdecimal, value.split(","))):
                    continue  # one a layer, as Gemma 3n's intermediate_size
                return f"its {name} is {value!r:.40}, and a whole number of {least} or more is meant"
            if value < least:
                return f"its {name} is {value}, and a whole number of {least} or more is meant"
            if value >= MOST:
                return f"its {name} is {value:,}: no model's"
    layers = first(shape, *LAYERS)
    return (_of_layers(shape, layers) if layers is not None else None) or _of_heads(shape)


def first(shape: Shape, *names: str) -> int | None:
    """Of a number that goes by several names."""
    return next((value for name in names if isinstance(value := shape.get(name), int)), None)


def _of_layers(shape: Shape, layers: int) -> str | None:
    if layers > MOST_LAYERS:
        return f"{layers:,} layers are no model's"
    further = first(shape, "num_nextn_predict_layers") or 0  # a list may hold those that predict ahead, too
    for name in _TYPE_LISTS:
        if told := shape.get(name):
            entries = len(str(told).split(","))
            if not layers <= entries <= layers + further:
                return f"its {name} has {entries:,} entries for {layers:,} layers"
    pattern = str(shape.get("hybrid_override_pattern", ""))
    if pattern and len(pattern) != layers:
        return f"its hybrid_override_pattern has {len(pattern):,} letters for {layers:,} layers"
    if (shared := first(shape, "num_kv_shared_layers") or 0) >= layers:
        return f"{shared:,} of its {layers:,} layers read another's keys: none is left that keeps them"
    for name in LISTED:
        if isinstance(told := shape.get(name), str):
            each = told.split(",")
            if odd := next((one for one in each if not one.strip().isdecimal()), None):
                return f"its {name} has the entry {odd!r}, which is no number of heads"
            if len(each) != layers:
                return f"its {name} has {len(each):,} entries for {layers:,} layers"
    return None


def _of_heads(shape: Shape) -> str | None:
    heads, hidden, kv_heads = (first(shape, *names) for names in (HEADS, HIDDEN, KV_HEADS))
    if heads is None or "kv_lora_rank" in shape:
        return None
    if kv_heads is not None and heads % kv_heads:
        return f"{heads:,} attention heads do not share {kv_heads:,} KV heads evenly"
    if hidden is not None and first(shape, "head_dim", "kv_channels") is None and hidden % heads:
        return f"its hidden_size {hidden:,} does not divide by {heads:,} heads, and it says no head_dim"
    return None
