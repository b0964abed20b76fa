"""The families of vLLM 0.32's /metrics page, in its order: name, kind, help, buckets, and a label of their own.

The texts, names and bounds are vLLM's (v1/metrics/loggers.py, v1/metrics/buckets.py, v1/metrics/perf.py). `/version`
and this table say the same version; vtop reads pages of others too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VERSION: Final = "0.32.0"
SIMULATED: Final = f"{VERSION}+vtop.simulated"

LATENCY_S: Final = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
TTFT_S: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
)  # fmt: skip
ITL_S: Final = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
STEP_TOKENS: Final = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
N: Final = (1, 2, 5, 10, 20)
PREEMPTIONS: Final = (1, 2, 3, 4, 5, 10, 20)
REQUEST_TOKENS: Final = "1-2-5, up to the longest sequence"

WAITING_REASONS: Final = ("capacity", "deferred")
SLEEP_STATES: Final = ("awake", "weights_offloaded", "discard_all")
PROMPT_SOURCES: Final = ("local_compute", "local_cache_hit", "external_kv_transfer")
CACHE_TIERS: Final = ("device", "host", "p2p", "disk", "external_unspecified")
FINISHED: Final = ("stop", "length", "abort", "error", "repetition")
REJECTIONS: Final = ("max_num_queued_reqs", "max_num_queued_tokens")


@dataclass(frozen=True, slots=True)
class Told:
    """A family as vLLM declares it. part: a label of its own, and all values it ever has. engine: has its label."""

    name: str
    kind: str
    help: str
    bounds: tuple[float, ...] | str = ()
    part: tuple[str, tuple[str, ...]] | None = None
    engine: bool = True


_FLOPS = "(for Model Flops Utilization calculations)."
_CACHE_TIER = (
    "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host (offloaded to DRAM), "
    "disk, p2p (transferred from another vLLM instance) or external_unspecified. Counted at admission; sums to "
    "vllm:prefix_cache_hits + vllm:external_prefix_cache_hits."
)
_WAITING = (
    "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = "
    "deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals "
    "vllm:num_requests_waiting."
)
_SLEEP = (
    "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 "
    "means sleep level 1; discard_all = 1 means sleep level 2."
)
_EXTERNAL = "from KV connector cross-instance cache sharing, in terms of number of"
_PHASE = "Histogram of time spent in {} phase for request."

FAMILIES: Final = (
    Told("estimated_flops_per_gpu", "counter", f"Estimated number of floating point operations per GPU {_FLOPS}"),
    Told("estimated_read_bytes_per_gpu", "counter", f"Estimated number of bytes read from memory per GPU {_FLOPS}"),
    Told("estimated_write_bytes_per_gpu", "counter", f"Estimated number of bytes written to memory per GPU {_FLOPS}"),
    Told("num_requests_running", "gauge", "Number of requests in model execution batches."),
    Told("num_requests_waiting", "gauge", "Number of requests waiting to be processed."),
    Told("num_requests_waiting_by_reason", "gauge", _WAITING, part=("reason", WAITING_REASONS)),
    Told("engine_sleep_state", "gauge", _SLEEP, part=("sleep_state", SLEEP_STATES)),
    Told("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage."),
    Told("prefix_cache_queries", "counter", "Prefix cache queries, in terms of number of queried tokens."),
    Told("prefix_cache_hits", "counter", "Prefix cache hits, in terms of number of cached tokens."),
    Told("external_prefix_cache_queries", "counter", f"External prefix cache queries {_EXTERNAL} queried tokens."),
    Told("external_prefix_cache_hits", "counter", f"External prefix cache hits {_EXTERNAL} cached tokens."),
    Told("mm_cache_queries", "counter", "Multi-modal cache queries, in terms of number of queried items."),
    Told("mm_cache_hits", "counter", "Multi-modal cache hits, in terms of number of cached items."),
    Told("num_preemptions", "counter", "Cumulative number of preemption from the engine."),
    Told("prompt_tokens", "counter", "Number of prefill tokens processed."),
    Told("prompt_tokens_by_source", "counter", "Number of prompt tokens by source.", part=("source", PROMPT_SOURCES)),
    Told("prompt_tokens_cached", "counter", "Number of cached prompt tokens (local + external)."),
    Told("prompt_tokens_cached_by_source", "counter", _CACHE_TIER, part=("source", CACHE_TIERS)),
    Told("generation_tokens", "counter", "Number of generation tokens processed."),
    Told("request_success", "counter", "Count of successfully processed requests.", part=("finished_reason", FINISHED)),
    Told(
        "admission_rejections",
        "counter",
        "Number of admission attempts rejected by a queue limit, by reason.",
        part=("reason", REJECTIONS),
        engine=False,
    ),
    Told("request_prompt_tokens", "histogram", "Number of prefill tokens processed.", REQUEST_TOKENS),
    Told("request_generation_tokens", "histogram", "Number of generation tokens processed.", REQUEST_TOKENS),
    Told("iteration_tokens_total", "histogram", "Histogram of number of tokens per engine_step.", STEP_TOKENS),
    Told(
        "request_max_num_generation_tokens",
        "histogram",
        "Histogram of maximum number of requested generation tokens.",
        REQUEST_TOKENS,
    ),
    Told("request_params_n", "histogram", "Histogram of the n request parameter.", N),
    Told("request_params_max_tokens", "histogram", "Histogram of the max_tokens request parameter.", REQUEST_TOKENS),
    Told("time_to_first_token_seconds", "histogram", "Histogram of time to first token in seconds.", TTFT_S),
    Told("inter_token_latency_seconds", "histogram", "Histogram of inter-token latency in seconds.", ITL_S),
    Told(
        "request_time_per_output_token_seconds",
        "histogram",
        "Histogram of time_per_output_token_seconds per request.",
        ITL_S,
    ),
    Told("e2e_request_latency_seconds", "histogram", "Histogram of e2e request latency in seconds.", LATENCY_S),
    Told("request_queue_time_seconds", "histogram", _PHASE.format("WAITING"), LATENCY_S),
    Told("request_inference_time_seconds", "histogram", _PHASE.format("RUNNING"), LATENCY_S),
    Told("request_prefill_time_seconds", "histogram", _PHASE.format("PREFILL"), LATENCY_S),
    Told("request_decode_time_seconds", "histogram", _PHASE.format("DECODE"), LATENCY_S),
    Told(
        "request_num_preemptions",
        "histogram",
        "Histogram of the number of times a request was preempted.",
        PREEMPTIONS,
    ),
    Told(
        "request_prefill_kv_computed_tokens",
        "histogram",
        "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
        REQUEST_TOKENS,
    ),
)


def bounds(told: Told, max_model_len: int) -> tuple[float, ...]:
    """Of a family's buckets, for a server of that longest sequence."""
    if isinstance(told.bounds, tuple):
        return told.bounds
    found: list[float] = []
    scale = 1
    while True:
        for step in (1, 2, 5):
            if step * scale > max_model_len:
                return tuple(found)
            found.append(step * scale)
        scale *= 10
