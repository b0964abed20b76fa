"""How long a step takes: a roofline with few coefficients, and what the engine's own thread needs to start it.

On the GPU, a step costs a fixed part, the weights' bytes or the tokens' FLOPs, whichever takes longer, attention over
the prompts' context, and the keys and values that decodes read. A GPU that computes at full clock for longer than its
power allows slows down, and recovers while it only reads. The engine's thread launches a step's kernels one by one
when it holds more tokens than a CUDA graph was captured for; until it is done it neither polls nor returns anything.
How long that takes is the host's matter, whatever the tokens: stamped step by step on one of five hosts it was 13 to
28 ms and stayed near one value for seconds at a time. Over all five it takes less when it is all that the thread does;
why is a guess. What a recording says about its own host is in calibration.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Final

from vtop.engine.core.flags import Flags
from vtop.engine.core.model_shape import ModelShape
from vtop.engine.core.step import StepPlan

GRAPH_TOKENS: Final = 512  # most tokens of a captured step, whatever the flags
WARM_S: Final = 3.0  # for so long a launch without a graph makes the next ones quicker


@dataclass(frozen=True, slots=True)
class Timing:
    """The coefficients. Seconds, bytes a second, FLOPs a second."""

    bandwidth_bytes_s: float  # of weights, keys and values
    compute_flops_s: float  # of matrix products, at full clock
    attention_flops_s: float  # of attention over a prompt's context, causal half counted
    fixed_s: float  # of a step, before and after its reads and products
    row_s: float  # of a sequence that samples
    launch_graph_s: float  # the engine's thread starts a captured step of decodes, and accounts for the one before
    launch_pieces_s: float  # and one that holds prompts, or for which no whole graph is: attention is launched by hand
    launch_eager_s: float  # and one of more tokens than any graph was captured for, when such steps are rare
    launch_warm_s: float  # and when it starts one such after another
    warm_per_s: float  # how many such starts a second make half of that difference
    boost_s: float = 1e9  # computing at full clock that the GPU's power allows
    boost_recovery_s: float = 1.0  # time constant of getting it back
    throttled: float = 1.0  # how many times longer a product takes after that
    plan_row_s: float = 0.0  # the engine's thread plans a sequence's part of a step and accounts for it


@dataclass(frozen=True, slots=True)
class Frontend:
    """What the API server's one event loop costs, and the way between it and the engine. Seconds."""

    parse_s: float  # of a request, until its arrival is stamped
    submit_s: float  # and until it is on its way to the engine
    token_s: float  # of each prompt token, on top of parsing
    output_s: float  # of each request that a step brought a token
    finish_s: float  # of each that it finished
    hop_s: float  # between the two processes
    client_s: float = 0.0  # from an answer to the next request of a client whose own think time is not on record


def captured(tokens: int) -> int:
    """The largest step, of so many tokens at most, that vLLM captures a graph for: 1, 2, 4, then every 8th, from 256 on
    every 16th (vLLM: config/vllm.py, _set_cudagraph_sizes)."""
    if tokens < 8:
        return max(size for size in (0, 1, 2, 4) if size <= tokens)
    return tokens // 8 * 8 if tokens < 256 else tokens // 16 * 16


class GpuSpeed:
    """What a step costs under these flags, and the GPU's clock state, carried from step to step.

    A step of decodes alone runs as one graph where one was captured for as many sequences or more. There is none for
    more than max_num_seqs, so of 10 the last two are without: the largest graph is of 8 (vLLM:
    v1/worker/gpu/cudagraph_utils.py). Every other step of up to twice max_num_seqs tokens runs as pieces of graphs.
    """

    __slots__ = (
        "_attention",
        "_decode_tokens",
        "_eager",
        "_eager_s",
        "_graph_tokens",
        "_heat",
        "_kv",
        "_row",
        "_token",
        "_weights",
        "timing",
    )

    def __init__(self, timing: Timing, shape: ModelShape, flags: Flags) -> None:
        self.timing = timing
        self._graph_tokens = captured(min(GRAPH_TOKENS, 2 * flags.max_num_seqs, flags.max_num_batched_tokens))
        self._decode_tokens = captured(min(flags.max_num_seqs, self._graph_tokens))
        self._weights = shape.weights_read_bytes / timing.bandwidth_bytes_s
        self._kv = shape.kv_bytes_per_token / timing.bandwidth_bytes_s
        self._token = shape.matmul_flops_per_token / timing.compute_flops_s
        self._attention = shape.attention_flops_per_pair / timing.attention_flops_s
        self._row = timing.row_s + shape.flops_per_row / timing.compute_flops_s
        self._heat = 0.0  # seconds of full clock used up
        self._eager = 0.0  # launches without a graph, those of the last few seconds
        self._eager_s = 0.0  # and when the last one was

    def launch_s(self, plan: StepPlan, now_s: float) -> float:
        """The engine's thread is busy so long starting the step."""
        timing = self.timing
        rows_s = timing.plan_row_s * (plan.decodes + len(plan.prefills))
        if plan.tokens > self._graph_tokens:
            recent = self._eager * exp((self._eager_s - now_s) / WARM_S) if self._eager else 0.0
            self._eager, self._eager_s = recent + 1.0, now_s
            cold = timing.warm_per_s / (timing.warm_per_s + recent / WARM_S)
            return rows_s + timing.launch_warm_s + (timing.launch_eager_s - timing.launch_warm_s) * cold
        whole = not plan.prefills and plan.tokens <= self._decode_tokens
        return rows_s + (timing.launch_graph_s if whole else timing.launch_pieces_s)

    def step_s(self, plan: StepPlan, idle_s: float) -> float:
        """The GPU is busy so long with the step, after so long of doing nothing."""
        timing = self.timing
        heat = self._heat
        if idle_s > 0.0 and heat:
            heat *= exp(-idle_s / timing.boost_recovery_s)
        products = plan.tokens * self._token
        other = timing.fixed_s + self._kv * plan.context + self._row * (plan.decodes + len(plan.prefills))
        if plan.prefills:
            pairs = sum(tokens * (context - tokens / 2) for tokens, context in plan.prefills)
            other += self._attention * pairs
        if products > self._weights:
            at_full_clock = min(products, max(0.0, timing.boost_s - heat))
            took = at_full_clock + (products - at_full_clock) * timing.throttled + other
            heat = min(timing.boost_s, heat + products)
        else:
            took = self._weights + other
            if heat:
                heat *= exp(-took / timing.boost_recovery_s)
        self._heat = heat
        return took
