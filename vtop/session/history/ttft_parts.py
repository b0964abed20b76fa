"""The parts of the time to first token of the requests that finished, from the sums of the server's histograms.

    queue    = Δ queue_sum / n                         QUEUED to first SCHEDULED
    prefill  = Δ prefill_sum / n                       first SCHEDULED to first token
    frontend = (Δ e2e_sum - Δ queue_sum - Δ inference_sum) / n
    total    = queue + prefill + frontend              the TTFT of those requests

n is the growth of the e2e count. No part is below 0: a scrape is no atomic snapshot, so a request may be in one sum
and not yet in the next; and wall clocks are set back.
Source: vLLM v1/metrics/stats.py, loggers.py. Seconds.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from vtop.metrics.quantity import Quantity
from vtop.session.history.window import Window

Sums = tuple[float, float] | None  # sum, count; None where no server exports them


class TtftParts(NamedTuple):
    """Means over the requests that finished, in seconds."""

    queue_s: float
    prefill_s: float
    frontend_s: float

    @property
    def total_s(self) -> float:
        return self.queue_s + self.prefill_s + self.frontend_s


def ttft_parts(window: Window) -> TtftParts | None:
    """Of the requests that finished in a window, over its servers together."""
    return parts_of(
        window.sums(Quantity.E2E),
        window.sums(Quantity.QUEUE),
        window.sums(Quantity.PREFILL),
        window.sums(Quantity.INFERENCE),
    )


def parts_of(e2e: Sums, queue: Sums, prefill: Sums, inference: Sums) -> TtftParts | None:
    """None when no request finished, and where a sum is not known."""
    if e2e is None or queue is None or prefill is None or inference is None:
        return None
    n = e2e[1]
    if n <= 0 or math.isnan(e2e[0] + queue[0] + prefill[0] + inference[0]):
        return None
    frontend_s = (e2e[0] - queue[0] - inference[0]) / n
    return TtftParts(max(0.0, queue[0] / n), max(0.0, prefill[0] / n), max(0.0, frontend_s))
