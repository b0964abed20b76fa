"""How often requests waited and the pool was nearly full: shares of the scrapes of a window.

A share is of the scrapes on which the gauge is known: waiting above 0, KV use of the fullest engine at 90 % (95 %) or
more. Ratios. Source: vLLM v1/metrics/loggers.py (num_requests_waiting, kv_cache_usage_perc).
"""

from __future__ import annotations

from collections.abc import Sequence

from vtop.metrics.quantity import Quantity
from vtop.session.frame.kv import Crowding
from vtop.session.history.window import Window


def crowding(window: Window) -> Crowding:
    waiting, used = window.values(Quantity.WAITING), window.values(Quantity.KV_USED, largest=True)
    return Crowding(
        waiting_share=_share(waiting, 0.0, above=True),
        kv_90_share=_share(used, 0.90),
        kv_95_share=_share(used, 0.95),
        scrapes=max(len(waiting), len(used)),
    )


def _share(values: Sequence[float], least: float, *, above: bool = False) -> float | None:
    return sum(value > least if above else value >= least for value in values) / len(values) if values else None
