"""Fits the profiles that come with vtop, writes them, and prints how far off each is and what the fit took.

usage: python -m bench.fit_profiles [h200] [rtx4090]
"""

from __future__ import annotations

import sys
import time

from vtop import shipped
from vtop.engine.core.flags import Flags
from vtop.engine.core.model_shape import QWEN_7B
from vtop.engine.fit import profile
from vtop.engine.fit.fit import compare, fit
from vtop.engine.runs.observed import ObservedTimes
from vtop.engine.runs.replay import Ask, ReplayLoad
from vtop.engine.runs.runs import Run, runs

# recordings, with the flags that a page does not say
H200: dict[str, dict[str, int]] = {
    "sweep.jsonl.gz": {},
    "overload_loaded.jsonl.gz": {},
    "sweep_c64.jsonl.gz": {},
    "overload.jsonl.gz": {},
    "overload_seqs10.jsonl.gz": {"max_num_seqs": 10},
}
HELD_OUT: dict[str, dict[str, int]] = {
    "open_loop.jsonl.zst": {},
    "open_loop_again.jsonl.gz": {},
    "sweep_again.jsonl.gz": {},
    "pool7168.jsonl.gz": {},
    "sweep_batch512.jsonl.gz": {"max_num_batched_tokens": 512},
    "sweep_batch512_again.jsonl.gz": {"max_num_batched_tokens": 512},
    "sweep_batch1024.jsonl.gz": {},
    "overload_seqs12.jsonl.gz": {},
    "killed.jsonl.gz": {},
    "open_loop_seats48.jsonl.gz": {},
    "repeat_first.jsonl.gz": {},
}
H200_ORIGIN = (
    "NVIDIA H200, Qwen2.5-7B shape in bf16, vLLM 0.26.0; fitted on the recordings that come with vtop: "
    "sweep, sweep_c64, overload, overload_loaded, overload_seqs10"
)
RTX4090 = "NVIDIA GeForce RTX 4090"
RTX4090_ORIGIN = (
    "NVIDIA RTX 4090, Qwen2.5-7B in bf16, vLLM 0.27.1; fitted on published means of three runs, not on a recording"
)
RTX4090_EXPECTED = {
    "bandwidth_bytes_s": 0.9e12,
    "compute_flops_s": 150e12,
    "attention_flops_s": 100e12,
    "fixed_s": 1e-3,
    "throttled": 0.05,
}


def published() -> list[Run]:
    """An RTX 4090 with a pool of 86,896 tokens: means of TTFT's parts, output tokens/s and, at one in flight, 35.7 %.

    The last is the efficiency at 64 in flight: 1,405 tok/s are so much of 64 times what one stream alone gets.
    """
    flags = Flags(num_gpu_blocks=5431, max_num_batched_tokens=2048, enable_prefix_caching=False)

    def closed(concurrency: int, count: int, prompt: int, output: int) -> ReplayLoad:
        return ReplayLoad(tuple(Ask(prompt, output) for _ in range(count)), concurrency)

    alone_s = 256 / (1405 / 64 / 0.357)
    together_s = 64 * 256 / 1405
    seen = (
        ("c=1 in=1024 out=256", closed(1, 12, 1024, 256), 0.0, 0.092, alone_s - 0.104, alone_s, 0.012),
        ("c=64 in=1024 out=256", closed(64, 512, 1024, 256), 0.379, 0.461, together_s - 0.976, together_s, 0.136),
        ("c=64 in=6144 out=2048", closed(64, 128, 6144, 2048), 177.566, 1.062, 54.86, 234.2, 0.730),
    )
    return [
        Run(
            name,
            flags,
            QWEN_7B,
            load,
            ObservedTimes(len(load.asks), queue_s, prefill_s, decode_s, e2e_s, frontend_s),
            recording="none: published means",
        )
        for name, load, queue_s, prefill_s, decode_s, e2e_s, frontend_s in seen
    ]


def recorded(files: dict[str, dict[str, int]]) -> list[Run]:
    return [run for name, flags in files.items() for run in runs(shipped.folder("recordings") / name, flags)]


def main() -> None:
    asked = sys.argv[1:] or ["h200", "rtx4090"]
    for gpu in asked:
        began = time.perf_counter()
        if gpu == "h200":
            given, unseen = recorded(H200), recorded(HELD_OUT)
            fitted = fit(given)
            held_out = compare(unseen, fitted.timing, fitted.frontend, fitted.shape)
            made = profile.of_fit(fitted, "h200-qwen2.5-7b", H200_ORIGIN, held_out=held_out)
        else:
            made = profile.of_fit(
                fit(published(), expected=RTX4090_EXPECTED), "rtx4090-qwen2.5-7b", RTX4090_ORIGIN, gpu=RTX4090
            )
        took_s = time.perf_counter() - began
        (profile.FOLDER / f"{made.name}.toml").write_text(profile.dump(made), encoding="utf-8")
        print("\n".join(profile.report(made)))
        print(f"fitted in {took_s:.0f} s\n")


if __name__ == "__main__":
    main()
