"""What one of vtop's own requests took, and which of the bounds that were asked for it broke.

Two times to first token: from the request being sent (server and network), and from the instant it was due (what a
user who came then saw; the same in a closed loop, where arrivals follow completions and tell nothing of queueing).
TPOT is (last - first) / (tokens - those of the first read), absent for one token. e2e ends with the last token.

A service level is kept from the instant a request was due, so that an open loop cannot hide a queue in the client; a
time that a request does not have (TPOT of one token) breaks no bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vtop.recording import Request


@dataclass(frozen=True, slots=True)
class RequestLatency:
    """What one successful request took, in seconds; None where it cannot be said."""

    ttft_s: float | None  # from sent
    tpot_s: float | None
    e2e_s: float | None  # from sent
    late_s: float = 0.0  # sent - due
    ttft_from_due_s: float | None = None  # None also where it was due at no instant

    @property
    def judged_s(self) -> Mapping[str, float | None]:
        """What its bounds are held against: ttft, tpot, e2e, from due."""
        return {
            "ttft": self.ttft_s if self.ttft_from_due_s is None else self.ttft_from_due_s,
            "tpot": self.tpot_s,
            "e2e": self.e2e_s + self.late_s if self.e2e_s is not None else None,
        }

    def judged_by(self, bounds: Mapping[str, float]) -> bool:
        """Whether any of the bounds can be held against it: TPOT alone says nothing of an answer of one token."""
        return set(bounds) != {"tpot"} or self.tpot_s is not None

    def broken(self, bounds: Mapping[str, float]) -> tuple[str, ...]:
        """Which bounds it broke; bounds: ttft, tpot, e2e, seconds. One by another name, of a later vtop, is none."""
        found = self.judged_s
        return tuple(
            name for name, bound in bounds.items() if (took_s := found.get(name)) is not None and took_s > bound
        )

    def keeps(self, bounds: Mapping[str, float]) -> bool:
        """Whether it kept every bound."""
        return not self.broken(bounds)


def latency_of(request: Request) -> RequestLatency:
    sent, first, last, due = request.sent_s, request.first_s, request.last_s, request.due_s
    later = (request.output_tokens or 0) - (request.first_tokens or 1)
    return RequestLatency(
        ttft_s=first - sent if first is not None and sent is not None else None,
        tpot_s=(last - first) / later if first is not None and last is not None and later > 0 else None,
        e2e_s=last - sent if last is not None and sent is not None else None,
        late_s=sent - due if sent is not None and due is not None else 0.0,
        ttft_from_due_s=first - due if first is not None and due is not None else None,
    )


def keeps_slo(request: Request, bounds: Mapping[str, float]) -> bool:
    """Whether a request succeeded and kept every bound."""
    return request.error is None and request.end_s is not None and latency_of(request).keeps(bounds)
