"""Which of vtop's own requests are worth a line: the open ones, unanswered first, and the slowest of those that ended.

Those that ended are looked for among the latest LATEST of the window, so that a frame costs the same at any rate.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from typing import Final

from vtop.recording import Request
from vtop.recording.vocabulary import ERROR_CLASSES, known
from vtop.session.frame.waterfall import RequestTimes, Waterfall
from vtop.session.load.phase import LoadPhase
from vtop.session.load.server_timings import timings_of

SHOWN: Final = 64  # of either
LATEST: Final = 500


def waterfall(phase: LoadPhase | None, now_s: float, window_s: float, holds: str = "") -> Waterfall:
    """Of the phase that runs at an instant or ran last; what was written later is not looked at. `holds`: only rows of
    requests whose number, state or error holds this text."""
    if phase is None:
        return Waterfall()
    ended = bisect_right(phase.end_t, now_s)
    first = max(bisect_right(phase.end_t, now_s - window_s), ended - LATEST)
    over = [_over(one) for one in phase.ended.bare(ended, first) if one.sent_s is not None]
    begun = sorted(_open(phase, now_s, ended), key=lambda one: (one.first_s is not None, one.sent_s))
    rows = [[one for one in of if held(one, holds)] if holds else of for of in (begun, over)]
    return Waterfall(
        rows=(*rows[0][:SHOWN], *heapq.nlargest(SHOWN, rows[1], key=lambda one: one.took_s)),
        open=len(begun),
        unanswered=sum(one.first_s is None for one in begun),
        ended=len(over),
    )


def held(of: RequestTimes, text: str) -> bool:
    """Whether a request's number, state or error holds a text."""
    if of.end_s is None:
        state = "open answering" if of.first_s is not None else "open unanswered"
    else:
        state = "ended" if of.error is None else f"ended failed {of.error}"
    return text.casefold() in f"#{of.id} {state}"


def _open(phase: LoadPhase, now_s: float, ended: int) -> list[RequestTimes]:
    """What was sent by an instant and not over then; `ended`: how many were."""
    if phase.state(now_s)[1] is not None:
        return []
    found = [
        _begun(one.sent, one.first_s if one.first_t <= now_s else None, now_s)
        for one in phase.open.values()
        if one.sent.t <= now_s
    ]
    missing = phase.sent_by(now_s) - phase.ended_by(now_s) - len(found)  # they ended later
    for at in range(ended, len(phase.ended)):
        if missing <= 0:
            break
        if phase.ended_sent_t[at] <= now_s:
            of = phase.ended.bare_one(at)
            found.append(_begun(of, of.first_s if phase.ended_first_t[at] <= now_s else None, now_s))
            missing -= 1
    return found


def _begun(of: Request, first_s: float | None, now_s: float) -> RequestTimes:
    sent_s = of.t if of.sent_s is None else of.sent_s
    return RequestTimes(of.id, of.due_s, sent_s, first_s, None, None, max(0.0, now_s - sent_s), None, None, None, None)


def _over(of: Request) -> RequestTimes:
    assert of.sent_s is not None
    assert of.end_s is not None
    said = timings_of(of.timings)
    return RequestTimes(
        id=of.id,
        due_s=of.due_s,
        sent_s=of.sent_s,
        first_s=of.first_s,
        last_s=of.last_s,
        end_s=of.end_s,
        took_s=max(0.0, (of.end_s if of.last_s is None or of.error is not None else of.last_s) - of.sent_s),
        error=None if of.error is None else known(of.error, ERROR_CLASSES),
        queue_s=said.queue_s,
        prefill_s=said.prefill_s,
        output_tokens=of.output_tokens,
    )
