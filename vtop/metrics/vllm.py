"""Which series of a vLLM server mean what, for vLLM 0.8 to 0.33: the only file that reads their names.

A recording holds series under the server's own names; their meaning is given here, afterwards, so that a
corrected reading repairs old recordings. Sources: vLLM's v1/metrics/loggers.py and its history.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final

from vtop.metrics.exposition import Parser, Series


class Kind(Enum):
    """How values of one quantity from several series are taken together."""

    GAUGE = "sum"  # requests: those of several engines add up
    RATIO = "never summed"  # KV use: each engine has its own
    COUNTER = "sum, never falls but at a restart"
    HISTOGRAM = "sum per bucket"
    INFO = "labels"


class Quantity(StrEnum):
    """What vtop reads from a server."""

    RUNNING = "running"
    WAITING = "waiting"
    WAITING_BY_REASON = "waiting_by_reason"  # part: capacity, deferred
    KV_USED = "kv_used"
    CACHE_CONFIG = "cache_config"
    SLEEPING = "sleeping"  # part: awake, weights_offloaded, discard_all
    LORA = "lora"
    PREEMPTIONS = "preemptions"
    PREEMPTIONS_BY_REASON = "preemptions_by_reason"
    PROMPT_TOKENS = "prompt_tokens"
    PROMPT_TOKENS_BY_SOURCE = "prompt_tokens_by_source"  # part: local_compute, local_cache_hit, external_kv_transfer
    GENERATION_TOKENS = "generation_tokens"
    PREFIX_QUERIES = "prefix_queries"
    PREFIX_HITS = "prefix_hits"
    FINISHED = "finished"  # part: stop, length, abort, error, repetition
    REJECTED = "rejected"  # part: the limit
    FLOPS = "flops"
    READ_BYTES = "read_bytes"
    WRITE_BYTES = "write_bytes"
    SPEC_DRAFTS = "spec_drafts"
    SPEC_DRAFT_TOKENS = "spec_draft_tokens"
    SPEC_ACCEPTED_TOKENS = "spec_accepted_tokens"
    TTFT = "ttft"
    ITL = "itl"
    TPOT = "tpot"
    E2E = "e2e"
    QUEUE = "queue"
    PREFILL = "prefill"
    DECODE = "decode"
    INFERENCE = "inference"
    ITERATION_TOKENS = "iteration_tokens"
    REQUEST_PREEMPTIONS = "request_preemptions"
    REQUEST_PROMPT_TOKENS = "request_prompt_tokens"
    REQUEST_GENERATION_TOKENS = "request_generation_tokens"
    PROCESS_START = "process_start"
    PROCESS_CPU = "process_cpu"
    HTTP_DURATION = "http_duration"  # part: the handler


@dataclass(frozen=True, slots=True)
class Reading:
    """What one family means. rank: of two families for one quantity, the lower rank is the one to read."""

    quantity: Quantity
    kind: Kind
    part_label: str | None = None
    rank: int = 0


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one series means: whose (`engine`) and which part ("" for the whole)."""

    quantity: Quantity
    kind: Kind
    engine: str
    part: str
    rank: int


_Q, _K = Quantity, Kind
_SAMPLE_SUFFIX: Final = re.compile("_(total|bucket|sum|count)$")

# family name without prefix and without _total -> its reading
_FAMILIES: Final[Mapping[str, Reading]] = {
    "num_requests_running": Reading(_Q.RUNNING, _K.GAUGE),
    "num_requests_waiting": Reading(_Q.WAITING, _K.GAUGE),
    "num_requests_waiting_by_reason": Reading(_Q.WAITING_BY_REASON, _K.GAUGE, "reason"),
    "kv_cache_usage_perc": Reading(_Q.KV_USED, _K.RATIO),
    "gpu_cache_usage_perc": Reading(_Q.KV_USED, _K.RATIO, rank=1),  # until 0.11
    "cache_config_info": Reading(_Q.CACHE_CONFIG, _K.INFO),
    "engine_sleep_state": Reading(_Q.SLEEPING, _K.GAUGE, "sleep_state"),
    "lora_requests_info": Reading(_Q.LORA, _K.INFO),
    "num_preemptions": Reading(_Q.PREEMPTIONS, _K.COUNTER),
    "num_preemptions_by_reason": Reading(_Q.PREEMPTIONS_BY_REASON, _K.COUNTER, "reason"),
    "prompt_tokens": Reading(_Q.PROMPT_TOKENS, _K.COUNTER),
    "prompt_tokens_by_source": Reading(_Q.PROMPT_TOKENS_BY_SOURCE, _K.COUNTER, "source"),
    "generation_tokens": Reading(_Q.GENERATION_TOKENS, _K.COUNTER),
    "prefix_cache_queries": Reading(_Q.PREFIX_QUERIES, _K.COUNTER),
    "prefix_cache_hits": Reading(_Q.PREFIX_HITS, _K.COUNTER),
    "gpu_prefix_cache_queries": Reading(_Q.PREFIX_QUERIES, _K.COUNTER, rank=1),
    "gpu_prefix_cache_hits": Reading(_Q.PREFIX_HITS, _K.COUNTER, rank=1),
    "request_success": Reading(_Q.FINISHED, _K.COUNTER, "finished_reason"),
    "admission_rejections": Reading(_Q.REJECTED, _K.COUNTER, "reason"),
    "estimated_flops_per_gpu": Reading(_Q.FLOPS, _K.COUNTER),
    "estimated_read_bytes_per_gpu": Reading(_Q.READ_BYTES, _K.COUNTER),
    "estimated_write_bytes_per_gpu": Reading(_Q.WRITE_BYTES, _K.COUNTER),
    "spec_decode_num_drafts": Reading(_Q.SPEC_DRAFTS, _K.COUNTER),
    "spec_decode_num_draft_tokens": Reading(_Q.SPEC_DRAFT_TOKENS, _K.COUNTER),
    "spec_decode_num_accepted_tokens": Reading(_Q.SPEC_ACCEPTED_TOKENS, _K.COUNTER),
    "time_to_first_token_seconds": Reading(_Q.TTFT, _K.HISTOGRAM),
    "inter_token_latency_seconds": Reading(_Q.ITL, _K.HISTOGRAM),
    "time_per_output_token_seconds": Reading(_Q.ITL, _K.HISTOGRAM, rank=1),  # the same samples under the old name
    "request_time_per_output_token_seconds": Reading(_Q.TPOT, _K.HISTOGRAM),
    "e2e_request_latency_seconds": Reading(_Q.E2E, _K.HISTOGRAM),
    "request_queue_time_seconds": Reading(_Q.QUEUE, _K.HISTOGRAM),
    "request_prefill_time_seconds": Reading(_Q.PREFILL, _K.HISTOGRAM),
    "request_decode_time_seconds": Reading(_Q.DECODE, _K.HISTOGRAM),
    "request_inference_time_seconds": Reading(_Q.INFERENCE, _K.HISTOGRAM),
    "iteration_tokens": Reading(_Q.ITERATION_TOKENS, _K.HISTOGRAM),
    "request_num_preemptions": Reading(_Q.REQUEST_PREEMPTIONS, _K.HISTOGRAM),
    "request_prompt_tokens": Reading(_Q.REQUEST_PROMPT_TOKENS, _K.HISTOGRAM),
    "request_generation_tokens": Reading(_Q.REQUEST_GENERATION_TOKENS, _K.HISTOGRAM),
}

# what is read beside vLLM's own families
_FOREIGN: Final[Mapping[str, Reading]] = {
    "process_start_time_seconds": Reading(_Q.PROCESS_START, _K.GAUGE),
    "process_cpu_seconds": Reading(_Q.PROCESS_CPU, _K.COUNTER),
    "http_request_duration_seconds": Reading(_Q.HTTP_DURATION, _K.HISTOGRAM, "handler"),
}

# Ray Serve LLM exports the same families through its own agent, with ':' made '_'
_PREFIXES: Final = ("vllm:", "ray_vllm:", "ray_vllm_", "vllm_")

# who a series belongs to; a pid is an API server's process, not an engine
_OWNER_LABELS: Final = ("model_name", "ReplicaId", "replica", "engine")

_PART_LABELS: Final = {r.part_label for r in (*_FAMILIES.values(), *_FOREIGN.values()) if r.part_label}

# label values that may be written to a recording; every other label is dropped, whatever it holds
KEPT_LABELS: Final = frozenset(
    {*_OWNER_LABELS, *_PART_LABELS, "pid", "WorkerId", "position", "stage", "status", "transfer_type", "operation"}
    | {"max_lora", "running_lora_adapters", "waiting_lora_adapters"}
    | {"block_size", "effective_attention_block_size", "cache_dtype", "enable_prefix_caching", "sliding_window"}
    | {"gpu_memory_utilization", "num_gpu_blocks", "num_gpu_blocks_override", "num_cpu_blocks"}
    | {"kv_cache_size_tokens", "kv_cache_max_concurrency", "kv_cache_memory_bytes"}
    | {"kv_offloading_size", "kv_offloading_backend", "prefix_caching_hash_algo", "is_attention_free"}
)


def family(name: str) -> str | None:
    """The family's name without its prefix, or None when it is none of vLLM's."""
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name[len(prefix) :]
    return None


def exported_as(quantity: Quantity) -> str:
    """The name of the family that a quantity is read from, as vLLM exports it today."""
    for table, prefix in ((_FAMILIES, _PREFIXES[0]), (_FOREIGN, "")):
        for name, reading in table.items():
            if reading.quantity is quantity and reading.rank == 0:
                total = "_total" if reading.kind is Kind.COUNTER or name == "iteration_tokens" else ""
                return f"{prefix}{name}{total}"
    raise KeyError(quantity)


def recorded(name: str) -> bool:
    """Whether a sample of this family belongs in a recording."""
    if name.endswith("_created"):
        return False
    return family(name) is not None or _SAMPLE_SUFFIX.sub("", name) in _FOREIGN


def never_summed(name: str) -> bool:
    """Whether two series of this family that differ only in dropped labels keep the larger value."""
    return name.endswith(("_perc", "_info", "_time_seconds", "_state"))


_parser = Parser()


def meaning(series: str) -> Meaning | None:
    """What a recorded series means; None when vtop does not read it."""
    samples = list(_parser.parse(series + " 0").samples)
    return _meaning(samples[0][0]) if samples else None


def labels(series: str) -> dict[str, str]:
    """The labels of a recorded series; the value "None" (a field that is not set) is left out."""
    samples = list(_parser.parse(series + " 0").samples)
    return {key: value for key, value in samples[0][0].labels if value != "None"} if samples else {}


def _meaning(series: Series) -> Meaning | None:
    base = family(series.name)
    table = _FAMILIES if base is not None else _FOREIGN
    name = base if base is not None else series.name
    reading = table.get(name) or table.get(name.removesuffix("_total"))
    if reading is None:
        return None
    found = dict(series.labels)
    owner = "/".join(found[label] for label in _OWNER_LABELS if found.get(label))
    part = found.get(reading.part_label, "") if reading.part_label else ""
    return Meaning(reading.quantity, reading.kind, owner, part, reading.rank)
