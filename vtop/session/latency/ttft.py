"""What the time to first token was made of: queue + prefill + frontend, for one set of requests.

vLLM observes queue, prefill and end-to-end times when a request finishes, TTFT at its first token: over a window
they are about different requests, and subtracting one from another gives a frontend of seconds that is not there.
So the parts are those of the n requests that finished in the window (n = growth of the e2e count):

    queue    = Δ queue_sum / n                         QUEUED to first SCHEDULED
    prefill  = Δ prefill_sum / n                       first SCHEDULED to first token
    frontend = (Δ e2e_sum - Δ queue_sum - Δ inference_sum) / n
    total    = queue + prefill + frontend              the TTFT of those requests

Frontend is tokenisation, chat template, IPC and the wait for the next step, before HTTP and network. Waiting again
after a preemption is in none of these but in decode (or in prefill when it came before the first token).

Queue now is an estimate by Little's law, mean waiting / first tokens per second, for requests still in line: over the
shortest latest stretch with ENOUGH first tokens, or as far back as the load is what it is: since a restart, since
vtop's own load last changed, and beyond the first stretch only as long as there has been a queue. None when nobody
waits, and while the data are old.
Source: vLLM v1/metrics/stats.py, loggers.py. Seconds.
"""

from __future__ import annotations

from vtop.metrics.quantity import Quantity
from vtop.session.frame.ttft import Ttft
from vtop.session.frame.values import Gauge
from vtop.session.history.window import Window

HORIZONS_S = (15.0, 30.0, 60.0, 120.0)
ENOUGH = 30


def ttft(window: Window, waiting: Gauge, present: Window) -> Ttft:
    """present: what of the window is under the load of now, that of the queue now."""
    parts = parts_of(
        window.sums(Quantity.E2E),
        window.sums(Quantity.QUEUE),
        window.sums(Quantity.PREFILL),
        window.sums(Quantity.INFERENCE),
    )
    first_tokens = window.observed(Quantity.TTFT)
    queued = bool(waiting.now)
    queue_s, prefill_s, frontend_s = parts if parts is not None else (None, None, None)
    known = [part for part in (queue_s, prefill_s, frontend_s) if part is not None]
    return Ttft(
        finished=window.observed(Quantity.E2E),
        queue_s=queue_s,
        prefill_s=prefill_s,
        frontend_s=frontend_s,
        total_s=sum(known) if len(known) == 3 else None,
        first_tokens=first_tokens,
        first_token_s=window.mean(Quantity.TTFT),
        queue_now_s=_queue_now(present),
        stuck=queued and first_tokens == 0 and window.seconds > 0,
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


Sums = tuple[float, float] | None  # sum, count


def parts_of(e2e: Sums, queue: Sums, prefill: Sums, inference: Sums) -> tuple[float, float, float] | None:
    """Mean queue, prefill and frontend of the requests that finished; None when none did."""
    if e2e is None or queue is None or prefill is None or inference is None:
        return None
    n = e2e[1]
    total = e2e[0] + queue[0] + prefill[0] + inference[0]
    if n <= 0 or total != total:
        return None
    # a scrape is no atomic snapshot: a request may be in one sum and not yet in the next; and wall clocks are set back
    return max(0.0, queue[0] / n), max(0.0, prefill[0] / n), max(0.0, (e2e[0] - queue[0] - inference[0]) / n)
