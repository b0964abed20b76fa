"""A model as planning sees it: the numbers of its config.json, its layers' KV and its weights on a rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vtop.engine.core.model_shape import ModelShape, shape_of
from vtop.errors import VtopError
from vtop.session.kv.geometry import KvLayer, cache_dtype_of, layers_of, value_bytes
from vtop.sources.shape import told_shape

VOCABULARY_PAD: Final = 64  # vLLM: model_executor/layers/vocab_parallel_embedding.py (DEFAULT_VOCAB_PADDING_SIZE)


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """value_bytes: of one number in the cache. dense: the numbers of a dense decoder, None of any other model."""

    name: str
    shape: Mapping[str, int | str]
    layers: tuple[KvLayer, ...]
    cache_dtype: str
    value_bytes: float
    dense: ModelShape | None

    def number(self, name: str) -> int | None:
        value = self.shape.get(name)
        return value if isinstance(value, int) else None

    @property
    def max_position(self) -> int | None:
        return self.number("max_position_embeddings")

    def kv_problem(self, tp: int) -> str | None:
        """Why the KV cache cannot be laid out over tp ranks: what vLLM refuses to load. Copies are no problem."""
        heads = self.number("num_attention_heads")
        if heads and heads % tp:
            return f"{heads} attention heads do not divide by TP {tp}: vLLM refuses to load it"
        for kv_heads in sorted({layer.kv_heads for layer in self.layers if layer.kv_heads > 1}):
            if kv_heads % tp and tp % kv_heads:
                return f"{kv_heads} KV heads and TP {tp}: neither divides the other, vLLM refuses to load it"
        return None

    def weights_bytes(self, tp: int) -> float | None:
        """Of one rank, in the model's own type; None where the model is no dense decoder, or is quantized.

        The vocabulary is padded to a multiple of 64 before it is split; norms are on every rank, and so are KV
        projections beyond the number of KV heads.
        """
        dense = self.dense
        if dense is None or "quantization_quant_method" in self.shape:
            return None
        q, kv = dense.heads * dense.head_dim, max(1, dense.kv_heads // tp) * dense.head_dim
        layer = dense.hidden * (2 * q / tp + 2 * kv + 3 * dense.intermediate / tp + 2)
        padded = -(-dense.vocabulary // VOCABULARY_PAD) * VOCABULARY_PAD
        tables = 1 if self.shape.get("tie_word_embeddings") else 2
        return (dense.layers * layer + tables * padded / tp * dense.hidden + dense.hidden) * dense.weight_bytes


def load(config: Path, cache_dtype: str | None = None) -> ModelConfig:
    """From a config.json. Raises VtopError where it is none, or does not say what its layers keep."""
    shape = told_shape(config)
    return of_shape(shape, str(config), cache_dtype)


def of_shape(shape: Mapping[str, int | str], name: str, cache_dtype: str | None = None) -> ModelConfig:
    """From the numbers on record. Raises VtopError."""
    layers = layers_of(shape)
    if isinstance(layers, str):
        raise VtopError(f"{name}: the KV cache of this model cannot be computed: {layers}")
    size, dtype = value_bytes(shape, cache_dtype), cache_dtype_of(shape, cache_dtype)
    if size is None:
        said = f"KV type {dtype!r} is not known" if dtype else "it names no type (torch_dtype)"
        raise VtopError(f"{name}: {said}; name one with --kv-cache-dtype bfloat16, float16, float32, fp8 or int8")
    return ModelConfig(name, shape, layers, dtype, size, shape_of(shape))
