"""How the parts of TTFT grow with load: one row per phase of vtop's own load, its growth, and where queue overtakes.

A phase's row is about the requests that finished from the end of its warm-up (or the latest change of its target by
hand) to its end, up to now while it runs: those that were sent while the load was what it is, draining included. Queue,
prefill and frontend are the server's (breakdown.py), network is what vtop's own stamps add (network.py) where that is
known, total their sum. Rows are comparable with the latest where shape of the loop, lengths and server are the same.

    prefill factor = prefill of the latest phase / prefill at the lowest load;   frontend likewise
    queue added    = queue of the latest phase - queue at the lowest load

Queue begins near 0, so a factor says nothing of it. Where queue is below prefill at the highest load, both are
continued as powers of the load through the last two loads,

    slope_q = ln(q2 / q1) / ln(C2 / C1)       crossing = C2 x (p2 / q2) ^ (1 / (slope_q - slope_p))

an extrapolation, given only where the two draw nearer and not beyond FAR times the highest load. Where queue was above
prefill at the highest load, `crossed_at` is the lowest load from which on it was (and `crossed_above` the one below, at
which it was not), and nothing is extrapolated. The shares of queue are those
of the window, with or without a load of vtop's own; of a window over several loads they are of none of them and not
known (those of each load are load_levels.py's). Seconds, ratios, requests in flight or per second.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from vtop.metrics.quantity import Quantity
from vtop.recording import Load
from vtop.session.frame.ttft import Growth, PhaseParts, Ttft
from vtop.session.history.server import ServerHistory
from vtop.session.history.ttft_parts import ttft_parts
from vtop.session.history.window import Window, between
from vtop.session.load.client_ttft import own_ttft
from vtop.session.load.load import LoadHistory
from vtop.session.load.phase import LoadPhase

FAR: Final = 4.0
ENOUGH: Final = 30  # finished requests, for a slope to be laid through them


class LoadScaling:
    """The rows of all phases so far; that of a phase which is over, and whose last scrape is there, is made once."""

    def __init__(self, servers: Sequence[ServerHistory], load: LoadHistory) -> None:
        self._servers = servers
        self._load = load
        self._over: dict[int, tuple[float, PhaseParts]] = {}  # from which t on it holds

    def rows(self, now_s: float) -> list[tuple[Load, PhaseParts]]:
        """In the order in which they began, each with its target."""
        found = []
        for number, phase in self._load.phases.items():
            if phase.begin.t <= now_s:
                found.append((phase.state(now_s)[0], self._row(number, phase, now_s)))
        return found

    def _row(self, number: int, phase: LoadPhase, now_s: float) -> PhaseParts:
        since_t, row = self._over.get(number, (math.inf, None))
        if row is not None and now_s >= since_t:
            return row
        target, end = phase.state(now_s)
        if not 0 <= target.server < len(self._servers):
            return _row(target, None)
        server = self._servers[target.server]
        if end is None:
            return self._reckoned(target, phase.settled_s(now_s), now_s, now_s)
        scrape = bisect_left(server.at_s, end.t)
        if scrape < server.visible(now_s):  # nothing of it is still to come
            row = self._reckoned(target, phase.settled_s(now_s), end.t, server.t[scrape])
            self._over[number] = (server.t[scrape], row)
            return row
        return self._reckoned(target, phase.settled_s(now_s), end.t, now_s)

    def _reckoned(self, target: Load, begin_s: float, end_s: float, now_s: float) -> PhaseParts:
        scrapes = between([self._servers[target.server]], begin_s, end_s, now_s)
        own = own_ttft(scrapes, self._servers, self._load.answered, now_s)
        return _row(target, scrapes, own.network_s if own is not None else None)


def growth(scaling: LoadScaling, ttft: Ttft, one_load: bool, now_s: float) -> Growth:
    """`ttft` is that of the window; one_load: it is all of one load, so that its shares are those of a load."""
    rows = scaling.rows(now_s)
    latest = next((row for row in reversed(rows) if row[1].total_s is not None), None)
    like = [part for target, part in rows if latest is not None and comparable(target, latest[0])]
    steps = _steps(like)
    now, lowest = (latest[1], steps[0]) if latest is not None and steps else (None, None)
    if now is lowest:
        lowest = None  # nothing to hold it against
    crossed_above, crossed_at = _crossed(steps)
    return Growth(
        phases=tuple(sorted((part for _, part in rows), key=_order)),
        queue_of_prefill_ratio=_ratio(ttft.queue_s, ttft.prefill_s) if one_load else None,
        queue_of_ttft_ratio=_ratio(ttft.queue_s, ttft.total_s) if one_load else None,
        prefill_of_ttft_ratio=_ratio(ttft.prefill_s, ttft.total_s) if one_load else None,
        frontend_of_ttft_ratio=_ratio(ttft.frontend_s, ttft.total_s) if one_load else None,
        prefill_factor=_ratio(now.prefill_s, lowest.prefill_s) if now is not None and lowest is not None else None,
        frontend_factor=_ratio(now.frontend_s, lowest.frontend_s) if now is not None and lowest is not None else None,
        queue_added_s=_added(now, lowest),
        crossing=crossing(steps) if crossed_at is None else None,
        crossing_unit=None if latest is None else "in flight" if latest[1].concurrency is not None else "requests/s",
        crossed_at=crossed_at,
        crossed_above=crossed_above,
    )


def crossing(steps: Sequence[PhaseParts]) -> float | None:
    """The load at which queue would overtake prefill, continued through the last two of the steps, lowest load first;
    None where it would not, or too far away to say."""
    points = [
        (load, part.queue_s, part.prefill_s)
        for part in steps
        if (load := load_of(part)) and part.queue_s and part.prefill_s and part.finished >= ENOUGH
    ]
    if len(points) < 2:
        return None
    (c1, q1, p1), (c2, q2, p2) = points[-2:]
    if q2 >= p2:
        return None
    nearing = (math.log(q2 / q1) - math.log(p2 / p1)) / math.log(c2 / c1)
    if nearing <= 0 or math.log(p2 / q2) > nearing * math.log(FAR):
        return None
    return float(c2 * (p2 / q2) ** (1 / nearing))


def _crossed(steps: Sequence[PhaseParts]) -> tuple[float | None, float | None]:
    """(the highest load at which queue was not above prefill, the lowest from which on it was); steps: lowest first."""
    below = next((at for at in range(len(steps) - 1, -1, -1) if not _above(steps[at])), None)
    first = 0 if below is None else below + 1
    if first >= len(steps):
        return None, None
    return (load_of(steps[below]) if below is not None else None), load_of(steps[first])


def _steps(parts: Sequence[PhaseParts]) -> list[PhaseParts]:
    """One phase for each load, the latest, lowest load first."""
    by_load = {load: part for part in parts if part.total_s is not None and (load := load_of(part)) is not None}
    return [part for _, part in sorted(by_load.items())]


def comparable(one: Load, other: Load) -> bool:
    return (one.shape, one.server, one.input_tokens, one.output_tokens) == (
        other.shape,
        other.server,
        other.input_tokens,
        other.output_tokens,
    )


def load_of(part: PhaseParts) -> float | None:
    """In flight or per second; None for a trace, whose load is its own."""
    return part.concurrency if part.concurrency is not None else part.rate_per_s


def _order(part: PhaseParts) -> tuple[bool, float]:
    """Closed loops before open ones, each by load; a trace last."""
    load = load_of(part)
    return part.concurrency is None, load if load is not None else math.inf


def _above(part: PhaseParts) -> bool:
    return part.queue_s is not None and part.prefill_s is not None and part.queue_s > part.prefill_s


def _added(now: PhaseParts | None, lowest: PhaseParts | None) -> float | None:
    if now is None or lowest is None or now.queue_s is None or lowest.queue_s is None:
        return None
    return max(0.0, now.queue_s - lowest.queue_s)


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def _row(target: Load, scrapes: Window | None, network_s: float | None = None) -> PhaseParts:
    parts = ttft_parts(scrapes) if scrapes is not None else None
    queue_s, prefill_s, frontend_s = parts if parts is not None else (None, None, None)
    known = (*parts, network_s) if parts is not None and network_s is not None else parts
    return PhaseParts(
        phase=target.phase,
        concurrency=float(target.concurrency) if target.concurrency is not None else None,
        rate_per_s=target.rate_per_s,
        finished=scrapes.observed(Quantity.E2E) if scrapes is not None else 0.0,
        queue_s=queue_s,
        prefill_s=prefill_s,
        frontend_s=frontend_s,
        network_s=network_s,
        total_s=sum(known) if known is not None else None,
    )
