"""Recomputed tokens, against an engine that knows the truth and against two afternoons on an H200."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.session.made import Log, Server, recorded
from tests.session.scheduler import COST, SHAPE, Job, serve
from tests.session.test_replay import check_seek_equals_fold
from vtop.recording import Identity
from vtop.session.frame.frame import View
from vtop.session.frame.tokens import Recompute
from vtop.session.recompute.token_cost import Parallel, cost
from vtop.session.session import Session

WHOLE = View(window_s=100_000.0)
SWEEP = tuple(f"sweep_c{many}" for many in (1, 2, 4, 8, 16, 32, 64))


def found(session: Session, at_s: float | None = None, view: View = WHOLE) -> Recompute:
    return session.frame(session.end_s if at_s is None else at_s, view).recompute


def load(seed: int, many: int = 24) -> list[Job]:
    chosen = random.Random(seed)
    return [Job(chosen.randint(50, 200), chosen.randint(80, 300)) for _ in range(many)]


# --- an H200 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SWEEP)
def test_a_run_without_preemption_executes_the_least_to_the_token(name: str) -> None:
    recompute = found(recorded(name))
    assert recompute.method == "write bytes, model shape"
    assert recompute.executed_tokens == recompute.least_tokens
    assert (recompute.tokens, recompute.since_start, recompute.estimate) == (0, 0, False)
    assert recompute.missing_flag is None


def test_overload_ran_a_quarter_of_its_work_again() -> None:
    recompute = found(recorded("overload"))
    assert recompute.method == "write bytes, model shape"
    assert recompute.least_tokens == 1_054_607
    assert recompute.since_start == pytest.approx(258_309, rel=0.001)
    assert recompute.since_start == recompute.tokens == 258_301  # of 100 chunks that ended no prompt
    assert recompute.since_start_ratio == pytest.approx(0.245, abs=5e-4)
    assert recompute.per_preemption == pytest.approx(6_981, rel=0.001)
    assert (recompute.token_bytes, recompute.row_bytes) == (3_899_392, 304_128)
    assert recompute.unsettled_tokens == 0


def test_overload_s_fit_needs_no_shape() -> None:
    recompute = found(shapeless("overload"))
    assert recompute.method == "write bytes, fitted"
    assert (recompute.token_bytes, recompute.row_bytes) == (3_899_392, 304_128)
    assert recompute.since_start == pytest.approx(258_301, rel=5e-5)  # a chunk is 0.08 tokens too many


@pytest.mark.parametrize("name", ["sweep_c1", "sweep_c2", "sweep_c4", "sweep_c8", "sweep_c16", "sweep"])
def test_a_sweep_s_fit_is_right_to_five_tokens(name: str) -> None:
    recompute = found(shapeless(name))
    assert recompute.method == "write bytes, fitted"
    assert recompute.executed_tokens == pytest.approx(recompute.least_tokens, abs=5)
    assert recompute.token_bytes == pytest.approx(3_899_392, rel=1e-5)


def test_overload_s_cross_checks_agree() -> None:
    recompute = found(recorded("overload"))
    assert recompute.by_kv_tokens == pytest.approx(recompute.since_start, rel=0.01)
    assert recompute.by_flops_tokens == pytest.approx(recompute.since_start, rel=0.06)


def test_a_session_that_began_in_the_overload_has_no_fit_and_says_that_it_estimates() -> None:
    recompute = found(shapeless("overload_loaded"))
    assert (recompute.method, recompute.estimate) == ("KV released", True)
    assert recompute.since_start == pytest.approx(258_314, rel=0.01)
    assert recompute.executed_tokens is None


def shapeless(name: str) -> Session:
    """A recording as if no config.json could have been read."""
    session = recorded(name)
    for server in session.servers:
        server.identities = [msgspec.structs.replace(one, shape=None) for one in server.identities]
    return session


def test_no_moment_of_the_overload_has_a_negative_number_or_more_than_in_the_end() -> None:
    session = recorded("overload_loaded")
    for second in range(0, int(session.end_s), 3):
        recompute = found(session, second + 0.5, View(window_s=20.0))
        for value in (recompute.tokens, recompute.since_start, recompute.executed_tokens):
            assert value is None or value >= 0
        assert (recompute.since_start or 0.0) <= 258_314 + recompute.unsettled_tokens


# --- an engine that knows the truth ----------------------------------------------------------------------------------


@settings(max_examples=12, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.integers(60, 160), st.booleans(), st.sampled_from([128, 512, 4096]))
def test_what_ran_again_is_known_to_the_token(seed: int, blocks: int, lag: bool, budget: int) -> None:
    served = serve(load(seed), blocks=blocks, budget=budget, lag=lag)
    recompute = found(served.log.session())
    assert recompute.executed_tokens == served.scheduler.executed
    assert recompute.since_start == recompute.tokens == served.scheduler.recomputed


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.integers(0, 10_000), st.booleans())
@example(68, True)  # a preemption that nobody has told of looks like decoding
def test_in_mid_run_it_is_off_by_no_more_than_it_says(seed: int, lag: bool) -> None:
    chosen = random.Random(seed)
    jobs = [Job(120, chosen.randint(80, 300)) for _ in range(24)]
    served = serve(jobs, blocks=100, budget=128, lag=lag)
    session = served.log.session()
    for scrape, truth in enumerate(served.truth):
        recompute = found(session, scrape + 0.5)
        assert recompute.since_start is not None
        if lag and not recompute.since_start and truth:
            continue  # nobody has told of a preemption yet
        assert abs(recompute.since_start - truth) <= recompute.unsettled_tokens, scrape


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_without_a_shape_the_fit_is_right_but_for_the_chunks(seed: int) -> None:
    served = serve([Job(200, 200)], load(seed), blocks=100, budget=256, shape=None)
    recompute = found(served.log.session())
    assert recompute.method == "write bytes, fitted"
    assert recompute.token_bytes == COST.token_bytes
    chunks = served.scheduler.rows - sum(job.generated for job in served.scheduler.done)
    assert recompute.since_start == pytest.approx(
        served.scheduler.recomputed + chunks * COST.row_bytes / COST.token_bytes, abs=1e-6
    )


def test_seek_equals_fold_in_an_overload() -> None:
    served = serve([Job(200, 200)], load(2), blocks=80, budget=128)
    check_seek_equals_fold(served.log.start, served.log.events, 15)


def test_a_window_tells_of_itself_and_since_start_of_all() -> None:
    served = serve(load(3), [Job(100, 40)], blocks=100)
    recompute = found(served.log.session(), view=View(window_s=2.0))
    assert recompute.tokens == 0
    assert recompute.since_start == served.scheduler.recomputed > 0


def test_the_shape_of_a_model_spread_over_four_gpus_is_found_by_the_fit() -> None:
    spread = cost(SHAPE, None, Parallel(tensor=4))
    assert spread is not None
    served = serve([Job(200, 100)], load(5), blocks=100, price=spread)
    recompute = found(served.log.session())
    assert recompute.method == "write bytes, model shape"
    assert recompute.token_bytes == spread.token_bytes
    assert recompute.since_start == served.scheduler.recomputed > 0


def test_a_shape_of_another_model_gives_way_to_the_fit() -> None:
    other = {**SHAPE, "num_hidden_layers": 5}
    served = serve([Job(200, 100)], load(5), blocks=100, budget=4096, shape=other)
    recompute = found(served.log.session())
    assert recompute.method == "write bytes, fitted"
    assert recompute.since_start == pytest.approx(served.scheduler.recomputed, rel=0.01)


def test_a_server_without_the_flag_is_told_which_and_the_number_is_an_estimate() -> None:
    served = serve(load(4), blocks=100, count_writes=False)
    recompute = found(served.log.session())
    assert recompute.missing_flag == "--enable-mfu-metrics"
    assert (recompute.method, recompute.estimate) == ("KV released", True)
    assert recompute.tokens == recompute.by_kv_tokens
    assert recompute.least_tokens == served.scheduler.executed - served.scheduler.recomputed


def test_without_the_flag_and_without_a_preemption_nothing_was_recomputed() -> None:
    served = serve([Job(50, 20)], blocks=100, count_writes=False)
    recompute = found(served.log.session())
    assert (recompute.tokens, recompute.estimate) == (0, False)


def test_an_idle_server_says_nothing_of_flags() -> None:
    log, server = Log(), Server()
    log.scrape(0, server)
    log.scrape(1, server)
    recompute = found(log.session())
    assert (recompute.tokens, recompute.method, recompute.missing_flag) == (0, None, None)


def test_prompts_that_were_aborted_are_no_recompute_while_nobody_was_preempted() -> None:
    log, server = Log(), Server()
    log.add(Identity(server=0, shape=SHAPE), 0.0)
    log.scrape(0, server)
    server.engine.count(estimated_write_bytes_per_gpu=5000 * COST.token_bytes)
    log.scrape(1, server)
    recompute = found(log.session())
    assert (recompute.executed_tokens, recompute.least_tokens, recompute.tokens) == (5000, 0, 0)


def test_rejected_drafts_are_no_recompute() -> None:
    served = serve(load(4), blocks=100, extra_drafts=3)
    recompute = found(served.log.session())
    assert recompute.since_start == pytest.approx(served.scheduler.recomputed, abs=1)


def test_a_restart_in_mid_window_adds_up_and_is_never_negative() -> None:
    log, server = Log(), Server()
    log.add(Identity(server=0, shape=SHAPE), 0.0)

    def work(tokens: int, again: int) -> None:
        server.engine.count(prompt_tokens=tokens, generation_tokens=1, num_preemptions=float(again > 0))
        server.engine.observe(time_to_first=0.1)
        server.engine.count(estimated_write_bytes_per_gpu=COST.token_bytes * (tokens + again) + COST.row_bytes)

    log.scrape(0, server)
    work(1000, 300)
    log.scrape(1, server)
    server.restart()
    log.scrape(2, server)
    work(500, 70)
    log.scrape(3, server)
    session = log.session()
    assert [found(session, second + 0.5).since_start for second in range(4)] == [0, 300, 300, 370]
    assert found(session).executed_tokens == 1870
    assert found(session).least_tokens == 1500


def test_two_servers_of_different_models_add_up() -> None:
    log = Log(2)
    small = cost({**SHAPE, "num_hidden_layers": 2}, None)
    assert small is not None
    for number, (price, shape) in enumerate(((COST, SHAPE), (small, {**SHAPE, "num_hidden_layers": 2}))):
        server = Server()
        log.add(Identity(server=number, shape=shape), 0.0)
        log.scrape(0, server, server=number)
        server.engine.count(prompt_tokens=1000, generation_tokens=1, num_preemptions=1)
        server.engine.observe(time_to_first=0.1)
        server.engine.count(estimated_write_bytes_per_gpu=price.token_bytes * (1000 + 50) + price.row_bytes)
        log.scrape(1, server, server=number)
    recompute = found(log.session())
    assert recompute.since_start == 100
    assert recompute.token_bytes is None


def test_two_engines_of_one_server_add_up() -> None:
    log, server = Log(), Server(["0", "1"])
    log.add(Identity(server=0, shape=SHAPE), 0.0)
    log.scrape(0, server)
    for again, engine in zip((40, 60), server.engines.values(), strict=True):
        engine.count(prompt_tokens=1000, generation_tokens=1, num_preemptions=1)
        engine.observe(time_to_first=0.1)
        engine.count(estimated_write_bytes_per_gpu=COST.token_bytes * (1000 + again) + COST.row_bytes)
    log.scrape(1, server)
    assert found(log.session()).since_start == 100


def test_counters_too_large_to_be_whole_numbers_are_right_to_the_chunks() -> None:
    served = serve(load(4), blocks=100, begin_bytes=2.0**54)
    recompute = found(served.log.session())
    assert recompute.since_start == pytest.approx(served.scheduler.recomputed, rel=0.02)
