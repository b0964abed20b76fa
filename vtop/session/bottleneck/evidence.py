"""What stood in the way of the requests that waited: the evidence for the verdict, over the latest scrapes.

The latest RECENT_S, of one load: since vtop's own load was begun or changed, since the server was last idle for two
scrapes or restarted, and, where the load is another's, since running + waiting was last at least a third less or a half
more than now (and by more than chance does, which is three times its square root or its spread on the latest scrapes)
on three scrapes in a row, FEW scrapes at least; a queue that grows by little from scrape to scrape while as many run is
one load. Scrapes before the first with as many are of how it began, and left out. KV use is that of the scrapes with
requests. What stood in the way on each scrape is at_limit.py's to say. Gauges are those of the scheduler's last step.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import median, pstdev

from vtop.metrics.quantity import Quantity
from vtop.session.bottleneck.at_limit import SLACK, at_limit, full_from
from vtop.session.frame.verdict import Pressure
from vtop.session.history.server import ServerHistory
from vtop.session.history.ttft_parts import ttft_parts
from vtop.session.history.window import ScrapeRange, Window
from vtop.session.load.load import LoadHistory

RECENT_S = 30.0
MANY = 8  # requests in flight: of fewer, those under way say nothing
OTHER = 3  # scrapes in a row with another number of requests are another load's
UNLIKE = 1.2  # times as many in flight, and an idle scrape in between: another load
FEW = 5  # scrapes: of fewer no limit is reported
IDLE = 2  # scrapes in a row without a request: another load
GREW_SLACK = 0.1  # by which fewer may have run while a queue grew
ENDS = 5  # scrapes to end the pressure at: that of most of them speaks

_SCRAPES_BACK = 3600  # silence is not followed further
_GAUGES = (Quantity.RUNNING, Quantity.WAITING, Quantity.KV_USED)


def pressures(
    window: Window,
    servers: Sequence[ServerHistory],
    pool_tokens: float | None,
    prompt_tokens: float | None,
    load: LoadHistory,
    *,
    whole: bool,
    max_num_seqs: Callable[[ScrapeRange], int | None],
) -> list[tuple[Pressure, ScrapeRange]]:
    """Over the latest scrapes of a window, ending with its last one, the one before that, and so on; over the `whole`
    of it one alone. Each with the scrapes that it is about. None without a scrape.

    pool_tokens: of all engines; prompt_tokens: mean of a request; load: vtop's own; max_num_seqs: of all engines.
    """
    full = full_from(prompt_tokens, pool_tokens)
    found = []
    for back in range(1 if whole else ENDS):
        ranges = [replace(one, last=one.last - back) for one in window.ranges if one.last - back >= one.first]
        if not whole:
            ranges = [of_one_load(one.latest(RECENT_S), own=bool(load.phases)) for one in ranges]
        ended = [
            (replace(_of(number, one, full, whole, told), outside_share=_outside(number, one, load)), one)
            for one in ranges
            for number, told in ((servers.index(one.server), max_num_seqs(one)),)  # not all of them have answered
        ]
        if ended:
            found.append(max(ended, key=lambda one: (one[0].waiting_share, one[0].running_share)))
    return found


def of_one_load(one: ScrapeRange, *, own: bool) -> ScrapeRange:
    """Its latest scrapes under one load; own: vtop's own tells itself when it changes."""
    one = one.since(-math.inf) or one  # a restart begins anew
    counted = (_on(one.server, quantity, range(one.first, one.last + 1)) for quantity in _GAUGES[:2])
    running, waiting = ([value or 0.0 for value in row] for row in counted)
    present = [a + b for a, b in zip(running, waiting, strict=True)]
    end = next((place for place in range(len(present) - 1, -1, -1) if present[place]), None)
    if end is None or len(present) - 1 - end >= IDLE:
        return one
    first, now = end, median(present[max(0, end + 1 - OTHER) : end + 1])
    chance = min(3 * math.sqrt(now), OTHER * pstdev(present[max(0, end + 1 - FEW) : end + 1]))  # none in a closed loop
    least, most = now - max(now / 3, chance), now + max(now / 2, chance)
    queued = _queue_grew_from(running, waiting, end, now - least)
    other = idle = 0
    for place in range(end, -1, -1):
        progress = one.server.last_progress(one.first + place)
        idle = idle + 1 if not present[place] and progress != one.first + place else 0
        like = own or place > end - FEW or (0 if place >= queued else least) <= present[place] <= most
        other = 0 if like else other + 1
        if idle == IDLE or (not present[place] and _unlike(present, place, now)) or other == OTHER:
            break
        if not idle and not other:
            first = place
    if not own:
        alike = (place for place in range(first, end + 1) if place >= queued or present[place] >= max(least, 1))
        first = next(alike, end)
    return replace(one, first=one.first + first)


def _queue_grew_from(running: Sequence[float], waiting: Sequence[float], end: int, much: float) -> int:
    """Since when as many ran as do at the end while no more came to the queue from one scrape to the next than so: of
    an open loop that is too fast the queue grows, and it is one load all the same."""
    ran = median(running[max(0, end + 1 - OTHER) : end + 1])
    place = end
    while place > 0 and waiting[place - 1] and running[place - 1] >= ran * (1 - GREW_SLACK):
        if abs(running[place] + waiting[place] - running[place - 1] - waiting[place - 1]) > much:
            break
        place -= 1
    return place


def _unlike(present: Sequence[float], idle: int, now: float) -> bool:
    """Whether there were fewer or more before a scrape without a request than now, and many on one side: a closed loop
    whose requests end together has such scrapes, too, with as many on both."""
    before = median(present[max(0, idle - OTHER) : idle] or [0.0])
    return max(before, now) >= MANY and max(before, now) >= UNLIKE * max(min(before, now), 1.0)


def _of(number: int, one: ScrapeRange, full: float, whole: bool, told: int | None) -> Pressure:
    """full: the KV use from which on the next request does not fit. told: max_num_seqs, where that is on record."""
    server, scrapes = one.server, range(one.first, one.last + 1)
    running, waiting, kv = (_on(server, quantity, scrapes) for quantity in _GAUGES)
    here = at_limit(running, waiting, kv, full=full, max_num_seqs=told)
    present = [bool(a or b) for a, b in zip(running, waiting, strict=True)]
    known_running = [count for count, here_now in zip(running, present, strict=True) if here_now and count is not None]
    known_kv = [ratio for ratio, here_now in zip(kv, present, strict=True) if here_now and ratio is not None]
    known_kv = known_kv or [ratio for ratio in kv if ratio is not None]
    alone = Window((one,))
    parts = ttft_parts(alone)
    track = server.total(Quantity.RUNNING)
    places = told or (track.high(0, one.last) if track is not None else None)
    return Pressure(
        server=number,
        scrapes=len(scrapes),
        seconds=one.counted_s,
        waiting_share=here.waiting_share,
        running_share=sum(1 for count in running if count) / len(scrapes),
        kv_full_share=here.full_share,
        at_max_num_seqs_share=here.at_limit_share,
        running_median=median(known_running) if known_running else None,
        running_high=max(known_running, default=None),
        waiting_median=median(here.waiting_queued) if here.waiting_queued else None,
        kv_median_ratio=median(known_kv) if known_kv else None,
        kv_low_ratio=min(known_kv, default=None),
        kv_high_ratio=max(known_kv, default=None),
        preemptions=server.grown(Quantity.PREEMPTIONS, one.first, one.last),
        silent_s=_silent_s(one),
        still_s=_still_s(one),
        api_cpu_ratio=_cpu_ratio(one),
        asleep=_asleep(one),
        deferred_share=_deferred(one),
        idle=_idle(one, len(scrapes) if whole else 2),
        max_num_seqs=told,
        limit=here.limit,
        running_queued_median=median(here.running_queued) if here.running_queued else None,
        unadmitted_s=_unadmitted_s(one, full, places),
        places=places,
        finished=alone.observed(Quantity.E2E),
        begun=alone.observed(Quantity.TTFT),
        queue_of_ttft_ratio=parts.queue_s / parts.total_s if parts is not None and parts.total_s > 0 else None,
        step_tokens=_step_tokens(one),
        outside_share=None,
    )


def _step_tokens(one: ScrapeRange) -> float | None:
    """What the fullest step held at least. A prompt is counted whole on the step that ends it, and one of a step may
    have begun before: so it is the lower bound of the highest bucket, less a prompt of the requests that finished."""
    counted = one.server.histogram(Quantity.ITERATION_TOKENS)
    steps = counted.between(one.first, one.last) if counted is not None else None
    fullest = steps.quantile(1.0) if steps is not None else None
    prompt = Window((one,)).mean(Quantity.REQUEST_PROMPT_TOKENS)
    return fullest.low - prompt if fullest is not None and prompt is not None and fullest.low > prompt else None


def _unadmitted_s(one: ScrapeRange, full: float, places: float | None) -> float | None:
    """Since when nobody was admitted though requests waited, running was below its places and the next one would have
    fitted; None where that is not so now, or not known."""
    server, begun = one.server, one.server.histogram(Quantity.TTFT)
    if places is None or begun is None:
        return None
    begun_anew = bisect_right(server.restarts, one.last)
    first = max(server.restarts[begun_anew - 1] if begun_anew else 0, one.last - _SCRAPES_BACK)
    scrape = one.last
    while scrape > first:
        running, waiting, kv = (server.value(quantity, scrape) for quantity in _GAUGES)
        before = server.value(Quantity.RUNNING, scrape - 1)
        if running is None or kv is None or before is None or not waiting:
            break
        admitted = running > before or (begun.sums(scrape - 1, scrape) or (0.0, 0.0))[1]
        if admitted or running >= places * (1 - SLACK) or kv >= full:
            break
        scrape -= 1
    return server.at_s[one.last] - server.at_s[scrape] if scrape < one.last else None


def _outside(number: int, one: ScrapeRange, load: LoadHistory) -> float | None:
    """Of vtop's own requests in flight, the share that the engine does not know: the median over scrapes with many."""
    if not load.phases:
        return None
    shares = []
    for scrape in range(one.first, one.last + 1):
        in_flight = load.in_flight_at(number, one.server.at_s[scrape])
        running, waiting = (one.server.value(quantity, scrape) for quantity in (Quantity.RUNNING, Quantity.WAITING))
        if in_flight >= MANY and running is not None and waiting is not None:
            shares.append(max(0.0, 1 - (running + waiting) / in_flight))
    return median(shares) if len(shares) >= 5 else None


def _on(server: ServerHistory, quantity: Quantity, scrapes: range) -> list[float | None]:
    track = server.total(quantity)
    if track is None or not scrapes:
        return [None] * len(scrapes)
    return [value if value == value else None for value in track.every(scrapes[0], scrapes[-1])]


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
        for quantity in (Quantity.RUNNING, Quantity.KV_USED)
        if (track := one.server.total(quantity)) is not None and (scrape := track.changed_at(one.last)) is not None
    ]
    changes += [_fell_at(one)]  # a queue that grows is no progress of the engine
    return one.server.at_s[one.last] - one.server.at_s[max(changes)]


def _fell_at(one: ScrapeRange) -> int:
    """The latest scrape on which fewer waited than before."""
    track = one.server.total(Quantity.WAITING)
    if track is None:
        return 0
    for place in range(bisect_right(track.scrape, one.last) - 1, 0, -1):
        if track.value[place] < track.value[place - 1]:
            return track.scrape[place]
    return 0


def _cpu_ratio(one: ScrapeRange) -> float | None:
    """CPU seconds of the API server's process per second; None where it is not exported (several API servers)."""
    used = [one.server.grown(Quantity.PROCESS_CPU, part.first, part.last) for part in one.pieces]
    known, seconds = [cpu_s for cpu_s in used if cpu_s is not None], sum(part.seconds for part in one.pieces)
    return sum(known) / seconds if known and len(known) == len(used) and seconds > 0 else None


def _asleep(one: ScrapeRange) -> bool:
    return one.server.value(Quantity.SLEEPING, one.last, "awake") == 0


def _deferred(one: ScrapeRange) -> float | None:
    now = one.server.value(Quantity.WAITING, one.last)
    held = one.server.value(Quantity.WAITING_BY_REASON, one.last, "deferred")
    return min(1.0, held / now) if now and held is not None else None
