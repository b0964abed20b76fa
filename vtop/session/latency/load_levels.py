"""How a server answers more and more of vtop's own load: shares of the queue, slopes, efficiency, the tail of ITL.

One phase for each load, the latest; of those with the shape of the loop, the lengths and the server of the latest.
Queue and prefill are those of the growth (load_scaling.py), ITL and throughput those of the requests.

    slope        = ln(y2 / y1) / ln(C2 / C1)          of queue and of prefill, between two neighbouring loads
    efficiency   = (output_per_s / C) / (output_per_s / C at the lowest load)
    tail         = ITL p99 / ITL p50;  it breaks at the load at which it grows most, BREAKS times or more

Seconds, tokens per second, ratios; requests in flight or per second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from vtop.session.frame.load import LoadPart
from vtop.session.frame.load_levels import LoadLevel, LoadLevels
from vtop.session.frame.ttft import PhaseParts
from vtop.session.latency.load_scaling import LoadScaling, comparable, load_of
from vtop.session.load.load import LoadHistory

BREAKS: Final = 2.0


def load_levels(scaling: LoadScaling, load: LoadHistory, now_s: float) -> LoadLevels:
    rows = scaling.rows(now_s)
    if not rows:
        return LoadLevels()
    latest, part = rows[-1]
    like = {
        at: one for target, one in rows if comparable(target, latest) and (at := load_of(one)) is not None and at > 0
    }
    levels: list[LoadLevel] = []
    for at in sorted(like):
        own = load.part_of(like[at].phase, now_s)
        levels.append(_level(like[at], own, levels, [like[one.load] for one in levels]))
    breaks = _breaks(levels)
    return LoadLevels(
        unit=None if not levels else "in flight" if part.concurrency is not None else "requests/s",
        levels=tuple(levels),
        tail_breaks_at=breaks[1].load if breaks is not None else None,
        tail_before=breaks[0].itl_tail_ratio if breaks is not None else None,
        tail_from=breaks[0].load if breaks is not None else None,
        tail_after=breaks[1].itl_tail_ratio if breaks is not None else None,
    )


def _level(
    part: PhaseParts, own: LoadPart | None, lower: Sequence[LoadLevel], parts: Sequence[PhaseParts]
) -> LoadLevel:
    """own: the requests of the phase; lower: the rows of lower loads; parts: of them."""
    at = load_of(part) or 0.0
    first, before = (lower[0], parts[-1]) if lower else (None, None)
    output_per_s = own.output_per_s if own is not None else None
    each = output_per_s / at if output_per_s is not None and part.concurrency is not None else None
    p50_s, p99_s = (own.itl.p50_s, own.itl.p99_s) if own is not None else (None, None)
    return LoadLevel(
        phase=part.phase,
        load=at,
        queue_of_ttft_ratio=_ratio(part.queue_s, _server_s(part)),
        queue_of_prefill_ratio=_ratio(part.queue_s, part.prefill_s),
        queue_slope=_slope(before.queue_s, part.queue_s, lower[-1].load, at) if before is not None else None,
        prefill_slope=_slope(before.prefill_s, part.prefill_s, lower[-1].load, at) if before is not None else None,
        prefill_factor=_ratio(part.prefill_s, parts[0].prefill_s) if parts else None,
        output_per_s=output_per_s,
        output_factor=_ratio(output_per_s, first.output_per_s) if first is not None else None,
        load_factor=at / first.load if first is not None else 1.0,
        per_request_per_s=each,
        efficiency_ratio=_ratio(each, first.per_request_per_s if first is not None else each),
        itl_p50_s=p50_s,
        itl_p99_s=p99_s,
        itl_tail_ratio=_ratio(p99_s, p50_s),
    )


def _breaks(levels: Sequence[LoadLevel]) -> tuple[LoadLevel, LoadLevel] | None:
    """The two neighbouring loads between which the tail grows most, by BREAKS times or more."""
    known = [one for one in levels if one.itl_tail_ratio]
    grown = [
        ((high.itl_tail_ratio or 0.0) / (low.itl_tail_ratio or math.inf), low, high) for low, high in pairwise(known)
    ]
    most = max(grown, key=lambda one: one[0], default=None)
    return most[1:] if most is not None and most[0] >= BREAKS else None


def _server_s(part: PhaseParts) -> float | None:
    """TTFT as the server counts it."""
    if part.queue_s is None or part.prefill_s is None or part.frontend_s is None:
        return None
    return part.queue_s + part.prefill_s + part.frontend_s


def _slope(low: float | None, high: float | None, from_load: float, to_load: float) -> float | None:
    return math.log(high / low) / math.log(to_load / from_load) if low and high and low > 0 and high > 0 else None


def _ratio(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other and math.isfinite(one) and math.isfinite(other) else None
