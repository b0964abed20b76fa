"""Tokens in a frame: engine steps, prefix cache, recomputed work, and where the time went."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from vtop.session.frame.vocabulary import RecomputeMethod, StepFrom


@dataclass(frozen=True, slots=True, eq=False)
class Iteration:
    """Tokens per engine step that gave output; recomputed tokens are never in it."""

    steps: float
    steps_per_s: float | None
    tokens: float | None
    decode: float | None
    prefill: float | None


# what hits are a share of: prompt tokens, each once; or tokens looked up, where a request that waits for KV may count
# once a step
CacheOf = Literal["prompt tokens", "looked up"]


@dataclass(frozen=True, slots=True, eq=False)
class PrefixCache:
    hit_ratio: float | None  # hit_tokens / asked_tokens, in the window
    hit_tokens: float | None
    asked_tokens: float | None
    lifetime_ratio: float | None  # since the server started
    recompute: bool  # preemptions in the window: a request that meets its own blocks again counts as a hit
    of: CacheOf = "looked up"
    external_tokens: float | None = None  # of hit_tokens, those that a KV connector brought from elsewhere
    external_ratio: float | None = None  # of asked_tokens


@dataclass(frozen=True, slots=True, eq=False)
class AcceptedAt:
    """One position of a draft: the share of the window's drafts whose token there was accepted."""

    position: int  # from 1
    ratio: float


@dataclass(frozen=True, slots=True, eq=False)
class Speculation:
    """Speculative decoding over the window (speculation.py). A draft is what one step of one request verifies."""

    drafts: float
    drafts_per_s: float | None
    draft_tokens: float | None  # in all of these drafts
    accepted_tokens: float | None
    accepted_ratio: float | None  # accepted_tokens / draft_tokens
    drafted_per_draft: float | None
    accepted_per_draft: float | None
    tokens_per_step: float | None  # of a request whose step verified a draft: the accepted and the one after them
    by_position: tuple[AcceptedAt, ...] = ()


COMPUTED: Final = "computed"
CONNECTOR: Final = "connector"


@dataclass(frozen=True, slots=True, eq=False)
class PromptSource:
    """Where prompt tokens of the window had their KV from (prompt_sources.py)."""

    source: str  # computed, local cache, connector; or as the server calls it
    tokens: float
    ratio: float | None  # of all


@dataclass(frozen=True, slots=True, eq=False)
class FailedTransfers:
    """Transfers of KV between servers or tiers that failed (prompt_sources.py)."""

    in_window: float
    since_start: float | None
    by_part: tuple[tuple[str, float], ...] = ()  # in the window, those that happened


@dataclass(frozen=True, slots=True, eq=False)
class Lora:
    """LoRA adapters, as far as the server tells (adapters.py)."""

    adapters: tuple[str, ...]  # in use lately, by name
    most: int | None  # in one step, of one engine
    deferred: float | None  # requests that wait for something else than KV or a seat, such as a place for an adapter


@dataclass(frozen=True, slots=True, eq=False)
class Recompute:
    """Tokens run through the model again after preemptions (recompute.py)."""

    method: RecomputeMethod | None = None
    estimate: bool = False  # True for the KV estimate
    executed_tokens: float | None = None  # in the window
    least_tokens: float | None = None  # that the window's answers needed
    tokens: float | None = None  # recomputed in the window
    ratio: float | None = None  # of the least
    since_start: float | None = None
    since_start_ratio: float | None = None
    per_preemption: float | None = None  # in the window
    unsettled_tokens: float = 0.0  # of prompts in mid-prefill: how far off it may be
    by_flops_tokens: float | None = None  # cross-checks of since_start
    by_kv_tokens: float | None = None
    token_bytes: float | None = None  # coefficient: bytes written per executed token
    row_bytes: float | None = None  # per row of logits
    missing_flag: str | None = None  # --enable-mfu-metrics, where the server runs without
    time_ratio: float | None = None  # of the window's time in which the engine worked


@dataclass(frozen=True, slots=True, eq=False)
class TokenFlops:
    """What a token cost in arithmetic, against the context that it looked at (token_flops.py). FLOP of one GPU."""

    flops: float | None = None  # counted, for each token that the answers needed
    context_tokens: float | None = None  # mean of those tokens
    expected_flops: float | None = None  # of the line, at that context
    apart_ratio: float | None = None  # flops / expected_flops - 1: recomputed work stands above the line
    line_flops: float | None = None  # the line, by the model's shape: line_flops + context_flops x context
    context_flops: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class WallClock:
    """Where the window went, in seconds that add up to it (wallclock.py)."""

    decode_s: float | None = None
    prefill_s: float | None = None
    recompute_s: float | None = None
    idle_s: float | None = None
    step_s: float | None = None  # of a step that only decodes, median
    step_from: StepFrom | None = None
    request_decode_s: float | None = None  # mean of the finished
    undisturbed_decode_s: float | None = None  # their tokens x step_s
    stolen_ratio: float | None = None  # 1 - undisturbed / decode
    prompt_token_s: float | None = None  # prefill_s of all engines / the prompt tokens that were computed
