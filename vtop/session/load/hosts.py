"""The hosts that send vtop's own load, where they are others than vtop's own: their clocks, lateness and losses.

A host's clock is measured before a phase, and that offset is taken off all its stamps of the phase; and once more after
it, which shows by how much the two clocks drifted apart meanwhile.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from vtop import units
from vtop.recording import LoadHost
from vtop.session.frame.load import LoadHostPart
from vtop.session.load.exact_histogram import ExactHistogram

WORKER_LOST = "worker_lost"  # a request whose worker was lost, sent or not


class HostCount:
    """What requests add up to, by the host that sent them or was to."""

    def __init__(self) -> None:
        self.late: defaultdict[int, ExactHistogram] = defaultdict(ExactHistogram)  # warm-up left out
        self.lost: Counter[int] = Counter()


def parts(lines: Iterable[LoadHost], seen: HostCount, now_s: float) -> tuple[LoadHostPart, ...]:
    """The hosts of a phase at an instant, of the lines about them."""
    before: dict[int, LoadHost] = {}
    after: dict[int, LoadHost] = {}
    for line in lines:
        if line.t <= now_s:
            (after if line.after else before)[line.host] = line
    return tuple(_part(before[host], after.get(host), seen) for host in sorted(before))


def words(host: LoadHostPart) -> str:
    """A host in a line, without its name."""
    said = f"{host.workers} worker{'s' if host.workers != 1 else ''}, {units.count(host.sent)} sent"
    if host.late_p99_s is not None:
        said += f", late p99 {units.seconds(host.late_p99_s)}"
    if host.lost:
        said += f", {units.count(host.lost)} lost with a worker"
    said += f"; its clock is {host.offset_s:+.6f} s off, corrected to ± {units.seconds(host.offset_error_s)}"
    if host.drift_s is not None:
        said += f", drifted {units.seconds(abs(host.drift_s))} ± {units.seconds(host.drift_error_s)}"
    return said


def _part(before: LoadHost, after: LoadHost | None, seen: HostCount) -> LoadHostPart:
    late = seen.late.get(before.host, ExactHistogram())
    p50_s, p99_s = late.quantiles((0.5, 0.99), however_few=True)
    return LoadHostPart(
        host=before.host,
        name=before.name,
        workers=len(before.workers),
        offset_s=before.offset_s,
        offset_error_s=before.rtt_s / 2,
        drift_s=after.offset_s - before.offset_s if after is not None else None,
        drift_error_s=(after.rtt_s + before.rtt_s) / 2 if after is not None else None,
        sent=late.n,
        late_p50_s=p50_s,
        late_p99_s=p99_s,
        lost=seen.lost[before.host],
    )
