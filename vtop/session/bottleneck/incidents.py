"""When a server could not be read or its engine stood still: what the verdict said over the session, with its time.

stuck      requests run or wait, and from one scrape that shows a change of the engine to the next that does STILL_S or
           more pass: the verdict STUCK. Counted to the last scrape on which nothing had moved
outage     scrapes were tried and failed: from the last scrape to the first after it (STALE)
stale      no scrape came for longer than `patience_s`, and none is known to have failed (STALE)
unhealthy  /metrics answered and /health did not say 200: from the first such scrape to the last (STALE)
restart    the counters began anew; where the server was down meanwhile, that is its outage

An engine that sleeps is not stuck, nor is one whose /health fails: that is reported instead. Seconds of the session.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

from vtop.metrics.quantity import Quantity
from vtop.session.bottleneck.verdict import STILL_S
from vtop.session.frame.incidents import Incident
from vtop.session.frame.vocabulary import IncidentKind
from vtop.session.history.server import ServerHistory

_GAUGES = (Quantity.RUNNING, Quantity.WAITING, Quantity.KV_USED)


def incidents(servers: Sequence[ServerHistory], now_s: float) -> tuple[Incident, ...]:
    """All of them up to an instant, in the order in which they began."""
    found = [
        one
        for number, server in enumerate(servers)
        if (scrapes := server.visible(now_s))
        for of in (_stuck, _unread, _unhealthy, _restarts)
        for one in of(server, number, scrapes - 1, now_s)
    ]
    return tuple(sorted(found, key=lambda one: (one.begin_s, one.end_s)))


def _stuck(server: ServerHistory, number: int, last: int, _: float) -> Iterator[Incident]:
    moved = {0, *(scrape for scrape in server.progress if scrape <= last), *server.restarts}
    for quantity in _GAUGES:
        track = server.total(quantity)
        if track is None:
            continue
        changes = zip(track.scrape, pairwise([math.inf, *track.value]), strict=True)
        # a queue that grows is no progress of the engine
        moved.update(
            scrape
            for scrape, (before, now) in changes
            if scrape <= last and not (quantity is Quantity.WAITING and now > before)
        )
    marks = [*sorted(scrape for scrape in moved if scrape <= last), last + 1]
    for begin, after in pairwise(marks):
        end = after - 1
        while end > begin and not _well(server, end):
            end -= 1
        if server.at_s[end] - server.at_s[begin] >= STILL_S and _at_work(server, begin) and _well(server, begin):
            yield _incident("stuck", server, number, begin, server.at_s[end], over=end < last)


def _unread(server: ServerHistory, number: int, last: int, now_s: float) -> Iterator[Incident]:
    """Gaps, and the one that has no end yet."""
    at_s, broken = server.at_s, [one for one in server.outages if one.t <= now_s]
    gaps = [gap for gap in server.gaps if gap[1] <= at_s[last]]
    tried = any(one.at_s > at_s[last] for one in broken)
    if tried or now_s - at_s[last] > server.patience_s(last):
        gaps.append((at_s[last], now_s))
    for begin_s, end_s in gaps:
        first = next((one for one in broken if begin_s < one.at_s <= end_s), None)
        before = bisect_right(at_s, begin_s, 0, last + 1) - 1
        if first is None and end_s - begin_s <= server.patience_s(before):
            continue  # a restart that was quick
        kind: IncidentKind = "stale" if first is None else "outage"
        said = (first.detail or first.reason) if first is not None else None
        yield _incident(kind, server, number, before, end_s, over=end_s < now_s, detail=said)


def _unhealthy(server: ServerHistory, number: int, last: int, _: float) -> Iterator[Incident]:
    begin: int | None = None
    for scrape in range(last + 2):
        ill = scrape <= last and server.health.at(scrape) not in (None, 200)
        if ill and begin is None:
            begin = scrape
        elif not ill and begin is not None:
            said = server.health.at(begin)
            detail = f"/health says {said or 'nothing'}"
            yield _incident(
                "unhealthy", server, number, begin, server.at_s[scrape - 1], over=scrape <= last, detail=detail
            )
            begin = None


def _restarts(server: ServerHistory, number: int, last: int, _: float) -> Iterator[Incident]:
    for scrape in server.restarts:
        if scrape <= last:
            at_s = server.at_s[scrape]
            yield Incident("restart", number, at_s, at_s, 0.0, True, *_requests(server, scrape - 1), None)


def _incident(
    kind: IncidentKind,
    server: ServerHistory,
    number: int,
    begin: int,
    end_s: float,
    *,
    over: bool,
    detail: str | None = None,
) -> Incident:
    begin_s = server.at_s[begin]
    return Incident(kind, number, begin_s, end_s, end_s - begin_s, over, *_requests(server, begin), detail)


def _requests(server: ServerHistory, scrape: int) -> tuple[float | None, float | None]:
    tracks = (server.total(quantity) for quantity in (Quantity.RUNNING, Quantity.WAITING))
    running, waiting = (track.at(scrape) if track is not None else None for track in tracks)
    return running, waiting


def _at_work(server: ServerHistory, scrape: int) -> bool:
    return any(_requests(server, scrape))


def _well(server: ServerHistory, scrape: int) -> bool:
    """Neither asleep nor of a dead engine."""
    awake = server.total(Quantity.SLEEPING, "awake")
    return server.health.at(scrape) in (None, 200) and (awake is None or awake.at(scrape) != 0)
