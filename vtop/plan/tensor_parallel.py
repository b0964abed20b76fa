"""What splitting a dense decoder over p GPUs saves and costs, a step of T tokens at a time.

    F_attn = 4 T (H Q + H H_KV)      projections Q, K, V and O of a layer; Q = heads x head_dim, H_KV of K and V each
    F_mlp  = 6 T H I                 gate, up and down
    F_proj = F_attn + F_mlp          2 FLOPs a multiply-add. Left out: attention over the context, norms, sampling,
                                     logits, scheduling; a long context makes what can be split larger than this
    t_proj,1 = L F_proj / P          or, with a fitted profile, max(that, weights / memory bandwidth)
    t_p    = t_proj,1 / p + 2 L tau(T H e_a, p) + t_other,p
    TP is faster than one GPU only if (1 - 1/p) t_proj,1 > 2 L tau + (t_other,p - t_other,1)
    V_step = 4 L (p - 1) / p T H e_a     bytes that each rank sends in a step, in 2 L calls that wait for one another
    T >  2 L alpha / (a (1 - 1/p) - 4 L (p - 1)/p H e_a / B)     where t_proj,1 = a T; a denominator of 0 or less means
                                     that the bandwidth alone eats what is saved: no T pays. Not where reading the
                                     weights takes longer than computing, which is where small T lie.

1/p is optimistic: narrow matmuls are less efficient. Time per T comes best from a profile fitted on recordings.
Source: Megatron-LM (arXiv 1909.08053) for two all-reduces a layer. Seconds, bytes, FLOPs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil

from vtop.engine.core.model_shape import ModelShape
from vtop.plan.all_reduce import Cost, Link, sent_bytes

StepTime = Callable[[int], float]  # tokens of a step -> seconds of its projections on one GPU


@dataclass(frozen=True, slots=True)
class Step:
    """A step of T tokens on p GPUs. saved_s and added_s are the two sides of the necessary inequality."""

    tokens: int
    p: int
    payload_bytes: int  # of one call
    calls: int
    sent_bytes: float  # of each rank, in all calls
    tau_s: float
    one_gpu_s: float
    step_s: float
    speed_up: float
    saved_s: float
    added_s: float
    replicas_ratio: float  # tokens/s of p GPUs so, over those of p replicas of one GPU with T / p tokens each
    beyond: bool  # the call is larger than any that was measured

    @property
    def pays(self) -> bool:
        return self.saved_s > self.added_s


def attention_flops(shape: ModelShape, tokens: int) -> int:
    """Projections of one layer: Q and O, K and V."""
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return 4 * tokens * (shape.hidden * q + shape.hidden * kv)


def mlp_flops(shape: ModelShape, tokens: int) -> int:
    """Of one layer."""
    return 6 * tokens * shape.hidden * shape.intermediate


def projection_flops(shape: ModelShape, tokens: int) -> int:
    """Of all layers."""
    return shape.matmul_flops_per_token * tokens


def computing(shape: ModelShape, flops_s: float) -> StepTime:
    """The article's: so many effective FLOPs a second, whatever T."""
    return lambda tokens: projection_flops(shape, tokens) / flops_s


def roofline(shape: ModelShape, flops_s: float, bytes_s: float) -> StepTime:
    """The weights are read once a step: the longer of both."""
    weights_s = shape.weights_read_bytes / bytes_s
    return lambda tokens: max(weights_s, projection_flops(shape, tokens) / flops_s)


def payload_bytes(shape: ModelShape, tokens: int, activation_bytes: int) -> int:
    return tokens * shape.hidden * activation_bytes


def calls_per_step(shape: ModelShape) -> int:
    """One after attention and one after the MLP of each layer."""
    return 2 * shape.layers


def step(
    shape: ModelShape,
    tokens: int,
    p: int,
    one_gpu: StepTime,
    cost: Cost,
    *,
    activation_bytes: int = 2,
    other_s: tuple[float, float] = (0.0, 0.0),
) -> Step:
    """other_s: all else of a step, on one GPU and on p."""
    size, calls = payload_bytes(shape, tokens, activation_bytes), calls_per_step(shape)
    tau_s = cost.seconds(size, p) if p > 1 else 0.0
    alone_s = one_gpu(tokens)
    whole_s, split_s = alone_s + other_s[0], alone_s / p + calls * tau_s + other_s[1]
    replica_s = one_gpu(max(1, ceil(tokens / p))) + other_s[0]  # with fewer tokens than replicas some have none
    return Step(
        tokens=tokens,
        p=p,
        payload_bytes=size,
        calls=calls if p > 1 else 0,
        sent_bytes=calls * sent_bytes(size, p),
        tau_s=tau_s,
        one_gpu_s=whole_s,
        step_s=split_s,
        speed_up=whole_s / split_s,
        saved_s=(1 - 1 / p) * alone_s,
        added_s=calls * tau_s + other_s[1] - other_s[0],
        replicas_ratio=replica_s / split_s,
        beyond=not isinstance(cost, Link) and cost.beyond(size),
    )


def threshold_tokens(
    shape: ModelShape, p: int, seconds_per_token: float, link: Link, activation_bytes: int = 2
) -> float | None:
    """The T from which on p GPUs are faster than one, where time grows with T alone; None: no T is."""
    calls = calls_per_step(shape)
    saved = seconds_per_token * (1 - 1 / p)
    eaten = calls * sent_bytes(shape.hidden * activation_bytes, p) / link.bus_bytes_s
    return calls * link.alpha_s / (saved - eaten) if saved > eaten else None
