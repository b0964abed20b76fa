"""A search of capacity ends in a bracket that holds the true value of its own rule, and says why where it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from vtop.recording import SimulatedSearch
from vtop.session.capacity.foretold import speed
from vtop.session.capacity.runs import RunRequest, judged
from vtop.session.capacity.search import Next, Plan, RunResult, Search, by_the_other_rule, grows
from vtop.session.load.attainment import OPEN, Attainment
from vtop.session.load.request_latency import RequestLatency

PLAN = Plan("floor", 0.95, 3, 100, (1, 2, 3), first_per_s=1.0, hold=False)


def result(run: Next, ratio: float, **more: Any) -> RunResult:
    passed = round(ratio * run.requests)
    attained = Attainment(run.requests, passed, 0, 0, 0, 0, ())
    return RunResult(run.rate_per_s, run.seed, attained, run.rate_per_s, run.requests, hold=run.hold, **more)


def search(plan: Plan, ratio: Callable[[Next], float], most: int = 2000) -> Search:
    found = Search(plan)
    for _ in range(most):
        if (run := found.next()) is None:
            return found
        found.tell(result(run, ratio(run)))
    raise AssertionError("no end")


def cliff(at_per_s: float) -> Callable[[Next], float]:
    return lambda run: 1.0 if run.rate_per_s <= at_per_s else 0.5


@pytest.mark.parametrize("rule", ["floor", "long-run"])
@pytest.mark.parametrize("at_per_s", [0.03, 0.7, 1.0, 13.3, 4_000.0])
def test_the_bracket_holds_the_cliff_and_is_as_narrow_as_asked(rule: Any, at_per_s: float) -> None:
    found = search(replace(PLAN, rule=rule), cliff(at_per_s)).bracket()
    assert found.end == "reached"
    assert found.passes_per_s is not None
    assert found.fails_per_s is not None
    assert found.passes_per_s <= at_per_s < found.fails_per_s
    assert found.fails_per_s / found.passes_per_s <= 1.0501


def test_a_floor_ends_a_rate_at_its_first_run_below() -> None:
    found = search(PLAN, cliff(10.0))
    assert {len(rate.runs) for rate in found.rates() if rate.verdict == "fail"} == {1}
    assert {len(rate.runs) for rate in found.rates() if rate.verdict == "pass"} == {3}


def test_every_rate_has_the_same_seeds() -> None:
    found = search(PLAN, cliff(10.0))
    assert {tuple(run.seed for run in rate.runs) for rate in found.rates()} == {(1, 2, 3), (1,)}


def test_an_undecided_rate_gets_more_runs_and_never_moves_the_bracket() -> None:
    def noisy(run: Next) -> float:
        near = 9.0 < run.rate_per_s < 11.0
        return (1.0 if run.seed % 2 else 0.9) if near else cliff(10.0)(run)

    found = search(replace(PLAN, rule="long-run", runs=4, seeds=(1, 2, 3, 4), precision_ratio=0.02), noisy)
    now = found.bracket()
    assert now.end == "undecided"
    assert now.undecided_per_s
    assert now.passes_per_s is not None
    assert now.fails_per_s is not None
    assert now.passes_per_s <= 9.0
    assert now.fails_per_s >= 11.0
    assert {len(rate.runs) for rate in found.rates() if rate.verdict == "undecided"} == {12}


def test_nothing_passes_and_nothing_fails_are_ends_with_a_name() -> None:
    nothing = search(replace(PLAN, least_per_s=0.1), lambda run: 0.2).bracket()
    assert (nothing.end, nothing.passes_per_s, nothing.fails_per_s) == ("nothing passed", None, 0.1)
    every = search(replace(PLAN, most_per_s=50.0), lambda run: 1.0).bracket()
    assert (every.end, every.passes_per_s, every.fails_per_s) == ("nothing failed", 50.0, None)


def test_a_rate_that_does_not_hold_fails_and_the_search_goes_on_below() -> None:
    """Runs of 100 pass up to 10/s; over a long run only 8/s does."""
    found = search(replace(PLAN, hold=True), lambda run: cliff(8.0 if run.hold else 10.0)(run))
    now = found.bracket()
    assert now.passes_per_s is not None
    assert now.passes_per_s <= 8.0
    assert now.fails_per_s is not None
    assert now.fails_per_s > now.passes_per_s
    assert found.held[now.passes_per_s].requests == 400


def test_a_pass_above_a_fail_widens_the_bracket() -> None:
    found = Search(PLAN)
    for rate, ratio in ((4.0, 1.0), (8.0, 0.5), (16.0, 1.0), (32.0, 0.5)):
        for seed in PLAN.seeds:
            found.tell(result(Next(rate, seed, 100), ratio))
    now = found.bracket()
    assert (now.passes_per_s, now.fails_per_s, now.monotone) == (4.0, 32.0, False)


def crossed(second: Callable[[Next], float]) -> Search:
    """Passes at 4 and 16, fails at 8 and 32; what is run after that attains `second`."""
    found = Search(replace(PLAN, precision_ratio=10.0))
    for rate, ratio in ((4.0, 1.0), (8.0, 0.5), (16.0, 1.0), (32.0, 0.5)):
        for seed in PLAN.seeds[: 3 if ratio == 1.0 else 1]:
            found.tell(result(Next(rate, seed, 100), ratio))
    while (run := found.next()) is not None:
        found.tell(result(run, second(run)))
    return found


def test_a_fail_below_a_pass_is_run_again_with_its_seeds_and_settles_it_where_it_was_chance() -> None:
    found = crossed(cliff(20.0))
    assert [run.seed for run in found.again[8.0]] == [1, 2, 3]
    assert set(found.again) == {8.0}
    now = found.bracket()
    assert (now.passes_per_s, now.fails_per_s, now.monotone, now.undecided_per_s) == (16.0, 32.0, True, (8.0,))


def test_where_both_stand_after_they_were_run_again_the_bracket_is_widened() -> None:
    found = crossed(lambda run: 1.0 if run.rate_per_s == 16.0 else 0.5)
    assert {rate: len(runs) for rate, runs in found.again.items()} == {8.0: 1, 16.0: 3}
    now = found.bracket()
    assert (now.passes_per_s, now.fails_per_s, now.monotone, now.end) == (4.0, 32.0, False, "reached")


def test_a_run_that_is_no_evidence_counts_for_nothing() -> None:
    found = Search(PLAN)
    found.tell(result(Next(1.0, 1, 100), 1.0, why_not="the server restarted"))
    assert found.rates() == ()
    assert len(found.refused) == 1
    assert found.next() == Next(1.0, 1, 100)


@pytest.mark.parametrize(
    ("backlog", "grown"),
    [((5, 9, 14, 20), True), ((37, 52, 62, 70), False), ((5, 9, 8, 20), False), ((1, 2, 3, 4), False)],
)
def test_a_backlog_grows_that_doubles_from_quarter_to_quarter(backlog: tuple[int, ...], grown: bool) -> None:
    assert grows(backlog) is grown


def test_a_rate_whose_backlog_grows_in_most_runs_is_marked() -> None:
    found = Search(PLAN)
    for seed, backlog in ((1, (5, 9, 14, 20)), (2, (5, 9, 14, 20)), (3, (5, 9, 8, 6))):
        found.tell(result(Next(4.0, seed, 100), 1.0, backlog=backlog))
    assert [rate.growing for rate in found.rates()] == [True]


SIMULATED = SimulatedSearch(
    by="a profile", passes_per_s=14.0, fails_per_s=15.0, attained=((7.0, 1.0), (14.0, 0.96), (15.0, 0.94), (28.0, 0.5))
)


def sloping(at_per_s: float) -> Callable[[Next], float]:
    """95 % at a rate, and as much less beyond it as in SIMULATED."""
    return lambda run: min(1.0, 0.95 - 0.02 * (run.rate_per_s / at_per_s - 1) * 14.5)


@pytest.mark.parametrize(("capacity_per_s", "rates"), [(14.5, 2), (12.0, 3), (20.0, 6), (1.0, 11), (200.0, 10)])
def test_a_simulated_bracket_says_where_to_look_and_is_corrected_by_what_was_measured(
    capacity_per_s: float, rates: int
) -> None:
    plan = replace(PLAN, requests=100_000, first_per_s=14.0, precision_ratio=0.08)
    found = search(replace(plan, simulated=SIMULATED), sloping(capacity_per_s))
    now = found.bracket()
    assert now.passes_per_s is not None
    assert now.fails_per_s is not None
    assert now.passes_per_s <= capacity_per_s <= now.fails_per_s
    assert now.end == "reached"
    assert len(found.results) <= rates


def test_what_is_left_is_less_where_a_simulated_bracket_says_where_to_look() -> None:
    plan = replace(PLAN, first_per_s=14.0, precision_ratio=0.08)
    assert Search(replace(plan, simulated=SIMULATED)).left().rates == 2 < Search(plan).left().rates


def test_how_fast_the_engine_is_beside_its_model_is_as_far_as_both_brackets_tell() -> None:
    assert speed(SIMULATED, 12.0, 13.0) == (12.0 / 15.0, 13.0 / 14.0)
    assert speed(SIMULATED, None, 13.0) == (None, 13.0 / 14.0)
    assert speed(SIMULATED, None, None) == (None, None)


def test_equal_attainment_is_enough() -> None:
    assert search(replace(PLAN, most_per_s=2.0), lambda run: 0.95).bracket().end == "nothing failed"


def test_a_pass_is_sure_against_the_spread_that_runs_at_the_target_have() -> None:
    def told(apart: float) -> str:
        search = Search(Plan("long-run", 0.95, 12, 1000, tuple(range(12))))
        for seed in range(12):
            kept = Attainment(1000, round(1000 * (0.975 + (apart if seed % 2 else -apart))), 0, 0, 0, 0, ())
            search.tell(RunResult(1.0, seed, kept, 1.0, 1000))
        return search.verdict(1.0)

    assert told(0.016) == "pass"
    assert told(0.024) == "more"  # as spread as this near 1, runs around 95 % are spread by far more


def test_a_search_ends_where_requests_that_were_alone_miss_the_bound_as_no_lower_rate_can_keep_it() -> None:
    def alone(kept: int) -> Search:
        found = Search(replace(PLAN, least_per_s=0.001))
        for _ in range(60):
            if (run := found.next()) is None:
                break
            found.tell(result(run, 0.5, alone=40, alone_kept=kept))
        return found

    none = alone(10)
    assert (none.end, none.why) == ("nothing passed", "10 of 40 requests that were alone on the server kept it")
    assert len(none.results) == 1
    assert len(alone(40).results) > 5  # the queue is what fails: it goes on below


def test_the_same_runs_are_judged_by_the_other_rule_by_the_first_of_each_rate() -> None:
    found = Search(replace(PLAN, rule="long-run", runs=4, seeds=(1, 2, 3, 4)))
    for rate, ratios in ((4.0, (1.0,) * 4), (8.0, (0.99, 0.98, 0.99, 0.99, 0.5)), (16.0, (0.5, 0.4, 0.5, 0.4))):
        for seed, ratio in enumerate(ratios):
            found.tell(result(Next(rate, seed + 1, 100), ratio))
    plan, bracket = by_the_other_rule(found)
    assert plan.name == "floor (lowest of 4 runs of 100 requests)"
    assert (bracket.passes_per_s, bracket.fails_per_s) == (8.0, 16.0)
    assert found.bracket().passes_per_s == 4.0


def test_a_run_is_told_by_its_requests() -> None:
    def took(e2e_s: float) -> RequestLatency:
        return RequestLatency(ttft_s=0.1, tpot_s=0.01, e2e_s=e2e_s)

    outcomes = [
        RunRequest(0.0, 1.0, took(1.0), 64, 16),  # alone
        RunRequest(2.0, 5.0, took(3.0), 64, 16),  # the next comes before it ends
        RunRequest(3.0, 4.0, took(1.0), 4096, 16),
        RunRequest(6.0, 9.0, took(3.0), 64, 16),  # alone, and too slow
        RunRequest(10.0, None, OPEN, 64, 16),
    ]
    found = judged(Next(0.5, 1, 5), outcomes, {"e2e": 2.0})
    assert (found.attained.passed, found.attained.requests, found.attained.open) == (2, 5, 1)
    assert (found.alone, found.alone_kept) == (2, 1)
    assert (found.residence_s, found.sending_s) == (2.0, 10.0)
    assert [(one.judged, one.good) for one in found.by_length] == [(4, 1), (1, 1)]
    assert found.times[0].times.p50_s == 3.0


def test_a_run_of_which_no_request_can_be_judged_is_no_evidence() -> None:
    one_token = RequestLatency(ttft_s=0.1, tpot_s=None, e2e_s=0.1)
    found = Search(replace(PLAN, requests=20))
    while (run := found.next()) is not None:
        found.tell(judged(run, [RunRequest(0.0, 0.1, one_token, 8, 1)] * 20, {"tpot": 0.05}))
    assert (found.end, found.why) == ("no evidence", "no request of it can be judged by these bounds")
