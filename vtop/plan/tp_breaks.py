"""Where the cost model of tensor parallelism does not hold: refused, or marked beside the figures.

Refused is what vLLM refuses to load, and what has other collectives than two all-reduces a layer. A vocabulary that p
does not divide is neither: vLLM pads it to a multiple of 64 before it is split.
Source: vLLM distributed/utils.py (divide), model_executor/layers/linear.py (QKVParallelLinear),
vocab_parallel_embedding.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vtop.plan.model_config import ModelConfig

NARROW: Final = 1024  # columns of a rank's matmul, below which it is marked; by experience, not by a rule
LONG: Final = 0.1  # of the projections' FLOPs, from which on attention over the context is marked
_EXPERTS: Final = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")


@dataclass(frozen=True, slots=True)
class Break:
    """refused: no figure for this p. Else the figures stand, and this beside them."""

    p: int
    refused: bool
    why: str


@dataclass(frozen=True, slots=True)
class Setting:
    """How it is to run, as far as the model asks. context: tokens that a decode looks back on."""

    nodes: int = 1
    sequence_parallel: bool = False
    context: int | None = None


def model_refused(model: ModelConfig) -> str | None:
    """Why no p has figures: layers that do not reduce twice, or are not dense."""
    if any(model.number(name) for name in _EXPERTS):
        return "a mixture of experts sends tokens to experts (all-to-all) and waits for the busiest: not this model"
    if model.number("kv_lora_rank") is not None:
        return "MLA has other projections than Q, K, V and O: not this model"
    if any(layer.kind == "state" for layer in model.layers):
        return "state layers have other projections than Q, K, V and O: not this model"
    return None if model.dense is not None else "its config.json does not say the numbers of a dense decoder"


def breaks(model: ModelConfig, p: int, setting: Setting) -> list[Break]:
    """Of one number of ranks; the model is a dense one."""
    dense = model.dense
    assert dense is not None
    found: list[Break] = []

    def refuse(why: str) -> None:
        found.append(Break(p, True, why))

    def mark(why: str) -> None:
        found.append(Break(p, False, why))

    if (problem := model.kv_problem(p)) is not None:
        refuse(problem)
    if dense.intermediate % p:
        refuse(f"the MLP's {dense.intermediate:,} columns do not divide by {p}: vLLM refuses to load it")
    elif (group := model.number("quantization_group_size")) and group > 0 and dense.intermediate // p % group:
        refuse(f"a rank's {dense.intermediate // p:,} columns are no whole number of quantization groups of {group}")
    elif dense.intermediate // p < NARROW:
        mark(f"a rank's matmuls are {dense.intermediate // p:,} columns wide: slower than 1/{p} of the whole one")
    if setting.sequence_parallel:
        refuse("sequence parallelism reduces and gathers (reduce-scatter, all-gather) where this counts all-reduces")
    if p > dense.kv_heads:
        mark(f"{dense.kv_heads} KV heads on {p} ranks: each is kept and projected {p // dense.kv_heads} times")
    if setting.nodes > 1:
        mark(f"{setting.nodes} nodes: latency and bandwidth must be those of their network, ranks laid out as served")
    if setting.context is not None and (share := attention_share(model, setting.context)) > LONG:
        mark(
            f"attention over {setting.context:,} tokens of context is {share:.0%} of the projections' FLOPs and is "
            "split too: the speed-up is larger than this says"
        )
    return found


def attention_share(model: ModelConfig, context: int) -> float:
    """FLOPs of a token's attention over so many others, over those of its projections."""
    assert model.dense is not None
    return model.dense.attention_flops_per_pair * context / model.dense.matmul_flops_per_token
