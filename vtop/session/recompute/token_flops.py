"""FLOP a token against its context, and the line of the model's shape that it should stand on.

    measured = growth of the FLOP counter / least tokens        mean context = C / least   (C: required_tokens.py)
    line     = token_flops + row_flops x rows / least + context_flops x mean context       (token_cost.py)

What was run again after preemptions is in the counter and in no token: it stands above the line. For one server, and a
window without a restart. Where lengths of requests vary the mean of the contexts is too low, and with it the line.
FLOP of one GPU, tokens. Source: vLLM v1/metrics/perf.py.
"""

from __future__ import annotations

from collections.abc import Mapping

from vtop.metrics.quantity import Quantity
from vtop.session.frame.tokens import TokenFlops
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import Window
from vtop.session.recompute.required_tokens import needed
from vtop.session.recompute.write_cost import write_cost_of
from vtop.session.recompute.write_fit import WriteFit


def token_flops(window: Window, now_s: float, fits: Mapping[ServerHistory, WriteFit]) -> TokenFlops:
    if len(window.ranges) != 1:
        return TokenFlops()
    one = window.ranges[0]
    server, restarts = one.server, [scrape for scrape in one.server.restarts if scrape <= one.last]
    counter, work = server.total(Quantity.FLOPS), needed(server, one.first, one.last)
    counted = counter.grown(one.first, one.last) if counter is not None else None
    context = work.context if work is not None else None
    begun = restarts[-1] - 1 if restarts else 0
    if work is None or context is None or not counted or not work.least or one.first < begun:
        return TokenFlops()
    found = write_cost_of(one, begun, one.last, now_s=now_s, fit=fits[server])
    cost = found.cost if found is not None else None
    flops, mean = counted / work.least, context / work.least
    if cost is None:
        return TokenFlops(flops=flops, context_tokens=mean)
    base = cost.token_flops + cost.row_flops * work.rows / work.least
    expected = base + cost.context_flops * mean
    return TokenFlops(
        flops=flops,
        context_tokens=mean,
        expected_flops=expected,
        apart_ratio=flops / expected - 1,
        line_flops=base,
        context_flops=cost.context_flops,
    )
