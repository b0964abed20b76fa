"""A load's throughput over all of it: tokens by the time from its first request being sent to its last token.

Ramp, drain and warm-up are in it, so it is what a client that divides all by all says (`vllm bench serve`), and what a
replay of the same requests can be held against. Without ramp and drain it is `Phase.output_per_s`: another number,
with another name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


class EndedRequest(Protocol):
    """What is asked of a request; seconds of the session."""

    @property
    def sent_s(self) -> float | None: ...
    @property
    def last_s(self) -> float | None: ...
    @property
    def output_tokens(self) -> int | None: ...
    @property
    def error(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Whole:
    """What requests come to over all of them. None where no request has both ends of the span, or no time passed."""

    span: tuple[float, float] | None  # first request sent, last token read, seconds of the session
    requests: int
    output_tokens: int

    @property
    def output_per_s(self) -> float | None:
        return self._per_s(self.output_tokens)

    @property
    def ended_per_s(self) -> float | None:
        return self._per_s(self.requests)

    def _per_s(self, count: int) -> float | None:
        span = self.span
        return count / (span[1] - span[0]) if span is not None and span[1] > span[0] else None


def whole_of(requests: Iterable[EndedRequest]) -> Whole:
    """Of all of some requests, whether they succeeded or not."""
    first_s, last_s, count, tokens = math.inf, -math.inf, 0, 0
    for one in requests:
        count += 1
        tokens += one.output_tokens or 0
        if one.sent_s is not None and one.last_s is not None:
            first_s, last_s = min(first_s, one.sent_s), max(last_s, one.last_s)
    return Whole((first_s, last_s) if first_s < math.inf else None, count, tokens)


def whole_span(requests: Iterable[EndedRequest]) -> tuple[float, float] | None:
    """(first request sent, last token read), seconds of the session; None where no request has both."""
    return whole_of(requests).span


def whole_of_answered(requests: Iterable[EndedRequest]) -> Whole:
    """Of those that succeeded."""
    return whole_of(one for one in requests if one.error is None)
