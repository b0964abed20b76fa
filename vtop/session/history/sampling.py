"""How well a span was watched: how far apart its scrapes lie, against what was asked for, and what is missing.

The interval is from one scrape being asked for to the next; its error is how far that is from the interval asked for.
Scrapes on either side of a gap (an outage, a restart, a scrape too late) are not an interval: the gap is counted
instead. Percentiles are by nearest rank. Seconds.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from vtop.samples import nearest_rank
from vtop.session.history.server import ServerHistory


@dataclass(frozen=True, slots=True, eq=False)
class Sampling:
    server: int
    scrapes: int
    seconds: float  # from the first of these scrapes to the last
    interval_s: float  # asked for
    apart_p50_s: float | None
    apart_p99_s: float | None
    error_p50_s: float | None
    error_p99_s: float | None
    took_p50_s: float | None
    took_p99_s: float | None
    gaps: tuple[tuple[float, float], ...]
    gap_s: float
    outages: int
    restarts: int
    bad_lines: int  # scrapes with lines that were not understood


def sampling(servers: Sequence[ServerHistory], begin_s: float, end_s: float) -> tuple[Sampling, ...]:
    """Of each server with a scrape between two instants, both included."""
    found = (_of(number, server, begin_s, end_s) for number, server in enumerate(servers))
    return tuple(one for one in found if one is not None)


def _of(number: int, server: ServerHistory, begin_s: float, end_s: float) -> Sampling | None:
    first, last = bisect_left(server.at_s, begin_s - 1e-9), bisect_right(server.at_s, end_s + 1e-9) - 1
    if last < first:
        return None
    at_s = server.at_s[first : last + 1]
    gaps = tuple(gap for gap in server.gaps if gap[0] >= begin_s - 1e-9 and gap[1] <= end_s + 1e-9)
    after = {gap[1] for gap in gaps}
    apart = sorted(b - a for a, b in pairwise(at_s) if b not in after)
    error = sorted(abs(one - server.interval_s) for one in apart)
    took = sorted(server.took_s[first : last + 1])
    return Sampling(
        server=number,
        scrapes=last - first + 1,
        seconds=at_s[-1] - at_s[0],
        interval_s=server.interval_s,
        apart_p50_s=_rank(apart, 0.5),
        apart_p99_s=_rank(apart, 0.99),
        error_p50_s=_rank(error, 0.5),
        error_p99_s=_rank(error, 0.99),
        took_p50_s=_rank(took, 0.5),
        took_p99_s=_rank(took, 0.99),
        gaps=gaps,
        gap_s=sum(stop - start for start, stop in gaps),
        outages=sum(begin_s <= t <= end_s for t in server.broken_t),
        restarts=sum(first < scrape <= last for scrape in server.restarts),
        bad_lines=sum(1 for scrape in range(first, last + 1) if server.bad_lines.at(scrape)),
    )


def _rank(values: Sequence[float], q: float) -> float | None:
    return values[nearest_rank(q, len(values)) - 1] if values else None
