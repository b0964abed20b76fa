"""How many requests a KV cache holds: bytes a token, blocks, pool, what is wasted, and the way back from requests to
bytes.

    bytes a block   = of the widest group: layers x block size x heads a rank x values x bytes   (geometry.py)
    pool in blocks  = floor(pool bytes / bytes a block); one of them is the null block, which nobody gets
    request at end  = ceil((in + out) / block size) blocks        in the mean = ceil((in + out / 2) / block size)
    requests at peak = floor((blocks - 1) / blocks at end)        in the mean = (blocks - 1) / blocks in the mean
    at full length  = blocks / blocks of max_model_len            (vLLM's "maximum concurrency")
    tokens          = at full length x max_model_len              (vLLM's "KV cache size")
    bytes for R requests = (R x blocks at end + 1) x bytes a block

Layers that keep different numbers of tokens stand in groups of one size, each with a block table of its own, over one
pool of blocks; a sliding layer holds window - 1 + tokens in flight at most, and one block more as the window need not
begin with a block. A state is one block of its table, whose page is the attention's: vLLM enlarges the block size until
a state fits, by steps of the attention backend, so that block size has to be told (its log says it). Models with layers
of different page sizes have their bytes a token and their fixed bytes a request told, and no number of requests.
Decode context parallel spreads a block's tokens over ranks that hold copies else: so many times the tokens in a block.
On p ranks every rank holds its share of every request, so all figures are of one rank and one replica. Pipeline stages
hold their own layers; the stage with most of them decides.
Source: vLLM v1/core/kv_cache_utils.py (get_kv_cache_config_from_groups, get_max_concurrency_for_kv_cache_config,
_get_kv_cache_groups_uniform_page_size), v1/kv_cache_interface.py (max_admission_blocks_per_request), 0.32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

from vtop.errors import VtopError
from vtop.plan.model_config import ModelConfig
from vtop.session.kv.blocks import RequestLengths, blocks_of, waste_of
from vtop.session.kv.geometry import CHUNKED, FULL, MLA, SLIDING, STATE, KvLayer, growth_bytes

MUCH_MORE: Final = 1.5  # vLLM: of layers of one kind, from which on the fewer make the size of a group
COMPUTED, GIVEN, RECORDED, UNKNOWN = "computed", "given", "on record", "not known"


@dataclass(frozen=True, slots=True)
class Lanes:
    """How a replica is spread and batched. in_flight_tokens: scheduled and not yet settled, of all concurrent steps.
    block_told: the block size is the server's own, not the usual one."""

    block_size: int = 16
    block_told: bool = False
    tp: int = 1
    pp: int = 1
    dp: int = 1
    dcp: int = 1  # decode context parallel: so many ranks of the tp share a block's tokens
    in_flight_tokens: int = 8192


@dataclass(frozen=True, slots=True)
class KvGroup:
    """`tables` block tables of `layers` layers each. window: tokens kept, None where all are, or a state is."""

    kind: str
    layers: int
    tables: int
    window: int | None


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """What a block is. block_size: its tokens, over all ranks that share them. block_bytes: on one rank of the fullest
    stage; None where the model is not known."""

    block_size: int
    groups: tuple[KvGroup, ...]
    block_bytes: int | None
    in_flight_tokens: int

    def blocks(self, tokens: float, *, max_model_len: int | None = None, settled: bool = False) -> int:
        """Of one request of so many tokens. settled: in the middle of its output, with no prompt under way."""
        found = 0
        for group in self.groups:
            held = 1 if group.kind == STATE else blocks_of(tokens, self.block_size)
            if group.window is not None:
                kept = group.window if settled else group.window - 1 + self.in_flight_tokens
                if max_model_len is not None:
                    kept = min(kept, max_model_len)
                held = min(held, blocks_of(kept, self.block_size) + 1)
            found += group.tables * held
        return found

    def full_blocks(self, max_model_len: int) -> int:
        """What vLLM reckons for a request of the greatest length."""
        found = 0
        for group in self.groups:
            if group.window is None:
                found += group.tables * (1 if group.kind == STATE else blocks_of(max_model_len, self.block_size))
            else:
                kept = min(group.window - 1 + self.in_flight_tokens, max_model_len)
                found += group.tables * (blocks_of(kept, self.block_size) + 1)
        return found


@dataclass(frozen=True, slots=True)
class TokenBytes:
    """On one rank. growth: of each further token. fixed: of a request once its windows are full; None: not computed."""

    growth_bytes: float
    all_ranks_bytes: float  # of a token over all layers, not split
    fixed_bytes: float | None
    copies: int  # of the same keys and values over the ranks of a replica


@dataclass(frozen=True, slots=True)
class Pool:
    """Of one replica; `blocks` holds the null block."""

    blocks: int
    tokens: int | None  # as vLLM logs it; None where no max_model_len is known
    bytes: float | None
    full_length_requests: float | None  # of max_model_len, vLLM's maximum concurrency
    origin: str


@dataclass(frozen=True, slots=True)
class Mix:
    """Requests by their lengths, (input, output) tokens each."""

    lengths: tuple[tuple[int, int], ...]
    origin: str

    @property
    def longest(self) -> int:
        return max(a + b for a, b in self.lengths)


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests of one mix against a layout. blocks_at_end: of the largest; mean_at_end: of the usual one."""

    blocks_at_end: int
    mean_blocks_at_end: float
    blocks_in_the_mean: float
    bytes_at_end: float | None
    bytes_in_the_mean: float | None
    waste_tokens: float  # of the last block that a request leaves empty at its end, in the mean

    def needed_bytes(self, requests: int, layout: BlockLayout) -> int | None:
        """The --kv-cache-memory that holds so many at their peak; on each rank."""
        return None if layout.block_bytes is None else (requests * self.blocks_at_end + 1) * layout.block_bytes


@dataclass(frozen=True, slots=True)
class Fit:
    """How many requests a pool holds. concurrency: of a planned load, with what it asks of the pool."""

    at_peak: int  # all at their largest at once: as many never preempt one another
    at_mean_peak: int  # all at the end of a usual request
    in_the_mean: float
    concurrency: int | None = None
    peak_ratio: float | None = None  # of the pool
    mean_ratio: float | None = None
    waste_tokens: float | None = None  # of all of them


@dataclass(frozen=True, slots=True)
class MemoryTerm:
    """A part of a GPU's memory. bytes: None where it is not known, and then taken for nothing."""

    name: str
    bytes: float | None
    origin: str


def token_bytes(model: ModelConfig, lanes: Lanes, max_model_len: int | None) -> TokenBytes:
    """Raises VtopError where vLLM would not load the model over so many ranks."""
    if problem := model.kv_problem(lanes.tp):
        raise VtopError(f"{model.name}: {problem}")
    if lanes.tp % lanes.dcp:
        raise VtopError(f"--dcp {lanes.dcp} does not divide --tp {lanes.tp}, whose ranks it shares")
    size = model.value_bytes
    fixed = sum((layer.state_bytes or 0.0) / lanes.tp for layer in model.layers)
    for layer in model.layers:
        if layer.kind in (SLIDING, CHUNKED):
            tokens = min(layer.window or 0, max_model_len or layer.window or 0)
            fixed += tokens * layer.bytes_per_token(size, lanes.tp)
    heads = [layer.kv_heads for layer in model.layers if layer.kv_heads]
    return TokenBytes(
        growth_bytes=growth_bytes(model.layers, size, lanes.tp),
        all_ranks_bytes=sum(layer.bytes_per_token(size) for layer in model.layers if layer.kind in (FULL, MLA)),
        fixed_bytes=None if any(layer.kind == STATE and layer.state_bytes is None for layer in model.layers) else fixed,
        copies=max(1, lanes.tp // min(heads)) if heads else 1,
    )


def layout_of(model: ModelConfig, lanes: Lanes, *, hybrid: bool = True) -> BlockLayout | str:
    """The groups and a block's bytes; or why they cannot be told. hybrid: False for vLLM with
    --disable-hybrid-kv-cache-manager, where sliding layers hold what full ones do."""
    layers = model.layers if hybrid else tuple(_as_full(layer) for layer in model.layers)
    if not layers:
        return "no layer of it keeps a KV cache"
    attending = [layer for layer in layers if layer.kind != STATE]
    pages = [round(layer.bytes_per_token(model.value_bytes, lanes.tp) * lanes.block_size) for layer in attending]
    if len(attending) < len(layers) and (why := _states_fit(layers, lanes, pages)) is not None:
        return why
    if lanes.pp > len(layers):
        return f"{len(layers)} layers do not make {lanes.pp} stages"
    if lanes.dcp > 1 and any(layer.kind not in (FULL, MLA) for layer in layers):
        return "decode context parallel serves full attention only"
    kinds: dict[tuple[str, int | None], int] = {}
    for layer in layers:
        kinds[layer.kind, layer.window] = kinds.get((layer.kind, layer.window), 0) + 1
    if len(kinds) == 1:
        ((kind, window),) = kinds
        most = max(sum(pages[a:b]) for a, b in _stages(len(layers), lanes.pp))
        group = KvGroup(kind, len(layers), 1, window)
        return BlockLayout(lanes.block_size * lanes.dcp, (group,), most, lanes.in_flight_tokens)
    if len(set(pages)) > 1:
        return "its layers have pages of different sizes, laid out as the attention backend decides"
    if lanes.pp > 1:
        return "layers that keep different numbers of tokens, over pipeline stages: not computed"
    least, most = min(kinds.values()), max(kinds.values())
    size = most if most < MUCH_MORE * least else least
    groups = tuple(KvGroup(kind, size, -(-many // size), window) for (kind, window), many in kinds.items())
    return BlockLayout(lanes.block_size, groups, size * pages[0], lanes.in_flight_tokens)


def plain_layout(block_size: int) -> BlockLayout:
    """Of a server whose model is not on record: all layers keep all tokens, bytes are not known."""
    return BlockLayout(block_size, (KvGroup(FULL, 1, 1, None),), None, 0)


def pool_of_bytes(layout: BlockLayout, pool_bytes: float, max_model_len: int | None, origin: str = GIVEN) -> Pool:
    """From --kv-cache-memory, or what a GPU has left. Raises VtopError where it holds no block."""
    assert layout.block_bytes is not None
    return pool_of_blocks(layout, int(pool_bytes // layout.block_bytes), max_model_len, origin)


def pool_of_tokens(layout: BlockLayout, tokens: float, max_model_len: int | None, origin: str = GIVEN) -> Pool:
    """From the size that vLLM logs. Where layers keep different numbers of tokens that size is the concurrency x
    max_model_len, and blocks follow from it."""
    if len(layout.groups) == 1 and layout.groups[0].window is None:
        return pool_of_blocks(layout, round(tokens) // layout.block_size, max_model_len, origin)
    if max_model_len is None:
        raise VtopError("a pool in tokens of a model with windows needs its --max-model-len: vLLM logs their product")
    blocks = round(tokens / max_model_len * layout.full_blocks(max_model_len))
    return pool_of_blocks(layout, blocks, max_model_len, origin)


def pool_of_blocks(layout: BlockLayout, blocks: int, max_model_len: int | None, origin: str = GIVEN) -> Pool:
    if blocks < 2:
        raise VtopError("the KV pool must have at least 2 blocks: one of them is the null block")
    full = blocks / layout.full_blocks(max_model_len) if max_model_len else None
    uniform = len(layout.groups) == 1 and layout.groups[0].window is None
    tokens = blocks * layout.block_size if uniform else int(full * max_model_len) if full and max_model_len else None
    return Pool(blocks, tokens, blocks * layout.block_bytes if layout.block_bytes else None, full, origin)


def memory_left(terms: Sequence[MemoryTerm]) -> float:
    """What is left for the cache: the first term less all others. vLLM: v1/worker/gpu_worker.py
    (determine_available_memory)."""
    first, *others = terms
    return (first.bytes or 0.0) - sum(term.bytes for term in others if term.bytes is not None)


def demand(layout: BlockLayout, mix: Mix, max_model_len: int | None = None) -> Demand:
    at_end = [layout.blocks(a + b, max_model_len=max_model_len) for a, b in mix.lengths]
    middle = [layout.blocks(a + b / 2, max_model_len=max_model_len, settled=True) for a, b in mix.lengths]
    waste = fmean(waste_of(RequestLengths(a, b, exact=True), layout.block_size)[0] for a, b in mix.lengths)
    size = layout.block_bytes
    return Demand(
        blocks_at_end=max(at_end),
        mean_blocks_at_end=fmean(at_end),
        blocks_in_the_mean=fmean(middle),
        bytes_at_end=max(at_end) * size if size is not None else None,
        bytes_in_the_mean=fmean(middle) * size if size is not None else None,
        waste_tokens=waste,
    )


def fit(pool: Pool, of: Demand, concurrency: int | None = None) -> Fit:
    usable = pool.blocks - 1
    return Fit(
        at_peak=usable // of.blocks_at_end,
        at_mean_peak=int(usable / of.mean_blocks_at_end),
        in_the_mean=usable / of.blocks_in_the_mean,
        concurrency=concurrency,
        peak_ratio=concurrency * of.mean_blocks_at_end / usable if concurrency is not None else None,
        mean_ratio=concurrency * of.blocks_in_the_mean / usable if concurrency is not None else None,
        waste_tokens=concurrency * of.waste_tokens if concurrency is not None else None,
    )


def _states_fit(layers: Sequence[KvLayer], lanes: Lanes, pages: Sequence[int]) -> str | None:
    """Why the states of a model cannot be laid out in blocks of its attention's pages; None where they can."""
    states = [layer.state_bytes for layer in layers if layer.kind == STATE]
    if not pages or None in states:
        return "the size of its layers' states is not known"
    largest = max(state or 0.0 for state in states) / lanes.tp
    if not lanes.block_told:
        least = -(-largest * lanes.block_size // max(pages))
        return (
            f"vLLM enlarges the blocks of a model with states until one fits ({least:,.0f} tokens at least, in steps "
            "of the attention backend): say --block-size as its log does"
        )
    if largest > max(pages):
        return f"a state of {largest:,.0f} bytes does not fit a page of {max(pages):,} bytes: the block size is another"
    return None


def _as_full(layer: KvLayer) -> KvLayer:
    return replace(layer, kind=FULL, window=None) if layer.kind in (SLIDING, CHUNKED) else layer


def _stages(layers: int, pp: int) -> list[tuple[int, int]]:
    """First and last layer of each stage; those over go to the middle ones (vLLM: distributed/utils.py,
    get_pp_indices). What decides is the largest, and that is the same wherever it stands."""
    base, over = divmod(layers, pp)
    found, begin = [], 0
    for stage in range(pp):
        many = base + (1 if stage < over else 0)
        found.append((begin, begin + many))
        begin += many
    return found
