"""Latencies over the window: the exact mean, and for each percentile the bucket it lies in.

A mean is Δsum / Δcount. A percentile is never interpolated inside a bucket: vLLM's request-phase histograms begin at
0.3 s, so below that one can say "< 300 ms" and the mean, and no more. Of whom a latency tells differs: TTFT of the
requests that got their first token in the window, ITL of every later token (several in one output count once),
the others of the requests that finished. Source: vLLM v1/metrics/buckets.py, loggers.py. Seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vtop.metrics.quantity import Quantity
from vtop.samples import samples_needed
from vtop.session.frame.latencies import Latency
from vtop.session.frame.tokens import COMPUTED, CONNECTOR, Iteration, PrefixCache, PromptSource
from vtop.session.frame.vocabulary import Cohort
from vtop.session.history.sides import Sides
from vtop.session.history.window import Window

ONE_EACH: Final = 0.98  # gaps per later token; a scrape is no atomic snapshot
_ROWS: tuple[tuple[str, Quantity, Cohort], ...] = (
    ("TTFT", Quantity.TTFT, "first token"),
    ("ITL", Quantity.ITL, "every token"),
    ("TPOT", Quantity.TPOT, "finished"),
    ("queue", Quantity.QUEUE, "finished"),
    ("prefill", Quantity.PREFILL, "finished"),
    ("decode", Quantity.DECODE, "finished"),
    ("e2e", Quantity.E2E, "finished"),
)


_OF_PREFILL: Final = frozenset({Quantity.TTFT, Quantity.QUEUE, Quantity.PREFILL})


def latencies(window: Window, sides: Sides) -> tuple[Latency, ...]:
    """One row per latency that a server exports; of a divided deployment the rows of each side."""
    rows = []
    before, after = sides.prefilling(window), sides.decoding(window)
    for name, quantity, cohort in _ROWS:
        window = before if quantity in _OF_PREFILL else after
        histogram = window.histogram(quantity)
        if histogram is None:
            continue
        n = window.observed(quantity)
        p50, p90, p95, p99, p999 = (histogram.quantile(q) for q in (0.5, 0.9, 0.95, 0.99, 0.999))
        p9999 = histogram.quantile(0.9999) if n >= samples_needed(0.9999) else None
        of = "every output" if quantity is Quantity.ITL and _several(window, n) else cohort
        rows.append(Latency(name, window.mean(quantity), p50, p90, p99, n, of, p999, p9999, p95))
    return tuple(rows)


def _several(window: Window, gaps: float) -> bool:
    """Whether some outputs held several tokens (speculative decoding, outputs that were merged): then a gap is one
    between outputs, and longer than between tokens."""
    generated, first = window.delta(Quantity.GENERATION_TOKENS), window.observed(Quantity.TTFT)
    return generated is not None and gaps > 0 and gaps < ONE_EACH * (generated - first)


def iteration(window: Window) -> Iteration:
    """Tokens per engine step that gave output, and how they divide into decode and prefill.

    Decode is what was generated, prefill the rest: uncached prompt tokens, counted when the request's first token
    comes out. Recomputed tokens are never in it (vLLM v1/metrics/stats.py).
    """
    sums = window.sums(Quantity.ITERATION_TOKENS)
    total, steps = sums if sums is not None else (0.0, 0.0)
    generated = window.delta(Quantity.GENERATION_TOKENS)
    if steps <= 0 or total != total or generated is None:
        return Iteration(steps=steps, steps_per_s=None, tokens=None, decode=None, prefill=None)
    decode = min(generated, total)  # several servers, one without this histogram; a scrape is no atomic snapshot
    return Iteration(
        steps=steps,
        steps_per_s=steps / seconds if (seconds := window.counted_s) > 0 else None,
        tokens=total / steps,
        decode=decode / steps,
        prefill=(total - decode) / steps,
    )


def prefix_cache(window: Window, preempted: float | None, told: Sequence[PromptSource]) -> PrefixCache:
    """Prompt tokens found in a cache, in the window and since the server started.

    told: the window's prompt tokens by source (prompt_sources.py). Hits are of these where the server tells them (vLLM
    0.16 and later): each prompt counts once, by what it found when it was first scheduled. Else of the tokens looked
    up: until 0.26 the request at the head of the queue is looked up again at every step while it waits for KV (vLLM
    v1/core/kv_cache_manager.py, get_computed_blocks).
    """
    if any(one.source == COMPUTED for one in told):
        hit, asked = sum(one.tokens for one in told if one.source != COMPUTED), sum(one.tokens for one in told)
        hit_ever, local_ever = _found_ever(window), window.now(Quantity.PROMPT_TOKENS_BY_SOURCE, "local_compute")
        asked_ever = (local_ever or 0.0) + hit_ever
        elsewhere = next((one for one in told if one.source == CONNECTOR), None)
        return PrefixCache(
            hit_ratio=hit / asked if asked else None,
            hit_tokens=hit,
            asked_tokens=asked,
            lifetime_ratio=hit_ever / asked_ever if asked_ever else None,
            recompute=False,
            of="prompt tokens",
            external_tokens=elsewhere.tokens if elsewhere is not None else None,
            external_ratio=elsewhere.ratio if elsewhere is not None else None,
        )
    looked_up, met = window.delta(Quantity.PREFIX_QUERIES), window.delta(Quantity.PREFIX_HITS)
    ever, met_ever = window.now(Quantity.PREFIX_QUERIES), window.now(Quantity.PREFIX_HITS)
    return PrefixCache(
        hit_ratio=met / looked_up if looked_up and met is not None else None,
        hit_tokens=met,
        asked_tokens=looked_up,
        lifetime_ratio=met_ever / ever if ever and met_ever is not None else None,
        recompute=bool(preempted and met),
    )


def _found_ever(window: Window) -> float:
    """Prompt tokens that were not computed here, since the server started."""
    parts = (part for one in window.ranges for part in one.server.parts(Quantity.PROMPT_TOKENS_BY_SOURCE))
    sources = sorted({part for part in parts if part != "local_compute"})
    return sum(window.now(Quantity.PROMPT_TOKENS_BY_SOURCE, source) or 0.0 for source in sources)
