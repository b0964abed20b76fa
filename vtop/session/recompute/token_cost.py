"""What one token costs a GPU, from a model's shape: bytes written and floating-point operations, as vLLM counts them.

With T executed tokens, R rows of logits and C = the sum over tokens of the context each one looks at, the counters of
`--enable-mfu-metrics` grow by

    written = token_bytes x T + row_bytes x R
    FLOP    = token_flops x T + row_flops x R + context_flops x C

    token_bytes   = L [(q + 2 kv) d a + 2 kv d c + D a] + L 3 I a + L D a        row_bytes = V a
    token_flops   = L [2 D (q + 2 kv) d + 2 D q d] + L 6 D I                      row_flops = 2 D V
    context_flops = L 4 q d

L layers, D hidden size, q and kv heads of size d, I intermediate size, V vocabulary, a bytes of an activation, c bytes
of a KV element. Mixture of experts: in the layers that have them I is E x moe size for E experts a token and S shared
ones, and D a is written by each. MLA: `_mla`. Tensor parallel divides q, kv, I and V, pipeline parallel L. A row is
written for each decoded token and for each chunk of a prefill, so R is generated tokens + chunks that ended no prompt.
Attention is a full rectangle (context x tokens), not its causal half. Weights' quantisation changes neither.

Source: vLLM v1/metrics/perf.py. Per GPU; bytes, FLOP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_DTYPE_BYTES = {"float32": 4, "float": 4, "half": 2, "float16": 2, "bfloat16": 2}
_EXPERTS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")

Shape = Mapping[str, int | str]


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one token run through the model, of one row of logits, and of one token looking at one other."""

    token_bytes: float
    row_bytes: float
    token_flops: float
    row_flops: float
    context_flops: float


@dataclass(frozen=True, slots=True)
class Parallel:
    """How a model is spread; `narrow`: activations of 2 bytes although config.json says 4 (vLLM's --dtype auto)."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1  # vLLM splits the feed-forward layers over these too
    narrow: bool = False


@dataclass(frozen=True, slots=True)
class _Size:
    layers: int
    hidden: int
    heads: int
    a: int  # bytes of an activation
    c: int  # bytes of a KV element


def cost(shape: Shape, cache_dtype: str | None, how: Parallel = Parallel()) -> Cost | None:
    """None when the shape does not tell. cache_dtype as in cache_config_info, "auto" being the model's."""
    a = _DTYPE_BYTES.get(str(shape.get("torch_dtype", shape.get("dtype", ""))))
    layers, hidden, vocabulary = (_int(shape, name) for name in ("num_hidden_layers", "hidden_size", "vocab_size"))
    heads = _int(shape, "num_attention_heads")
    if a is None or not layers or not hidden or not vocabulary or not heads:
        return None
    a = 2 if how.narrow else a
    c = _cache_bytes(cache_dtype, a)
    if c is None:
        return None
    size = _Size(layers, hidden, heads, a, c)
    mla = _int(shape, "kv_lora_rank") is not None and _int(shape, "qk_rope_head_dim") is not None
    attention = (_mla if mla else _attention)(shape, size, how)
    if attention is None:
        return None
    ffn_bytes, ffn_flops = _feed_forward(shape, size, how)
    vocabulary //= how.tensor
    return Cost(
        token_bytes=attention[0] + ffn_bytes,
        row_bytes=float(vocabulary * a),
        token_flops=attention[1] + ffn_flops,
        row_flops=2.0 * hidden * vocabulary,
        context_flops=attention[2],
    )


def _attention(shape: Shape, size: _Size, how: Parallel) -> tuple[float, float, float] | None:
    """(bytes a token, FLOP a token, FLOP a token and token of context)."""
    kv = _int(shape, "num_key_value_heads") or size.heads
    d = _int(shape, "head_dim") or size.hidden // size.heads
    q, kv = max(1, size.heads // how.tensor), max(1, kv // how.tensor)
    mine = size.layers / how.pipeline
    written = (q + 2 * kv) * d * size.a + 2 * kv * d * size.c + size.hidden * size.a
    flops = 2 * size.hidden * (q + 2 * kv) * d + 2 * size.hidden * q * d
    return written * mine, flops * mine, 4.0 * q * d * mine


def _mla(shape: Shape, size: _Size, how: Parallel) -> tuple[float, float, float] | None:
    """Multi-head latent attention: queries and keys go through low ranks, and one latent vector is cached."""
    rank, rope = _int(shape, "kv_lora_rank"), _int(shape, "qk_rope_head_dim")
    nope, v = _int(shape, "qk_nope_head_dim"), _int(shape, "v_head_dim")
    if rank is None or rope is None or nope is None or v is None:
        return None
    mine, q, latent = size.layers // how.pipeline, max(1, size.heads // how.tensor), rank + rope
    hidden, low = size.hidden, _int(shape, "q_lora_rank")
    written = (q * (nope + rope) + latent + q * (nope + v) + hidden) * size.a + latent * size.c
    flops = 2 * hidden * latent + 2 * rank * q * (nope + v) + 2 * q * v * hidden
    if low is None:
        flops += 2 * hidden * q * (nope + rope)
    else:
        written += low * size.a
        flops += 2 * hidden * low + 2 * low * q * (nope + rope)
    return float(written * mine), float(flops * mine), 2.0 * q * (nope + rope + v) * mine


def _feed_forward(shape: Shape, size: _Size, how: Parallel) -> tuple[float, float]:
    """(bytes, FLOP) a token, of dense layers and of layers with experts."""
    layers, hidden, a = size.layers, size.hidden, size.a
    wide = _int(shape, "intermediate_size") or 4 * hidden
    narrow = _int(shape, "moe_intermediate_size") or wide
    active, shared = _int(shape, "num_experts_per_tok") or 0, 0
    for name in ("n_shared_experts", "num_shared_experts"):
        shared = shared or _int(shape, name) or 0
    sparse = _sparse_layers(shape, layers)
    dense = (layers - sparse) // how.pipeline
    sparse //= how.pipeline
    wide, narrow = wide // (how.tensor * how.data), narrow // (how.tensor * how.data)
    routed = (active + shared) * sparse
    written = dense * (3 * wide * a + hidden * a) + routed * (3 * narrow * a + hidden * a)
    return float(written), float(6 * hidden * (wide * dense + narrow * routed))


def _sparse_layers(shape: Shape, layers: int) -> int:
    """How many layers have experts."""
    if not any(_int(shape, name) for name in _EXPERTS):
        return 0
    every, first = _int(shape, "moe_layer_freq"), _int(shape, "first_k_dense_replace")
    if every and first is not None:
        return sum(layer >= first and layer % every == 0 for layer in range(layers))
    step = _int(shape, "interleave_moe_layer_step")
    return sum((layer + 1) % step == 0 for layer in range(layers)) if step else layers


def _cache_bytes(cache_dtype: str | None, a: int) -> int | None:
    if cache_dtype in (None, "auto"):
        return a
    return 1 if cache_dtype.startswith(("fp8", "int8")) else _DTYPE_BYTES.get(cache_dtype)


def _int(shape: Shape, name: str) -> int | None:
    value = shape.get(name)
    return value if isinstance(value, int) else None
