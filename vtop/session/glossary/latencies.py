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
        "whose: TTFT of first tokens, ITL of every later token (of every output, where some held several tokens), the "
        "others of finished requests; the request that vtop tries a server with is left out",
        also=("latencies.n",),
    ),
    Number(
        "latencies",
        "p50 p90 p99",
        "latencies.p99",
        "s",
        (Q.TTFT, Q.ITL, Q.TPOT, Q.QUEUE, Q.PREFILL, Q.DECODE, Q.E2E),
        "the bounds of the bucket that holds the percentile (nearest rank) in the window; never interpolated",
        "queue, prefill, decode and e2e begin at 300 ms; above the last bound it is '> bound'",
        also=("latencies.p50", "latencies.p90"),
    ),
    Number(
        "latencies",
        "tail",
        "tail.percentile",
        "percentile",
        (Q.ITL, Q.PREEMPTIONS),
        "the first of p50, p90, p99, p99.9, p99.99, p99.999 with 1 − q at most preemptions ÷ gaps of the window: "
        "below it the torn gaps do not show",
        "with several tokens an output, gaps are those of outputs",
        also=("tail.touched", "tail.samples"),
    ),
)
