"""What each layer of a model keeps in the KV cache, from the numbers of its config.json: the one place that knows.

A layer keeps, for each token, `kv_heads x values` numbers, where values is head_dim of the keys + head_dim of the
values. MLA keeps one latent vector of kv_lora_rank + qk_rope_head_dim for all heads. A sliding or chunked layer keeps
no more than its window; a layer that reads another's keys and values keeps none. A state layer (Mamba, linear
attention) keeps nothing a token and a fixed state a request, a convolution's and a recurrent one:

    Mamba 2            (n_heads d_head + 2 n_groups d_state) (d_conv - 1)       n_heads d_head d_state
    gated delta net    (2 k_heads k_dim + v_heads v_dim) (kernel - 1)           v_heads v_dim k_dim

On a rank of p tensor-parallel ones a layer has max(1, kv_heads / p) heads: beyond kv_heads ranks hold copies. MLA's
vector is one head, so every rank holds all of it.
Source: vLLM v1/kv_cache_interface.py (AttentionSpec, MLAAttentionSpec), config/model.py (get_num_kv_heads),
model_executor/layers/mamba/mamba_utils.py. Bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vtop.session.kv.model_numbers import HEADS, HIDDEN, KV_HEADS, LAYERS, first, nonsense

FULL, MLA, SLIDING, CHUNKED, STATE = "full", "mla", "sliding", "chunked", "state"

Shape = Mapping[str, int | str]

_DTYPE_BYTES: Final = {"float32": 4.0, "float": 4.0, "half": 2.0, "float16": 2.0, "bfloat16": 2.0}
_ONE_BYTE: Final = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "int8")
_KINDS: Final = {
    "full_attention": FULL, "attention": FULL, "full": FULL, "global": FULL, "*": FULL,
    "sliding_attention": SLIDING, "sliding_window_attention": SLIDING, "local": SLIDING,
    "chunked_attention": CHUNKED,
    "linear_attention": STATE, "mamba": STATE, "mamba2": STATE, "conv": STATE, "recurrent": STATE, "M": STATE,
    "-": "", "mlp": "", "moe": "", "E": "",
}  # fmt: skip
# a number of any of these tells of state layers, where no list says which layers they are
_STATE_MARKS: Final = ("mamba_d_state", "ssm_state_size", "state_size", "mamba_n_heads", "linear_num_value_heads")
_DELTA: Final = ("num_key_heads", "key_head_dim", "num_value_heads", "value_head_dim", "conv_kernel_dim")
_MAMBA2: Final = ("n_heads", "d_head", "n_groups", "d_state", "d_conv")
_TYPE_LISTS: Final = ("layer_types", "layers_block_type", "block_types")
_EVERY: Final = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6}  # one in so many layers is full, where no list says so


@dataclass(frozen=True, slots=True)
class KvLayer:
    """values: numbers kept of one token and one head, keys and values together. window: in tokens. state_bytes: of a
    request, over all ranks, which share it evenly; None where it is not known."""

    kind: str
    kv_heads: int = 0
    values: int = 0
    window: int | None = None
    state_bytes: float | None = None

    def heads_per_rank(self, tp: int) -> int:
        return max(1, self.kv_heads // tp) if self.kv_heads else 0

    def bytes_per_token(self, value_bytes: float, tp: int = 1) -> float:
        """Of one token while it is kept, on one rank."""
        return self.heads_per_rank(tp) * self.values * value_bytes


def value_bytes(shape: Shape, cache_dtype: str | None) -> float | None:
    """Bytes of one number in the cache; `auto` is the checkpoint's own KV type, else the model's. None: not known."""
    name = cache_dtype_of(shape, cache_dtype)
    if name == "fp8_ds_mla":  # DeepSeek's sparse attention: 512 of one byte, 4 scales of four, 64 of two
        rank, rope = _int(shape, "kv_lora_rank"), _int(shape, "qk_rope_head_dim")
        return 656 / 576 if (rank, rope) == (512, 64) else None
    return 1.0 if name in _ONE_BYTE else _DTYPE_BYTES.get(name)


def cache_dtype_of(shape: Shape, cache_dtype: str | None) -> str:
    """The KV type by name; empty where nothing tells. Never that of the weights' quantization."""
    if cache_dtype not in (None, "auto"):
        return str(cache_dtype)
    return str(shape.get("checkpoint_kv_dtype") or shape.get("torch_dtype") or shape.get("dtype") or "")


def layers_of(shape: Shape) -> tuple[KvLayer, ...] | str:
    """A layer each; or why the numbers do not say it."""
    if (why := nonsense(shape)) is not None:
        return why
    count = first(shape, *LAYERS)
    if count is None:
        return "it says no number of layers"
    if shape.get("is_encoder_decoder"):
        return "encoder-decoder models keep cross attention too: not computed"
    if _int(shape, "index_topk") is not None:
        return "sparse attention keeps an index beside its KV cache: not computed"
    if _int(shape, "cross_attention_layers") is not None or shape.get("block_configs"):
        return "its layers have attention of different kinds, laid out as vtop does not read"
    kinds = _kinds(shape, count)
    if isinstance(kinds, str):
        return kinds
    rank, rope = _int(shape, "kv_lora_rank"), _int(shape, "qk_rope_head_dim")
    if rank is not None and rope is not None:
        state = KvLayer(STATE, state_bytes=_state_bytes(shape))
        made = [KvLayer(MLA, 1, rank + rope) if kind == FULL else state for kind, _ in kinds if kind]
        return tuple(made) if all(kind in (FULL, STATE, "") for kind, _ in kinds) else "MLA with windows: not computed"
    heads = _heads(shape, count)
    if isinstance(heads, str):
        return heads
    layers = []
    for at, (kind, window) in enumerate(kinds):
        if kind == STATE:
            layers.append(KvLayer(STATE, state_bytes=_state_bytes(shape)))
        elif kind:
            kv_heads, values = heads[at]
            if kind == FULL and _int(shape, "global_head_dim") is not None:
                values = 2 * (_int(shape, "global_head_dim") or 0)
                kv_heads = _int(shape, "num_global_key_value_heads") or kv_heads
            if kind == SLIDING and _int(shape, "swa_num_key_value_heads") is not None:
                kv_heads = _int(shape, "swa_num_key_value_heads") or kv_heads
                key = _int(shape, "swa_head_dim") or values // 2
                values = key + (_int(shape, "swa_v_head_dim") or key)
            layers.append(KvLayer(kind, kv_heads, values, window))
    shared = _int(shape, "num_kv_shared_layers") or 0  # the last ones read what earlier ones keep
    return tuple(layers[: len(layers) - shared])


def growth_bytes(layers: tuple[KvLayer, ...], size: float, tp: int = 1) -> float:
    """Bytes a rank keeps of each further token however long the request is: windows and states do not grow."""
    return sum(layer.bytes_per_token(size, tp) for layer in layers if layer.kind in (FULL, MLA))


def bytes_per_token(shape: Shape, cache_dtype: str | None) -> float | None:
    """KV bytes of one token over all layers of a model, not split over ranks; None when the shape does not tell, and
    for models whose layers keep different numbers of tokens: there is no one such number."""
    layers, size = layers_of(shape), value_bytes(shape, cache_dtype)
    if isinstance(layers, str) or size is None or not layers:
        return None
    if len({(layer.kind, layer.window) for layer in layers}) > 1 or layers[0].kind == STATE:
        return None
    return sum(layer.bytes_per_token(size) for layer in layers)


# --- which layer is of which kind -------------------------------------------------------------------------------------


def _kinds(shape: Shape, count: int) -> list[tuple[str, int | None]] | str:
    """(kind, window) a layer; an empty kind for a layer without attention or state."""
    window = _int(shape, "sliding_window") or _int(shape, "sliding_window_size")
    chunk = _int(shape, "attention_chunk_size")
    told = next((str(shape[name]) for name in _TYPE_LISTS if shape.get(name)), "")
    words = told.split(",") if told else list(str(shape.get("hybrid_override_pattern", "")))
    if words:
        words *= -(-count // len(words))  # block_types is a pattern that repeats
        return _told(words[:count], window, chunk)
    every, first = _int(shape, "attn_layer_period"), _int(shape, "attn_layer_offset") or 0
    if every:
        return [(FULL if at % every == first else STATE, None) for at in range(count)]
    if every := _int(shape, "full_attention_interval"):
        return [(FULL if (at + 1) % every == 0 else STATE, None) for at in range(count)]
    if any(_int(shape, name) is not None for name in _STATE_MARKS) or shape.get("linear_attn_config"):
        return "it has state layers (Mamba or linear attention), and does not say which layers they are"
    if chunk is not None:
        return "it has chunked attention, and does not say in which layers"
    if window is None or shape.get("use_sliding_window", 1) == 0:
        return [(FULL, None)] * count
    if (full := _int(shape, "max_window_layers")) is not None and "use_sliding_window" in shape:
        return [(FULL, None) if at < full else (SLIDING, window) for at in range(count)]
    every = _int(shape, "sliding_window_pattern") or _EVERY.get(str(shape.get("model_type")))
    if every:
        return [(FULL, None) if (at + 1) % every == 0 else (SLIDING, window) for at in range(count)]
    return [(SLIDING, window)] * count


def _told(words: list[str], window: int | None, chunk: int | None) -> list[tuple[str, int | None]] | str:
    found: list[tuple[str, int | None]] = []
    for word in words:
        kind = _KINDS.get(word)
        if kind is None:
            return f"it has layers of the kind {word!r}, which vtop does not know"
        size = {SLIDING: window, CHUNKED: chunk}.get(kind)
        if kind in (SLIDING, CHUNKED) and size is None:
            return f"it has layers of the kind {word!r} and does not say how many tokens they keep"
        found.append((kind, size))
    return found


def _heads(shape: Shape, count: int) -> list[tuple[int, int]] | str:
    """(KV heads, numbers of a token and head) a layer. head_dim is the config's own, where it says one."""
    heads, hidden = first(shape, *HEADS), first(shape, *HIDDEN)
    head_dim = first(shape, "head_dim", "kv_channels") or (hidden // heads if hidden and heads else None)
    if not head_dim:
        return "it says neither head_dim nor hidden_size and num_attention_heads"
    values = head_dim + (_int(shape, "v_head_dim") or head_dim)
    each = shape.get("num_key_value_heads", shape.get("num_kv_heads"))
    if isinstance(each, str):
        listed = [int(word) for word in each.split(",")]
        return [(one, values) for one in listed]
    kv_heads = first(shape, *KV_HEADS) or (1 if shape.get("multi_query") else heads)
    return [(kv_heads, values)] * count if kv_heads else "it says no number of KV heads"


def _state_bytes(shape: Shape) -> float | None:
    """The convolution's state is of the model's type; the recurrent one too, unless the config names another."""
    conv_size = _DTYPE_BYTES.get(str(shape.get("torch_dtype") or shape.get("dtype") or ""))
    size = _DTYPE_BYTES.get(str(shape.get("mamba_ssm_dtype") or ""), conv_size)
    if conv_size is None or size is None:
        return None
    delta = [_int(shape, f"linear_{name}") for name in _DELTA]
    if None not in delta:
        k_heads, k_dim, v_heads, v_dim, kernel = (one or 0 for one in delta)
        conv = (2 * k_heads * k_dim + v_heads * v_dim) * (kernel - 1)
        return conv * conv_size + v_heads * v_dim * k_dim * size
    mamba = [_int(shape, f"mamba_{name}") for name in _MAMBA2]
    if None not in mamba:
        heads, head, groups, state, kernel = (one or 0 for one in mamba)
        conv = (heads * head + 2 * groups * state) * (kernel - 1)
        return conv * conv_size + heads * head * state * size
    return None


def _int(shape: Shape, name: str) -> int | None:
    value = shape.get(name)
    return value if isinstance(value, int) else None
