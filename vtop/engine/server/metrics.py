"""What a simulated server has counted since it started, each number at the moment at which vLLM counts it.

Gauges with every step; tokens, first tokens and the gaps between tokens with every step that returned some; queue,
prefill, decode and the whole only of requests that finished; a preemption when its request returns a token again.
Of a request whose client went away nothing is counted at its end. Source: vLLM's v1/metrics/loggers.py, stats.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vtop.engine.core.engine import Engine
from vtop.engine.core.flags import Flags
from vtop.engine.core.model_shape import StepWork
from vtop.engine.core.request import EngineRequest
from vtop.engine.core.step import StepOutcome
from vtop.engine.server.exposition import Buckets, Family, Value
from vtop.engine.server.metric_families import FAMILIES, bounds

PREFIX = "vllm:"
NO_WORK = StepWork(0, 0, 0)


@dataclass(frozen=True, slots=True)
class SeenStep:
    """A step as it reaches the frontend: at_s, what it brought, and what the scheduler said about itself after it."""

    at_s: float
    outcome: StepOutcome | None  # None: a step without a token, such as the one that takes out what was aborted
    running: int
    waiting: int
    kv_used_ratio: float
    prefix_queries: int
    prefix_hits: int
    work: StepWork


def seen(engine: Engine, outcome: StepOutcome | None, at_s: float, *, work: bool) -> SeenStep:
    """The step that the engine has just accounted for. work: with its FLOPs and bytes (--enable-mfu-metrics)."""
    scheduler = engine.scheduler
    plan = outcome.plan if outcome is not None else None
    return SeenStep(
        at_s,
        outcome,
        running=len(scheduler.running),
        waiting=len(scheduler.waiting),
        kv_used_ratio=scheduler.pool.usage_ratio,
        prefix_queries=scheduler.prefix_queries,
        prefix_hits=scheduler.prefix_hits,
        work=engine.work(plan) if work and plan is not None else NO_WORK,
    )


@dataclass(slots=True)
class Parent:
    """A prompt of which n answers were asked for: counted once, with the longest, when the last one is there."""

    n: int
    left: int
    longest: int = 0


class ServerCounts:
    """All numbers of one life of a server; a restart makes a new one.

    born_unix_s: when it started. parents: of requests with n > 1, by the request's id.
    """

    def __init__(self, model: str, flags: Flags, born_unix_s: float) -> None:
        self.born_unix_s = born_unix_s
        self.parents: dict[int, Parent] = {}
        self._caching = flags.enable_prefix_caching
        self._families: list[Family] = []
        self._values: dict[str, Value] = {}
        self._buckets: dict[str, Buckets] = {}
        for told in FAMILIES:
            total = "_total" if told.kind == "counter" else ""
            family = Family(PREFIX + told.name + total, told.kind, told.help, bounds(told, flags.max_model_len))
            self._families.append(family)
            labels = {"engine": "0", "model_name": model} if told.engine else {"model_name": model}
            if told.kind == "histogram":
                self._buckets[told.name] = family.histogram(labels, born_unix_s)
            elif told.part is None:
                self._values[told.name] = family.row(labels, born_unix_s)
            else:
                label, parts = told.part
                for part in parts:
                    self._values[f"{told.name}/{part}"] = family.row({**labels, label: part}, born_unix_s)
        self._values["engine_sleep_state/awake"].value = 1.0
        config = Family(f"{PREFIX}cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
        config.row(cache_config(flags)).value = 1.0
        self._families.append(config)

    def value(self, name: str) -> float:
        """Of a gauge or counter by its name in `families`, `/` and its part: request_success/length."""
        return self._values[name].value

    def count(self, name: str) -> int:
        """Of a histogram's observations."""
        return self._buckets[name].count

    def sum(self, name: str) -> float:
        """Of what a histogram observed."""
        return self._buckets[name].sum

    def lines(self, *, nan: bool = False) -> Iterator[str]:
        for family in self._families:
            yield from family.lines(nan=nan and not family.name.endswith("_info"))

    def reject(self, reason: str) -> None:
        """A request was turned away because of a queue limit."""
        self._values[f"admission_rejections/{reason}"].add(1)

    def take(self, step: SeenStep, *, frozen: bool = False) -> None:
        """frozen: leave the gauges as they are."""
        values = self._values
        if not frozen:
            values["num_requests_running"].value = float(step.running)
            values["num_requests_waiting"].value = float(step.waiting)
            values["num_requests_waiting_by_reason/capacity"].value = float(step.waiting)
            values["kv_cache_usage_perc"].value = step.kv_used_ratio
        if self._caching:
            values["prefix_cache_queries"].value = float(step.prefix_queries)
            values["prefix_cache_hits"].value = float(step.prefix_hits)
            values["prompt_tokens_cached_by_source/device"].value = float(step.prefix_hits)
        values["estimated_flops_per_gpu"].add(step.work.flops)
        values["estimated_read_bytes_per_gpu"].add(step.work.read_bytes)
        values["estimated_write_bytes_per_gpu"].add(step.work.write_bytes)
        if step.outcome is not None and step.outcome.iteration_tokens is not None:
            self._returned(step.outcome, step.outcome.iteration_tokens)

    def _returned(self, outcome: StepOutcome, iteration_tokens: int) -> None:
        values, buckets = self._values, self._buckets
        cached = outcome.prompt_tokens - outcome.computed_prompt_tokens
        values["num_preemptions"].add(outcome.preemptions)
        values["prompt_tokens"].add(outcome.prompt_tokens)
        values["prompt_tokens_by_source/local_compute"].add(outcome.computed_prompt_tokens)
        values["prompt_tokens_by_source/local_cache_hit"].add(cached)
        values["prompt_tokens_cached"].add(cached)
        values["generation_tokens"].add(outcome.tokens)
        buckets["iteration_tokens_total"].observe(iteration_tokens)
        for request in outcome.first:
            assert request.first_seen_s is not None
            buckets["time_to_first_token_seconds"].observe(request.first_seen_s - request.arrival_s)
        for gap_s, times in outcome.gaps:
            buckets["inter_token_latency_seconds"].observe(gap_s, times)
        for request in outcome.finished:
            self._finished(request)

    def _finished(self, request: EngineRequest) -> None:
        assert request.queued_s is not None
        assert request.scheduled_s is not None
        assert request.first_token_s is not None
        assert request.last_token_s is not None
        assert request.end_seen_s is not None
        self._values[f"request_success/{request.finish_reason}"].add(1)
        decode_s = request.last_token_s - request.first_token_s
        later = request.generated - 1
        for name, value in (
            ("e2e_request_latency_seconds", request.end_seen_s - request.arrival_s),
            ("request_queue_time_seconds", request.scheduled_s - request.queued_s),
            ("request_prefill_time_seconds", request.first_token_s - request.scheduled_s),
            ("request_inference_time_seconds", request.last_token_s - request.scheduled_s),
            ("request_decode_time_seconds", decode_s),
            ("request_time_per_output_token_seconds", decode_s / later if later else 0.0),
            ("request_num_preemptions", request.preemptions),
            ("request_prefill_kv_computed_tokens", request.prompt_tokens - request.cached_tokens),
            ("request_prompt_tokens", request.prompt_tokens),
            ("request_generation_tokens", request.generated),
            ("request_params_max_tokens", request.limit),
        ):
            self._buckets[name].observe(value)
        parent = self.parents.pop(request.id, None) or Parent(1, 1)
        parent.left -= 1
        parent.longest = max(parent.longest, request.generated)
        if not parent.left:
            self._buckets["request_params_n"].observe(parent.n)
            self._buckets["request_max_num_generation_tokens"].observe(parent.longest)


def cache_config(flags: Flags) -> dict[str, str]:
    """The labels of cache_config_info: those of vLLM's CacheConfig (config/cache.py), and the engine's."""
    block_size = str(flags.block_size)
    return {
        "_block_size_resolved": "True",
        "block_size": block_size,
        "cache_dtype": "auto",
        "cache_hit_alignment_tokens": "None",
        "effective_attention_block_size": block_size,
        "enable_mamba_shared_prefix_checkpoint": "False",
        "enable_prefix_caching": str(flags.enable_prefix_caching),
        "engine": "0",
        "gpu_memory_utilization": "0.92",
        "hash_block_size": "None",
        "is_attention_free": "False",
        "kv_cache_dtype_skip_layers": "[]",
        "kv_cache_layout": "None",
        "kv_cache_max_concurrency": str(concurrency(flags)),
        "kv_cache_memory_bytes": "None",
        "kv_cache_size_tokens": str(int(concurrency(flags) * flags.max_model_len)),
        "kv_offloading_backend": "native",
        "kv_offloading_size": "None",
        "kv_sharing_fast_prefill": "False",
        "mamba_block_size": "None",
        "mamba_cache_dtype": "auto",
        "mamba_cache_mode": "none",
        "mamba_page_size_padded": "None",
        "mamba_ssm_cache_dtype": "float32",
        "num_cpu_blocks": "None",
        "num_gpu_blocks": str(flags.num_gpu_blocks),
        "num_gpu_blocks_override": str(flags.num_gpu_blocks),
        "prefix_cache_retention_interval": "0",
        "prefix_caching_hash_algo": "sha256",
        "prefix_match_unit": "None",
        "replayssm_buffer_len": "16",
        "skip_page_size_padded": "None",
        "sliding_window": "None",
        "swa_bounded_replay": "True",
        "use_kda_recoverssm": "False",
        "use_replayssm": "False",
        "user_specified_block_size": "True",
    }


def concurrency(flags: Flags) -> float:
    """How many of the longest sequences fit at once, as vLLM says it (v1/core/kv_cache_utils.py)."""
    return flags.num_gpu_blocks / -(-flags.max_model_len // flags.block_size)
