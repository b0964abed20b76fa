"""plan queue: the article's queue, seed by seed, and what runs say together."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from vtop.errors import VtopError
from vtop.plan.attainment import together
from vtop.plan.queueing import FAIL, PASS, Queue, Rate, Services, answer, usual_rates
from vtop.session.load.attainment import ERROR, OPEN, TIMEOUT, attainment
from vtop.session.load.request_latency import RequestLatency

ARTICLE = Queue(Services((0.020, 0.180), (0.8, 0.2)), slo_s=0.250, target=0.95)

# as printed: rate, rho, the rate that came, p95 of the worst run's waits in ms, attainment, floor, verdict
TABLE = """
   2 0.10 1.99-2.01           64.2 98.85%-99.00%  98.85% PASS
   4 0.21 3.98-4.02          137.7 97.22%-97.50%  97.22% PASS
   6 0.31 5.96-6.03          170.7 94.70%-95.26%  94.70% FAIL
   8 0.42 7.95-8.04          232.7 90.84%-91.78%  90.84% FAIL
  10 0.52 9.94-10.05          314.9 85.52%-86.58%  85.52% FAIL
  14 0.73 13.91-14.07          673.9 64.74%-67.65%  64.74% FAIL
  18 0.94 17.89-18.10         3889.7 19.30%-26.52%  19.30% FAIL
""".strip("\n").splitlines()


def printed(one: Rate) -> list[str]:
    runs = one.attained
    return [
        f"{one.rate_per_s:g}",
        f"{one.rho:.2f}",
        f"{one.least_rate_per_s:.2f}-{one.most_rate_per_s:.2f}",
        f"{one.p95_wait_s * 1000:.1f}",
        f"{runs.floor_ratio:.2%}-{runs.highest_ratio:.2%}",
        f"{runs.floor_ratio:.2%}",
        one.verdict,
    ]


def test_the_article_s_seven_rows_come_out_to_the_digit() -> None:
    found = answer(ARTICLE, [2, 4, 6, 8, 10, 14, 18])
    assert [printed(one) for one in found.rates] == [row.split() for row in TABLE]
    assert (found.passes_per_s, found.fails_per_s, found.monotone) == (4, 6, True)
    closed = found.closed
    assert f"{closed.least_per_s:.2f}-{closed.most_per_s:.2f}" == "19.07-19.43"
    assert f"{closed.floor_ratio:.2%}" == "100.00%"


def test_the_mean_wait_is_pollaczek_and_khinchine_s() -> None:
    (one,) = answer(replace(ARTICLE, requests=20_000, warm=2_000), [8]).rates
    assert one.mean_wait_s == pytest.approx(8 * (0.8 * 0.02**2 + 0.2 * 0.18**2) / (2 * (1 - 8 * 0.052)))
    assert one.waited_mean_s == pytest.approx(one.mean_wait_s, rel=0.03)


def test_the_floor_falls_with_shorter_runs_and_never_goes_without_its_numbers() -> None:
    short, long = (answer(replace(ARTICLE, requests=n, warm=0), [4]).rates[0].attained for n in (500, 20_000))
    assert short.floor_ratio < long.floor_ratio
    assert short.floor_name() == "lowest of 12 runs of 500 requests"
    assert abs(short.mean_ratio - long.mean_ratio) < 0.01


def test_one_time_for_all_waits_for_nothing_but_arrivals() -> None:
    steady = Queue(Services((0.05,), (1.0,)), slo_s=0.0501, target=0.9, requests=2_000, warm=0, seeds=(1,))
    (one,) = answer(steady, [2]).rates
    assert one.attained.mean_ratio == pytest.approx(1 - 2 * 0.05, abs=0.02)  # the share that finds nobody


def test_measured_times_are_drawn_alike() -> None:
    times = Services((0.01, 0.02, 0.03))
    drawn = times.draw(7, 3_000)
    assert {drawn.count(time) // 100 for time in times.times_s} <= {9, 10}
    assert times.mean_s == pytest.approx(0.02)


def test_three_times_have_the_shares_that_are_asked_for() -> None:
    drawn = Services((1.0, 2.0, 3.0), (0.5, 0.3, 0.2)).draw(3, 10_000)
    assert [drawn.count(time) / 10_000 for time in (1.0, 2.0, 3.0)] == pytest.approx([0.5, 0.3, 0.2], abs=0.02)


def test_several_servers_are_one_queue() -> None:
    queue = Queue(Services((0.052,), (1.0,)), slo_s=0.25, target=0.95, requests=4_000, warm=400, seeds=(1, 2))
    two = answer(replace(queue, servers=2), [30]).rates[0]
    one = answer(queue, [15]).rates[0]
    assert two.rho == one.rho
    assert two.waited_mean_s < one.waited_mean_s  # a shared queue waits less than half of the load on each
    assert two.mean_wait_s is None


def test_one_server_by_the_other_way_gives_the_same() -> None:
    from vtop.plan import queueing

    draws = queueing._draws(replace(ARTICLE, requests=1_000, warm=100), 5)
    queue = replace(ARTICLE, requests=1_000, warm=100)
    assert queueing._one_server(queue, draws, 12.0) == queueing._several(queue, draws, 12.0)


def test_beyond_rho_1_no_mean_wait_is_claimed() -> None:
    (one,) = answer(replace(ARTICLE, requests=2_000, warm=0, seeds=(1,)), [25]).rates
    assert one.mean_wait_s is None
    assert one.verdict == FAIL


def test_a_pass_above_a_fail_is_said() -> None:
    wild = replace(ARTICLE, requests=60, warm=0, seeds=(4,), target=0.97)
    found = answer(wild, [float(rate) for rate in range(1, 16)])
    verdicts = [one.verdict for one in found.rates]
    assert found.monotone == (verdicts == sorted(verdicts, reverse=True))
    assert verdicts.count(PASS)
    assert verdicts.count(FAIL)


def test_nothing_left_to_measure_is_refused() -> None:
    with pytest.raises(VtopError, match="none is left"):
        answer(replace(ARTICLE, requests=10, warm=10), [1])


def test_usual_rates_are_by_how_busy_the_server_is() -> None:
    assert [rate * 0.052 for rate in usual_rates(ARTICLE)] == pytest.approx(
        [0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9], rel=0.06
    )


# --- attainment -------------------------------------------------------------------------------------------------------

BOUNDS = {"ttft": 0.8, "tpot": 0.05}


def ok(ttft_s: float = 0.1, tpot_s: float | None = 0.01, e2e_s: float = 1.0) -> RequestLatency:
    return RequestLatency(ttft_s, tpot_s, e2e_s)


def test_two_bounds_kept_by_99_each_may_be_kept_by_98_together() -> None:
    run = [ok()] * 98 + [ok(ttft_s=0.9), ok(tpot_s=0.06)]
    found = attainment(run, BOUNDS)
    assert dict(found.by_bound) == {"ttft_s": 0.99, "tpot_s": 0.99}
    assert found.ratio == 0.98


def test_what_failed_stands_in_the_denominator_each_kind_apart() -> None:
    found = attainment([ok()] * 6 + [ERROR, TIMEOUT, TIMEOUT, OPEN], BOUNDS)
    assert (found.requests, found.passed, found.errors, found.timeouts, found.open) == (10, 6, 1, 2, 1)
    assert dict(found.by_bound) == {"ttft_s": 0.6, "tpot_s": 0.6}


def test_one_token_has_no_tpot_and_is_left_out_where_that_is_the_only_bound() -> None:
    both = attainment([ok(tpot_s=None), ok()], BOUNDS)
    assert (both.requests, both.passed, both.undefined) == (2, 2, 0)
    alone = attainment([ok(tpot_s=None), ok()], {"tpot": 0.05})
    assert (alone.requests, alone.passed, alone.undefined) == (1, 1, 1)
    assert attainment([ok(tpot_s=None)], {"tpot": 0.05}).ratio is None


def test_a_time_equal_to_its_bound_keeps_it() -> None:
    assert attainment([ok(ttft_s=0.8, tpot_s=0.05)], BOUNDS).ratio == 1.0


def test_runs_are_the_observations_of_the_interval() -> None:
    runs = together([0.90, 0.92, 0.94], 1_000)
    assert (runs.floor_ratio, runs.highest_ratio) == (0.90, 0.94)
    assert runs.mean_ratio == pytest.approx(0.92)
    assert runs.interval_ratio == pytest.approx(4.302653 * 0.02 / math.sqrt(3))
    assert together([0.9], 1_000).interval_ratio is None
