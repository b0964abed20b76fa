"""The KV cache: how large the pool is, how much of it live requests hold, how much room is left.

kv_cache_usage_perc counts blocks, 1 - free / (blocks - 1); a block with one token in it is a block, so tokens made of
it are an upper bound. Cached blocks that no request holds count as free. The pool is `kv_cache_size_tokens` per
engine (vLLM 0.24 and later, right for hybrid models too); before, blocks x block size, where num_gpu_blocks is
already the sum over engines. Bytes per token come from the model's shape (geometry.py):

    2 x layers x kv_heads x head_dim x bytes(dtype)          (MLA: layers x (kv_lora_rank + rope_dim) x bytes)

Source: vLLM v1/core/block_pool.py, kv_cache_utils.py, kv_cache_interface.py. Tokens, bytes, ratios.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vtop.metrics.quantity import Quantity
from vtop.metrics.series_names import labels_of
from vtop.session.frame.kv import Kv
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import Window
from vtop.session.kv.geometry import bytes_per_token


@dataclass(frozen=True, slots=True)
class KvPool:
    """The KV pool of one server, as its CACHE_CONFIG series says."""

    tokens: float | None  # of all its engines
    block_size: int | None
    max_concurrency: float | None  # requests of max_model_len that fit, per engine
    prefix_caching: bool | None
    cache_dtype: str | None


def pool_at(server: ServerHistory, last: int, max_model_len: int | None) -> KvPool:
    """The pool as it was on scrape `last`."""
    series_names = server.kind_at(server.t[last]).series
    track = server.labels.get(Quantity.CACHE_CONFIG)
    by_engine: dict[str, dict[str, str]] = {}  # API servers that share an engine all tell of it
    for series in (track.at(last) or ()) if track is not None else ():
        meaning = series_names.meaning(series)
        by_engine[meaning.engine if meaning is not None else ""] = labels_of(series)
    rows = list(by_engine.values())
    if not rows:
        return KvPool(None, None, None, None, None)
    first, names = rows[0], series_names.pool
    sizes = [size for row in rows if (size := _number(row, names.tokens)) is not None]
    block_size = _number(first, names.block_size)
    if sizes:
        tokens: float | None = sum(sizes)
    else:
        blocks = _number(first, names.blocks)
        tokens = blocks * block_size if blocks and block_size else None
    concurrency = _number(first, names.max_concurrency)
    if concurrency is None and tokens is not None and max_model_len:
        concurrency = tokens / len(rows) / max_model_len
    caching = first.get(names.prefix_caching)
    return KvPool(
        tokens=tokens,
        block_size=int(block_size) if block_size else None,
        max_concurrency=concurrency,
        prefix_caching=caching == "True" if caching is not None else None,
        cache_dtype=first.get(names.cache_dtype),
    )


def kv(window: Window, now_s: float) -> Kv:
    """The account over all servers: pools and rooms add up, ratios do not."""
    used = window.gauge(Quantity.KV_USED, largest=True)
    ratios: list[float] = []
    pools: list[KvPool] = []
    held: list[float | None] = []
    sizes: list[float | None] = []
    for one in window.answering:
        identity = one.server.identity(now_s)
        mine = pool_at(one.server, one.last, identity.max_model_len if identity is not None else None)
        latest = [track.at(one.last) for track in one.server.engines(Quantity.KV_USED, one.last).values()]
        engines = [ratio for ratio in latest if ratio is not None]
        ratios += engines
        pools.append(mine)
        mean = sum(engines) / len(engines) if engines else None
        held.append(mean * mine.tokens if mean is not None and mine.tokens is not None else None)
        shape = identity.shape if identity is not None else None
        sizes.append(bytes_per_token(shape, mine.cache_dtype) if shape else None)
    tokens = _all(one.tokens for one in pools)
    used_tokens = _all(held)
    first = pools[0] if pools else KvPool(None, None, None, None, None)
    per_token = sizes[0] if sizes and len(set(sizes)) == 1 else None
    return Kv(
        used=used,
        mean_used_ratio=sum(ratios) / len(ratios) if ratios else None,
        pool_tokens=tokens,
        used_tokens=used_tokens,
        room_tokens=tokens - used_tokens if tokens is not None and used_tokens is not None else None,
        pool_bytes=tokens * per_token if tokens is not None and per_token is not None else None,
        bytes_per_token=per_token,
        block_size=first.block_size,
        max_concurrency=first.max_concurrency,
        prefix_caching=first.prefix_caching,
    )


def _number(labels: Mapping[str, str], name: str) -> float | None:
    try:
        return float(labels[name])
    except (KeyError, ValueError):
        return None


def _all(values: Iterable[float | None]) -> float | None:
    """A sum that is known only where every part is."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if known and len(known) == len(listed) else None
