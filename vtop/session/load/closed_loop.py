"""What a closed loop's requests brought, round by round: where its throughput is taken from.

Requests of one length that were sent together end together, so a closed loop moves in waves, and what came between two
instants depends on where in a wave they lie: a straggler that moved the end of 15 seconds by one changed their rate by
5 %. So it is taken between instants at the same place of a wave: each time as many requests have ended as may be in
flight, from the middle of the first round (of so many that end, the median is no straggler) to that of the last before
no more were sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vtop.recording import Request
from vtop.session.load.compact_requests import Output

LEAST = 3  # rounds


@dataclass(frozen=True, slots=True)
class Round:
    """The ends of as many requests as are in flight. Seconds of the session."""

    begin_s: float
    end_s: float
    requests: int
    output_tokens: int


def rounds(ended: Iterable[Request | Output], concurrency: int) -> tuple[Round, ...]:
    """Of all requests of a phase that was sent as many each time as were in flight; none where they are too few."""
    known = sorted((one.end_s, one.output_tokens or 0) for one in ended if one.end_s is not None)
    edges = range((concurrency - 1) // 2, len(known) - concurrency, concurrency)
    found = tuple(
        Round(known[first][0], known[last][0], last - first, sum(tokens for _, tokens in known[first + 1 : last + 1]))
        for first, last in pairwise(edges)
    )
    return found if len(found) >= LEAST and found[-1].end_s > found[0].begin_s else ()


def tokens_per_s(found: Sequence[Round]) -> float:
    """Output tokens a second over rounds that follow each other."""
    return sum(one.output_tokens for one in found) / (found[-1].end_s - found[0].begin_s)


def requests_per_s(found: Sequence[Round]) -> float:
    """Requests that ended, a second."""
    return sum(one.requests for one in found) / (found[-1].end_s - found[0].begin_s)
