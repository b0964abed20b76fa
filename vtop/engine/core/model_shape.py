"""What a model's shape makes a step cost: FLOPs, bytes of weights, bytes of keys and values.

The sums are those of vLLM's own counters (v1/metrics/perf.py: estimated_flops_per_gpu_total and its two siblings), so
that a simulated server counts what a real one would. Dense decoders with grouped attention on one GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vtop.engine.core.step import StepPlan
from vtop.session.kv.model_numbers import nonsense

_BYTES: Final = {"float32": 4, "float": 4, "bfloat16": 2, "float16": 2, "half": 2}


@dataclass(frozen=True, slots=True)
class StepWork:
    """What vLLM's counters say that a step took."""

    flops: int
    read_bytes: int
    write_bytes: int


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The numbers of a config.json that the cost of a step is made of. Bytes are of one element."""

    layers: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    weight_bytes: int = 2
    activation_bytes: int = 2
    cache_bytes: int = 2

    @property
    def matmul_flops_per_token(self) -> int:
        """Of all layers, without attention over the context and without the logits."""
        return 2 * self._layer_weights * self.layers

    @property
    def flops_per_row(self) -> int:
        """Of the logits of one position."""
        return 2 * self.hidden * self.vocabulary

    @property
    def attention_flops_per_pair(self) -> int:
        """Of one query token over one context token."""
        return 4 * self.heads * self.head_dim * self.layers

    @property
    def weights_read_bytes(self) -> int:
        """What every step reads, however few tokens it has."""
        return (self._layer_weights * self.layers + self.hidden * self.vocabulary) * self.weight_bytes

    @property
    def kv_bytes_per_token(self) -> int:
        return 2 * self.kv_heads * self.head_dim * self.layers * self.cache_bytes

    @property
    def _layer_weights(self) -> int:
        q = self.heads * self.head_dim
        return self.hidden * (2 * q + 2 * self.kv_heads * self.head_dim) + 3 * self.hidden * self.intermediate

    def work(self, plan: StepPlan) -> StepWork:
        """What vLLM adds to its counters for a step: attention as a full rectangle, not halved by causality."""
        tokens = plan.tokens
        rows = plan.decodes + len(plan.prefills)
        pairs = plan.context + sum(count * context for count, context in plan.prefills)
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        flops = self.matmul_flops_per_token * tokens + self.attention_flops_per_pair * pairs + self.flops_per_row * rows
        a, layers = self.activation_bytes, self.layers
        read_context = a * sum(context for _, context in plan.prefills) + self.cache_bytes * plan.context
        read = (
            self.weights_read_bytes
            + layers * tokens * a * (2 * self.hidden + 2 * q + 3 * self.intermediate)
            + layers * 2 * kv * read_context
            + rows * self.hidden * a
        )
        write = (
            layers
            * tokens
            * (
                (q + 2 * kv) * a
                + 2 * kv * self.cache_bytes
                + self.hidden * a
                + (2 * self.intermediate + self.intermediate + self.hidden) * a
            )
            + rows * self.vocabulary * a
        )
        return StepWork(flops, read, write)


def shape_of(numbers: Mapping[str, int | str] | None) -> ModelShape | None:
    """The shape from the numbers of a config.json; None when they do not say it or are of another kind of model."""
    if (
        numbers is None
        or nonsense(numbers) is not None
        or "kv_lora_rank" in numbers
        or int(numbers.get("num_experts", 0) or 0)
    ):
        return None
    try:
        heads = int(numbers["num_attention_heads"])
        hidden = int(numbers["hidden_size"])
        size = _BYTES.get(str(numbers.get("torch_dtype", numbers.get("dtype", "bfloat16"))), 2)
        return ModelShape(
            layers=int(numbers["num_hidden_layers"]),
            hidden=hidden,
            intermediate=int(numbers["intermediate_size"]),
            heads=heads,
            kv_heads=int(numbers.get("num_key_value_heads", heads)),
            head_dim=int(numbers.get("head_dim", hidden // heads)),
            vocabulary=int(numbers["vocab_size"]),
            weight_bytes=size,
            activation_bytes=size,
            cache_bytes=size,
        )
    except (KeyError, ValueError):
        return None


def numbers(shape: ModelShape) -> dict[str, int | str]:
    """The shape as a config.json says it: what `shape_of` reads."""
    names = {size: name for name, size in (("float32", 4), ("bfloat16", 2))}
    return {
        "torch_dtype": names[shape.weight_bytes],
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "vocab_size": shape.vocabulary,
    }


QWEN_7B: Final = ModelShape(28, 3584, 18944, 28, 4, 128, 152064)  # Qwen2.5-7B
