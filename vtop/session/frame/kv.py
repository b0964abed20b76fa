"""The KV cache in a frame: the pool, how full it is, and how full it should be."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.session.frame.values import Gauge
from vtop.session.frame.vocabulary import LengthsFrom


@dataclass(frozen=True, slots=True, eq=False)
class Kv:
    """The KV cache: blocks held by live requests. `used` is the fullest engine's; a ratio is never summed."""

    used: Gauge
    mean_used_ratio: float | None  # over engines, now
    pool_tokens: float | None  # of all engines
    used_tokens: float | None  # an upper bound: blocks, not tokens, are counted
    room_tokens: float | None
    pool_bytes: float | None
    bytes_per_token: float | None
    block_size: int | None
    max_concurrency: float | None  # requests of max_model_len that fit, per engine
    prefix_caching: bool | None


@dataclass(frozen=True, slots=True, eq=False)
class Crowding:
    """How often requests waited and the pool was nearly full, of the window's scrapes (crowding.py)."""

    waiting_share: float | None = None  # scrapes with a request that waits
    kv_90_share: float | None = None  # scrapes with KV use of 90 % or more, of the fullest engine
    kv_95_share: float | None = None
    scrapes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Expectation:
    """How full the pool should be with so many requests of such lengths, and how far off that is (account.py)."""

    concurrency: float
    peak_ratio: float  # every request at in + out, rounded up to blocks
    mean_ratio: float  # every request at in + out / 2
    peak_error_ratio: float | None  # measured - expected; x 100 are points
    mean_error_ratio: float | None


@dataclass(frozen=True, slots=True, eq=False)
class KvAccount:
    """The KV pool's account over the window (account.py)."""

    input_tokens: float | None = None  # mean of a request
    output_tokens: float | None = None
    lengths_from: LengthsFrom | None = None
    nominal: Expectation | None = None  # for what the clients keep in flight
    effective: Expectation | None = None  # for what really runs
    asked_tokens: float | None = None  # nominal x (in + out)
    asked_bytes: float | None = None  # the same, where a token's bytes are known
    request_tokens: float | None = None  # of one request at its end: in + out
    request_bytes: float | None = None  # the same
    oversubscription: float | None = None  # asked_tokens / pool
    predicted_residents: float | None = None  # pool / (in + out)
    measured_residents: float | None = None  # median running
    growth_tokens_per_s: float | None = None  # of KV in use, since it last fell
    full_in_s: float | None = None  # at that rate
    waste_tokens_per_request: float | None = None  # last block, not filled, at the end of a request
    waste_tokens: float | None = None  # of all that run now, on average
