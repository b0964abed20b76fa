"""vtop's own load, made by hand: 64 in flight for 45 s, of which the engine's end broke 44 off."""

from __future__ import annotations

import math
from dataclasses import replace

from vtop.session.frame.capacity import CapacityPart, CapacityRate, CapacityRun, SimulatedCapacity
from vtop.session.frame.load import LoadPart, Quantiles

_FEW = Quantiles(47, 44, 22.6, 46.6, math.inf, None, None, None)
_MANY = Quantiles(96_209, 0, 0.00762, 0.00624, 0.00678, 0.0101, 0.19, None)


def load(**changes: object) -> LoadPart:
    """The phase after it ended."""
    one = LoadPart(
        phase=1,
        phases=2,
        server=0,
        begin_s=25.0,
        spec="c=64 in=6144 out=2048 for=45s",
        shape="closed",
        state="ended",
        reason="done",
        concurrency=64,
        rate_per_s=None,
        arrival=None,
        sent_per_s=None,
        in_flight=0,
        answering=0,
        sent=91,
        done=47,
        failed=44,
        unfinished=0,
        failed_by_class=(("inband_error", 44),),
        failed_detail="EngineCore encountered an issue. See stack trace (above) for the root cause.",
        planned=None,
        progress_ratio=1.0,
        left_s=0.0,
        elapsed_s=72.5,
        late_p50_s=0.0004,
        late_p99_s=0.00237,
        ttft=_FEW,
        ttft_from_due=None,
        itl=_MANY,
        tpot=_FEW,
        e2e=_FEW,
        itl_is_chunks=False,
        output_tokens=96_256,
        output_per_s=1589.0,
        output_over="sending",
        whole_output_per_s=1328.0,
        whole_ended_per_s=0.65,
        ended_per_s=0.78,
        cached_tokens=0,
        prefix_hit_tokens=None,
        wrong_length=0,
        slo=None,
        lag_s=0.00116,
        cpu_ratio=0.07,
        limited=None,
    )
    return replace(one, **changes)  # type: ignore[arg-type]


def draining() -> LoadPart:
    """The same phase after its time, while 56 requests are still under way."""
    finite = Quantiles(35, 0, 15.0, 16.0, None, None, None, None)
    return load(
        state="running", reason=None, in_flight=56, answering=12, done=35, failed=0, failed_by_class=(),
        failed_detail=None, output_per_s=None, whole_output_per_s=None, whole_ended_per_s=None, ended_per_s=None,
        ttft=finite, tpot=finite,
        e2e=finite,
    )  # fmt: skip


def searched(**changes: object) -> CapacityPart:
    """A search of capacity that is under way."""
    one = CapacityPart(
        server=0,
        rule="floor",
        target_ratio=0.95,
        bounds=(("ttft", 0.8), ("tpot", 0.05)),
        spec="in=1024 out=256",
        planned_runs=12,
        requests=500,
        rates=(
            CapacityRate(14.0, "pass", 12, 0.962, 0.981, 0.0071),
            CapacityRate(14.6, "more", 3, 0.953, 0.974, 0.0113),
            CapacityRate(15.0, "fail", 1, 0.941, 0.941, None),
            CapacityRate(28.0, "fail", 1, 0.32, 0.32, None),
        ),
        passes_per_s=14.0,
        fails_per_s=15.0,
        undecided_per_s=(),
        monotone=True,
        runs=18,
        not_counted=1,
        not_counted_why="the client was the limit: requests left 100 ms late",
        left_runs=13,
        left_s=410.0,
        running=CapacityRun(14.6, 104, 4, hold=False),
        simulated=SimulatedCapacity("h200-qwen2.5-7b", 15.1, 15.9, 4, 13.2, 17.3, 0.881, 0.993),
        end=None,
        why=None,
    )
    return replace(one, **changes)  # type: ignore[arg-type]
