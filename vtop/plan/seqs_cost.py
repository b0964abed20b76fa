"""What it costs to place no more requests than the pool holds at their largest: a recorded load on the simulated
engine, with --max-num-seqs as it was and as it would be.

The engine's own error on the recording stands beside each difference, as in what-if.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from vtop.engine.fit.calibration import host_factors_of
from vtop.engine.fit.profile import Profile
from vtop.engine.runs.runs import Run
from vtop.engine.whatif.whatif import what_if

SPOKEN: Final = ("output_per_s", "ttft_s", "tpot_s", "e2e_s", "preemptions")


@dataclass(frozen=True, slots=True)
class LimitChange:
    """A number as simulated with the recorded and with a lower max_num_seqs. doubt: in the unit of the number."""

    name: str
    label: str
    unit: str
    before: float | None
    after: float | None
    ratio: float | None
    doubt: float | None
    verdict: str


@dataclass(frozen=True, slots=True)
class SeqsCost:
    run: str
    profile: str
    recorded_max_num_seqs: int
    max_num_seqs: int
    changes: tuple[LimitChange, ...]
    remarks: tuple[str, ...]


def cost_of(run: Run, profile: Profile, max_num_seqs: int) -> SeqsCost:
    """Raises VtopError where the run cannot be simulated with so few."""
    if "max_num_seqs" not in run.whence and run.observed.max_num_seqs is not None:
        run = replace(run, flags=replace(run.flags, max_num_seqs=run.observed.max_num_seqs))
    answer = what_if(run, profile, replace(run.flags, max_num_seqs=max_num_seqs), factors=host_factors_of(run, profile))
    return SeqsCost(
        run=run.name,
        profile=profile.name,
        recorded_max_num_seqs=run.flags.max_num_seqs,
        max_num_seqs=max_num_seqs,
        changes=tuple(
            LimitChange(
                name=row.number.name,
                label=row.number.label,
                unit=row.number.unit,
                before=row.before,
                after=row.after,
                ratio=row.difference / row.before if row.difference is not None and row.before else None,
                doubt=row.doubt,
                verdict=row.verdict,
            )
            for row in answer.rows
            if row.number.name in SPOKEN
        ),
        remarks=(*_taken(run), *answer.remarks),
    )


def _taken(run: Run) -> tuple[str, ...]:
    if "max_num_seqs" in run.whence:
        return ()
    return (f"max_num_seqs is not on record: {run.flags.max_num_seqs} taken",)


def heaviest(runs: Sequence[Run]) -> Run | None:
    """Of the runs on record the one with most requests in flight: where max_num_seqs bind first."""
    return max(runs, key=lambda run: run.load.concurrency or run.observed.most_running or 0, default=None)
