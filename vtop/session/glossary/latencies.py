"""The numbers of the panel latencies: the server's histograms in the window, and which percentile shows preemptions."""

from __future__ import annotations

from vtop.metrics.quantity import Quantity as Q
from vtop.session.glossary.number import Number

LATENCIES = (
    Number(
        "latencies",
        "mean",
        "latencies.mean_s",
        "s",
        (Q.TTFT, Q.ITL, Q.TPOT, Q.QUEUE, Q.PREFILL, Q.DECODE, Q.E2E),
        "Δ sum ÷ Δ count in the window: exact",
        "TTFT counts first tokens, ITL every later token (every output, if some held several tokens), the others "
        "finished requests; vtop's own trial request is left out",
        also=("latencies.n",),
    ),
    Number(
        "latencies",
        "p50 p90 p99",
        "latencies.p99",
        "s",
        (Q.TTFT, Q.ITL, Q.TPOT, Q.QUEUE, Q.PREFILL, Q.DECODE, Q.E2E),
        "the bounds of the bucket that holds the percentile (nearest rank) in the window; never interpolated",
        "the buckets of queue, prefill, decode and e2e start at 300 ms; above the last bound it is '> bound'",
        also=("latencies.p50", "latencies.p90"),
    ),
    Number(
        "latencies",
        "tail",
        "tail.percentile",
        "percentile",
        (Q.ITL, Q.PREEMPTIONS),
        "the first of p50, p90, p99, p99.9, p99.99, p99.999 with 1 − q at most preemptions ÷ gaps of the window: at "
        "lower percentiles the gaps made by preemptions do not show",
        "if an output holds several tokens, the gaps are between outputs",
        also=("tail.touched", "tail.samples"),
    ),
)
