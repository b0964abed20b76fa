"""What stood in the way of the requests that waited: the evidence for the verdict, over the latest scrapes.

A waiting request is admitted when there is a seat (max-num-seqs), room in the pool for its whole prompt, and budget
in the step (max-num-batched-tokens). So on each scrape with waiting requests one asks

    full    KV use >= FULL, or free tokens < the mean prompt: the next one does not fit
    seated  running stands at max-num-seqs, or, where that is not on record, at the highest of these scrapes (SLACK of
    it
            allowed: a scrape may catch a step's end)

and the shares tell which limit it was. Gauges are those of the scheduler's last step.
Source: vLLM v1/core/sched/scheduler.py (schedule), v1/core/kv_cache_manager.py (allocate_slots).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from vtop.metrics.quantity import Quantity
from vtop.session.frame.verdict import Pressure
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import ScrapeRange, Window
from vtop.session.load.load import LoadHistory

RECENT_S = 30.0
FULL = 0.95
MANY = 8  # requests in flight: of fewer, those under way say nothing
SLACK = 0.02  # of running, at least nothing: 98 of 100 running is all of them

_SCRAPES_BACK = 3600  # silence is not followed further
_GAUGES = (Quantity.RUNNING, Quantity.WAITING, Quantity.KV_USED)


def pressure(
    window: Window,
    servers: Sequence[ServerHistory],
    pool_tokens: float | None,
    prompt_tokens: float | None,
    load: LoadHistory,
    *,
    whole: bool,
    max_num_seqs: Callable[[ScrapeRange], int | None],
) -> Pressure | None:
    """Over the last RECENT_S of a window, or the `whole` of it; None without a scrape.

    pool_tokens: of all engines; prompt_tokens: mean of a request; load: vtop's own; max_num_seqs: of all engines.
    """
    needed = prompt_tokens / pool_tokens if prompt_tokens is not None and pool_tokens else 0.0
    ranges = (window if whole else window.latest(RECENT_S)).ranges
    found = [
        replace(_of(number, one, needed, whole, max_num_seqs(one)), outside_share=_outside(number, one, load))
        for one in ranges
        for number in (servers.index(one.server),)  # not all of them have answered
    ]
    return max(found, key=lambda one: (one.waiting_share, one.running_share), default=None)


def _of(number: int, one: ScrapeRange, needed: float, whole: bool, told: int | None) -> Pressure:
    """needed: of the pool, by the next request. told: max_num_seqs, where that is on record."""
    server, scrapes = one.server, range(one.first, one.last + 1)
    running, waiting, kv = (_on(server, quantity, scrapes) for quantity in _GAUGES)
    here = [at for at, wait in enumerate(waiting) if wait]
    in_line = [waiting[at] or 0.0 for at in here]
    full = min(FULL, 1.0 - needed)
    used = [ratio for at in here if (ratio := kv[at]) is not None]
    taken = [count for at in here if (count := running[at]) is not None]
    known_running, known_kv = ([value for value in values if value is not None] for values in (running, kv))
    most = told or max(taken, default=0.0)
    preempted = server.grown(Quantity.PREEMPTIONS, one.first, one.last)
    return Pressure(
        server=number,
        scrapes=len(scrapes),
        seconds=one.counted_s,
        waiting_share=len(here) / len(scrapes),
        running_share=sum(1 for count in running if count) / len(scrapes),
        kv_full_share=sum(ratio >= full for ratio in used) / len(used) if used else None,
        at_max_num_seqs_share=sum(count >= most * (1 - SLACK) for count in taken) / len(taken)
        if taken and most
        else None,
        running_median=median(known_running) if known_running else None,
        running_high=max(known_running, default=None),
        waiting_median=median(in_line) if in_line else None,
        kv_median_ratio=median(known_kv) if known_kv else None,
        kv_low_ratio=min(known_kv, default=None),
        kv_high_ratio=max(known_kv, default=None),
        preemptions=preempted,
        silent_s=_silent_s(one),
        still_s=_still_s(one),
        api_cpu_ratio=_cpu_ratio(one),
        asleep=_asleep(one),
        deferred_share=_deferred(one),
        idle=_idle(one, len(scrapes) if whole else 2),
        max_num_seqs=told,
        outside_share=None,
    )


def _outside(number: int, one: ScrapeRange, load: LoadHistory) -> float | None:
    """Of vtop's own requests in flight, the share that the engine does not know: the median over scrapes with many."""
    shares = []
    for scrape in range(one.first, one.last + 1):
        in_flight = load.in_flight_at(number, one.server.at_s[scrape])
        running, waiting = (one.server.value(quantity, scrape) for quantity in (Quantity.RUNNING, Quantity.WAITING))
        if in_flight >= MANY and running is not None and waiting is not None:
            shares.append(max(0.0, 1 - (running + waiting) / in_flight))
    return median(shares) if len(shares) >= 5 else None


def _on(server: ServerHistory, quantity: Quantity, scrapes: range) -> list[float | None]:
    return [server.value(quantity, scrape) for scrape in scrapes]


def _at_work(one: ScrapeRange, scrape: int) -> bool:
    return any(one.server.value(quantity, scrape) for quantity in (Quantity.RUNNING, Quantity.WAITING))


def _idle(one: ScrapeRange, scrapes: int) -> bool:
    """No request on the latest scrapes, nor between them."""
    first = max(one.first, one.last - scrapes + 1)
    moved = one.server.last_progress(one.last)
    quiet = moved is None or moved <= first
    return quiet and not any(_at_work(one, scrape) for scrape in range(first, one.last + 1))


def _silent_s(one: ScrapeRange) -> float | None:
    """Since the last token came, or since requests began to run or wait, whichever is later."""
    generated = one.server.total(Quantity.GENERATION_TOKENS)
    if generated is None or not _at_work(one, one.last):
        return None
    scrape, rise = one.last, generated.last_rise(one.last) or 0
    while scrape > max(rise, one.last - _SCRAPES_BACK) and _at_work(one, scrape - 1):
        scrape -= 1
    return one.server.at_s[one.last] - one.server.at_s[scrape]


def _still_s(one: ScrapeRange) -> float | None:
    """Since a counter or a gauge of the engine last changed."""
    if not _at_work(one, one.last):
        return None
    moved = one.server.last_progress(one.last)
    changes = [moved if moved is not None else 0]
    changes += [
        scrape
        for quantity in _GAUGES
        if (track := one.server.total(quantity)) is not None and (scrape := track.changed_at(one.last)) is not None
    ]
    return one.server.at_s[one.last] - one.server.at_s[max(changes)]


def _cpu_ratio(one: ScrapeRange) -> float | None:
    """CPU seconds of the API server's process per second; None where it is not exported (several API servers)."""
    used = one.server.grown(Quantity.PROCESS_CPU, one.first, one.last)
    return used / one.counted_s if used is not None and one.counted_s > 0 else None


def _asleep(one: ScrapeRange) -> bool:
    return one.server.value(Quantity.SLEEPING, one.last, "awake") == 0


def _deferred(one: ScrapeRange) -> float | None:
    now = one.server.value(Quantity.WAITING, one.last)
    held = one.server.value(Quantity.WAITING_BY_REASON, one.last, "deferred")
    return min(1.0, held / now) if now and held is not None else None
