"""The KV account: how full the pool should be with so many requests of such lengths, against how full it is.

A request of `in` prompt and `out` output tokens holds whole blocks, at most at its end and on average half way:

    peak  = ceil((in + out)     / block) x block        mean  = ceil((in + out / 2) / block) x block
    expected peak = C x peak / pool                     expected mean = C x mean / pool

for the nominal C (what the clients keep in flight) and the effective C (what really runs: the median of running).
Peak is held against the highest scrape, mean against the median scrape: never one against the other, they differ by
out / 2. An expected peak above 1 says how many times the pool is oversubscribed. A scrape a second can miss the peak of
requests that live for a few scrapes only, and blocks that requests share are in use once: then measured is below.

    oversubscription = C x (in + out) / pool            predicted residents = pool / (in + out)
    waste            = peak - (in + out) at the end of a request; over its life the mean of that, token by token
    full in          = (pool - tokens in use) / growth of the tokens in use since they last fell, of fine scrapes only

Lengths and C are those of vtop's own load where its lengths are exact and nobody else is served. Otherwise the lengths
are the means of the requests that finished, and C is the median of running + waiting (of the scrapes with a queue,
where those are most). Looked at are the scrapes since the latest restart and since vtop's own load began or was changed
by hand, warm-up and draining included; for C, peak and median those of them on which a request ran or waited. Where
the load is another's, nobody tells when it changed: there the scrapes since running + waiting last grew to twice what
it had been (and by twice its square root, as much as chance may do), and since nobody was there between two loads of
many, are those of the load of now. Of several engines and servers tokens add up, and a ratio is of all their pools
together. Tokens, requests, seconds, ratios.
Source: vLLM v1/core/kv_cache_manager.py, block_pool.py.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, compress
from operator import add
from statistics import fmean, median
from typing import Final

from vtop.metrics.quantity import Quantity
from vtop.recording import Load
from vtop.session.frame.kv import Expectation, KvAccount
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import ScrapeRange, Window
from vtop.session.kv.blocks import RequestLengths, blocks_of, waste_of
from vtop.session.kv.pool import KvPool, pool_at
from vtop.session.load.client_ttft import FOREIGN_SHARE
from vtop.session.load.load import LoadHistory

RISING_SCRAPES: Final = 3  # fewer since the last fall, and the growth is that of the last RECENT_S
RECENT_S: Final = 10.0
FEWER: Final = 3  # scrapes with too few requests in a row are another load's
MANY: Final = 8  # in flight: fewer come and go by themselves
LATEST: Final = 3  # scrapes that tell how many there are now
TELLS: Final = 0.25  # of the residents of a load that has just begun must have finished, to tell its lengths
SAME: Final = 0.02  # by which what is served may differ from what the load asks for


def account(
    window: Window, servers: Sequence[ServerHistory], load: LoadHistory, now_s: float, bytes_per_token: float | None
) -> KvAccount:
    window = Window(window.answering).since(load.changed_s(now_s))
    own = _own(window, servers, load, now_s)
    asked: Load | None = None
    if own is not None:
        window, asked = own
        began = False
    else:
        began_s = max(_grown_s(window), _idle_s(window))
        window, began = window.since(began_s), began_s > -math.inf
    pool, block = _pool(window, now_s)
    running, waiting = window.each_together(Quantity.RUNNING), window.each_together(Quantity.WAITING)
    used = _used(window, now_s)
    busy = [a > 0 or b > 0 for a, b in zip(running, waiting, strict=True)]
    held = [value for value in compress(used, busy) if value == value]
    measured = (max(held), median(held)) if held else None
    present = [value for value in compress(running, busy) if value == value]
    residents = median(present) if present else None
    lengths = _asked(asked) if asked is not None else _finished(window)
    if asked is None and (began or not any(busy[:1])) and window.observed(Quantity.E2E) < TELLS * (residents or 0.0):
        lengths = None  # of a load that has just begun the first to finish are its shortest, or a trial
    nominal = float(asked.concurrency) if asked is not None and asked.concurrency else _in_flight(running, waiting)
    asked_tokens = nominal * lengths.total if nominal is not None and lengths is not None else None
    fine = all(one.server.fine for one in window.ranges)
    growth = _growth(window.instants, used) if used and fine else None
    room = max(0.0, 1.0 - used[-1]) if used and used[-1] == used[-1] else None
    at_end, over_life = waste_of(lengths, block) if lengths is not None and block is not None else (None, None)
    runs = running[-1] if running and running[-1] == running[-1] else None
    return KvAccount(
        input_tokens=lengths.input if lengths is not None else None,
        output_tokens=lengths.output if lengths is not None else None,
        lengths_from=None if lengths is None else "finished requests" if asked is None else "the load's spec",
        nominal=_expectation(nominal, lengths, pool, block, measured),
        effective=_expectation(residents, lengths, pool, block, measured),
        asked_tokens=asked_tokens,
        asked_bytes=_times(asked_tokens, bytes_per_token),
        request_tokens=lengths.total if lengths is not None else None,
        request_bytes=_times(lengths.total if lengths is not None else None, bytes_per_token),
        oversubscription=asked_tokens / pool if asked_tokens is not None and pool else None,
        predicted_residents=pool / lengths.total if pool and lengths is not None else None,
        measured_residents=residents,
        growth_tokens_per_s=growth * pool if growth is not None and pool else None,
        full_in_s=room / growth if room is not None and growth else None,
        waste_tokens_per_request=at_end,
        waste_tokens=over_life * runs if over_life is not None and runs is not None else None,
    )


# --- whose requests, and how long -------------------------------------------------------------------------------------


def _own(
    window: Window, servers: Sequence[ServerHistory], load: LoadHistory, now_s: float
) -> tuple[Window, Load] | None:
    """The scrapes of the server that vtop's own load is put on, with what it asks for; None where its lengths are not
    exact, or others are served too."""
    phase = load.latest(now_s)
    if phase is None or not 0 <= phase.begin.server < len(servers):
        return None
    asked, _ = phase.state(now_s)
    server = servers[phase.begin.server]
    one = next((one for one in window.ranges if one.server is server), None)
    if one is None or not _one_length(asked.input_tokens) or not _one_length(asked.output_tokens):
        return None
    mine = Window((one,))
    finished = mine.observed(Quantity.E2E)
    answered = load.answered.get(phase.begin.server)
    own = answered.within(mine.ranges[0], finished, now_s).n if answered is not None else 0
    foreign = window.observed(Quantity.E2E) - own
    if foreign > FOREIGN_SHARE * finished:
        return None
    in_flight = _in_flight(mine.each_together(Quantity.RUNNING), mine.each_together(Quantity.WAITING))
    if asked.concurrency and in_flight is not None and in_flight > asked.concurrency * (1 + SAME) + 1:
        return None
    wanted, found = _asked(asked), _finished(mine)
    if found is not None and not (_close(found.input, wanted.input) and _close(found.output, wanted.output)):
        return None
    return mine, asked


def _grown_s(window: Window) -> float:
    """The first scrape after the latest on which there were far fewer requests than now; -inf where there were not."""
    together = map(add, window.each_together(Quantity.RUNNING), window.each_together(Quantity.WAITING))
    busy = [(at_s, many) for at_s, many in zip(window.instants, together, strict=True) if many > 0]
    if not busy:
        return -math.inf
    now = median(many for _, many in busy[-LATEST:])
    least, fewer = now - max(now / 2, 2 * math.sqrt(now)), 0
    for place in range(len(busy) - 1, -1, -1):
        fewer = fewer + 1 if busy[place][1] < least else 0
        if fewer == FEWER and place + FEWER < len(busy):
            return busy[place + FEWER][0]
    return -math.inf


def _idle_s(window: Window) -> float:
    """The latest of two scrapes in a row without a request between two loads with MANY in flight: what finished before
    it was another load's; -inf where there was none."""
    together = list(map(add, window.each_together(Quantity.RUNNING), window.each_together(Quantity.WAITING)))
    before = list(accumulate(together, max))
    most = 0.0
    for place in range(len(together) - 1, -1, -1):
        if together[place] == 0 == together[max(0, place - 1)] and most >= MANY:
            return window.instants[place] if before[place] >= MANY else -math.inf
        most = max(most, together[place])
    return -math.inf


def _in_flight(running: Sequence[float], waiting: Sequence[float]) -> float | None:
    """The median of running + waiting where there were any; of the scrapes with a queue alone where those are most, so
    that a load which runs out does not count as a smaller one."""
    together = list(map(add, running, waiting))
    busy = [one for one in together if one > 0]
    queued = [one for one, queue in zip(together, waiting, strict=True) if queue > 0 and one > 0]
    found = queued if 2 * len(queued) > len(busy) else busy
    return median(found) if found else None


def _one_length(tokens: tuple[int, int] | None) -> bool:
    return tokens is not None and tokens[0] == tokens[1]


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * other


def _asked(asked: Load) -> RequestLengths:
    assert asked.input_tokens is not None
    assert asked.output_tokens is not None
    return RequestLengths(float(asked.input_tokens[0]), float(asked.output_tokens[0]), exact=True)


def _finished(window: Window) -> RequestLengths | None:
    """The means of the requests that finished in the window."""
    prompt = window.mean(Quantity.REQUEST_PROMPT_TOKENS)
    output = window.mean(Quantity.REQUEST_GENERATION_TOKENS)
    if prompt is None or output is None or prompt + output <= 0:
        return None
    return RequestLengths(prompt, output, exact=False)


# --- the pool ---------------------------------------------------------------------------------------------------------


def _pool(window: Window, now_s: float) -> tuple[float | None, int | None]:
    """(tokens of all pools, block size); None where one server does not tell."""
    pools = [_pool_of(one, now_s) for one in window.ranges]
    sizes = [one.tokens for one in pools if one.tokens is not None]
    return sum(sizes) if sizes and len(sizes) == len(pools) else None, pools[0].block_size if pools else None


def _pool_of(one: ScrapeRange, now_s: float) -> KvPool:
    identity = one.server.identity(now_s)
    return pool_at(one.server, one.last, identity.max_model_len if identity is not None else None)


def _used(window: Window, now_s: float) -> list[float]:
    """The share of all pools that is in use, at each instant of the window; NaN where it is not known.

    Engines of one server have pools of one size.
    """
    rows: list[tuple[float, list[float]]] = []
    for one in window.ranges:
        engines = one.server.engines(Quantity.KV_USED, one.last)
        pool = _pool_of(one, now_s).tokens if len(window.ranges) > 1 else 1.0
        if pool is not None:
            rows += [(pool / len(engines), window.each(one, track)) for track in engines.values()]
    if len(rows) == 1:
        return rows[0][1]
    weights = [weight for weight, _ in rows]
    shares = []
    for column in zip(*(row for _, row in rows), strict=True):
        known = [(weight, value) for weight, value in zip(weights, column, strict=True) if value == value]
        whole = sum(weight for weight, _ in known)
        shares.append(sum(weight * value for weight, value in known) / whole if whole > 0 else math.nan)
    return shares if rows else [math.nan] * len(window.instants)


# --- what follows -----------------------------------------------------------------------------------------------------


def _expectation(
    concurrency: float | None,
    lengths: RequestLengths | None,
    pool: float | None,
    block: int | None,
    measured: tuple[float, float] | None,
) -> Expectation | None:
    """`measured`: the highest and the median share of the pool in use."""
    if concurrency is None or lengths is None or not pool or not block:
        return None
    peak = concurrency * blocks_of(lengths.total, block) * block / pool
    mean = concurrency * blocks_of(lengths.input + lengths.output / 2, block) * block / pool
    return Expectation(
        concurrency=concurrency,
        peak_ratio=peak,
        mean_ratio=mean,
        peak_error_ratio=measured[0] - peak if measured is not None else None,
        mean_error_ratio=measured[1] - mean if measured is not None else None,
    )


def _times(tokens: float | None, bytes_each: float | None) -> float | None:
    return tokens * bytes_each if tokens is not None and bytes_each is not None else None


def _growth(at_s: Sequence[float], used: Sequence[float]) -> float | None:
    """The slope, per second, of what is in use since it last fell, or over RECENT_S where that is too short; 0 where it
    does not grow, None where it is not known."""
    last = len(used) - 1
    first = last
    while first > 0 and used[first - 1] <= used[first]:
        first -= 1
    if last - first + 1 < RISING_SCRAPES:
        first = bisect_left(at_s, at_s[last] - RECENT_S - 1e-9)
    points = [(at, value) for at, value in zip(at_s[first:], used[first:], strict=True) if value == value]
    if len(points) < RISING_SCRAPES:
        return None
    mean_s, mean = fmean(at for at, _ in points), fmean(value for _, value in points)
    spread = sum((at - mean_s) ** 2 for at, _ in points)
    slope = sum((at - mean_s) * (value - mean) for at, value in points) / spread if spread > 0 else 0.0
    return max(0.0, slope)
