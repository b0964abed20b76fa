"""Latencies as heat maps: how the observations of each chart column lie in the buckets of their histogram.

A column is a cell of a chart, of two of its points, so that few observations are not scattered. Servers with other
buckets than the first are left out, as in the percentiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vtop.metrics.histogram import Histogram
from vtop.metrics.quantity import Quantity
from vtop.session.charts import Columns
from vtop.session.frame.charts import Charts, HeatMap
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import Window

_NAMED: Final = (("TTFT", Quantity.TTFT), ("ITL", Quantity.ITL), ("queue", Quantity.QUEUE), ("e2e", Quantity.E2E))
POINTS: Final = 2  # of a chart in a column here


def heat_maps(window: Window, servers: Sequence[ServerHistory], charts: Charts, now_s: float) -> tuple[HeatMap, ...]:
    """One for each latency that a server exports, on the time axis of the charts."""
    n = len(charts.running) // POINTS
    edges = [charts.end_s - (n - k) * charts.column_s * POINTS for k in range(n + 1)]
    columns = [Columns(server, now_s, edges) for server in servers]
    found = []
    for name, quantity in _NAMED:
        rows = [one.histograms(one.server.histogram(quantity)) for one in columns]
        if (whole := window.histogram(quantity)) is not None:
            counts = tuple(_counts(whole.le, column) for column in zip(*rows, strict=True))
            found.append(HeatMap(name, whole.le, whole.n, counts))
    return tuple(found)


def _counts(le: tuple[float, ...], column: Sequence[Histogram | None]) -> tuple[float, ...] | None:
    """Observations by bucket, the last above every bound; None for a gap."""
    known = [one.n for one in column if one is not None and one.le == le]
    return tuple(sum(bucket) for bucket in zip(*known, strict=True)) if known else None
