"""A load's throughput over all of it: tokens by the time from its first request being sent to its last token.

Ramp, drain and warm-up are in it, so it is what a client that divides all by all says (`vllm bench serve`), and what a
replay of the same requests can be held against. Without ramp and drain it is `Phase.output_per_s`: another number,
with another name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from vtop.recording import Request


def whole_span(requests: Iterable[Request]) -> tuple[float, float] | None:
    """(first request sent, last token read), seconds of the session; None where no request has both."""
    both = [(one.sent_s, one.last_s) for one in requests if one.sent_s is not None and one.last_s is not None]
    return (min(sent for sent, _ in both), max(last for _, last in both)) if both else None


def whole_output_per_s(requests: Iterable[Request]) -> float | None:
    """Output tokens a second of requests that ended; None where no time passed."""
    return _per_s(requests, lambda ended: sum(one.output_tokens or 0 for one in ended))


def whole_ended_per_s(requests: Iterable[Request]) -> float | None:
    """Requests that succeeded a second, over the same time."""
    return _per_s(requests, len)


def _per_s(requests: Iterable[Request], count: Callable[[Sequence[Request]], int]) -> float | None:
    ended = [one for one in requests if one.error is None]
    span = whole_span(ended)
    return count(ended) / (span[1] - span[0]) if span is not None and span[1] > span[0] else None
