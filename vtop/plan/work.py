"""What a request asks of a model: dot products of attention, FLOPs, bytes, and how many of one for each of the other.

Of L prompt and O output tokens, for each head of each layer:

    prefill  L (L + 1) / 2                       query-key products under the causal mask
    decode   (O - 1) L + O (O - 1) / 2           the first output token comes from prefill's logits
    in all   N (N + 1) / 2 with N = L + O - 1    so two requests of one N have the same work, split otherwise

A product is 2 head_dim FLOPs, and as much again weighs the values. Projections, MLP and logits are of every token that
is computed, N of them (logits: one a token given out). This is arithmetic, no latency: kernels pad, steps are batched.

A step of decodes reads the weights once and each request's context from the KV cache, so its FLOPs a byte grow with the
batch until the contexts outweigh the weights; a prefill of some hundred tokens is beyond the ridge of most GPUs. On p
ranks heads and columns are split; FLOPs, weights and KV are of one rank.
Source: Vaswani et al. (arXiv 1706.03762) for attention; vLLM v1/metrics/perf.py counts the same products. FLOPs, bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from vtop.errors import VtopError
from vtop.plan.kv import Mix
from vtop.plan.model_config import ModelConfig
from vtop.plan.tp_breaks import model_refused
from vtop.session.kv.geometry import growth_bytes


@dataclass(frozen=True, slots=True)
class Products:
    """Query-key dot products of one head of one layer."""

    prefill: int
    decode: int

    @property
    def total(self) -> int:
        return self.prefill + self.decode


@dataclass(frozen=True, slots=True)
class Part:
    """Prefill or decode of a request, on one rank. bytes: weights and KV that are read and written, alone in its step;
    intensity: FLOPs a byte."""

    tokens: int
    products: int  # of one head of one layer
    attention_flops: float
    linear_flops: float
    kv_read_bytes: float
    kv_written_bytes: float
    weights_read_bytes: float

    @property
    def flops(self) -> float:
        return self.attention_flops + self.linear_flops

    @property
    def moved_bytes(self) -> float:
        return self.kv_read_bytes + self.kv_written_bytes + self.weights_read_bytes

    @property
    def intensity(self) -> float:
        return self.flops / self.moved_bytes if self.moved_bytes else 0.0


@dataclass(frozen=True, slots=True)
class RequestWork:
    input_tokens: int
    output_tokens: int
    prefill: Part
    decode: Part


@dataclass(frozen=True, slots=True)
class Batch:
    """A step of so many decodes, each half way through its output, on one rank."""

    decodes: int
    flops: float
    moved_bytes: float
    intensity: float
    kv_ratio: float  # of the bytes that are KV


@dataclass(frozen=True, slots=True)
class Peak:
    """What a GPU can do at most."""

    flops_s: float
    bytes_s: float

    @property
    def ridge(self) -> float:
        """FLOPs a byte from which on computing takes longer than reading."""
        return self.flops_s / self.bytes_s


@dataclass(frozen=True, slots=True)
class WorkPlan:
    """requests: each length once, the first of many."""

    name: str
    heads: int
    layers: int
    tp: int
    requests: tuple[RequestWork, ...]
    many: int  # requests that the mix holds
    batches: tuple[Batch, ...]
    peak: Peak | None
    ridge: float | None
    fill_decodes: int | None  # decodes from which on a step computes longer than it reads; None: none does
    notes: tuple[str, ...]


MOST = 12  # lengths that are shown


def products(input_tokens: int, output_tokens: int) -> Products:
    """Both at least 1."""
    prompt, output = input_tokens, output_tokens
    return Products(prompt * (prompt + 1) // 2, (output - 1) * prompt + output * (output - 1) // 2)


def plan(model: ModelConfig, mix: Mix, batches: Sequence[int], *, tp: int = 1, peak: Peak | None = None) -> WorkPlan:
    """Raises VtopError for models of other projections, and for a tp that vLLM would refuse."""
    dense = model.dense
    if (why := model_refused(model)) is not None or dense is None:
        raise VtopError(f"{model.name}: {why}")
    if (problem := model.kv_problem(tp)) is not None:
        raise VtopError(f"{model.name}: {problem}")
    each = list(dict.fromkeys(mix.lengths))
    context = fmean(a + b / 2 for a, b in mix.lengths)
    found = tuple(_batch(model, many, context, tp) for many in batches)
    notes = [f"a decode looks back on {context:,.0f} tokens, half way through its output"]
    if any(layer.window is not None for layer in model.layers):
        notes.append("windows are not counted in: attention is over all tokens before, so this is the most it can be")
    if len(each) > MOST:
        notes.append(f"{len(each):,} lengths; the first {MOST} are shown")
    return WorkPlan(
        name=model.name,
        heads=dense.heads,
        layers=dense.layers,
        tp=tp,
        requests=tuple(request(model, a, b, tp) for a, b in each[:MOST]),
        many=len(mix.lengths),
        batches=found,
        peak=peak,
        ridge=peak.ridge if peak is not None else None,
        fill_decodes=_fill(model, context, tp, peak) if peak is not None else None,
        notes=tuple(notes),
    )


def request(model: ModelConfig, input_tokens: int, output_tokens: int, tp: int = 1) -> RequestWork:
    """Prefill in one step; each decode in a step of its own, whose weights it reads alone."""
    dense = model.dense
    assert dense is not None
    of = products(input_tokens, output_tokens)
    pair = dense.attention_flops_per_pair / tp
    linear, row = dense.matmul_flops_per_token / tp, dense.flops_per_row / tp
    token, weights = growth_bytes(model.layers, model.value_bytes, tp), dense.weights_read_bytes / tp
    later = output_tokens - 1
    return RequestWork(
        input_tokens,
        output_tokens,
        Part(
            tokens=input_tokens,
            products=of.prefill,
            attention_flops=pair * of.prefill,
            linear_flops=linear * input_tokens + row,
            kv_read_bytes=0.0,
            kv_written_bytes=token * input_tokens,
            weights_read_bytes=weights,
        ),
        Part(
            tokens=later,
            products=of.decode,
            attention_flops=pair * of.decode,
            linear_flops=(linear + row) * later,
            kv_read_bytes=token * of.decode,
            kv_written_bytes=token * later,
            weights_read_bytes=weights * later,
        ),
    )


def _batch(model: ModelConfig, decodes: int, context: float, tp: int) -> Batch:
    dense = model.dense
    assert dense is not None
    flops = (
        decodes * (dense.matmul_flops_per_token + dense.flops_per_row + dense.attention_flops_per_pair * context) / tp
    )
    kv = decodes * (context + 1) * growth_bytes(model.layers, model.value_bytes, tp)
    moved = dense.weights_read_bytes / tp + kv
    return Batch(decodes, flops, moved, flops / moved, kv / moved)


def _fill(model: ModelConfig, context: float, tp: int, peak: Peak) -> int | None:
    """The least batch whose intensity reaches the ridge; intensity rises with the batch, towards an end."""
    most = 1 << 20
    if _batch(model, most, context, tp).intensity < peak.ridge:
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _batch(model, middle, context, tp).intensity >= peak.ridge else (middle, high)
    return high
