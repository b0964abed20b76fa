"""What a line of a recording may hold: a number beyond these bounds comes from a damaged file, and costs its line.

They are far from what a session holds, and near enough that nothing computed from two of them overflows.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import msgspec

from vtop.recording.events import (
    AnyEvent,
    CapacitySearch,
    Event,
    Gpu,
    Host,
    Load,
    LoadHost,
    Outage,
    Request,
    Scrape,
    Start,
    Unknown,
)

INSTANT_S: Final = 1e9  # 31 years of a session
AHEAD_S: Final = 60.0  # an instant may be so much later than its line: clocks of joined recordings differ
COUNT: Final = 2**63  # what no number of an event reaches, whatever it is of
SERVERS: Final = 10_000
RUNS: Final = 10_000  # a rate of a search of capacity

_INSTANTS: Final = {kind: tuple(f for f in kind.__struct_fields__ if f.endswith("_s")) for kind in (Outage, Gpu, Host)}
_STAMPS: Final = ("due_s", "admitted_s", "sent_s", "headers_s", "first_s", "answer_s", "last_s", "end_s")
_CHECKED: Final = {"t", "values", "hists", "le", "gaps_us", "gap_tokens"}  # one by one
_UNREAD: Final = {"timings"}  # a server's words, of which vtop reads a few
_OTHERS: Final = {
    kind: tuple(name for name in kind.__struct_fields__ if name not in _CHECKED | _UNREAD)
    for kind in Event.__subclasses__()
}
_COUNTS: Final = ("prompt_tokens", "cached_tokens", "output_tokens", "chunks", "first_tokens", "status")


def wrong(event: AnyEvent) -> str | None:
    """Why the event cannot be what happened, in words; None where it can."""
    if not -INSTANT_S <= event.t <= INSTANT_S:
        return f"t {event.t:.6g} s is no instant of a session"
    if isinstance(event, Unknown):
        return None
    return _of_kind(event) or next(
        (f"{name} is out of bounds" for name in _OTHERS[type(event)] if _beyond(getattr(event, name))), None
    )


def _of_kind(event: Event) -> str | None:
    match event:
        case Scrape():
            return _of_scrape(event)
        case Request():
            return _of_request(event)
        case Outage() | Gpu() | Host():
            return _first_beyond(event, _INSTANTS[type(event)])
        case Load():
            return _of_load(event)
        case LoadHost():
            return _of_load_host(event)
        case CapacitySearch():
            return _of_search(event)
        case Start():
            return _of_start(event)
    return None


def _beyond(value: Any) -> bool:
    """Whether a number in it is too large for what is computed from it: a mean, a square, a difference."""
    kind = type(value)
    if kind is float or kind is int:
        return not -COUNT < value < COUNT
    if kind is tuple:
        return any(map(_beyond, value))
    if kind is dict:
        return any(map(_beyond, value.values()))
    return isinstance(value, msgspec.Struct) and any(_beyond(getattr(value, name)) for name in value.__struct_fields__)


def _of_scrape(scrape: Scrape) -> str | None:
    if (said := _instant(scrape, "at_s", scrape.at_s)) is not None:
        return said
    if not 0 <= scrape.took_s <= INSTANT_S:
        return f"took_s {scrape.took_s:.6g} is out of bounds"
    if scrape.bytes is not None and not 0 <= scrape.bytes < COUNT:
        return f"bytes {scrape.bytes:.6g} is out of bounds"
    values = [value for value in scrape.values.values() if value is not None]
    if values and not -COUNT < min(values) <= max(values) < COUNT:
        return "a value is out of bounds"
    for name, le in scrape.le.items():
        if any(not a < b for a, b in pairwise(le)) or (le and not -COUNT < le[0] <= le[-1] < COUNT):
            return f"the bounds of {name} are not ascending"
    for name, counts in scrape.hists.items():
        if not 0 <= counts.count < COUNT or (counts.n and not 0 <= min(counts.n) <= max(counts.n) < COUNT):
            return f"{name} counts what cannot be counted"
        if counts.sum is not None and not -COUNT < counts.sum < COUNT:
            return f"the sum of {name} is out of bounds"
    return None


def _of_request(request: Request) -> str | None:
    for name in _STAMPS:
        at_s = getattr(request, name)
        if at_s is not None and (said := _instant(request, name, at_s)) is not None:
            return said
    for name in _COUNTS:
        count = getattr(request, name)
        if count is not None and not 0 <= count < COUNT:
            return f"{name} {count:.6g} is out of bounds" if abs(count) < 10**300 else f"{name} is out of bounds"
    for many in (request.gaps_us, request.gap_tokens):
        if many and not 0 <= min(many) <= max(many) < COUNT:
            return "gaps_us or gap_tokens is out of bounds"
    return None


def _of_load(load: Load) -> str | None:
    if not 0 <= load.phase < COUNT or not 0 <= load.server < SERVERS:
        return "phase or server is out of bounds"
    numbers = (load.concurrency, load.rate_per_s, load.max_in_flight, load.requests, load.for_s, load.warmup)
    pairs = (*(load.input_tokens or ()), *(load.output_tokens or ()))
    if any(number is not None and not 0 <= number < COUNT for number in (*numbers, *pairs)):
        return "a number of the load is out of bounds"
    return None


def _of_search(search: CapacitySearch) -> str | None:
    if not 0 <= search.server < SERVERS:
        return "server is out of bounds"
    if search.reason is not None:
        return None
    if not 0 < search.runs < RUNS or not 0 < search.requests < COUNT or not 0 <= search.seed < COUNT:
        return "runs, requests or seed is out of bounds"
    if not 0 < search.target_ratio <= 1 or not 0 < search.precision_ratio < COUNT:
        return "target_ratio or precision_ratio is out of bounds"
    found = search.simulated
    if search.least_per_s < 0 or search.most_per_s < 0:
        return "a rate is out of bounds"
    rates = [search.first_per_s]
    if found is not None:
        sides = (found.passes_per_s, found.fails_per_s, found.least_per_s, found.most_per_s)
        rates += [one for one in sides if one is not None] + [rate for rate, _ in found.attained]
        if not all(0 <= share <= 1 for _, share in found.attained):
            return "a share that was attained is none"
    return None if all(0 < one < COUNT for one in rates) else "a rate is out of bounds"


def _of_load_host(host: LoadHost) -> str | None:
    if not 0 <= host.host < SERVERS or not 0 <= host.phase < COUNT:
        return "host or phase is out of bounds"
    if not -INSTANT_S <= host.offset_s <= INSTANT_S or not 0 <= host.rtt_s <= INSTANT_S:
        return "offset_s or rtt_s is out of bounds"
    return _instant(host, "at_s", host.at_s)


def _of_start(start: Start) -> str | None:
    if not 0 < start.interval_s <= INSTANT_S:
        return f"interval_s {start.interval_s:.6g} is no interval"
    if not 0 <= start.unix_s <= 250e9:  # the year 9892, beyond which there is no date
        return f"unix_s {start.unix_s:.6g} is no date"
    apart_s = [one.interval_s for one in start.servers if one.interval_s is not None]
    if any(not 0 < one <= INSTANT_S for one in apart_s):
        return "the interval_s of a server is no interval"
    return f"servers: {len(start.servers):,} of them" if len(start.servers) > SERVERS else None


def _first_beyond(event: Event, names: tuple[str, ...]) -> str | None:
    for name in names:
        value = getattr(event, name)
        if value is not None and (said := _instant(event, name, value)) is not None:
            return said
    return None


def _instant(event: Event, name: str, at_s: float) -> str | None:
    """Instants are no later than their line; a little before the session's start is possible where one was cut out."""
    if -INSTANT_S <= at_s <= min(INSTANT_S, event.t + AHEAD_S):
        return None
    why = "is later than its line" if abs(at_s) <= INSTANT_S else "is no instant"
    return f"{name} {at_s:.6g} s {why}"
