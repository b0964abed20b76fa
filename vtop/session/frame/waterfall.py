"""vtop's own requests one by one in a frame: when each was due, sent, answered and over."""

from __future__ import annotations

from dataclasses import dataclass

from vtop.recording.vocabulary import ErrorClass


@dataclass(frozen=True, slots=True, eq=False)
class RequestTimes:
    """One request, in seconds of the session. What has not happened by the frame's instant is None."""

    id: int
    due_s: float | None
    sent_s: float
    first_s: float | None  # first token
    last_s: float | None  # last token so far known; of a request that is open, None
    end_s: float | None  # None: it is open
    took_s: float  # from sent to its last token, to its failure, or to the frame's instant
    error: ErrorClass | None
    queue_s: float | None  # by the server's own timings, where it sends them
    prefill_s: float | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True, eq=False)
class Waterfall:
    """The open requests, unanswered and oldest first; then of those that ended last in the window the slowest
    (waterfall.py)."""

    rows: tuple[RequestTimes, ...] = ()
    open: int = 0
    unanswered: int = 0  # of the open ones without a first token
    ended: int = 0  # among which the slowest were looked for
