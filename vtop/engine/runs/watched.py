"""The loads of a recording whose client is not on record: how long its requests were, and which came when, by scrapes.

Of each scrape is known how many requests had finished and how many ran and waited; together that is how many had come.
A server on which as many were in flight on nearly every scrape, for as long as requests came, was under a closed loop;
so was one that came back to that number after every wave of answers.
Any other had an open one: its requests came between the two scrapes that saw their number grow, and where in between
is drawn anew for each simulation. All requests of a load must be of one length; a few others may stand before it, as
the trial request of a client does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite
from statistics import fmean

from vtop.engine.runs.observed import ObservedTimes, observed
from vtop.engine.runs.replay import Ask, ReplayLoad
from vtop.metrics.quantity import Quantity
from vtop.session.history.server import ServerHistory
from vtop.session.history.window import ScrapeRange, Window, between
from vtop.session.session import Session

EVEN = 0.002  # lengths that differ by less than this share are one length
PARTS = 16  # of a load, in each of which its requests must be as long
SCRAPES_APART = 0.02  # of a load; more, and how long it took is not known
TRIALS = 0.02  # of its requests, or one, may stand before a load and be of another length
FEW = 0.05  # of all requests: a stretch with fewer is the client's trial, and no load
STEADY, MOSTLY = 0.85, 0.9  # a closed loop has so much of its requests in flight, on so many of the scrapes
FULL, OFTEN_SHORT = 0.98, 0.66  # or as many, but for scrapes just after so many answers as are missing
ENOUGH = 3  # scrapes, to tell a closed loop
LASTS = 3.0  # times a request's e2e: in flight for so long, a number is no chance
MANY = 500  # scrapes: of more, closed loops that follow each other are not looked for
LEFT = 0.02  # of the requests in flight may seem to have gone: gauges and counters are not set at one instant
TELLS = 30  # requests between the edges of an open loop: of fewer no rate is told
MOST = 200_000  # requests of a load that is replayed
UNEVEN = "its requests are of several lengths, and vtop sent none of them: which came when is not on record"
GONE = "requests left it without an answer, so that scrapes do not tell which came when"
RESTARTED = "its server restarted under the load"


_Coming = tuple[float, float, int, int]  # between two instants: how many had come at the one and the other


@dataclass(frozen=True, slots=True)
class Watched:
    load: ReplayLoad
    observed: ObservedTimes
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Counts:
    """At each scrape of a server: requests finished, in flight, and come so far."""

    at_s: Sequence[float]
    finished: Sequence[int]
    in_flight: Sequence[int]
    come: Sequence[int]
    fell: Sequence[int]  # by how much fewer than before have come: some left


def watched(session: Session) -> Iterator[Watched | str]:
    """The loads of a recording, or in the place of what is none why it is none."""
    server = session.servers[0]
    scrapes = server.visible(session.end_s)
    if scrapes < 2:
        yield "fewer than two scrapes of the server are on record"
        return
    counts = _counts(session, server, scrapes)
    if not counts.finished[-1]:
        yield "no request finished in it"
        return
    for first, last in _stretches(counts):
        if counts.finished[last] - counts.finished[first] > FEW * counts.finished[-1]:
            yield _load(session, server, counts, first, last)


def _counts(session: Session, server: ServerHistory, scrapes: int) -> _Counts:
    whole = between(session.servers, server.at_s[0], server.at_s[scrapes - 1], session.end_s)
    running, waiting = (_each(whole, quantity) for quantity in (Quantity.RUNNING, Quantity.WAITING))
    in_flight = [round(a + b) if isfinite(a + b) else 0 for a, b in zip(running, waiting, strict=True)]
    track = server.histogram(Quantity.E2E)
    sums = [track.sums(0, scrape) if track is not None else None for scrape in range(scrapes)]
    finished = [round(found[1]) if found is not None and isfinite(found[1]) else 0 for found in sums]
    come, fell, most = [], [], 0
    for done, now in zip(finished, in_flight, strict=True):
        fell.append(max(0, most - done - now))
        most = max(most, done + now)
        come.append(most)
    return _Counts(server.at_s[:scrapes], finished, in_flight, come, fell)


def _stretches(counts: _Counts) -> Iterator[tuple[int, int]]:
    """The first and last scrape of each time that requests were there: between two scrapes or more without any."""
    first, last = 0, len(counts.at_s) - 1
    states = list(zip(counts.in_flight, counts.come, strict=True))
    idle = [not counts.in_flight[0], *(not now[0] and now == before for before, now in pairwise(states))]
    for scrape in range(1, last + 1):
        if idle[scrape - 1] and not idle[scrape]:
            first = scrape - 1
        if idle[scrape] and not idle[scrape - 1]:
            yield first, scrape
    if not idle[last]:
        yield first, last


def _load(session: Session, server: ServerHistory, counts: _Counts, first: int, last: int) -> Watched | str:
    if any(first < restart <= last for restart in server.restarts):
        return RESTARTED
    if max(counts.fell[first:last]) > max(1.0, LEFT * max(counts.in_flight[first : last + 1])):
        return GONE  # at its end a client may well leave
    if counts.come[last] - counts.finished[first] > MOST:
        return f"more than {MOST:,} requests came"
    whole = ScrapeRange(server, first, last, silent=False)
    found = _one_length(whole, counts)
    if found is None:
        return UNEVEN
    begin, (prompt, output) = found
    window = Window((replace(whole, first=begin),))
    busy_s, span_s = _busy(counts, begin, last)
    seen = observed(session, window, busy_s, span_s)
    if seen is None:
        return "no request finished in it"
    ask = Ask(round(prompt), round(output))
    trials = counts.finished[begin] - counts.finished[first]
    remarks = [f"{trials} of its first requests, of another length, left out"] if trials else []
    concurrency = _concurrency(counts, first, last, seen.e2e_s)
    if isinstance(concurrency, str):
        return concurrency
    if concurrency is not None:
        remarks.append(f"by its scrapes a closed loop: {concurrency} in flight")
        return Watched(ReplayLoad((ask,) * seen.requests, concurrency), seen, tuple(remarks))
    remarks.append("by its scrapes an open loop: when within a scrape a request came is drawn for each simulation")
    if counts.in_flight[0] and not first:
        remarks.append(f"{counts.in_flight[0]} requests were there when the recording began")
    return Watched(ReplayLoad(_arrivals(ask, counts, begin, last, seen.e2e_s)), seen, tuple(remarks))


def _one_length(whole: ScrapeRange, counts: _Counts) -> tuple[int, tuple[float, float]] | None:
    """From which scrape on all requests finished are of one length, and that length; None where they are not."""
    half = (counts.finished[whole.first] + counts.finished[whole.last]) / 2
    middle = next(at for at in range(whole.first, whole.last + 1) if counts.finished[at] >= half)
    lengths = _lengths(Window((replace(whole, first=min(middle, whole.last - 1)),)))
    if lengths is None:
        lengths = _lengths(Window((whole,)))
    if lengths is None:
        return None
    trials = max(1.0, TRIALS * (counts.finished[whole.last] - counts.finished[whole.first]))
    begin = whole.first
    for scrape in range(whole.first + 1, whole.last):
        done = counts.finished[scrape] - counts.finished[whole.first]
        if done > trials:
            break
        part = _lengths(Window((replace(whole, first=begin, last=scrape),)))
        if part is not None and not _alike(part, lengths):
            begin = scrape
    scrapes = range(begin, whole.last + 1, max(1, (whole.last - begin) // PARTS))
    parts = [*pairwise(scrapes), (scrapes[-1], whole.last)]
    found = (_lengths(Window((replace(whole, first=first, last=last),))) for first, last in parts if last > first)
    return (begin, lengths) if all(part is None or _alike(part, lengths) for part in found) else None


def _alike(part: tuple[float, float], lengths: tuple[float, float]) -> bool:
    return all(abs(a - b) <= EVEN * b for a, b in zip(part, lengths, strict=True))


def _concurrency(counts: _Counts, first: int, last: int, e2e_s: float) -> int | str | None:
    """Of a closed loop; None of an open one; why it is neither."""
    begun = next(at for at in range(first, last + 1) if counts.in_flight[at] or counts.come[at] > counts.come[first])
    coming = [at for at in range(begun + 1, last) if counts.come[at] < counts.come[last]]
    most = max(counts.in_flight[first : last + 1])
    if len(coming) < ENOUGH:
        return None
    if _is_closed(counts, coming, most):
        return most
    several = _closed_in_turn(counts, coming, LASTS * e2e_s)
    said = f"it changes between closed loops, {' and '.join(map(str, several))} in flight, without a pause of 2 scrapes"
    return said if several else None


def _is_closed(counts: _Counts, scrapes: Sequence[int], most: int) -> bool:
    """Whether so many were in flight on nearly all these scrapes, or on all but those after a wave of answers."""
    if sum(counts.in_flight[at] >= STEADY * most for at in scrapes) >= MOSTLY * len(scrapes):
        return True
    # in waves all answers come at once, and for a moment no request has taken their place
    short = [at for at in scrapes if counts.in_flight[at] < FULL * most]
    just = [at for at in short if counts.finished[at] - counts.finished[at - 1] >= most - counts.in_flight[at]]
    return len(short) <= OFTEN_SHORT * len(scrapes) and len(just) >= MOSTLY * len(short)


def _closed_in_turn(counts: _Counts, scrapes: Sequence[int], lasts_s: float) -> list[int]:
    """The numbers in flight of closed loops that follow each other; empty where these are not most of the time."""
    found, covered, begin = [], 0, 0
    while begin < len(scrapes) <= MANY:
        for end in range(len(scrapes), begin + ENOUGH - 1, -1):
            part = scrapes[begin:end]
            most = max(counts.in_flight[at] for at in part)
            lasts = counts.at_s[part[-1]] - counts.at_s[part[0]] >= lasts_s
            if lasts and _is_closed(counts, part, most):
                found.append(most)
                covered += len(part)
                begin = end
                break
        else:
            begin += 1
    return found if len(found) > 1 and covered >= MOSTLY * len(scrapes) else []


def _arrivals(ask: Ask, counts: _Counts, begin: int, last: int, e2e_s: float) -> tuple[Ask, ...]:
    """A request for each that came and had not finished on the scrape `begin`. Those that were there on the first
    scrape came within an e2e before it."""
    gone = counts.finished[begin]
    edges = [(counts.at_s[0] - e2e_s, counts.at_s[0], 0, counts.come[0])]
    edges += [(counts.at_s[at - 1], counts.at_s[at], counts.come[at - 1], counts.come[at]) for at in range(1, last + 1)]
    coming = [(since_s, until_s, max(gone, before), now) for since_s, until_s, before, now in edges if now > gone]
    coming = _edges([one for one in coming if one[3] > one[2]], 0 if counts.come[0] > gone else 1)
    zero_s = coming[0][0] if coming else 0.0
    return tuple(
        replace(ask, due_s=since_s - zero_s, until_s=until_s - zero_s)
        for since_s, until_s, before, now in coming
        for _ in range(now - before)
    )


def _edges(coming: list[_Coming], known: int) -> list[_Coming]:
    """A load begins and ends somewhere between two scrapes: where, its few requests there tell by the rate between.
    `known`: 0 where it had begun before the recording."""
    if len(coming) < 3:
        return coming
    (first_s, begun_s, before, now), (ends_s, last_s, most, all_) = coming[0], coming[-1]
    if most - now < TELLS:
        return coming
    each_s = (ends_s - begun_s) / (most - now)
    first = (max(first_s, begun_s - each_s * (now - before)) if known else first_s, begun_s, before, now)
    return [first, *coming[1:-1], (ends_s, min(last_s, ends_s + each_s * (all_ - most)), most, all_)]


def _busy(counts: _Counts, begin: int, end: int) -> tuple[tuple[float, float], float | None]:
    """The first and the last scrape with requests, and how long they were there: None where scrapes are too far
    apart."""
    at_s = counts.at_s
    busy = [at for at in range(begin, end + 1) if counts.in_flight[at]]
    if not busy:
        return (at_s[begin], at_s[end]), None
    first, last = busy[0], busy[-1]
    if not first or last + 1 >= len(at_s):
        return (at_s[first], at_s[last]), None
    within_s, outside_s = at_s[last] - at_s[first], at_s[last + 1] - at_s[first - 1]
    span_s = fmean((within_s, outside_s))
    return (at_s[first], at_s[last]), span_s if outside_s - within_s < 2 * SCRAPES_APART * span_s else None


def _each(window: Window, quantity: Quantity) -> list[float]:
    return [0.0 if value != value else value for value in window.each_together(quantity)]


def _lengths(window: Window) -> tuple[float, float] | None:
    prompt, output = window.mean(Quantity.REQUEST_PROMPT_TOKENS), window.mean(Quantity.REQUEST_GENERATION_TOKENS)
    return (prompt, output) if prompt is not None and output is not None else None
