"""What a server says about one request in its own timing object, in seconds.

vLLM with --enable-per-request-metrics (0.25 and later) sends it with the usage. Its `time_to_first_token_ms` begins
when the request is scheduled, so it is the prefill time; the queue before it is `queue_time_ms`. A time below 0, NaN
or no number is not known: wall clocks are set back.
Source: vLLM entrypoints/generate/base/serving.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_NO_TIME_MS: Final = 1e12  # 31 years: what a server says beyond it is no time


@dataclass(frozen=True, slots=True)
class ServerTimings:
    """Seconds; None where the server does not say."""

    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    itl_mean_s: float | None = None


def timings_of(said: Mapping[str, Any] | None) -> ServerTimings:
    if not said:
        return ServerTimings()
    return ServerTimings(
        queue_s=_seconds(said.get("queue_time_ms")),
        prefill_s=_seconds(said.get("time_to_first_token_ms")),
        decode_s=_seconds(said.get("generation_time_ms")),
        itl_mean_s=_seconds(said.get("mean_itl_ms")),
    )


def _seconds(ms: object) -> float | None:
    if not isinstance(ms, int | float) or isinstance(ms, bool):
        return None
    return ms / 1000 if 0 <= ms < _NO_TIME_MS else None
