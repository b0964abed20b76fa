"""What the time to first token was made of: queue + prefill + frontend, for one set of requests.

vLLM observes queue, prefill and end-to-end times when a request finishes, TTFT at its first token: over a window
they are about different requests, and subtracting one from another gives a frontend of seconds that is not there.
So the parts are those of the requests that finished in the window (history/ttft_parts.py has the formulas).

Frontend is tokenisation, chat template, IPC and the wait for the next step, before HTTP and network. Waiting again
after a preemption is in none of these but in decode (or in prefill when it came before the first token).

Queue now is an estimate by Little's law, mean waiting / first tokens per second, for requests still in line: over the
shortest latest span with ENOUGH first tokens, or as far back as the load is what it is: since a restart, since
vtop's own load last changed, and beyond the first span only as long as there has been a queue. None when nobody
waits, and while the data are old.
Source: vLLM v1/metrics/stats.py, loggers.py. Seconds.
"""

from __future__ import annotations

from vtop.metrics.quantity import Quantity
from vtop.session.frame.ttft import Ttft
from vtop.session.frame.values import Gauge
from vtop.session.history.sides import Sides
from vtop.session.history.ttft_parts import ttft_parts
from vtop.session.history.window import Window

HORIZONS_S = (15.0, 30.0, 60.0, 120.0)
ENOUGH = 30


def ttft(window: Window, waiting: Gauge, present: Window, sides: Sides) -> Ttft:
    """present: what of the window is under the load of now, that of the queue now.

    Of a divided deployment it is the prefill side's, and beside it what the decode side adds.
    """
    added_s = sides.decoding(window).mean(Quantity.TTFT) if sides.decode else None
    window, present = sides.prefilling(window), sides.prefilling(present)
    parts = ttft_parts(window)
    first_tokens = window.observed(Quantity.TTFT)
    queued = bool(waiting.now)
    queue_s, prefill_s, frontend_s = parts if parts is not None else (None, None, None)
    return Ttft(
        finished=window.observed(Quantity.E2E),
        queue_s=queue_s,
        prefill_s=prefill_s,
        frontend_s=frontend_s,
        total_s=parts.total_s if parts is not None else None,
        first_tokens=first_tokens,
        first_token_s=window.mean(Quantity.TTFT),
        queue_now_s=_queue_now(present),
        stuck=queued and first_tokens == 0 and window.seconds > 0,
        decode_first_token_s=added_s,
    )


def _queue_now(window: Window) -> float | None:
    stood_s = _stood_s(window)
    if stood_s is None:
        return None
    for seconds in (*HORIZONS_S, window.seconds):
        recent = window.latest(min(seconds, max(stood_s, HORIZONS_S[0])))
        if recent.observed(Quantity.TTFT) >= ENOUGH:
            break
    arrived, waiting = recent.observed(Quantity.TTFT), recent.gauge(Quantity.WAITING).mean
    return waiting * recent.seconds / arrived if waiting is not None and arrived > 0 else None


def _stood_s(window: Window) -> float | None:
    """Since the latest scrape without a queue, or since the first scrape; None where the latest has none."""
    at_s, waiting = window.instants, window.each_together(Quantity.WAITING)
    if not waiting or not waiting[-1] > 0:  # NaN: not known
        return None
    first = len(waiting) - 1
    while first and waiting[first] > 0:
        first -= 1
    return at_s[-1] - at_s[first]
