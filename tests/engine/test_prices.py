"""The price of each limit: the one that binds is worth something, the others are not, and pairs make it certain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vtop import shipped
from vtop.engine.fit import profile
from vtop.engine.runs.replay import Ask, ReplayLoad
from vtop.engine.runs.runs import Run, runs
from vtop.engine.whatif.prices import LIMITS, cost_s, prices
from vtop.engine.whatif.simulation import simulate
from vtop.engine.whatif.whatif import TooFarOff
from vtop.session.frame.prices import Price, Prices, Worth

H200 = profile.load("h200-qwen2.5-7b")
NOTHING = Worth(0.0, 0.0, 0.0)


@pytest.fixture(scope="module")
def recorded() -> Run:
    return runs(shipped.folder("recordings") / "sweep.jsonl.gz")[-1]


def made(run: Run, load: ReplayLoad, max_num_seqs: int = 128) -> Run:
    """A run of this load, with the times that are simulated of it on record."""
    asked = replace(run, load=load, flags=replace(run.flags, max_num_seqs=max_num_seqs))
    found = simulate(asked, asked.flags, H200).measured
    times = {name: getattr(found, name) for name in ("queue_s", "prefill_s", "e2e_s", "frontend_s", "running")}
    seen = replace(run.observed, **times, span_s=None, requests=len(load.asks), most_running=None)
    return replace(asked, observed=seen)


def of(found: Prices, limit: str) -> Price:
    return next(price for price in found.prices if price.limit == limit)


LONG = ReplayLoad((Ask(2048, 256),) * 96, 64)  # the pool holds half of what is in flight


@pytest.fixture(scope="module")
def crowded(recorded: Run) -> Prices:
    return prices(made(recorded, LONG), H200, servers=3)


@pytest.fixture(scope="module")
def queued(recorded: Run) -> Prices:
    """The pool has room for 34; 16 may run."""
    return prices(made(recorded, LONG, max_num_seqs=16), H200, servers=3)


def test_where_the_pool_is_full_the_pool_is_worth_something_and_max_num_seqs_nothing(crowded: Prices) -> None:
    assert [price.limit for price in crowded.prices] == list(LIMITS)
    assert crowded.binding is of(crowded, "kv")
    assert of(crowded, "kv").ttft.high < -0.1
    assert of(crowded, "max-num-seqs").output == of(crowded, "max-num-seqs").ttft == NOTHING
    assert abs(of(crowded, "token-budget").ttft.ratio) < 0.02


def test_where_max_num_seqs_is_reached_they_are_worth_something_and_the_pool_nothing(queued: Prices) -> None:
    assert queued.binding is of(queued, "max-num-seqs")
    assert of(queued, "max-num-seqs").output.low > 0.01
    assert of(queued, "kv").output == NOTHING


def test_a_change_that_changes_nothing_is_simulated_once(queued: Prices) -> None:
    assert (of(queued, "kv").servers, of(queued, "gpu").servers) == (1, 3)


def test_what_changes_is_told(crowded: Prices, queued: Prices) -> None:
    pool = of(crowded, "kv")
    assert (pool.before, pool.after) == (86_896, 95_600)  # whole blocks, 10 % more rounded up
    assert (of(queued, "max-num-seqs").before, of(queued, "max-num-seqs").after) == (16, 24)  # the next CUDA graph
    assert of(queued, "gpu").before is None


def test_a_number_without_a_graph_of_its_own_grows_by_a_tenth(recorded: Run) -> None:
    seqs = of(
        prices(made(recorded, ReplayLoad((Ask(1024, 64),) * 24, 16), max_num_seqs=10), H200, servers=2), "max-num-seqs"
    )
    assert (seqs.before, seqs.after) == (10, 11)


def test_a_pair_is_far_more_certain_than_either_value(crowded: Prices) -> None:
    """The servers differ by several per cent; what the pool is worth does not."""
    worth = of(crowded, "kv").output
    assert 0 < worth.high - worth.low < 0.01


def test_the_flag_that_binds_is_suggested_at_the_best_of_some_values(crowded: Prices, queued: Prices) -> None:
    assert queued.suggestion is not None
    assert queued.suggestion.flag in ("--max-num-seqs 20", "--max-num-seqs 24", "--max-num-seqs 32")
    assert queued.suggestion.output.low > 0.01
    assert crowded.suggestion is not None
    assert crowded.suggestion.flag.startswith("--kv-tokens ")


def test_where_no_flag_binds_the_speed_of_the_gpu_does_and_nothing_is_suggested(recorded: Run) -> None:
    found = prices(made(recorded, ReplayLoad((Ask(1024, 64),) * 8, 2)), H200, servers=3)
    assert found.binding is not None
    assert found.binding.limit == "gpu"
    assert found.suggestion is None


def test_the_same_question_has_the_same_answer(recorded: Run) -> None:
    run = made(recorded, ReplayLoad((Ask(1024, 64),) * 16, 16))
    assert prices(run, H200, servers=2) == prices(run, H200, servers=2)


def test_nothing_is_priced_where_the_error_on_the_recording_itself_is_absurd(recorded: Run) -> None:
    run = made(recorded, LONG)
    other = replace(run, observed=replace(run.observed, queue_s=9 * run.observed.queue_s))
    with pytest.raises(TooFarOff, match="no answer"):
        prices(other, H200)


def test_a_longer_load_costs_more_to_price(recorded: Run) -> None:
    short, long = (made(recorded, ReplayLoad((Ask(1024, 64),) * count, 16)) for count in (16, 64))
    assert 0 < cost_s(short) < cost_s(long)


@pytest.mark.parametrize(
    ("flag", "speed", "limit"),
    [
        (Worth(0.02, 0.01, 0.03), Worth(0.09, 0.08, 0.10), "kv"),  # a flag goes before a speed
        (Worth(0.02, -0.01, 0.05), Worth(0.09, 0.08, 0.10), "gpu"),  # not certain
        (Worth(0.004, 0.003, 0.005), Worth(0.09, 0.08, 0.10), "gpu"),  # next to nothing
        (NOTHING, NOTHING, None),
    ],
)
def test_the_limit_that_binds_is_the_one_that_is_worth_something(flag: Worth, speed: Worth, limit: str | None) -> None:
    rows = (Price("kv", 1, 2, flag, NOTHING, 5), Price("gpu", None, None, speed, NOTHING, 5))
    found = Prices("a run", None, rows, None, (), 0.0).binding
    assert (found.limit if found is not None else None) == limit


def test_where_requests_come_by_the_clock_a_limit_binds_by_the_ttft_it_costs() -> None:
    sooner = Worth(-0.3, -0.4, -0.2)
    rows = (Price("kv", 1, 2, NOTHING, NOTHING, 5), Price("max-num-seqs", 8, 16, NOTHING, sooner, 5))
    found = Prices("a run", None, rows, None, (), 0.0).binding
    assert found is rows[1]
