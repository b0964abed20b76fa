"""The flags of a vLLM command line that decide how the server performs. A list of those that are let through:

no other word of the line is looked at, so no key, path, name or address can come out of it. A value is a number, a
switch, or one short word of a dtype's or a policy's kind; one that is none of these is left out with its flag.
Source: vLLM engine/arg_utils.py, entrypoints/launchers/cli_args.py, utils/argparse_utils.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Final

Value = int | float | bool | str

_SUFFIXES: Final = {
    **{letter: 1000**power for power, letter in enumerate("kmgt", 1)},
    **{letter: 1024**power for power, letter in enumerate("KMGT", 1)},
}
_SCALED: Final = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT])")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]{0,31}")
_SIZES: Final = re.compile(r"\d+(,\d+)*")
_NEGATIVE: Final = re.compile(r"-\d+(\.\d+)?")


def _number(text: str) -> Value | None:
    """A whole number or a fraction, as vLLM reads it: 8k is 8000, 8K is 8192, auto stays a word."""
    if text.lower() == "auto":
        return "auto"
    if scaled := _SCALED.fullmatch(text):
        return int(float(scaled[1]) * _SUFFIXES[scaled[2]])
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < 1e15 else None  # also not inf, not nan


def _word(text: str) -> Value | None:
    return text if _WORD.fullmatch(text) else None


def _sizes(text: str) -> Value | None:
    return joined if _SIZES.fullmatch(joined := re.sub(r"[\[\]\s]", "", text)) else None


def _setting(text: str) -> Value | None:
    """A value inside a JSON flag: a number, a word or a list of sizes."""
    for read in (_number, _word, _sizes):
        if (value := read(text)) is not None:
            return value
    return None


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
_READ: Final[dict[str, Callable[[str], Value | None]]] = {
    **dict.fromkeys(_NUMBERS, _number),
    **dict.fromkeys(_WORDS, _word),
    "cudagraph-capture-sizes": _sizes,
    **{f"{name}.{key}": _setting for name, keys in _OBJECTS.items() for key in keys},
}
CONFIG: Final = "config"  # a file has more flags: which is not read, that there is one is told


def flags_of(words: Sequence[str]) -> dict[str, Value]:
    """By name, without dashes in front: {"max-num-seqs": 128, "enable-prefix-caching": False}; the last of a name
    counts. A flag of a JSON flag stands as vLLM takes it too: "speculative-config.method"."""
    found: dict[str, Value] = {}
    for at, word in enumerate(words):
        name, own = _named(word)
        if name in _SWITCHES or name == CONFIG:
            found[name] = True
        elif name.removeprefix("no-") in _SWITCHES:
            found[name.removeprefix("no-")] = False
        elif name in _OBJECTS:
            found |= _object(name, own if own is not None else " ".join(_following(words, at)[:1]))
        elif (read := _READ.get(name)) is not None:
            after = _following(words, at)
            many = ",".join(after) if name == "cudagraph-capture-sizes" else " ".join(after[:1])
            value = read(own if own is not None else many)
            if value is not None:
                found[name] = value
    return found


def _named(word: str) -> tuple[str, str | None]:
    """The flag that a word names, as vLLM understands it, and the value behind its = ; "" for what names none."""
    name, equals, value = word.partition("=")
    own = value if equals else None
    if name.startswith("--"):
        head, dot, tail = name[2:].partition(".")
        return head.replace("_", "-") + dot + tail, own
    short, dot, tail = name.partition(".")
    if short in _SHORT:
        return _SHORT[short] + dot + tail, own
    if name.startswith("-O") and name[2:].isdecimal():
        return _SHORT["-O"], name[2:]
    return "", None


def _following(words: Sequence[str], at: int) -> list[str]:
    """The values behind a flag: all words up to the next flag."""
    found: list[str] = []
    for word in words[at + 1 :]:
        if word.startswith("-") and not _NEGATIVE.fullmatch(word):
            break
        found.append(word)
    return found


def _object(name: str, text: str) -> dict[str, Value]:
    """What is let through of a JSON flag; older servers also take a level alone: --compilation-config 3."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(content, dict):
        return {f"{name}.level": content} if type(content) is int else {}
    read = {key: _setting(json.dumps(content[key]).strip('"')) for key in _OBJECTS[name] if key in content}
    return {f"{name}.{key}": value for key, value in read.items() if value is not None}
