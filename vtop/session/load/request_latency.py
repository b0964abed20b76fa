"""What one of vtop's own requests took, and which of the bounds that were asked for it broke.

Two times to first token: `service` from the request being sent (server and network), `response` from the instant it was
due (what a user who came then saw; the same in a closed loop, where arrivals follow completions and tell nothing of
queueing). TPOT is (last - first) / (tokens - those of the first read), absent for one token.
"""

from __future__ import annotations

from dataclasses import dataclass

from vtop.recording import Request


@dataclass(frozen=True, slots=True)
class Times:
    """What one successful request took, in seconds; None where it cannot be said."""

    service_s: float | None
    response_s: float | None
    tpot_s: float | None
    e2e_s: float | None


def times_of(request: Request) -> Times:
    first, last, due = request.first_s, request.last_s, request.due_s
    tpot_s = None
    later = (request.output_tokens or 0) - (request.first_tokens or 1)
    if first is not None and last is not None and later > 0:
        tpot_s = (last - first) / later
    return Times(
        service_s=first - request.sent_s if first is not None and request.sent_s is not None else None,
        response_s=first - due if first is not None and due is not None else None,
        tpot_s=tpot_s,
        e2e_s=last - request.sent_s if last is not None and request.sent_s is not None else None,
    )


def broken_bounds(request: Request, slo: dict[str, float]) -> tuple[str, ...]:
    """Which bounds an answered request broke; a time it does not have (TPOT of one token) breaks none.

    TTFT and e2e count from the instant it was due, so that an open loop cannot hide a queue in the client.
    """
    times = times_of(request)
    waited = (request.sent_s or 0.0) - request.due_s if request.due_s is not None else 0.0
    e2e_s = times.e2e_s + waited if times.e2e_s is not None else None
    found = {"ttft": times.response_s if times.response_s is not None else times.service_s}
    found |= {"tpot": times.tpot_s, "e2e": e2e_s}
    return tuple(name for name, bound in slo.items() if (value := found[name]) is not None and value > bound)
