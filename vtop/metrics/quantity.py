"""What vtop reads from a server, whatever the server calls it, and how several series of one are taken together."""

from __future__ import annotations

from enum import Enum, StrEnum


class SeriesKind(Enum):
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
    ANSWERS = "answers"  # n of each finished request of a user: the answers that it asks for
    REJECTED = "rejected"  # part: the limit
    FLOPS = "flops"
    READ_BYTES = "read_bytes"
    WRITE_BYTES = "write_bytes"
    SPEC_DRAFTS = "spec_drafts"
    SPEC_DRAFT_TOKENS = "spec_draft_tokens"
    SPEC_ACCEPTED_TOKENS = "spec_accepted_tokens"
    SPEC_ACCEPTED_BY_POSITION = "spec_accepted_by_position"  # part: position in the draft, from 0
    FAILED_TRANSFERS = "failed_transfers"  # of KV between servers or tiers; part: which of the connector's counters
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
