"""What if: the model's own error first, then other flags, and no difference is claimed that lies within its ±."""

from __future__ import annotations

from dataclasses import fields, replace
from math import isnan, log
from statistics import NormalDist, fmean

import pytest

from vtop import shipped
from vtop.engine.core.engine import Engine
from vtop.engine.core.flags import Flags
from vtop.engine.core.host_drift import HostDrift
from vtop.engine.fit import profile
from vtop.engine.fit.calibration import HostFactors
from vtop.engine.runs.measured import NUMBERS, Levels, RunNumbers, mean_of, quantile, simulated
from vtop.engine.runs.replay import Ask, ReplayLoad, replay
from vtop.engine.runs.runs import Run, read, runs
from vtop.engine.whatif.flag_search import AS_GOOD, BEST, asked, criterion, search, with_flag
from vtop.engine.whatif.simulation import changes, simulate
from vtop.engine.whatif.unknowns import FactorSpread, draws, interval, paired_doubt
from vtop.engine.whatif.whatif import (
    NO_ERROR,
    UNKNOWN,
    WITHIN,
    WhatIf,
    verdict_of,
    what_if,
)
from vtop.errors import VtopError

H200 = profile.load("h200-qwen2.5-7b")
RECORDINGS = shipped.folder("recordings")
OUTPUT, TTFT, RUNNING = (next(n for n in NUMBERS if n.name == name) for name in ("output_per_s", "ttft_s", "running"))


@pytest.fixture(scope="module")
def overload() -> Run:
    (run,) = runs(RECORDINGS / "overload_loaded.jsonl.gz")
    return run


@pytest.fixture(scope="module")
def busy() -> Run:
    """64 in flight, 320 requests: a run that is simulated in no time."""
    return runs(RECORDINGS / "sweep.jsonl.gz")[-1]


@pytest.fixture(scope="module")
def fewer(overload: Run) -> WhatIf:
    return what_if(overload, H200, replace(overload.flags, max_num_seqs=10))


def of(answer: WhatIf, name: str) -> tuple[float | None, float | None, float | None]:
    row = next(row for row in answer.rows if row.number.name == name)
    return row.recorded, row.before, row.after


def made(run: Run, due_s: float | None = None, count: int = 20) -> Run:
    asks = tuple(Ask(512, 32, None if due_s is None else due_s * number) for number in range(count))
    return replace(run, load=ReplayLoad(asks, None if due_s is not None else 8))


def as_simulated(run: Run) -> Run:
    """The run, with the times that are simulated of it on record."""
    found = simulate(run, run.flags, H200)
    parts = {name: getattr(found.measured, name) for name in ("queue_s", "prefill_s", "e2e_s", "frontend_s")}
    return replace(run, observed=replace(run.observed, **parts, span_s=None))


# --- the error first --------------------------------------------------------------------------------------------------


def test_with_the_recorded_flags_nothing_is_claimed_to_change(busy: Run) -> None:
    answer = what_if(busy, H200, busy.flags)
    assert {row.verdict for row in answer.rows if row.after is not None} == {"same"}
    assert answer.after is answer.before


@pytest.mark.slow
def test_its_error_is_the_simulation_against_the_recording(fewer: WhatIf, overload: Run) -> None:
    for row in fewer.rows:
        if row.recorded is not None and row.before is not None:
            assert row.error == row.before - row.recorded
    recorded, before, _ = of(fewer, "preemptions")
    assert (recorded, before) == (37, 37)
    assert of(fewer, "ttft_s")[0] == overload.observed.ttft_s


@pytest.mark.slow
def test_what_a_recording_says_and_what_a_simulation_says_are_the_same_numbers(fewer: WhatIf) -> None:
    without = {"good_per_s", "good_ratio", "ttft_p99_s", "tpot_p99_s", "e2e_p99_s"}  # no bounds; 128 requests
    assert {row.number.name for row in fewer.rows} == {one.name for one in fields(RunNumbers)} - without
    for row in fewer.rows:
        assert row.recorded is not None
        if row.number.name not in ("frontend_s", "preemptions", "recomputed_ratio"):
            assert row.before == pytest.approx(row.recorded, rel=0.06), row.number.name


# --- other flags ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fewer_max_num_seqs_than_the_pool_holds_requests_mean_no_preemption(fewer: WhatIf) -> None:
    assert of(fewer, "preemptions")[2] == 0
    assert of(fewer, "recomputed_ratio")[2] == 0
    assert fewer.after.most_running == 10
    assert next(row for row in fewer.rows if row.number.name == "preemptions").verdict == "better"


@pytest.mark.slow
def test_max_num_seqs_that_nobody_took_make_no_difference(overload: Run) -> None:
    answer = what_if(overload, H200, replace(overload.flags, max_num_seqs=120))
    assert answer.before.most_running < 120
    assert {row.verdict for row in answer.rows} <= {"same", WITHIN}  # graphs are captured up to twice max_num_seqs


@pytest.mark.slow
def test_a_pool_a_block_larger_makes_a_difference_smaller_than_the_error(overload: Run) -> None:
    answer = what_if(overload, H200, replace(overload.flags, num_gpu_blocks=overload.flags.num_gpu_blocks + 1))
    output = next(row for row in answer.rows if row.number is OUTPUT)
    assert output.verdict == WITHIN
    assert output.difference is not None
    assert output.doubt is not None
    assert 0 < abs(output.difference) < output.doubt


@pytest.mark.slow
def test_a_larger_pool_is_better_by_more_than_the_error(overload: Run) -> None:
    answer = what_if(overload, H200, replace(overload.flags, num_gpu_blocks=2 * overload.flags.num_gpu_blocks))
    verdicts = {row.number.name: row.verdict for row in answer.rows}
    assert verdicts["output_per_s"] == verdicts["ttft_s"] == "better"
    assert verdicts["running"] == "higher"


@pytest.mark.slow
def test_leaving_what_the_profile_was_fitted_on_is_said(overload: Run, fewer: WhatIf) -> None:
    flags = replace(overload.flags, num_gpu_blocks=8192, max_num_batched_tokens=256)
    beyond = next(one for one in what_if(overload, H200, flags).remarks if one.startswith("beyond"))
    assert "kv tokens 131,072 (86,896–114,688)" in beyond
    assert "max num batched tokens 256 (512–8,192)" in beyond
    assert not [one for one in fewer.remarks if one.startswith("beyond")]


@pytest.mark.slow
def test_an_error_measured_on_a_recording_that_the_profile_was_fitted_on_is_said_to_be_small(fewer: WhatIf) -> None:
    assert [one for one in fewer.remarks if "fitted on this recording, too" in one]


def test_requests_that_no_longer_fit_are_left_out_and_said(busy: Run) -> None:
    mixed = as_simulated(replace(busy, load=ReplayLoad((Ask(512, 32), Ask(4096, 32), Ask(512, 32)), 2)))
    answer = what_if(mixed, H200, replace(busy.flags, num_gpu_blocks=100))
    assert answer.after.refused == 1
    assert [one for one in answer.remarks if one.startswith("1 of 3 requests")]
    with pytest.raises(VtopError, match="--kv-tokens 160 no request of"):
        what_if(mixed, H200, replace(busy.flags, num_gpu_blocks=10))


def test_a_load_is_tried_with_several_seeds(busy: Run) -> None:
    for load in (made(busy), made(busy, due_s=0.01)):
        found = simulate(load, busy.flags, H200)
        assert len(set(found.tries)) == 3
        assert found.measured == mean_of(found.tries)


def test_requests_keep_their_instants_whatever_the_flags(busy: Run) -> None:
    open_loop = made(busy, due_s=0.05, count=40)
    quick, slow = (simulate(open_loop, replace(busy.flags, max_num_seqs=seqs), H200) for seqs in (128, 1))
    assert slow.measured.queue_s is not None
    assert quick.measured.queue_s is not None
    assert slow.measured.queue_s > quick.measured.queue_s
    assert slow.span_s > 40 * 0.05


def test_changes_are_named_as_they_are_typed(overload: Run) -> None:
    flags = overload.flags
    assert changes(flags, flags) == ""
    assert (
        changes(flags, replace(flags, max_num_seqs=10, num_gpu_blocks=7168)) == "--kv-tokens 114688 --max-num-seqs 10"
    )


# --- the doubt --------------------------------------------------------------------------------------------------------


PREEMPTIONS = next(number for number in NUMBERS if number.name == "preemptions")


def test_a_difference_that_nothing_doubts_is_not_called_one() -> None:
    assert verdict_of(OUTPUT, 5.0, None) == NO_ERROR
    assert verdict_of(OUTPUT, None, 1.0) == UNKNOWN


def test_every_factor_is_drawn_once_from_each_of_equally_likely_ranges() -> None:
    given = draws(HostFactors(2.0, 1.1), FactorSpread(0.2, 0.01), 8)
    launches = sorted(log(draw.factors.launch / 2.0) / 0.2 for draw in given)
    assert [NormalDist().cdf(launch) for launch in launches] == pytest.approx([(n + 0.5) / 8 for n in range(8)])
    assert sorted({round(log(draw.factors.gpu / 1.1) / 0.01, 3) for draw in given}) == [round(x, 3) for x in launches]
    assert [draw.seed for draw in given] == list(range(8))
    assert given == draws(HostFactors(2.0, 1.1), FactorSpread(0.2, 0.01), 8)


def test_an_interval_is_as_wide_as_the_draws_are_apart_and_no_narrower_than_the_model_is_good() -> None:
    narrow, wide = (interval(OUTPUT, [100 - by, 100.0, 100 + by]) for by in (0.01, 20.0))
    assert narrow is not None
    assert wide is not None
    assert narrow.high - narrow.low == pytest.approx(2 * 1.645 * 0.01 * 100, rel=0.02)
    assert wide.high - wide.low > 100
    assert wide.low > 0


def test_a_model_that_is_off_on_the_recording_itself_is_doubted_by_that() -> None:
    known, off = (interval(OUTPUT, [99.0, 100.0, 101.0], own_error=error) for error in (0.0, 0.3))
    assert known is not None
    assert off is not None
    assert known.high < off.high
    assert off.holds(135.0)


def test_an_interval_of_what_one_draw_does_not_know_is_not_known() -> None:
    assert interval(OUTPUT, [1.0, None, 1.0]) is None
    assert interval(OUTPUT, [1.0]) is None
    assert paired_doubt(OUTPUT, [1.0, None], [1.0, 2.0]) is None


def test_differences_are_paired_so_that_what_both_have_in_common_is_no_doubt() -> None:
    before, after = [80.0, 100.0, 120.0], [88.0, 110.0, 132.0]
    paired = paired_doubt(TTFT, before, after)
    apart = paired_doubt(TTFT, before, after[::-1])
    assert paired is not None
    assert apart is not None
    assert paired < apart / 4


def test_a_count_is_doubted_by_its_square_root_at_least() -> None:
    assert paired_doubt(PREEMPTIONS, [0.0] * 3, [100.0] * 3) == pytest.approx(16.45)
    assert paired_doubt(PREEMPTIONS, [0.0] * 3, [4.0] * 3) == 2.0


@pytest.mark.slow
def test_what_comes_with_other_flags_has_an_interval(fewer: WhatIf) -> None:
    rows = {row.number.name: row for row in fewer.rows}
    for name in ("output_per_s", "ttft_s", "tpot_s"):
        row = rows[name]
        assert row.interval is not None
        assert row.after is not None
        assert row.interval.low < row.after < row.interval.high
    measured = {"output_per_s": 1263.0, "ttft_s": 65.4, "tpot_s": 0.00767}  # overload_seqs10
    assert all(rows[name].interval.holds(value) for name, value in measured.items())  # type: ignore[union-attr]


def test_a_host_that_drifts_is_on_average_as_fast() -> None:
    drift = HostDrift(0.3, seed=5)
    seen = [drift(0.25 * at) for at in range(80_000)]
    assert fmean(seen) == pytest.approx(1.0, abs=0.03)
    assert len(set(seen[:40])) == 6  # it holds for 2 s, from some instant on
    assert [HostDrift(0.3, seed=5)(at) for at in (0.0, 5.0)] == [seen[0], seen[20]]


def test_levels_of_a_draw_are_means_over_scrapes_as_those_on_record_are() -> None:
    flags = Flags(num_gpu_blocks=5431, enable_prefix_caching=False)
    found = []
    for scraped_s in (None, (0.1, 0.5), (0.1, 1e6), (1e6, 1.0)):
        engine = Engine(flags, H200.timing, H200.frontend, H200.shape)
        levels = Levels(engine, scraped_s)
        seen = replay(ReplayLoad((Ask(1024, 400),), 1), engine, levels)
        found.append(levels.means(seen.span_s)[0])
    always, scraped, once, never = found
    assert 0.8 < always < 1.0
    assert scraped == 1.0
    assert once == 1.0
    assert isnan(never)


@pytest.mark.parametrize(
    ("difference", "verdict"), [(0.0, "same"), (2.0, WITHIN), (-2.0, WITHIN), (2.1, "worse"), (-2.1, "better")]
)
def test_only_what_is_larger_than_the_doubt_is_a_difference(difference: float, verdict: str) -> None:
    assert verdict_of(TTFT, difference, 2.0) == verdict


# --- what is measured -------------------------------------------------------------------------------------------------


def test_levels_hold_from_one_step_to_the_next() -> None:
    engine = Engine(Flags(num_gpu_blocks=5431, enable_prefix_caching=False), H200.timing, H200.frontend, H200.shape)
    levels = Levels(engine)
    seen = replay(ReplayLoad((Ask(1024, 64),), 1), engine, levels)
    running, waiting, kv_ratio = levels.means(seen.span_s)
    assert 0.8 < running < 1.0
    assert waiting == 0
    assert 1024 / 16 / 5430 * 0.8 < kv_ratio < 1088 / 16 / 5430
    assert levels.most_running == 1


def test_bounds_count_the_requests_that_keep_them_all(busy: Run) -> None:
    bounds = {"ttft": 0.8, "tpot": 0.05}
    whole = what_if(busy, H200, busy.flags, bounds)
    recorded, before, _ = of(whole, "good_ratio")
    assert recorded == sum(one.keeps(bounds) for one in busy.observed.answers) / len(busy.observed.answers)
    assert before is not None
    assert 0 < before < 1
    assert of(what_if(busy, H200, busy.flags, {"ttft": 5.0}), "good_ratio")[:2] == (1, 1)
    assert of(what_if(busy, H200, busy.flags, {"tpot": 0.001}), "good_ratio")[:2] == (0, 0)


def test_a_percentile_of_too_few_is_not_known() -> None:
    values = [float(value) for value in range(1, 460)]
    assert (quantile(values, 0.5), quantile(values, 0.9), quantile(values, 0.99)) == (230, 414, 455)
    assert quantile(values[1:], 0.99) is None
    assert quantile([], 0.5) is None
    engine = Engine(Flags(num_gpu_blocks=5431), H200.timing, H200.frontend, H200.shape)
    levels = Levels(engine)
    few = simulated(replay(ReplayLoad((Ask(100, 1),) * 10, 1), engine, levels), levels, None)
    assert few.ttft_p50_s is not None
    assert few.ttft_p90_s is None
    assert few.tpot_s is None


@pytest.mark.slow
def test_every_run_of_the_recordings_that_come_with_vtop_can_be_replayed() -> None:
    for path in sorted(RECORDINGS.glob("*.jsonl*")):
        left_out = [one for one in read(path) if not isinstance(one, Run)]
        if path.name.startswith("killed"):
            assert [one.partition(": ")[2][:31] for one in left_out] == ["44 of its 91 requests failed, a"]
        else:
            assert not left_out, path


# --- the search -------------------------------------------------------------------------------------------------------


def test_a_range_is_tried_twice_per_doubling_and_at_its_end() -> None:
    assert asked("max-num-seqs=8..128").values == (8, 12, 16, 24, 32, 48, 64, 96, 128)
    assert asked("max-num-seqs=8..100").values[-2:] == (96, 100)
    assert asked("kv-tokens=65536..131072:16384").values == (65536, 81920, 98304, 114688, 131072)
    assert asked("max-num-seqs=10,8,10").values == (8, 10)
    assert asked("max-num-seqs=1..3").values == (1, 2, 3)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("max-num-seqs", "search what"),
        ("block-size=16", "search what"),
        ("max-num-seqs=", "is no value"),
        ("max-num-seqs=8..x", "is no value"),
        ("max-num-seqs=0..4", "no value above 0"),
        ("max-num-seqs=9..4", "no value above 0"),
        ("max-num-seqs=1..9:0", "no value above 0"),
        ("max-num-seqs=1..1000:1", "more than 64"),
    ],
)
def test_what_cannot_be_searched_is_said_in_a_line(text: str, why: str) -> None:
    with pytest.raises(VtopError, match=why):
        asked(text)


def test_the_best_row_is_that_of_the_criterion_and_rows_within_the_error_are_as_good(busy: Run) -> None:
    found = search(busy, H200, busy.flags, asked("max-num-seqs=8,32,64,128"), number=criterion(None, None))
    known = {one.value: one for one in found.tried}
    assert [one.verdict for one in found.tried].count(BEST) == 1
    best = next(one for one in found.tried if one.verdict == BEST)
    assert best.criterion == max(one.criterion or 0.0 for one in found.tried)
    assert {known[64].verdict, known[128].verdict} == {BEST, AS_GOOD}
    assert known[8].verdict == ""
    assert found.error is not None
    assert abs(found.error) < 0.01


def test_with_bounds_the_best_row_is_that_with_most_requests_that_keep_them(busy: Run) -> None:
    bounds = {"tpot": 0.0058}
    number = criterion(None, bounds)
    assert number.name == "good_per_s"
    found = search(busy, H200, busy.flags, asked("max-num-seqs=8,16,64"), bounds=bounds, number=number)
    assert next(one.value for one in found.tried if one.verdict == BEST) < 64


def test_a_criterion_can_be_least(busy: Run) -> None:
    found = search(busy, H200, busy.flags, asked("max-num-seqs=8,64"), number=criterion("tpot_s", None))
    assert next(one.value for one in found.tried if one.verdict == BEST) == 8


def test_a_criterion_that_is_none_is_said() -> None:
    with pytest.raises(VtopError, match="one of output_per_s"):
        criterion("running", None)
    with pytest.raises(VtopError, match="--slo"):
        criterion("good_per_s", None)


def test_a_value_that_vllm_would_refuse_has_a_row_that_says_so(busy: Run) -> None:
    number = criterion(None, None)
    found = search(busy, H200, busy.flags, asked("max-num-batched-tokens=64,2048"), number=number)
    refused, tried = found.tried
    assert refused.simulated is None
    assert "must be at least --max-num-seqs 128" in (refused.why or "")
    assert tried.verdict == BEST
    with pytest.raises(VtopError, match="no value can be tried"):
        search(busy, H200, busy.flags, asked("max-num-batched-tokens=64"), number=number)


def test_a_pool_is_asked_for_in_tokens(busy: Run) -> None:
    assert with_flag(busy.flags, "kv-tokens", 114_688).num_gpu_blocks == 7168
