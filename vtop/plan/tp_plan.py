"""The answer of `vtop plan tp`: for each number of GPUs whether it pays, by how much, and against what else.

The rule: first the p that hold the model and whose shapes divide. Then, by measured tau at the T that really occur, the
inequality. Where the model fits one GPU, splitting it is worth its GPUs only where p replicas of one GPU give less
goodput a GPU at the latency that is asked for, or cannot keep it. Where it does not, take the smallest p that holds the
model and keeps the latency; over a weak link first compare TP within a node and stages (PP) across.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from vtop.errors import VtopError
from vtop.plan import kv
from vtop.plan.all_reduce import Cost, Fitted, Link, Measured
from vtop.plan.kv_plan import Memory
from vtop.plan.model_config import ModelConfig
from vtop.plan.observed import Steps
from vtop.plan.tensor_parallel import (
    Step,
    StepTime,
    attention_flops,
    mlp_flops,
    payload_bytes,
    projection_flops,
    step,
    threshold_tokens,
)
from vtop.plan.topology import Group
from vtop.plan.tp_breaks import Break, Setting, attention_share, breaks, model_refused
from vtop.plan.tp_record import OnRecord, commands, on_record, span
from vtop.plan.trace_check import TraceCheck

PAYS, NO, MIXED, REFUSED = "faster", "slower", "faster for some T", "refused"

CHECKLIST: Final = (
    (
        "correctness and shapes",
        "the real p, types, heads and columns a rank; padding, copied KV heads, fall-backs",
    ),
    ("the physical path", "nvidia-smi topo -m, P2P status, NCCL_RUN_DIAGNOSTICS=1"),
    (
        "all-reduces of the same payload",
        "slow in all_reduce_perf already: NVLink, PCIe, NIC, NUMA before the model",
    ),
    ("benchmark against trace", "fast alone, slow in the server: rank layout, streams, CPU affinity, other traffic"),
    ("the matmuls", "communication is short and the speed-up still poor: columns and heads a rank, kernel efficiency"),
    ("scheduling and queueing", "steps are faster and p99 or goodput is not: T, the queue, batch forming, balance"),
)


@dataclass(frozen=True, slots=True)
class TpQuestion:
    """costs: by p. timing: seconds of a step's projections on one GPU by its tokens; per_token_s only where that is all
    there is to it. slo_s: what a step may take (TPOT)."""

    ps: tuple[int, ...]
    tokens: tuple[int, ...]
    costs: Mapping[int, Cost]
    timing: StepTime
    timing_origin: str
    per_token_s: float | None
    other_s: tuple[float, float] = (0.0, 0.0)
    activation_bytes: int = 2
    decode_costs: Mapping[int, Cost] | None = None
    setting: Setting = field(default_factory=Setting)
    memory: Memory | None = None
    mix: kv.Mix | None = None
    max_model_len: int | None = None
    slo_s: float | None = None
    steps: Steps | None = None
    link_bytes_s: float | None = None  # between pipeline stages


@dataclass(frozen=True, slots=True)
class MaxNumSeqs:
    """Requests that fit at their peak: of one group of p GPUs, and of p replicas of one GPU together."""

    split: int | None  # None: the model does not fit
    replicas: int | None


@dataclass(frozen=True, slots=True)
class Pipeline:
    """p stages instead: what crosses a stage's end in a step. vLLM sends the hidden states and the residual."""

    hops: int
    bytes_per_hop: int
    seconds: float | None  # of all hops, at the link's bandwidth; None where that is not told


@dataclass(frozen=True, slots=True)
class Candidate:
    p: int
    breaks: tuple[Break, ...]
    rows: tuple[Step, ...]
    decode_rows: tuple[Step, ...]  # where all-reduces are fused in steps of decodes alone
    threshold_tokens: float | None
    threshold_known: bool  # False: time does not grow with T alone, or tau is no line
    fitted: Fitted | None
    cost_origin: str
    cost_notes: tuple[str, ...]
    weights_bytes: float | None
    fits: bool | None
    max_num_seqs: MaxNumSeqs | None
    pipeline: Pipeline
    on_record: OnRecord | None
    verdict: str
    why: str


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step of T tokens computes: FLOPs of a layer's projections and of its MLP, and of all layers' together.
    Left out: attention over the context, norms, logits, sampling, scheduling. attention_ratio: what is left out of
    attention over the context asked for, over F_proj; None where none was told."""

    tokens: int
    attention_flops: int
    mlp_flops: int
    projection_flops: int
    projection_s: float
    other_s: float
    attention_ratio: float | None


@dataclass(frozen=True, slots=True)
class TpPlan:
    name: str
    refused: str | None
    layers: int
    timing: str
    activation_bytes: int
    work: tuple[StepCost, ...]  # by T
    candidates: tuple[Candidate, ...]
    choice: str
    commands: tuple[str, ...]
    backends: tuple[str, ...] = ()
    groups: tuple[Group, ...] = ()
    trace: TraceCheck | None = None
    notes: tuple[str, ...] = ()


def plan(
    model: ModelConfig,
    asked: TpQuestion,
    *,
    backends: Sequence[str] = (),
    groups: Sequence[Group] = (),
    trace: TraceCheck | None = None,
) -> TpPlan:
    """Raises VtopError where a p has no cost."""
    refused = model_refused(model)
    if trace is not None and not trace.holds:
        refused = refused or f"the trace says otherwise: {'; '.join(trace.problems)}"
    candidates = () if refused is not None else tuple(_candidate(model, asked, p) for p in asked.ps)
    layers = model.dense.layers if model.dense is not None else len(model.layers)
    return TpPlan(
        name=model.name,
        refused=refused,
        layers=layers,
        timing=asked.timing_origin,
        activation_bytes=asked.activation_bytes,
        candidates=candidates,
        choice=_choice(asked, candidates) if candidates else "",
        work=_work(model, asked) if refused is None else (),
        commands=_commands(model, asked),
        backends=tuple(backends),
        groups=tuple(groups),
        trace=trace,
        notes=tuple(_notes(asked, backends, groups)),
    )


def _work(model: ModelConfig, asked: TpQuestion) -> tuple[StepCost, ...]:
    shape = model.dense
    if shape is None:
        return ()
    context = asked.setting.context
    return tuple(
        StepCost(
            tokens=tokens,
            attention_flops=attention_flops(shape, tokens),
            mlp_flops=mlp_flops(shape, tokens),
            projection_flops=projection_flops(shape, tokens),
            projection_s=asked.timing(tokens),
            other_s=asked.other_s[0],
            attention_ratio=attention_share(model, context) if context is not None else None,
        )
        for tokens in asked.tokens
    )


# --- a number of GPUs -------------------------------------------------------------------------------------------------


def _candidate(model: ModelConfig, asked: TpQuestion, p: int) -> Candidate:
    shape = model.dense
    assert shape is not None
    cost: Cost | None = asked.costs.get(p) if p > 1 else Link(0.0, math.inf, "one GPU sends nothing")
    if cost is None:
        raise VtopError(f"what does an all-reduce of {p} GPUs cost? --alpha and --bus-bandwidth, or --all-reduce FILE")
    found = breaks(model, p, asked.setting)
    refused = [one for one in found if one.refused]
    rows: tuple[Step, ...] = ()
    decode: tuple[Step, ...] = ()

    def at(tokens: int, of: Cost) -> Step:
        return step(shape, tokens, p, asked.timing, of, activation_bytes=asked.activation_bytes, other_s=asked.other_s)

    if not refused:
        rows = tuple(at(tokens, cost) for tokens in asked.tokens)
        fused = (asked.decode_costs or {}).get(p)
        decode = tuple(at(tokens, fused) for tokens in asked.tokens) if fused is not None else ()
    linear = isinstance(cost, Link) and asked.per_token_s is not None and p > 1 and not refused
    threshold = None
    if linear and isinstance(cost, Link) and asked.per_token_s is not None:
        threshold = threshold_tokens(shape, p, asked.per_token_s, cost, asked.activation_bytes)
    weights = model.weights_bytes(p) if asked.memory is None or asked.memory.weights_bytes is None else None
    max_num_seqs, fits = _max_num_seqs(model, asked, p)
    record = None
    if asked.steps is not None and not refused:
        record = on_record(asked.steps, lambda t: at(t, cost).one_gpu_s, lambda t: at(t, cost).step_s)
    verdict, why = _verdict(p, refused, rows, fits)
    size = 2 * payload_bytes(shape, max(asked.tokens), asked.activation_bytes)
    return Candidate(
        p=p,
        breaks=tuple(found),
        rows=rows,
        decode_rows=decode,
        threshold_tokens=threshold,
        threshold_known=linear,
        fitted=cost.fitted() if isinstance(cost, Measured) else None,
        cost_origin=cost.origin,
        cost_notes=cost.notes if isinstance(cost, Measured) else (),
        weights_bytes=weights,
        fits=fits,
        max_num_seqs=max_num_seqs,
        pipeline=Pipeline(p - 1, size, (p - 1) * size / asked.link_bytes_s if asked.link_bytes_s else None),
        on_record=record,
        verdict=verdict,
        why=why,
    )


def _max_num_seqs(model: ModelConfig, asked: TpQuestion, p: int) -> tuple[MaxNumSeqs | None, bool | None]:
    """Requests by memory, of the group and of as many GPUs apart; and whether the model fits p GPUs at all."""
    if asked.memory is None or model.kv_problem(p) is not None:
        return None, None
    one, split = _requests(model, asked, 1), _requests(model, asked, p)
    fits = split is not None
    if asked.mix is None:
        return None, fits
    return MaxNumSeqs(split, p * one if one is not None else None), fits


def _requests(model: ModelConfig, asked: TpQuestion, p: int) -> int | None:
    """None where the model does not fit; 0 where no length is known and it does."""
    memory = asked.memory
    assert memory is not None
    weights = memory.weights_bytes / p if memory.weights_bytes is not None else model.weights_bytes(p)
    parts = (memory.activations_bytes, memory.graphs_bytes, memory.non_torch_bytes, memory.margin_bytes)
    left = memory.total_bytes * memory.utilization - (weights or 0.0) - sum(part for part in parts if part is not None)
    layout = kv.layout_of(model, kv.Lanes(tp=p))
    if isinstance(layout, str) or layout.block_bytes is None or left < 2 * layout.block_bytes:
        return None
    if asked.mix is None:
        return 0
    pool = kv.pool_of_bytes(layout, left, asked.max_model_len)
    return kv.fit(pool, kv.demand(layout, asked.mix, asked.max_model_len)).at_peak or None


def _verdict(p: int, refused: Sequence[Break], rows: Sequence[Step], fits: bool | None) -> tuple[str, str]:
    if refused:
        return REFUSED, refused[0].why
    if fits is False:
        return REFUSED, f"the model does not fit {p} GPUs of this memory" if p > 1 else "the model does not fit one GPU"
    if p == 1:
        return "", "the baseline"
    paying = [one.tokens for one in rows if one.pays]
    if len(paying) == len(rows):
        return PAYS, "what is saved in matmuls is more than what all-reduces add, at every T"
    if not paying:
        return NO, "all-reduces add more than is saved in matmuls, at every T"
    return MIXED, f"it pays at T = {', '.join(map(str, paying))}, not at the others"


# --- all of them ------------------------------------------------------------------------------------------------------


def _choice(asked: TpQuestion, candidates: Sequence[Candidate]) -> str:
    """The rule, in one sentence."""
    able = [one for one in candidates if one.verdict != REFUSED]
    if not able:
        return "No number of GPUs asked for can serve this model so."
    alone = next((one for one in candidates if one.p == 1), None)
    if alone is not None and alone.fits is False:
        return (
            f"One GPU does not hold the model: take the smallest p that does and keeps the latency, by memory "
            f"{able[0].p}; it is what lets the model run, no speed-up against one GPU. Over a weak link compare TP "
            "within a node and pipeline stages across."
        )
    if asked.slo_s is None:
        return (
            "If one GPU holds the model, p replicas of it give more tokens/s a GPU where the last column is below 1; "
            "split it where one GPU cannot keep the latency asked for (--slo tpot=…), or where it lacks room for KV."
        )
    most = max(asked.tokens)
    per_gpu = math.ceil(most / max(asked.ps))
    alone_s = asked.timing(per_gpu) + asked.other_s[0]
    limit = f"{asked.slo_s * 1000:g} ms"
    if alone_s <= asked.slo_s:
        return (
            f"Replicas: one GPU with {per_gpu} of the {most} tokens takes {alone_s * 1000:.3g} ms a step, within "
            f"{limit}; splitting is worth it only if measured goodput a GPU is higher."
        )
    keeping = [one for one in able if one.p > 1 and one.rows and one.rows[-1].step_s <= asked.slo_s]
    if not keeping:
        return f"No p keeps {limit} a step at T = {most}: fewer tokens a step, or another GPU."
    return (
        f"TP {keeping[0].p}: the smallest that keeps {limit} a step at T = {most}, by this model; one GPU takes "
        f"{alone_s * 1000:.3g} ms with {per_gpu}. Measure it."
    )


def _commands(model: ModelConfig, asked: TpQuestion) -> tuple[str, ...]:
    if model.dense is None:
        return ()
    return commands(model.dense, asked.ps, _tokens(asked), asked.activation_bytes)


def _tokens(asked: TpQuestion) -> tuple[int, int]:
    """The least and the most of a step: on record, else as asked."""
    return span(asked.steps) if asked.steps is not None else (min(asked.tokens), max(asked.tokens))


def _notes(asked: TpQuestion, backends: Sequence[str], groups: Sequence[Group]) -> list[str]:
    found = []
    if any(isinstance(cost, Link) for cost in asked.costs.values()):
        found.append("tau is a first guess by latency and bandwidth; all-reduces measured at these sizes decide")
    if backends and backends[0] not in ("PYNCCL", "NCCL_SYMM_MEM"):
        found.append(
            f"the server tries {backends[0]} first, which is not NCCL: take tau from vLLM's own communicator benchmark "
            "(--all-reduce), not from all_reduce_perf"
        )
    for group in groups:
        if not group.nvlink:
            found.append(
                f"GPUs {', '.join(map(str, group.gpus))} talk over {group.meaning}: compare pipeline stages across it"
            )
        if group.no_peer is not None:
            found.append(
                f"GPUs {', '.join(map(str, group.gpus))}: P2P is off ({group.no_peer}), so all-reduces go through the "
                "host's memory, and vLLM's custom all-reduce is off"
            )
        if group.numa_nodes is not None and group.numa_nodes > 1:
            found.append(f"GPUs {', '.join(map(str, group.gpus))} stand on {group.numa_nodes} NUMA nodes")
    return found
