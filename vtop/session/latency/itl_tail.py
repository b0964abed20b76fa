"""Which percentile of the inter-token latency could show the preemptions at all.

A preemption tears one gap between two tokens of one request. Of n gaps in the window k are torn, the k longest in the
worst case, so a percentile q lies among them only where what is above it is no larger than their share:

    1 - q <= k / n        37 of 262,016 is 0.0141 %: the first is p99.99

Short of it the percentile is that of the other gaps, however long the torn ones are: it is no alarm for preemption. The
counter is. vLLM observes the ITL per output, so with several tokens an output (speculative decoding) n is of outputs.
"""

from __future__ import annotations

from vtop import units
from vtop.metrics.quantity import Quantity
from vtop.session.frame.latencies import Tail
from vtop.session.history.window import Window

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99, 99.999)
OFFERED = 99.0  # the highest that vLLM's users commonly watch


def tail(window: Window) -> Tail:
    samples = window.observed(Quantity.ITL)
    touched = window.delta(Quantity.PREEMPTIONS) or 0.0
    shown_by = first_above(touched, samples)
    return Tail(samples=samples, touched=touched, percentile=shown_by, sentence=_sentence(samples, touched, shown_by))


def first_above(touched: float, samples: float) -> float | None:
    """The first percentile that lies among the touched ones; None where none does, or nothing was touched."""
    if touched <= 0 or samples <= 0:
        return None
    share = touched / samples * (1 + 1e-9)
    return next((percent for percent in PERCENTILES if 1 - percent / 100 <= share), None)


def _sentence(samples: float, touched: float, shown_by: float | None) -> str | None:
    if touched <= 0 or samples <= 0:
        return None
    gaps = f"{units.count(min(touched, samples))} of {units.count(samples)} gaps"
    them = f"the {units.count(touched)} preemptions: they touch" if touched > 1 else "the preemption: it touches"
    if shown_by is not None and shown_by <= OFFERED:
        return f"p{shown_by:g} ITL can show {them} {gaps}"
    could = f"p{shown_by:g} could" if shown_by is not None else "no percentile could"
    return f"p{OFFERED:g} ITL cannot show {them} {gaps} ({could})"
