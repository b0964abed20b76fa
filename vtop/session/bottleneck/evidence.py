"""What stood in the way of the requests that waited: the evidence for the verdict, over the latest pages.

A waiting request is admitted when there is a seat (max-num-seqs), room in the pool for its whole prompt, and budget
in the step (max-num-batched-tokens). So on each page with waiting requests one asks

    full    KV use >= FULL, or free tokens < the mean prompt: the next one does not fit
    seated  running stands at max-num-seqs, or, where that is not on record, at the highest of these pages (SLACK of it
            allowed: a page may catch a step's end)

and the shares tell which limit it was. Gauges are those of the scheduler's last step.
Source: vLLM v1/core/sched/scheduler.py (schedule), v1/core/kv_cache_manager.py (allocate_slots).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median

from vtop.metrics.vllm import Quantity
from vtop.session.frame.verdict import Pressure
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import Stretch, Window
from vtop.session.load.load import LoadHistory

RECENT_S = 30.0
FULL = 0.95
MANY = 8  # requests in flight: of fewer, those under way say nothing
SLACK = 0.02  # of running, at least nothing: 98 of 100 seats taken is all of them

_PAGES_BACK = 3600  # silence is not followed further
_GAUGES = (Quantity.RUNNING, Quantity.WAITING, Quantity.KV_USED)


def pressure(
    window: Window,
    servers: Sequence[ServerHistory],
    pool_tokens: float | None,
    prompt_tokens: float | None,
    load: LoadHistory,
    *,
    whole: bool,
    seats: Callable[[Stretch], int | None],
) -> Pressure | None:
    """Over the last RECENT_S of a window, or the `whole` of it; None without a page.

    pool_tokens: of all engines; prompt_tokens: mean of a request; load: vtop's own; seats: max_num_seqs of all engines.
    """
    needed = prompt_tokens / pool_tokens if prompt_tokens is not None and pool_tokens else 0.0
    stretches = (window if whole else window.latest(RECENT_S)).stretches
    found = [
        replace(_of(number, one, needed, whole, seats(one)), outside_share=_outside(number, one, load))
        for one in stretches
        for number in (servers.index(one.server),)  # not all of them have answered
    ]
    return max(found, key=lambda one: (one.waiting_share, one.running_share), default=None)


def _of(number: int, one: Stretch, needed: float, whole: bool, told: int | None) -> Pressure:
    """needed: of the pool, by the next request. told: how many seats there are, where that is on record."""
    server, pages = one.server, range(one.first, one.last + 1)
    running, waiting, kv = (_on(server, quantity, pages) for quantity in _GAUGES)
    here = [at for at, wait in enumerate(waiting) if wait]
    in_line = [waiting[at] or 0.0 for at in here]
    full = min(FULL, 1.0 - needed)
    used = [ratio for at in here if (ratio := kv[at]) is not None]
    taken = [count for at in here if (count := running[at]) is not None]
    known_running, known_kv = ([value for value in values if value is not None] for values in (running, kv))
    most = told or max(taken, default=0.0)
    preempted = _grown(server, Quantity.PREEMPTIONS, one)
    return Pressure(
        server=number,
        pages=len(pages),
        seconds=one.counted_s,
        waiting_share=len(here) / len(pages),
        running_share=sum(1 for count in running if count) / len(pages),
        kv_full_share=sum(ratio >= full for ratio in used) / len(used) if used else None,
        seats_share=sum(count >= most * (1 - SLACK) for count in taken) / len(taken) if taken and most else None,
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
        idle=_idle(one, len(pages) if whole else 2),
        seats=told,
        outside_share=None,
    )


def _outside(number: int, one: Stretch, load: LoadHistory) -> float | None:
    """Of vtop's own requests in flight, the share that the engine does not know: the median over pages with many."""
    shares = []
    for page in range(one.first, one.last + 1):
        in_flight = load.in_flight_at(number, one.server.at_s[page])
        running, waiting = (_at(one.server, quantity, page) for quantity in (Quantity.RUNNING, Quantity.WAITING))
        if in_flight >= MANY and running is not None and waiting is not None:
            shares.append(max(0.0, 1 - (running + waiting) / in_flight))
    return median(shares) if len(shares) >= 5 else None


def _at(server: ServerHistory, quantity: Quantity, page: int) -> float | None:
    track = server.total(quantity)
    return track.at(page) if track is not None else None


def _on(server: ServerHistory, quantity: Quantity, pages: range) -> list[float | None]:
    return [_at(server, quantity, page) for page in pages]


def _grown(server: ServerHistory, quantity: Quantity, one: Stretch) -> float | None:
    track = server.total(quantity)
    return track.grown(one.first, one.last) if track is not None else None


def _at_work(one: Stretch, page: int) -> bool:
    tracks = (one.server.total(quantity) for quantity in (Quantity.RUNNING, Quantity.WAITING))
    return any(track is not None and track.at(page) for track in tracks)


def _idle(one: Stretch, pages: int) -> bool:
    """No request on the latest pages, nor between them."""
    first = max(one.first, one.last - pages + 1)
    moved = one.server.last_progress(one.last)
    quiet = moved is None or moved <= first
    return quiet and not any(_at_work(one, page) for page in range(first, one.last + 1))


def _silent_s(one: Stretch) -> float | None:
    """Since the last token came, or since requests began to run or wait, whichever is later."""
    generated = one.server.total(Quantity.GENERATION_TOKENS)
    if generated is None or not _at_work(one, one.last):
        return None
    page, rise = one.last, generated.last_rise(one.last) or 0
    while page > max(rise, one.last - _PAGES_BACK) and _at_work(one, page - 1):
        page -= 1
    return one.server.at_s[one.last] - one.server.at_s[page]


def _still_s(one: Stretch) -> float | None:
    """Since a counter or a gauge of the engine last changed."""
    if not _at_work(one, one.last):
        return None
    moved = one.server.last_progress(one.last)
    changes = [moved if moved is not None else 0]
    changes += [
        page
        for quantity in _GAUGES
        if (track := one.server.total(quantity)) is not None and (page := track.changed_at(one.last)) is not None
    ]
    return one.server.at_s[one.last] - one.server.at_s[max(changes)]


def _cpu_ratio(one: Stretch) -> float | None:
    """CPU seconds of the API server's process per second; None where it is not exported (several API servers)."""
    used = _grown(one.server, Quantity.PROCESS_CPU, one)
    return used / one.counted_s if used is not None and one.counted_s > 0 else None


def _asleep(one: Stretch) -> bool:
    awake = one.server.total(Quantity.SLEEPING, "awake")
    return awake is not None and awake.at(one.last) == 0


def _deferred(one: Stretch) -> float | None:
    waiting = one.server.total(Quantity.WAITING)
    deferred = one.server.total(Quantity.WAITING_BY_REASON, "deferred")
    now = waiting.at(one.last) if waiting is not None else None
    held = deferred.at(one.last) if deferred is not None else None
    return min(1.0, held / now) if now and held is not None else None
