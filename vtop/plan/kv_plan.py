"""The answer of `vtop plan kv`: a model, a server or a recording, and what its KV cache holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from vtop.errors import VtopError
from vtop.plan import kv
from vtop.plan.kv import BlockLayout, Demand, Fit, Lanes, MemoryTerm, Mix, Pool, TokenBytes
from vtop.plan.model_config import ModelConfig, of_shape
from vtop.plan.observed import Observed
from vtop.plan.seqs_cost import SeqsCost
from vtop.session.kv.geometry import STATE

BLOCK: Final = 16  # vLLM's usual one
STEPS_IN_FLIGHT: Final = 2  # with async scheduling, which is vLLM's default (config/vllm.py, max_concurrent_batches)
BUDGET: Final = 8192


@dataclass(frozen=True, slots=True)
class Memory:
    """A GPU's memory and what takes of it, in bytes; None: not told. utilization: of the total, as vLLM's flag."""

    total_bytes: float
    utilization: float
    weights_bytes: float | None = None
    activations_bytes: float | None = None
    graphs_bytes: float | None = None
    non_torch_bytes: float | None = None
    margin_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class KvQuestion:
    """What is asked for, over what a recording says; None: not asked."""

    tp: int | None = None
    pp: int = 1
    dp: int | None = None
    dcp: int = 1
    block_size: int | None = None
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    cache_dtype: str | None = None
    pool_bytes: float | None = None
    pool_tokens: float | None = None
    pool_blocks: int | None = None
    memory: Memory | None = None
    mix: Mix | None = None
    concurrency: int | None = None
    requests: int | None = None
    hybrid: bool = True
    async_scheduling: bool | None = None


@dataclass(frozen=True, slots=True)
class AtLength:
    """How many requests of one length the pool holds, prompt and answer together."""

    tokens: int
    blocks: int
    requests: int


@dataclass(frozen=True, slots=True)
class KvPlan:
    """None: not known, or not asked for. All bytes are of one rank; the pool and the fit are of one replica."""

    name: str
    cache_dtype: str | None
    lanes: Lanes
    max_model_len: int | None
    token: TokenBytes | None
    layout: BlockLayout | None
    pool: Pool | None
    memory: tuple[MemoryTerm, ...]
    mix: Mix | None
    demand: Demand | None
    fit: Fit | None
    requests: int | None
    needed_bytes: int | None  # --kv-cache-memory for so many requests
    recorded_max_num_seqs: int | None
    max_num_seqs: int | None  # the largest --max-num-seqs with which no request is preempted for want of blocks
    by_length: tuple[AtLength, ...]
    notes: tuple[str, ...]
    cost: SeqsCost | None = None


def plan(asked: KvQuestion, model: ModelConfig | None, seen: Observed | None = None) -> KvPlan:
    """Raises VtopError where vLLM would refuse it, or what was asked needs what is not known."""
    if model is None and seen is None:
        raise VtopError("plan kv of what? Name a config.json or a recording, or a server with --url")
    if model is None and seen is not None and seen.shape is not None:
        model = of_shape(seen.shape, seen.name, asked.cache_dtype or seen.cache_dtype)
    block = asked.block_size or (seen.block_size if seen is not None else None) or BLOCK
    tp = asked.tp or (seen.tp if seen is not None else None) or 1
    budget = asked.max_num_batched_tokens or (seen.max_num_batched_tokens if seen is not None else None) or BUDGET
    dp = asked.dp or (seen.replicas if seen is not None else 1)
    overlapped = asked.async_scheduling
    if overlapped is None:
        overlapped = seen is None or seen.async_scheduling is not False
    steps = STEPS_IN_FLIGHT if overlapped else 1
    told = asked.block_size is not None or (seen is not None and seen.block_size is not None)
    lanes = Lanes(block, told, tp, asked.pp, dp, asked.dcp, steps * budget)
    max_model_len = asked.max_model_len or (seen.max_model_len if seen is not None else None)
    if max_model_len is None and model is not None:
        max_model_len = model.max_position
    notes: list[str] = []
    token = kv.token_bytes(model, lanes, max_model_len) if model is not None else None
    layout: BlockLayout | None
    if model is None:
        layout = kv.plain_layout(block)
        notes.append("the model's shape is not on record (--model-config tells it): blocks are counted, bytes are not")
    else:
        found = kv.layout_of(model, lanes, hybrid=asked.hybrid)
        layout = None if isinstance(found, str) else found
        if isinstance(found, str):
            notes.append(f"no blocks and no number of requests: {found}")
        if token is not None and token.copies > lanes.dcp:
            notes.append(
                f"{token.copies // lanes.dcp} ranks keep the same keys and values: TP {tp} makes the cache no smaller "
                "there"
            )
        if layout is not None and any(group.kind == STATE for group in layout.groups):
            notes.append("a state is one block of its table; with prefix caching vLLM keeps more of them")
        if layout is not None and any(group.window is not None for group in layout.groups):
            notes.append(
                f"sliding layers are taken to hold {lanes.in_flight_tokens:,} tokens in flight beside their window: "
                f"{steps} × --max-num-batched-tokens {budget:,}"
            )
    memory = _memory(asked.memory, model, tp)
    pool = _pool(asked, seen, (layout, max_model_len), memory, notes)
    mix = asked.mix or (seen.mix if seen is not None else None)
    if mix is not None and max_model_len is not None and mix.longest > max_model_len:
        raise VtopError(f"requests of {mix.longest:,} tokens are longer than the model's {max_model_len:,}")
    of = kv.demand(layout, mix, max_model_len) if layout is not None and mix is not None else None
    concurrency = asked.concurrency or (seen.concurrency if seen is not None and asked.mix is None else None)
    fits = kv.fit(pool, of, concurrency) if pool is not None and of is not None else None
    if asked.requests is not None and of is None:
        raise VtopError("--requests needs their lengths: --input-len 1024 --output-len 256")
    needed = (
        of.needed_bytes(asked.requests, layout) if asked.requests and of is not None and layout is not None else None
    )
    return KvPlan(
        name=seen.name if seen is not None else model.name if model is not None else "",
        cache_dtype=model.cache_dtype if model is not None else None,
        lanes=lanes,
        max_model_len=max_model_len,
        token=token,
        layout=layout,
        pool=pool,
        memory=memory,
        mix=mix,
        demand=of,
        fit=fits,
        requests=asked.requests,
        needed_bytes=needed,
        recorded_max_num_seqs=seen.max_num_seqs if seen is not None else None,
        max_num_seqs=fits.at_peak if fits is not None else None,
        by_length=_by_length(layout, pool, max_model_len) if layout is not None and pool is not None else (),
        notes=tuple(notes),
    )


def with_cost(answer: KvPlan, cost: SeqsCost) -> KvPlan:
    return replace(answer, cost=cost)


def _memory(asked: Memory | None, model: ModelConfig | None, tp: int) -> tuple[MemoryTerm, ...]:
    if asked is None:
        return ()
    weights, whence = asked.weights_bytes, kv.GIVEN
    if weights is None and model is not None:
        weights, whence = model.weights_bytes(tp), kv.COMPUTED
    said = [
        ("weights", weights, whence),
        ("activations at --max-num-batched-tokens", asked.activations_bytes, kv.GIVEN),
        ("CUDA graphs", asked.graphs_bytes, kv.GIVEN),
        ("outside of PyTorch (NCCL, context)", asked.non_torch_bytes, kv.GIVEN),
        ("margin", asked.margin_bytes, kv.GIVEN),
    ]
    whole = MemoryTerm(f"{asked.utilization:.2f} of the GPU's memory", asked.total_bytes * asked.utilization, kv.GIVEN)
    return (whole, *(MemoryTerm(name, size, origin if size is not None else kv.UNKNOWN) for name, size, origin in said))


def _pool(
    asked: KvQuestion,
    seen: Observed | None,
    blocks: tuple[BlockLayout | None, int | None],
    memory: tuple[MemoryTerm, ...],
    notes: list[str],
) -> Pool | None:
    layout, max_model_len = blocks
    if layout is None:
        return None
    if (asked.pool_bytes is not None or memory) and layout.block_bytes is None:
        raise VtopError("a pool in bytes needs the model's shape: --model-config config.json")
    if asked.pool_bytes is not None:
        return kv.pool_of_bytes(layout, asked.pool_bytes, max_model_len, "--kv-cache-memory")
    if asked.pool_blocks is not None:
        return kv.pool_of_blocks(layout, asked.pool_blocks, max_model_len)
    if asked.pool_tokens is not None:
        return kv.pool_of_tokens(layout, asked.pool_tokens, max_model_len)
    if memory:
        left = kv.memory_left(memory)
        lacking = [term.name for term in memory if term.bytes is None]
        if lacking:
            notes.append(f"not known and taken for nothing: {', '.join(lacking)}; the pool is at most this")
        if left <= 0:
            raise VtopError(
                f"nothing is left for the KV cache: the parts take {-left / 2**30:.2f} GiB more than there is; "
                "more ranks (--tp), or a larger share of the memory"
            )
        return kv.pool_of_bytes(layout, left, max_model_len, "what the GPU has left")
    if seen is not None and seen.pool_tokens is not None:
        return kv.pool_of_tokens(layout, seen.pool_tokens, max_model_len, kv.RECORDED)
    return None


def _by_length(layout: BlockLayout, pool: Pool, max_model_len: int | None) -> tuple[AtLength, ...]:
    """Each length twice the one before; the model's own last."""
    most = max_model_len or (pool.blocks - 1) * layout.block_size
    lengths, tokens = [], 256
    while tokens < most:
        lengths.append(tokens)
        tokens *= 2
    found = []
    for tokens in (*lengths, most):
        blocks = layout.blocks(tokens, max_model_len=max_model_len)
        found.append(AtLength(tokens, blocks, (pool.blocks - 1) // blocks))
    return tuple(found)
