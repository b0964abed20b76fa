"""Which spans of a recording a report speaks about, and at which instant the session is to be asked about each.

A phase is what was asked for (`--phase`); else one of vtop's own load, from the end of its warm-up; else what lies
between marks; else the span in which requests ran, or each of them where nobody was there in between, or where one
closed loop is followed by a larger one: a load that is only watched has no other sign of where it ends and the next
begins. A trial of few requests before a load is no part of it. Its steady part is the middle STEADY of it: the
climb to its load and the drain are left out. A frame's window lies between two scrapes: a phase is that from the first
scrape in it to the first scrape after it, unless the next load had begun by then.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from vtop import units
from vtop.errors import VtopError
from vtop.metrics.quantity import Quantity
from vtop.session.history.server import ServerHistory
from vtop.session.history.tracks import Track
from vtop.session.session import Session

STEADY = 0.6  # of a phase, its middle
PAUSE = 2  # scrapes in a row without a request
MANY, OTHER = 8, 1.2  # in flight before and after, one so many times the other: then one such scrape is a pause, too
SHORTEST_S = 5.0  # less is a trial before a load, or what is left of it
LEVEL = 6  # scrapes that tell the size of a closed loop: on all but one of them as many are in flight
ALIKE = 0.2  # as a share, as many
STEP, AT_ONCE = 1.5, 0.7  # a larger closed loop: so many times as many, and so much of the rise within a scrape
TRIAL = 0.05  # of the requests of the largest span: so few in a short one are a client's trial, and no load
MOST = 12  # spans: more are not loads one after another, but requests now and then


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A part of the session, in its seconds. source: load, asked, mark, activity, pause (a pause, or a step in how many
    were in flight, lies between two of them)."""

    name: str
    source: str
    begin_s: float
    end_s: float
    load: int | None = None  # number of the phase of vtop's own load
    until_s: float | None = None  # when the next load begins: no scrape from then on is about this one

    @property
    def steady(self) -> tuple[float, float]:
        margin_s = (1 - STEADY) / 2 * (self.end_s - self.begin_s)
        return self.begin_s + margin_s, self.end_s - margin_s


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask the session: the frame at `now_s` with a window of `window_s`, which begins at `begin_s`."""

    now_s: float
    window_s: float
    begin_s: float
    end_s: float


def asked_phases(text: str) -> tuple[TimeRange, ...]:
    """Of "0:30-2:10,warm=2:10-3:00". Raises VtopError with what was expected."""
    found = []
    for word in text.split(","):
        name, named, span = word.strip().rpartition("=")
        begin, dash, end = span.partition("-")
        try:
            begin_s, end_s = units.duration(begin), units.duration(end)
        except ValueError:
            dash = ""
        if not dash or (named and not name):
            raise VtopError(f"--phase {word.strip()!r}: write FROM-TO or NAME=FROM-TO, such as 0:30-2:10")
        if end_s <= begin_s:
            raise VtopError(f"--phase {word.strip()!r}: it ends before it begins")
        found.append(TimeRange(name or f"{units.clock(begin_s)}–{units.clock(end_s)}", "asked", begin_s, end_s))
    return tuple(found)


def ranges(session: Session, asked: Sequence[TimeRange] = ()) -> tuple[TimeRange, ...]:
    """The phases of a session, in order; none where no request ran. Raises VtopError for one beyond its end."""
    if asked:
        if (late := next((one for one in asked if one.end_s > session.end_s + 1), None)) is not None:
            raise VtopError(f"--phase {late.name}: the recording ends at {units.clock(session.end_s)}")
        return tuple(sorted(asked, key=lambda one: one.begin_s))
    if session.load.phases:
        return _of_load(session)
    busy = activity(session.servers)
    if busy is None:
        return ()
    marked = [mark for mark in session.marks("mark") if busy[0] < mark.at_s < busy[1]]
    if not marked:
        parts = _apart(session.servers[0]) if len(session.servers) == 1 else []
        if 1 < len(parts) <= MOST:
            return tuple(_named("pause", *part) for part in parts)
        load = _without_trials(session.servers, busy)
        return (TimeRange("all requests", "activity", *busy) if load == busy else _named("activity", *load),)
    names = ["before the first mark", *(mark.text for mark in marked)]
    edges = [busy[0], *(mark.at_s for mark in marked), busy[1]]
    return tuple(
        TimeRange(name, "mark", begin_s, end_s)
        for name, begin_s, end_s in zip(names, edges, edges[1:], strict=False)
        if end_s > begin_s
    )


def _named(source: str, begin_s: float, end_s: float) -> TimeRange:
    return TimeRange(f"{units.clock(begin_s)}–{units.clock(end_s)}", source, begin_s, end_s)


def _of_load(session: Session) -> tuple[TimeRange, ...]:
    found = []
    phases = list(session.load.phases.items())
    following: list[float | None] = [phase.begin.t for _, phase in phases[1:]]
    for (number, phase), next_s in zip(phases, [*following, None], strict=True):
        _, end = phase.state(session.end_s)
        end_s = end.t if end is not None else session.end_s if next_s is None else next_s
        begin_s = min(phase.settled_s(end_s), end_s)
        found.append(TimeRange(phase.begin.spec, "load", begin_s, end_s, number, next_s))
    return tuple(found)


def activity(servers: Sequence[ServerHistory]) -> tuple[float, float] | None:
    """From the scrape before requests first ran or waited to the first scrape after they last did; None: they never
    did."""
    begins, ends = [], []
    for server in servers:
        scrapes = [scrape for scrape in server.progress if scrape > 0]
        for quantity in (Quantity.RUNNING, Quantity.WAITING):
            scrapes += _positive(server.total(quantity), len(server.at_s) - 1)
        if scrapes:
            begins.append(server.at_s[max(0, min(scrapes) - 1)])
            ends.append(server.at_s[min(max(scrapes) + 1, len(server.at_s) - 1)])
    return (min(begins), max(ends)) if begins else None


def _without_trials(servers: Sequence[ServerHistory], busy: tuple[float, float]) -> tuple[float, float]:
    """All activity without the few requests that came before or after all others: a client's warm-up is no load."""
    spans = [span for server in servers for span in _with_requests(server)]
    ended = [_ended(servers, *span) for span in spans]
    many = max(ended, default=0.0)
    kept = [span for span, count in zip(spans, ended, strict=True) if not _is_trial(span, count, many)]
    if not kept:
        return busy
    begin_s, end_s = min(span[0] for span in kept), max(span[1] for span in kept)
    before, after = _ended(servers, busy[0], begin_s), _ended(servers, end_s, busy[1])
    few = TRIAL * many
    return begin_s if 0 < before < few else busy[0], end_s if 0 < after < few else busy[1]


def _ended(servers: Sequence[ServerHistory], begin_s: float, end_s: float) -> float:
    """Requests that finished between two scrapes."""
    ended = 0.0
    for server in servers:
        first, last = (max(0, bisect_right(server.at_s, at_s) - 1) for at_s in (begin_s, end_s))
        ended += sum(track.grown(first, last) or 0.0 for track in server.finished)
    return ended


def _is_trial(span: tuple[float, float], ended: float, many: float) -> bool:
    """many: finished requests of the largest span; where none are counted nothing is known to be a trial."""
    return span[1] - span[0] < SHORTEST_S and ended < TRIAL * many


def _apart(server: ServerHistory) -> list[tuple[float, float]]:
    """The spans with requests that a pause or a gap lies between; a trial is none, another short one goes with the
    next."""
    spans = _with_requests(server)
    ended = [_ended((server,), *span) for span in spans]
    many = max(ended, default=0.0)
    joined: list[list[float]] = []
    for span, count in zip(spans, ended, strict=True):
        if _is_trial(span, count, many):
            continue
        if joined and joined[-1][1] - joined[-1][0] < SHORTEST_S:
            joined[-1][1] = span[1]
        else:
            joined.append([*span])
    if len(joined) > 1 and joined[-1][1] - joined[-1][0] < SHORTEST_S:
        _, end_s = joined.pop()
        joined[-1][1] = end_s
    return [(begin_s, end_s) for begin_s, end_s in joined]


def _with_requests(server: ServerHistory) -> list[tuple[float, float]]:
    """From the scrape before requests run or wait to the one after, a span each where a pause or a gap lies between."""
    gauges = [track for quantity in (Quantity.RUNNING, Quantity.WAITING) if (track := server.total(quantity))]
    if not gauges or not server.at_s:
        return []
    last = len(server.at_s) - 1
    rows = (track.every(0, last) for track in gauges)
    present = [sum(value for value in row if value == value) for row in zip(*rows, strict=True)]
    anew = {bisect_left(server.at_s, stop) for _, stop in server.gaps}
    found: list[tuple[int, int]] = []  # first and last scrape with requests
    for scrape, many in enumerate(present):
        if not many:
            continue
        if not found or _paused(present, found[-1][1], scrape) or any(found[-1][1] < one <= scrape for one in anew):
            found.append((scrape, scrape))
        found[-1] = (found[-1][0], scrape)
    spans = []
    for begin, end in found:
        before, after = max(0, begin - int(begin not in anew)), min(end + int(end + 1 not in anew), last)
        edges = [before, *_steps(present, begin, end), after]
        spans += [(server.at_s[one], server.at_s[other]) for one, other in pairwise(edges)]
    return spans


def _steps(present: Sequence[float], begin: int, end: int) -> list[int]:
    """The scrapes after which a closed loop is followed by a larger one without a pause. (By a smaller one is not told
    from a load that runs out.)"""
    found: list[int] = []
    first = begin
    for scrape in range(begin + LEVEL, end + 2 - LEVEL):
        before, after = present[max(first, scrape - LEVEL) : scrape], present[scrape : scrape + LEVEL]
        level, higher = median(before), median(after)
        rose = higher - level
        if len(before) < LEVEL or higher < MANY or higher < STEP * level or rose < 3 * math.sqrt(higher):
            continue
        at_once = present[scrape] - present[scrape - 1] >= AT_ONCE * rose  # a queue grows little by little
        if at_once and _stands(before, level) and _stands(after, higher):
            found.append(scrape - 1)
            first = scrape
    return found


def _stands(present: Sequence[float], level: float) -> bool:
    return sum(abs(many - level) > max(1, ALIKE * level) for many in present) <= 1


def _paused(present: Sequence[float], end: int, begin: int) -> bool:
    """Whether nobody was there for long enough between two scrapes with requests."""
    idle = begin - end - 1
    if idle >= PAUSE:
        return True
    before, after = median(present[max(0, end - 4) : end + 1]), median(present[begin : begin + 5])
    return idle == 1 and min(before, after) >= MANY and max(before, after) >= OTHER * min(before, after)


def _positive(track: Track | None, last: int) -> list[int]:
    """The first and the last scrape of each span in which a number is above 0."""
    if track is None:
        return []
    until = [scrape - 1 for scrape in track.scrape[1:]] + [last]
    spans = zip(track.scrape, until, track.value, strict=True)
    return [scrape for first, end, value in spans if value > 0 for scrape in (first, end)]


class Pages:
    """The scrapes of all servers in order of time, to find the instant to ask at."""

    def __init__(self, servers: Sequence[ServerHistory]) -> None:
        scrapes = sorted((at_s, t) for server in servers for at_s, t in zip(server.at_s, server.t, strict=True))
        self.at_s = [at_s for at_s, _ in scrapes]
        self._t = [t for _, t in scrapes]

    def covering(self, begin_s: float, end_s: float, until_s: float | None = None) -> Question | None:
        """All of a span: from the first scrape in it to the first after it, where that lies before `until_s`."""
        first = bisect_left(self.at_s, begin_s - 1e-9)
        last = min(bisect_left(self.at_s, end_s - 1e-9), len(self.at_s) - 1)
        if until_s is not None and last >= 0 and self.at_s[last] >= until_s:
            last = bisect_right(self.at_s, end_s) - 1
        return self._question(first, last)

    def within(self, begin_s: float, end_s: float) -> Question | None:
        """Only what lies inside of a span."""
        return self._question(bisect_left(self.at_s, begin_s), bisect_right(self.at_s, end_s) - 1)

    def _question(self, first: int, last: int) -> Question | None:
        if not 0 <= first < last:
            return None
        return Question(
            now_s=max(self._t[last], self.at_s[last]),
            window_s=self.at_s[last] - self.at_s[first],
            begin_s=self.at_s[first],
            end_s=self.at_s[last],
        )
