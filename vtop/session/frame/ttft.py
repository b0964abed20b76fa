"""Time to first token in a frame: its parts, how they grow with load, and what the client saw."""

from __future__ import annotations

from dataclasses import dataclass

from vtop import units
from vtop.session.frame.vocabulary import LoadUnit


@dataclass(frozen=True, slots=True, eq=False)
class Ttft:
    """Time to first token, and what it was made of for the requests that finished in the window.

    The parts are those of one set of requests, so they add up: queue + prefill + frontend = total. The first-token
    mean is about other requests, those that got their first token in the window.
    """

    finished: float  # n of the parts
    queue_s: float | None
    prefill_s: float | None
    frontend_s: float | None
    total_s: float | None
    first_tokens: float  # n of first_token_s
    first_token_s: float | None
    queue_now_s: float | None  # an estimate by Little's law: mean waiting / first tokens per second
    stuck: bool  # requests wait and none got a first token in the window
    decode_first_token_s: float | None = None  # mean on the decode servers, after it, where prefill is on others


@dataclass(frozen=True, slots=True, eq=False)
class PhaseParts:
    """The parts of TTFT at one load (growth.py): of the requests that finished in a phase of vtop's own load."""

    phase: int
    concurrency: float | None
    rate_per_s: float | None
    finished: float
    queue_s: float | None
    prefill_s: float | None
    frontend_s: float | None
    network_s: float | None
    total_s: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """How the parts grow with load, against the lowest load seen (growth.py)."""

    phases: tuple[PhaseParts, ...] = ()  # by load, lowest first
    queue_of_prefill_ratio: float | None = None  # in the window, where that is of one load
    queue_of_ttft_ratio: float | None = None
    prefill_of_ttft_ratio: float | None = None
    frontend_of_ttft_ratio: float | None = None
    prefill_factor: float | None = None  # now / at the lowest load
    frontend_factor: float | None = None
    queue_added_s: float | None = None
    crossing: float | None = None  # load at which queue would overtake prefill, extrapolated on the last two phases
    crossing_unit: LoadUnit | None = None
    crossed_at: float | None = None  # the lowest load from which on it is above, where that was measured
    crossed_above: float | None = None  # the load below it, at which it was not; None where there is none

    @property
    def crossed(self) -> str | None:
        """Where the queue was measured to overtake prefill, in words."""
        if self.crossed_at is None:
            return None
        at = f"{units.plain(self.crossed_at)} {self.crossing_unit}"
        if self.crossed_above is None:
            return f"the queue is above prefill at {at} already, the lowest load"
        return f"the queue overtook prefill between {units.plain(self.crossed_above)} and {at}"


@dataclass(frozen=True, slots=True, eq=False)
class OwnTtft:
    """TTFT as vtop's own requests saw it, beside the server's (network.py)."""

    n: int  # own requests that finished in the window
    client_s: float | None  # mean, from sent
    network_s: float | None  # client_s - the server's mean of the same requests
    foreign: float  # requests that finished in the window and were not vtop's
    timed: int  # own requests with the server's own timings
    timed_queue_s: float | None
    timed_prefill_s: float | None
    timed_rest_s: float | None  # frontend, network and HTTP of those
