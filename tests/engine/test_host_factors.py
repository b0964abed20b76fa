"""A recording says how quick its own host and GPU were, and what is simulated of it goes by that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vtop import shipped
from vtop.engine.core.engine import Engine
from vtop.engine.fit import profile
from vtop.engine.fit.calibration import AS_FITTED, HostFactors, host_factors_of, with_host_factors
from vtop.engine.runs.replay import measures, replay
from vtop.engine.runs.runs import Run, runs
from vtop.engine.whatif.whatif import what_if

H200 = profile.load("h200-qwen2.5-7b")
RECORDINGS = shipped.folder("recordings")


@pytest.fixture(scope="module")
def chunked() -> Run:
    """16 in flight with a budget of 512 tokens a step: many launches without a graph."""
    return runs(RECORDINGS / "sweep_batch512.jsonl.gz", {"max_num_batched_tokens": 512})[2]


def as_if(run: Run, factors: HostFactors) -> Run:
    """The run, its times those of such a host and GPU."""
    here = with_host_factors(H200, factors)
    engine = Engine(run.flags, here.timing, here.frontend, run.shape or H200.shape)
    found = measures(replay(run.load, engine).requests)
    seen = replace(run.observed, queue_s=found["queue_s"], prefill_s=found["prefill_s"], decode_s=found["decode_s"])
    return replace(run, observed=replace(seen, e2e_s=found["e2e_s"], frontend_s=found["frontend_s"]))


@pytest.mark.slow
@pytest.mark.parametrize("launch", [0.7, 1.0, 1.5])
def test_the_launch_factor_of_a_host_is_found(chunked: Run, launch: float) -> None:
    found = host_factors_of(as_if(chunked, HostFactors(launch, 1.0)), H200)
    assert found.launch == pytest.approx(launch, rel=0.05)
    assert found.gpu == pytest.approx(1.0, rel=0.01)


def test_the_factor_of_a_gpu_is_found() -> None:
    alone = runs(RECORDINGS / "sweep.jsonl.gz")[0]  # hardly anything but decode steps
    assert host_factors_of(as_if(alone, HostFactors(1.0, 1.02)), H200).gpu == pytest.approx(1.02, rel=0.002)


def test_as_fitted_is_the_profile_itself() -> None:
    assert with_host_factors(H200, AS_FITTED) == H200


def test_a_slower_host_launches_longer_and_a_slower_gpu_reads_and_computes_longer() -> None:
    slower = with_host_factors(H200, HostFactors(2.0, 1.1)).timing
    assert slower.launch_eager_s == 2.0 * H200.timing.launch_eager_s
    assert slower.launch_pieces_s == 2.0 * H200.timing.launch_pieces_s
    assert slower.bandwidth_bytes_s == pytest.approx(H200.timing.bandwidth_bytes_s / 1.1)
    assert slower.launch_graph_s == H200.timing.launch_graph_s


def test_the_error_of_the_profile_alone_stays_in_the_answer(chunked: Run) -> None:
    slow = as_if(chunked, HostFactors(1.5, 1.0))
    answer = what_if(slow, H200, slow.flags, factors=host_factors_of(slow, H200))
    row = next(row for row in answer.rows if row.number.name == "e2e_s")
    assert row.alone_ratio is not None
    assert row.error_ratio is not None
    assert row.alone_ratio < -0.03
    assert abs(row.error_ratio) < 0.01


def test_new_flags_are_tried_with_the_same_host_factors(chunked: Run) -> None:
    wider = replace(chunked.flags, max_num_batched_tokens=2048)
    given = (HostFactors(launch, 1.0) for launch in (1.5, 0.7))
    slow, quick = (what_if(as_if(chunked, factors), H200, wider, factors=factors) for factors in given)
    assert slow.alone == quick.alone
    assert slow.after.measured.output_per_s is not None
    assert quick.after.measured.output_per_s is not None
    assert slow.after.measured.output_per_s < quick.after.measured.output_per_s
