"""The `vllm bench serve` command for the load of a run, so that its results can be held against vtop's.

Its gaps are scaled so that all n requests come within n / rate, which halves the variance of the load and flatters the
queue: at the same rate its TTFT is better than that of independent arrivals. `arrival=vllm` sends exactly those.
Source: vLLM 0.32, benchmarks/serve.py and benchmarks/datasets/datasets.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from vtop.load.workload.phase import PlannedPhase, TokenRange, plain

_GOODPUT: Final = {"ttft": "ttft", "tpot": "tpot", "e2e": "e2el"}


def command(phase: PlannedPhase, bounds: Mapping[str, float], url: str | None) -> str | None:
    """For a phase of an open loop with `requests`; None where vllm bench has no such load (a file, constant gaps)."""
    if phase.input is None or phase.output is None or phase.rate_per_s is None or phase.arrival == "constant":
        return None
    words = ["vllm bench serve", f"--base-url {url or 'http://localhost:8000'}"]
    if phase.api == "chat":
        words.append("--backend openai-chat --endpoint /v1/chat/completions")
    middle = [_middle(phase.input) - phase.prefix_tokens, _middle(phase.output)]
    words.append(f"--dataset-name random --random-input-len {middle[0]} --random-output-len {middle[1]}")
    spread = {"input": _ratio(phase.input, phase.prefix_tokens), "output": _ratio(phase.output)}
    if any(spread.values()):
        words.append(f"--random-range-ratio '{json.dumps(spread)}'")
    if phase.prefix_tokens:
        words.append(f"--random-prefix-len {phase.prefix_tokens}")
    words.append(f"--num-prompts {phase.requests} --request-rate {plain(phase.rate_per_s)} --seed {phase.seed}")
    if phase.arrival is not None and phase.arrival.startswith("gamma:"):
        words.append(f"--burstiness {phase.arrival.removeprefix('gamma:')}")
    if phase.max_in_flight is not None:
        words.append(f"--max-concurrency {phase.max_in_flight}")
    if phase.warmup:
        words.append(f"--num-warmups {phase.warmup}")
    goodput = " ".join(f"{_GOODPUT[name]}:{plain(bound * 1000)}" for name, bound in bounds.items())
    words.append(f"--ignore-eos --goodput {goodput} --percentile-metrics ttft,tpot,itl,e2el")
    return " ".join(words)


def _middle(tokens: TokenRange) -> int:
    return (tokens.low + tokens.high) // 2


def _ratio(tokens: TokenRange, prefix: int = 0) -> float:
    low, high = tokens.low - prefix, tokens.high - prefix
    return round((high - low) / (high + low), 4)
