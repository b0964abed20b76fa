"""LoRA adapters in use, as far as a server tells.

A series stands for each set of adapters that were ever at work, and the one that was set last is of now. An adapter
that only waits is in none of them: the frontend learns of it with its first token. Source: vLLM v1/metrics/stats.py
(LoRARequestStates).
"""

from __future__ import annotations

from vtop.metrics.quantity import Quantity
from vtop.metrics.series_names import labels_of
from vtop.session.frame.tokens import Lora
from vtop.session.history.window import Window

DEFERRED = "deferred"


def lora(window: Window) -> Lora | None:
    """On the latest scrapes; None where no server serves adapters."""
    names: list[str] = []
    most: list[int] = []
    known = False
    for one in window.answering:
        series = one.server.adapters.at(one.last)
        if series is None:
            continue
        known, labels, called = True, labels_of(series), one.server.kind.series.adapters
        for label in (called.running, called.waiting):
            names += [name for name in labels.get(label, "").split(",") if name]
        if (limit := labels.get(called.most, "")).isdecimal():
            most.append(int(limit))
    if not known:
        return None
    return Lora(
        adapters=tuple(sorted(set(names))),
        most=max(most, default=None),
        deferred=window.now(Quantity.WAITING_BY_REASON, DEFERRED),
    )
