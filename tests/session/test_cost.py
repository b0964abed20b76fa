"""What a token costs by a model's shape, against what vLLM's own v1/metrics/perf.py (0.32) says of the same shape."""

from __future__ import annotations

import pytest

from vtop.session.recompute.token_cost import Cost, Parallel, cost

QWEN: dict[str, int | str] = {
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 28,
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "vocab_size": 152064,
}
MIXTRAL: dict[str, int | str] = {
    "dtype": "bfloat16",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 32000,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
DEEPSEEK: dict[str, int | str] = {
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "vocab_size": 129280,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
    "q_lora_rank": 1536,
}
BOTH = Parallel(tensor=2, pipeline=2)


@pytest.mark.parametrize(
    ("shape", "cache", "how", "found"),
    [
        (QWEN, "auto", Parallel(), Cost(3899392, 304128, 13050576896, 1089994752, 401408)),
        (QWEN, "fp8", Parallel(tensor=4), Cost(1268736, 76032, 3262644224, 272498688, 100352)),
        (QWEN, "auto", BOTH, Cost(1075200, 152064, 3262644224, 544997376, 100352)),
        (QWEN, None, Parallel(data=2), Cost(2308096, 304128, 7347372032, 1089994752, 401408)),
        (MIXTRAL, "auto", Parallel(), Cost(6815744, 64000, 25232932864, 262144000, 524288)),
        (MIXTRAL, "fp8", Parallel(tensor=4), Cost(2277376, 16000, 6308233216, 65536000, 131072)),
        (MIXTRAL, "auto", BOTH, Cost(1900544, 32000, 6308233216, 131072000, 131072)),
        (DEEPSEEK, "auto", Parallel(), Cost(22470912, 258560, 71182974976, 1853358080, 4997120)),
        (DEEPSEEK, "fp8", Parallel(tensor=4), Cost(12129216, 64640, 19180945408, 463339520, 1249280)),
        (DEEPSEEK, "auto", BOTH, Cost(7726592, 129280, 17958174720, 926679040, 1228800)),
    ],
)
def test_a_token_costs_what_vllm_says(shape: dict[str, int | str], cache: str, how: Parallel, found: Cost) -> None:
    assert cost(shape, cache, how) == found


@pytest.mark.parametrize("missing", ["torch_dtype", "num_hidden_layers", "hidden_size", "vocab_size"])
def test_a_shape_that_does_not_tell_costs_nothing_known(missing: str) -> None:
    assert cost({name: value for name, value in QWEN.items() if name != missing}, None) is None


def test_a_cache_type_that_is_not_known_costs_nothing_known() -> None:
    assert cost(QWEN, "turboquant") is None


def test_a_model_of_float32_runs_in_half_of_it_where_vllm_chooses() -> None:
    wide = cost({**QWEN, "torch_dtype": "float32"}, None, Parallel(narrow=True))
    assert wide == cost(QWEN, None)
