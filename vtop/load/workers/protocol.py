"""What the controller tells a worker and what a worker tells it: JSON lines over pipes.

Down: one `Setup`, then orders. Up: events of the recording, and between them news, marked by NEWS.
When the pipe down ends, whoever gave the orders is gone, and the worker ends with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec

from vtop.access import Endpoint
from vtop.load.workload.phase import PlannedPhase

NEWS = b"!"  # begins a line that is no event


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a worker needs. origin_s: the session's start on the monotonic clock of vtop's own machine."""

    origin_s: float
    endpoint: Endpoint
    model: str
    phases: tuple[PlannedPhase, ...]
    vocabulary: tuple[int, ...]
    entropy: str
    worker: int
    workers: int


def files_of(setup: Setup) -> list[str]:
    """The files that it names: datasets, traces, certificates."""
    found = [path for phase in setup.phases for path in (phase.dataset, phase.trace)]
    return list(dict.fromkeys(path for path in (*found, setup.endpoint.access.ca_file) if path is not None))


def with_files_at(setup: Setup, places: Mapping[str, str]) -> Setup:
    """The same, where these files lie elsewhere."""

    def place(path: str | None) -> str | None:
        return None if path is None else places.get(path, path)

    phases = tuple(replace(phase, dataset=place(phase.dataset), trace=place(phase.trace)) for phase in setup.phases)
    access = replace(setup.endpoint.access, ca_file=place(setup.endpoint.access.ca_file))
    return msgspec.structs.replace(setup, phases=phases, endpoint=replace(setup.endpoint, access=access))


class Prepare(msgspec.Struct, frozen=True, tag="prepare"):
    """Read the files, lay out the first requests, open the connections of a phase; say Ready.

    It is worker `worker` of the `workers` that take part. ahead_s: how far the monotonic clock of its host is ahead of
    the one that origin_s is of.
    """

    phase: int
    worker: int
    workers: int
    ahead_s: float = 0.0


class Begin(msgspec.Struct, frozen=True, tag="begin"):
    """Start the prepared phase at an instant of the session, so that all workers start together."""

    phase: int
    at_s: float


class Aim(msgspec.Struct, frozen=True, tag="aim"):
    """From an instant on, another concurrency or rate."""

    at_s: float
    concurrency: int | None = None
    rate_per_s: float | None = None


class Until(msgspec.Struct, frozen=True, tag="until"):
    """No request of a closed loop begins after this instant."""

    at_s: float


class Finish(msgspec.Struct, frozen=True, tag="finish"):
    """Break off what is under way, now."""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The phase can begin. caveats: sentences for whoever reads its numbers."""

    phase: int
    caveats: tuple[str, ...] = ()


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The server does not take a field of the request; it is left out from now on.

    why: the words with which it broke off answers because of the field; None where it refused the field by name.
    """

    field: str
    why: str | None = None


class Steady(msgspec.Struct, frozen=True, tag="steady"):
    """The worker's warm-up requests are through."""

    phase: int


class Done(msgspec.Struct, frozen=True, tag="done"):
    """All that the worker sent in the phase has ended. reason: done, stopped, or why it ended early, in words.

    unfinished: requests that were still under way when no answer came any more.
    """

    phase: int
    reason: str
    unfinished: int = 0


class Pulse(msgspec.Struct, frozen=True, tag="pulse"):
    """How the worker did in the last second: share of a core, lateness of its event loop."""

    cpu_ratio: float
    lag_p50_s: float
    lag_max_s: float


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The worker cannot go on."""

    why: str


Order = Prepare | Begin | Aim | Until | Finish
News = Ready | Refused | Steady | Done | Pulse | Failed
