"""Flags that were measured after `vtop whatif` had said what they would do, on other GPUs and hosts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vtop import shipped
from vtop.engine.fit import profile
from vtop.engine.fit.calibration import host_factors_of
from vtop.engine.runs.runs import Run, runs
from vtop.engine.whatif.simulation import recorded_of
from vtop.engine.whatif.whatif import what_if

H200 = profile.load("h200-qwen2.5-7b")


def run(name: str, number: int) -> Run:
    return runs(shipped.folder("recordings") / f"{name}.jsonl.gz")[number]


@pytest.mark.parametrize(
    ("known", "asked"),
    [
        (("overload_loaded", 0), ("overload_seqs12", 0)),  # --max-num-seqs 12
        (("killed", 0), ("open_loop_seats48", 1)),  # --max-num-seqs 48 and 2,048 tokens a step, next to saturation
        (("sweep", 6), ("sweep_batch1024", 0)),  # 1,024 tokens a step
    ],
    ids=["12 at once", "48 at once", "1,024 tokens"],
)
@pytest.mark.slow
def test_what_came_lies_in_the_interval_that_was_stated(known: tuple[str, int], asked: tuple[str, int]) -> None:
    """Throughput within 6 % and TTFT within 10 % as well, and preemptions to one."""
    before, measured = run(*known), run(*asked)
    flags = replace(
        before.flags,
        max_num_seqs=measured.flags.max_num_seqs,
        max_num_batched_tokens=measured.flags.max_num_batched_tokens,
    )
    assert flags != before.flags
    answer, came = what_if(before, H200, flags, factors=host_factors_of(before, H200)), recorded_of(measured, None)
    rows = {row.number.name: row for row in answer.rows}
    for name, share in (("output_per_s", 0.06), ("ttft_s", 0.10), ("tpot_s", 0.06)):
        row, real = rows[name], getattr(came, name)
        assert row.after == pytest.approx(real, rel=share), name
        assert row.interval is not None
        assert row.interval.holds(real), name
    assert rows["preemptions"].after == pytest.approx(came.preemptions, abs=1)
