"""vLLM's command line: the flags that decide how the server performs, by how their values are read, and its programs.

Source: vLLM engine/arg_utils.py, entrypoints/launchers/cli_args.py, utils/argparse_utils.py.
"""

from __future__ import annotations

from typing import Final

from vtop.server_kinds.kind import CommandNames, FlagList, FlagNames

SIMULATED: Final = "vtop simulate"
NAMES: Final = FlagNames(
    max_num_seqs="max-num-seqs",
    max_num_batched_tokens="max-num-batched-tokens",
    count_work="enable-mfu-metrics",
    no_series="disable-log-stats",
)
_API_SERVER: Final = "vllm.entrypoints.openai.api_server"
COMMANDS: Final = CommandNames(
    modules=(_API_SERVER, "vllm.entrypoints.api_server"),
    verbs={
        ("vllm", "serve"): "vllm serve",
        ("vllm.entrypoints.cli.main", "serve"): "vllm serve",
        ("vtop", "simulate"): SIMULATED,
    },
    scripts={"vllm/entrypoints/openai/api_server.py": _API_SERVER},
)

_NUMBERS: Final = (
    "max-num-seqs", "max-num-batched-tokens", "max-model-len", "num-gpu-blocks-override", "gpu-memory-utilization",
    "device-memory-utilization", "kv-cache-memory-bytes", "block-size", "watermark", "tensor-parallel-size",
    "pipeline-parallel-size", "data-parallel-size", "data-parallel-size-local", "decode-context-parallel-size",
    "prefill-context-parallel-size", "nnodes", "api-server-count", "max-num-partial-prefills",
    "max-long-partial-prefills", "long-prefill-token-threshold", "max-num-queued-reqs", "max-num-queued-tokens",
    "max-num-scheduled-tokens", "max-num-active-seqs", "max-cudagraph-capture-size", "optimization-level",
    "stream-interval", "prefill-schedule-interval", "renderer-num-workers", "swap-space", "cpu-offload-gb",
    "kv-offloading-size", "max-loras", "max-lora-rank", "kv-tokens",
)  # fmt: skip
_WORDS: Final = (
    "kv-cache-dtype", "dtype", "quantization", "scheduling-policy", "load-format", "attention-backend", "moe-backend",
    "all2all-backend", "performance-mode", "distributed-executor-backend", "data-parallel-backend",
    "kv-offloading-backend",
)  # fmt: skip
_SWITCHES: Final = (
    "enable-prefix-caching", "enable-chunked-prefill", "async-scheduling", "scheduler-reserve-full-isl",
    "long-prefill-token-threshold-adaptive", "enforce-eager", "enable-mfu-metrics", "enable-per-request-metrics",
    "enable-prompt-tokens-details", "enable-force-include-usage", "enable-logging-iteration-details",
    "enable-log-requests", "disable-log-stats", "disable-log-requests", "disable-uvicorn-access-log",
    "disable-frontend-multiprocessing", "enable-lora", "enable-sleep-mode", "enable-expert-parallel", "enable-eplb",
    "enable-dbo", "disable-hybrid-kv-cache-manager", "disable-sliding-window", "disable-cascade-attn",
    "disable-custom-all-reduce", "language-model-only",
)  # fmt: skip
_OBJECTS: Final = {  # JSON flags, and what of them is let through
    "speculative-config": ("method", "num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min"),
    "compilation-config": (
        "mode", "level", "cudagraph_mode", "cudagraph_capture_sizes", "max_cudagraph_capture_size",
    ),
    "kv-transfer-config": ("kv_connector", "kv_role"),
}  # fmt: skip
_SHORT: Final = {
    "-tp": "tensor-parallel-size", "-pp": "pipeline-parallel-size", "-dp": "data-parallel-size",
    "-dpl": "data-parallel-size-local", "-dcp": "decode-context-parallel-size",
    "-pcp": "prefill-context-parallel-size", "-asc": "api-server-count", "-q": "quantization", "-ep":
    "enable-expert-parallel", "-sc": "speculative-config", "-cc": "compilation-config", "-O": "optimization-level",
}  # fmt: skip
FLAGS: Final = FlagList(
    numbers=_NUMBERS,
    words=_WORDS,
    sizes=("cudagraph-capture-sizes",),
    switches=_SWITCHES,
    objects=_OBJECTS,
    short=_SHORT,
    level="-O",
    file="config",
)
