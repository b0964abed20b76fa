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
from bisect import bisect_right
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
        for one in group:
            others = [other for other in group if other is not one]
            told = (_slower(one, others), _uneven(one, others))
            found += [(one.server, how) for how in told if how is not None]
    return found


def _slower(one: Seen, others: Sequence[Seen]) -> UnlikePeers | None:
    own = one.mean_pace_s
    if own is None or any(count < ENOUGH for _, count in one.pace):
        return None
    like = [
        other
        for other in others
        if other.mean_pace_s is not None
        and all(count >= ENOUGH for _, count in other.pace)
        and (_near(sum(one.came), sum(other.came)) or _near(one.running, other.running, 1.0))
        and _near(one.prompt_tokens, other.prompt_tokens)
        and _near(one.output_tokens, other.output_tokens)
    ]
    if len(like) < MIN_PEERS:
        return None
    middle, spread = _spread([other.mean_pace_s or 0.0 for other in like])
    if own < SLOWER * middle or own - middle < FAR * spread:
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


def _uneven(one: Seen, others: Sequence[Seen]) -> UnlikePeers | None:
    own = sum(one.came)
    middle, spread = _spread([sum(other.came) for other in others])
    spread = max(spread, math.sqrt(max(middle, 1.0)))
    if max(own, middle) < FEW_REQUESTS or abs(own - middle) < FAR * spread:
        return None
    more = own > middle
    if (own < UNEVEN * middle) if more else (own * UNEVEN > middle):
        return None
    for stretch, came in enumerate(one.came):
        then = median([other.came[stretch] for other in others])
        if (came <= then) if more else (came >= then):
            return None
    said = (
        f"{'more' if more else 'fewer'} requests: {units.count(own)} came against {units.count(middle)}, the median of "
        f"{len(others)} peers, in {units.seconds(one.seconds)}: load is routed unevenly"
    )
    return UnlikePeers("more requests" if more else "fewer requests", own, middle, len(others), one.seconds, own, said)


def _mean(sums: Sequence[tuple[float, float]]) -> float | None:
    total, count = sum(one[0] for one in sums), sum(one[1] for one in sums)
    return total / count if count > 0 and total == total else None


def _near(one: float | None, other: float | None, least: float = 0.0) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= max(LIKE * max(one, other), least)


def _spread(values: Sequence[float]) -> tuple[float, float]:
    """The median, and how far values lie from it."""
    middle = median(values)
    return middle, max(MAD_TO_SD * median([abs(value - middle) for value in values]), FLOOR * middle)
