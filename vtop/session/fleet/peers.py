"""Who differs from its peers: a replica that is slower at the same load, and one that gets more or fewer requests.

Over the latest WINDOW_S, in STRETCHES pieces; a server is told of where all of it holds

    peers      others of the same model, side, kind and limits that answered all through it, MIN_PEERS at least
    slower     its mean time between tokens (of a prefill server: of prefill, by prompt token) is SLOWER times the
               median of its like peers or more, and FAR times their spread above it, over the window; and above it by
               half of that in every stretch, of ENOUGH observations each. Like are those that got as many requests, or
               ran as many, of as long prompts and outputs (within LIKE)
    requests   as many times more, or fewer, requests came than the median of its peers, and FAR times their spread, or
               that of chance, away from it; on the same side of it in every stretch

Spread is 1.4826 times the median distance from the median, and at least FLOOR of the median. Requests that came are
first tokens, and the requests by which the queue grew. A gauge may lag behind by seconds, so nothing is said of a
single scrape.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median
from typing import Final

from vtop import units
from vtop.metrics.quantity import Quantity
from vtop.session.frame.fleet import UnlikePeers
from vtop.session.history.server import ServerHistory

WINDOW_S: Final = 60.0
STRETCHES: Final = 3
MIN_PEERS: Final = 5
SLOWER: Final = 1.25
FAR: Final = 5.0
ENOUGH: Final = 30  # observations in a stretch
LIKE: Final = 0.25
UNEVEN: Final = 1.5
FEW_REQUESTS: Final = 10.0
FLOOR: Final = 0.03
MAD_TO_SD: Final = 1.4826
_LENGTHS: Final = (Quantity.REQUEST_PROMPT_TOKENS, Quantity.REQUEST_GENERATION_TOKENS)


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What one server did in the window: pairs are (sum, count) by stretch."""

    server: int
    peers: Hashable  # of whom it is one
    prefill: bool  # of prompts only: on a server of their own
    seconds: float
    pace: tuple[tuple[float, float], ...]  # seconds between tokens, or of prefill by prompt token
    came: tuple[float, ...]  # requests
    running: float
    prompt_tokens: float | None  # mean of the requests that finished
    output_tokens: float | None

    @property
    def mean_pace_s(self) -> float | None:
        return _mean(self.pace)


def edges(server: ServerHistory, now_s: float, window_s: float = WINDOW_S) -> list[int] | None:
    """The scrapes at the ends of the stretches; None where it did not answer all through them, or restarted."""
    scrapes = server.visible(now_s)
    found = []
    for stretch in range(STRETCHES + 1):
        at_s = now_s - window_s + stretch * window_s / STRETCHES
        place = bisect_right(server.at_s, at_s, 0, scrapes) - 1
        if place < 0 or at_s - server.at_s[place] > server.patience_s(place):
            return None
        found.append(place)
    broken = server.gap_s(now_s - window_s, now_s) or (server.restarts and server.restarts[-1] > found[0])
    return found if not broken and len(set(found)) == len(found) else None


def seen(index: int, server: ServerHistory, peers: Hashable, now_s: float, *, prefill: bool) -> Seen | None:
    """What a server did over the latest window; None where that is not known all through it."""
    ends = edges(server, now_s)
    if ends is None:
        return None
    running, waiting = server.total(Quantity.RUNNING), server.total(Quantity.WAITING)
    first, last = ends[0], ends[-1]
    ran = running.each(first, last) if running is not None else ()
    came = []
    pace = []
    for begin, end in pairwise(ends):
        begun = server.sums(Quantity.TTFT, begin, end)
        queued = (waiting.at(begin), waiting.at(end)) if waiting is not None else (None, None)
        if begun is None or queued[0] is None or queued[1] is None:
            return None
        came.append(max(0.0, begun[1] + queued[1] - queued[0]))
        if prefill:
            spent = server.sums(Quantity.PREFILL, begin, end)
            tokens = server.sums(Quantity.REQUEST_PROMPT_TOKENS, begin, end)
            pace.append((spent[0], tokens[0]) if spent is not None and tokens is not None else (0.0, 0.0))
        else:
            pace.append(server.sums(Quantity.ITL, begin, end) or (0.0, 0.0))
    prompts, outputs = (server.sums(one, first, last) for one in _LENGTHS)
    return Seen(
        server=index,
        peers=peers,
        prefill=prefill,
        seconds=server.at_s[last] - server.at_s[first],
        pace=tuple(pace),
        came=tuple(came),
        running=fmean(ran) if ran else 0.0,
        prompt_tokens=_mean([prompts] if prompts is not None else []),
        output_tokens=_mean([outputs] if outputs is not None else []),
    )


def unlike(servers: Sequence[Seen]) -> list[tuple[int, UnlikePeers]]:
    """(server, how it differs) of each that does; none among fewer than MIN_PEERS others."""
    groups: dict[Hashable, list[Seen]] = {}
    for one in servers:
        groups.setdefault(one.peers, []).append(one)
    found = []
    for group in groups.values():
        if len(group) <= MIN_PEERS:
            continue
        paced = [one for one in group if all(count >= ENOUGH for _, count in one.pace)]
        loads = [_load_of(one) for one in paced]
        least = min((one.mean_pace_s or 0.0 for one in paced), default=0.0)
        came = sorted(sum(one.came) for one in group)
        for one in group:
            perhaps = one.mean_pace_s is not None and one.mean_pace_s >= SLOWER * least  # no median is lower
            told = (_slower(one, paced, loads) if perhaps else None, _uneven(one, group, came))
            found += [(one.server, how) for how in told if how is not None]
    return found


def _load_of(one: Seen) -> tuple[float, float, float, float]:
    """Requests that came, requests that ran, mean lengths of prompt and output: 0 where they are not known."""
    return sum(one.came), one.running, one.prompt_tokens or 0.0, one.output_tokens or 0.0


def _slower(one: Seen, paced: Sequence[Seen], loads: Sequence[tuple[float, float, float, float]]) -> UnlikePeers | None:
    """loads: of each of those in `paced`, who have observations enough."""
    own = one.mean_pace_s
    if own is None or one not in paced:
        return None
    came, ran, prompt, output = map(_around, _load_of(one))
    ran = min(ran[0], one.running - 1.0), max(ran[1], one.running + 1.0)
    like = [
        other
        for other, (c, r, p, o) in zip(paced, loads, strict=True)
        if (came[0] <= c <= came[1] or ran[0] <= r <= ran[1])
        and prompt[0] <= p <= prompt[1]
        and output[0] <= o <= output[1]
        and other is not one
    ]
    if len(like) < MIN_PEERS:
        return None
    paces = [other.mean_pace_s or 0.0 for other in like]
    middle = median(paces)
    if own < SLOWER * middle or own - middle < FAR * _spread(paces, middle):
        return None
    for stretch, (total, count) in enumerate(one.pace):
        then = median([other.pace[stretch][0] / other.pace[stretch][1] for other in like])
        if total / count < then * (1 + (SLOWER - 1) / 2):
            return None
    n = sum(count for _, count in one.pace)
    what, of = ("prefill", "prompt tokens") if one.prefill else ("ITL", "tokens")
    said = (
        f"slower: {what} {units.seconds(own)}{' a token' if one.prefill else ''} against {units.seconds(middle)}, the "
        f"median of {len(like)} peers at like load ({units.count(n)} {of} in {units.seconds(one.seconds)})"
    )
    return UnlikePeers("slower", own, middle, len(like), one.seconds, n, said)


def _uneven(one: Seen, group: Sequence[Seen], came: Sequence[float]) -> UnlikePeers | None:
    """came: of the whole group, ascending."""
    own = sum(one.came)
    middle = _median_without(came, own)
    more = own > middle
    if max(own, middle) < FEW_REQUESTS or (own < UNEVEN * middle if more else own * UNEVEN > middle):
        return None
    others = [other for other in group if other is not one]
    spread = max(_spread([sum(other.came) for other in others], middle), math.sqrt(max(middle, 1.0)))
    if abs(own - middle) < FAR * spread:
        return None
    for stretch, here in enumerate(one.came):
        then = median([other.came[stretch] for other in others])
        if (here <= then) if more else (here >= then):
            return None
    said = (
        f"{'more' if more else 'fewer'} requests: {units.count(own)} came against {units.count(middle)}, the median of "
        f"{len(others)} peers, in {units.seconds(one.seconds)}: load is routed unevenly"
    )
    return UnlikePeers("more requests" if more else "fewer requests", own, middle, len(others), one.seconds, own, said)


def _median_without(ascending: Sequence[float], value: float) -> float:
    """The median of all but one of that value."""
    at = bisect_left(ascending, value)
    low, high = ((len(ascending) - 2) // 2, (len(ascending) - 1) // 2)
    return (ascending[low + (low >= at)] + ascending[high + (high >= at)]) / 2


def _around(value: float) -> tuple[float, float]:
    """From where to where another is within LIKE of the larger of both."""
    return value * (1 - LIKE), value / (1 - LIKE)


def _mean(sums: Sequence[tuple[float, float]]) -> float | None:
    total, count = sum(one[0] for one in sums), sum(one[1] for one in sums)
    return total / count if count > 0 and total == total else None


def _spread(values: Sequence[float], middle: float) -> float:
    """How far values lie from their median."""
    return max(MAD_TO_SD * median([abs(value - middle) for value in values]), FLOOR * middle)
