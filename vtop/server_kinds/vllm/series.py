"""Which series of a vLLM server mean what, for vLLM 0.8 to 0.33: the only file that reads their names.

Sources: vLLM's v1/metrics/loggers.py and its history.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Final

from vtop.metrics.quantity import Quantity, SeriesKind
from vtop.metrics.series_names import PROCESS, AdapterLabels, FamilyMeaning, PoolLabels, SeriesNames

_Q, _K = Quantity, SeriesKind

# family name without prefix and without _total -> its reading
_FAMILIES: Final[Mapping[str, FamilyMeaning]] = {
    "num_requests_running": FamilyMeaning(_Q.RUNNING, _K.GAUGE),
    "num_requests_waiting": FamilyMeaning(_Q.WAITING, _K.GAUGE),
    "num_requests_waiting_by_reason": FamilyMeaning(_Q.WAITING_BY_REASON, _K.GAUGE, "reason"),
    "kv_cache_usage_perc": FamilyMeaning(_Q.KV_USED, _K.RATIO),
    "gpu_cache_usage_perc": FamilyMeaning(_Q.KV_USED, _K.RATIO, rank=1),  # until 0.11
    "cache_config_info": FamilyMeaning(_Q.CACHE_CONFIG, _K.INFO),
    "engine_sleep_state": FamilyMeaning(_Q.SLEEPING, _K.GAUGE, "sleep_state"),
    "lora_requests_info": FamilyMeaning(_Q.LORA, _K.INFO),
    "num_preemptions": FamilyMeaning(_Q.PREEMPTIONS, _K.COUNTER),
    "num_preemptions_by_reason": FamilyMeaning(_Q.PREEMPTIONS_BY_REASON, _K.COUNTER, "reason"),
    "prompt_tokens": FamilyMeaning(_Q.PROMPT_TOKENS, _K.COUNTER),
    "prompt_tokens_by_source": FamilyMeaning(_Q.PROMPT_TOKENS_BY_SOURCE, _K.COUNTER, "source"),
    "generation_tokens": FamilyMeaning(_Q.GENERATION_TOKENS, _K.COUNTER),
    "prefix_cache_queries": FamilyMeaning(_Q.PREFIX_QUERIES, _K.COUNTER),
    "prefix_cache_hits": FamilyMeaning(_Q.PREFIX_HITS, _K.COUNTER),
    "gpu_prefix_cache_queries": FamilyMeaning(_Q.PREFIX_QUERIES, _K.COUNTER, rank=1),
    "gpu_prefix_cache_hits": FamilyMeaning(_Q.PREFIX_HITS, _K.COUNTER, rank=1),
    "request_success": FamilyMeaning(_Q.FINISHED, _K.COUNTER, "finished_reason"),
    "admission_rejections": FamilyMeaning(_Q.REJECTED, _K.COUNTER, "reason"),
    "estimated_flops_per_gpu": FamilyMeaning(_Q.FLOPS, _K.COUNTER),
    "estimated_read_bytes_per_gpu": FamilyMeaning(_Q.READ_BYTES, _K.COUNTER),
    "estimated_write_bytes_per_gpu": FamilyMeaning(_Q.WRITE_BYTES, _K.COUNTER),
    "spec_decode_num_drafts": FamilyMeaning(_Q.SPEC_DRAFTS, _K.COUNTER),
    "spec_decode_num_draft_tokens": FamilyMeaning(_Q.SPEC_DRAFT_TOKENS, _K.COUNTER),
    "spec_decode_num_accepted_tokens": FamilyMeaning(_Q.SPEC_ACCEPTED_TOKENS, _K.COUNTER),
    "spec_decode_num_accepted_tokens_per_pos": FamilyMeaning(_Q.SPEC_ACCEPTED_BY_POSITION, _K.COUNTER, "position"),
    "nixl_num_failed_transfers": FamilyMeaning(_Q.FAILED_TRANSFERS, _K.COUNTER, part="NIXL transfers"),
    "nixl_num_failed_notifications": FamilyMeaning(_Q.FAILED_TRANSFERS, _K.COUNTER, part="NIXL notifications"),
    "nixl_num_kv_expired_reqs": FamilyMeaning(_Q.FAILED_TRANSFERS, _K.COUNTER, part="KV expired before it was fetched"),
    "mooncake_store_operation_failed_keys": FamilyMeaning(_Q.FAILED_TRANSFERS, _K.COUNTER, part="Mooncake keys"),
    "kv_offload_allocation_failure": FamilyMeaning(_Q.FAILED_TRANSFERS, _K.COUNTER, part="offload allocations"),
    "time_to_first_token_seconds": FamilyMeaning(_Q.TTFT, _K.HISTOGRAM),
    "inter_token_latency_seconds": FamilyMeaning(_Q.ITL, _K.HISTOGRAM),
    "time_per_output_token_seconds": FamilyMeaning(_Q.ITL, _K.HISTOGRAM, rank=1),  # the same samples under the old name
    "request_time_per_output_token_seconds": FamilyMeaning(_Q.TPOT, _K.HISTOGRAM),
    "e2e_request_latency_seconds": FamilyMeaning(_Q.E2E, _K.HISTOGRAM),
    "request_queue_time_seconds": FamilyMeaning(_Q.QUEUE, _K.HISTOGRAM),
    "request_prefill_time_seconds": FamilyMeaning(_Q.PREFILL, _K.HISTOGRAM),
    "request_decode_time_seconds": FamilyMeaning(_Q.DECODE, _K.HISTOGRAM),
    "request_inference_time_seconds": FamilyMeaning(_Q.INFERENCE, _K.HISTOGRAM),
    "request_params_n": FamilyMeaning(_Q.ANSWERS, _K.HISTOGRAM),
    "iteration_tokens": FamilyMeaning(_Q.ITERATION_TOKENS, _K.HISTOGRAM, total=True),
    "request_num_preemptions": FamilyMeaning(_Q.REQUEST_PREEMPTIONS, _K.HISTOGRAM),
    "request_prompt_tokens": FamilyMeaning(_Q.REQUEST_PROMPT_TOKENS, _K.HISTOGRAM),
    "request_generation_tokens": FamilyMeaning(_Q.REQUEST_GENERATION_TOKENS, _K.HISTOGRAM),
}

# Ray Serve LLM exports the same families through its own agent, with ':' made '_'
_PREFIXES: Final = ("vllm:", "ray_vllm:", "ray_vllm_", "vllm_")

# who a series belongs to; a pid is an API server's process, not an engine
_OWNER_LABELS: Final = (
    ("model_name",),
    ("ReplicaId", "replica", "WorkerId"),
    ("engine",),
)  # older Ray has the last only

_PART_LABELS: Final = {r.part_label for r in (*_FAMILIES.values(), *PROCESS.values()) if r.part_label}

# label values that may be written to a recording; every other label is dropped, whatever it holds
_KEPT_LABELS: Final = frozenset(
    {
        *chain.from_iterable(_OWNER_LABELS),
        *_PART_LABELS,
        "pid",
        "position",
        "stage",
        "status",
        "transfer_type",
        "operation",
    }
    | {"max_lora", "running_lora_adapters", "waiting_lora_adapters"}
    | {"block_size", "effective_attention_block_size", "cache_dtype", "enable_prefix_caching", "sliding_window"}
    | {"gpu_memory_utilization", "num_gpu_blocks", "num_gpu_blocks_override", "num_cpu_blocks"}
    | {"kv_cache_size_tokens", "kv_cache_max_concurrency", "kv_cache_memory_bytes"}
    | {"kv_offloading_size", "kv_offloading_backend", "prefix_caching_hash_algo", "is_attention_free"}
)

SERIES: Final = SeriesNames(
    prefixes=_PREFIXES,
    families=_FAMILIES,
    owner_labels=_OWNER_LABELS,
    kept_labels=_KEPT_LABELS,
    engine_labels=("model_name", "engine", "pid"),
    largest=("_perc", "_info", "_time_seconds", "_state"),
    pool=PoolLabels(
        tokens="kv_cache_size_tokens",
        block_size="block_size",
        blocks="num_gpu_blocks",
        max_concurrency="kv_cache_max_concurrency",
        prefix_caching="enable_prefix_caching",
        cache_dtype="cache_dtype",
    ),
    adapters=AdapterLabels("running_lora_adapters", "waiting_lora_adapters", "max_lora"),
)
