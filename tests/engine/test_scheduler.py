"""The scheduler does what vLLM's does: the rules one by one, and the counts of real servers."""

from __future__ import annotations

from dataclasses import replace
from statistics import median

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.engine.driven import Driven, drive
from vtop.engine.core.flags import Flags
from vtop.engine.core.request import EngineRequest
from vtop.engine.core.scheduler import Scheduler
from vtop.engine.core.step import StepPlan
from vtop.errors import VtopError

H200 = Flags(num_gpu_blocks=5431, enable_prefix_caching=False)  # the server of the recordings
CPU = Flags(
    num_gpu_blocks=128,
    block_size=32,
    max_model_len=1024,
    max_num_seqs=16,
    max_num_batched_tokens=2048,
    async_scheduling=False,
)


def alike(count: int, prompt: int, output: int) -> list[EngineRequest]:
    return [EngineRequest(number, prompt, output) for number in range(count)]


# the counts of real servers


def test_the_overload_of_an_h200_is_reproduced_without_any_fit() -> None:
    overload = drive(H200, alike(128, 6144, 2048), in_flight=64)
    assert abs(overload.scheduler.preemptions - 37) <= 1
    assert overload.recomputed == pytest.approx(258_309, rel=0.05)
    assert overload.scheduler.steps == pytest.approx(23_196, rel=0.01)
    assert 11 <= median(overload.running) <= 12
    assert max(overload.running) == 14


def test_the_overload_of_a_cpu_server_is_reproduced() -> None:
    overload = drive(CPU, alike(40, 100, 400), in_flight=40)
    assert overload.scheduler.preemptions == pytest.approx(56, rel=0.05)
    assert overload.recomputed == pytest.approx(8_423, rel=0.05)


# the rules


def test_admission_asks_for_room_for_the_whole_prompt() -> None:
    flags = Flags(num_gpu_blocks=11, block_size=16, max_num_seqs=8, max_num_batched_tokens=32, max_model_len=160)
    plan = drive(flags, alike(1, 96, 2)).plans[0]
    assert plan[3] == ((32, 32),)
    second = EngineRequest(1, 96, 2, arrival_s=1.0)
    ran = drive(flags, [EngineRequest(0, 96, 40), second])
    assert ran.scheduler.preemptions == 0
    eager = drive(replace(flags, scheduler_reserve_full_isl=False), [EngineRequest(0, 96, 40), EngineRequest(1, 96, 2)])
    assert eager.scheduler.preemptions > 0


def test_the_one_admitted_last_gives_way() -> None:
    flags = Flags(num_gpu_blocks=9, block_size=16, enable_prefix_caching=False, max_model_len=128)
    ran = drive(flags, alike(2, 40, 40))
    assert [request.preemptions for request in sorted(ran.finished, key=lambda r: r.id)] == [0, 1]


def test_with_priorities_the_least_urgent_gives_way_and_the_most_urgent_goes_first() -> None:
    flags = Flags(num_gpu_blocks=9, block_size=16, enable_prefix_caching=False, max_model_len=128, policy="priority")
    ran = drive(flags, [EngineRequest(0, 40, 40, priority=5), EngineRequest(1, 40, 40, priority=1)])
    assert [request.preemptions for request in sorted(ran.finished, key=lambda r: r.id)] == [1, 0]
    one_at_a_time = replace(flags, max_num_seqs=1)
    ran = drive(
        one_at_a_time, [EngineRequest(0, 8, 2, priority=3), EngineRequest(1, 8, 2, priority=1), EngineRequest(2, 8, 2)]
    )
    assert [request.id for request in ran.first] == [2, 1, 0]


def test_a_long_prompt_is_computed_in_chunks_beside_the_decodes() -> None:
    flags = Flags(num_gpu_blocks=1000, max_num_batched_tokens=128, max_num_seqs=8)
    ran = drive(flags, [EngineRequest(0, 16, 20), EngineRequest(1, 300, 2)])
    assert [plan[3] for plan in ran.plans[:3]] == [((16, 16), (112, 112)), ((127, 239),), ((61, 300),)]


def test_async_scheduling_frees_a_place_one_step_later() -> None:
    flags = Flags(num_gpu_blocks=100, max_num_seqs=2)
    steps = {}
    for async_scheduling in (False, True):
        ran = drive(replace(flags, async_scheduling=async_scheduling), [EngineRequest(0, 16, 4), *alike(3, 16, 20)[1:]])
        steps[async_scheduling] = [number for number, plan in enumerate(ran.plans) if plan[3]]
    assert steps == {False: [0, 4], True: [0, 5]}


def test_async_scheduling_plans_no_step_beyond_an_end_that_is_known() -> None:
    assert drive(Flags(num_gpu_blocks=100), [EngineRequest(0, 16, 4)]).scheduler.steps == 4


def test_a_stop_token_costs_async_scheduling_one_wasted_step() -> None:
    flags = Flags(num_gpu_blocks=100)
    steps = [
        drive(replace(flags, async_scheduling=lag), [EngineRequest(0, 16, 4, max_tokens=100)]).scheduler.steps
        for lag in (False, True)
    ]
    assert steps == [4, 5]


def test_the_watermark_keeps_blocks_free_of_admissions_but_not_of_the_first() -> None:
    flags = Flags(num_gpu_blocks=21, block_size=16, watermark=0.5, enable_prefix_caching=False, max_model_len=320)
    ran = drive(flags, [EngineRequest(0, 200, 4), EngineRequest(1, 100, 4)])
    assert max(ran.running) == 1
    assert max(drive(replace(flags, watermark=0.0), [EngineRequest(0, 200, 4), EngineRequest(1, 100, 4)]).running) == 2


def test_what_the_prefix_cache_holds_is_not_computed_again() -> None:
    shared = tuple(f"system {index}" for index in range(4))
    flags = Flags(num_gpu_blocks=100, block_size=16)
    ran = drive(
        flags, [EngineRequest(0, 80, 4, prefix_keys=shared), EngineRequest(1, 80, 4, prefix_keys=shared, arrival_s=3.0)]
    )
    assert [request.cached_tokens for request in ran.finished] == [0, 64]
    assert ran.scheduler.executed_tokens == 83 + 83 - 64
    assert (ran.scheduler.prefix_queries, ran.scheduler.prefix_hits) == (160, 64)


def test_a_prompt_that_is_wholly_cached_still_computes_its_last_block() -> None:
    keys = ("a", "b")
    ran = drive(
        Flags(num_gpu_blocks=100, block_size=16),
        [EngineRequest(0, 32, 1, prefix_keys=keys), EngineRequest(1, 32, 1, prefix_keys=keys, arrival_s=3.0)],
    )
    assert ran.finished[1].cached_tokens == 16


def test_cached_blocks_that_nobody_holds_count_as_free_and_are_given_away_last() -> None:
    flags = Flags(num_gpu_blocks=9, block_size=16, max_model_len=128)
    ran = drive(flags, [EngineRequest(0, 32, 1, prefix_keys=("a", "b"))])
    assert ran.scheduler.pool.usage_ratio == 0.0
    assert ran.scheduler.pool.hit(EngineRequest(9, 64, 1, prefix_keys=("a", "b"))) != []
    for number in range(1, 4):
        ran.scheduler.add(EngineRequest(number, 96, 1), 0.0)
        plan = ran.scheduler.schedule(0.0)
        assert plan is not None
        ran.scheduler.update(plan, 1.0)
    assert ran.scheduler.pool.hit(EngineRequest(9, 64, 1, prefix_keys=("a", "b"))) == []


def test_an_aborted_request_leaves_no_trace_in_the_pool() -> None:
    requests = alike(6, 100, 50)
    at = {10: lambda scheduler: [scheduler.abort(requests[0]), scheduler.abort(requests[5])]}
    ran = drive(replace(H200, max_num_seqs=3), requests, at=at)
    assert sorted(request.id for request in ran.finished) == [1, 2, 3, 4]
    assert ran.scheduler.pool.free == H200.usable_blocks
    assert requests[0].finish_reason == "abort"


def test_a_request_that_can_never_finish_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than the KV pool"):
        Scheduler(Flags(num_gpu_blocks=4, block_size=16)).add(EngineRequest(0, 100, 1), 0.0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"max_num_seqs": 0}, "at least 1"),
        ({"num_gpu_blocks": 1}, "null block"),
        ({"policy": "lifo"}, "fcfs, priority"),
        ({"watermark": 1.0}, "fraction"),
        ({"max_num_batched_tokens": 64}, "at least --max-num-seqs 128"),
    ],
)
def test_flags_that_vllm_refuses_are_refused(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(VtopError, match=words):
        replace(Flags(num_gpu_blocks=100), **wrong)  # type: ignore[arg-type]


# what always holds

ASKED = st.lists(
    st.tuples(st.integers(1, 90), st.integers(1, 60), st.integers(0, 40), st.integers(0, 3), st.integers(0, 5)),
    min_size=1,
    max_size=14,
)
FLAGS = st.builds(
    Flags,
    num_gpu_blocks=st.integers(12, 40),
    block_size=st.sampled_from([16, 32]),
    max_num_seqs=st.integers(1, 8),
    max_num_batched_tokens=st.integers(8, 200),
    max_model_len=st.just(150),
    policy=st.sampled_from(["fcfs", "priority"]),
    watermark=st.sampled_from([0.0, 0.1]),
    enable_prefix_caching=st.booleans(),
    async_scheduling=st.booleans(),
    long_prefill_token_threshold=st.sampled_from([0, 16]),
    scheduler_reserve_full_isl=st.booleans(),
)


def requested(asked: list[tuple[int, int, int, int, int]]) -> list[EngineRequest]:
    asked = sorted(asked, key=lambda one: one[2])
    return [
        EngineRequest(
            number,
            prompt,
            output,
            max_tokens=output + 3 * (stops == 0),
            arrival_s=float(tick),
            priority=priority,
            prefix_keys=("shared",) * min(1, prompt // 16) if stops % 2 else (),
        )
        for number, (prompt, output, tick, priority, stops) in enumerate(asked)
    ]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(flags=FLAGS, asked=ASKED)
def test_no_block_leaks_no_request_is_lost_and_tokens_are_conserved(
    flags: Flags, asked: list[tuple[int, int, int, int, int]]
) -> None:
    def within_bounds(scheduler: Scheduler, plan: StepPlan | None) -> None:
        assert 0 <= scheduler.pool.free <= flags.usable_blocks
        assert len(scheduler.running) <= flags.max_num_seqs
        if plan is not None:
            assert 0 < plan.tokens <= flags.max_num_batched_tokens
            assert plan.tokens == plan.decodes + sum(tokens for tokens, _ in plan.prefills)

    requests = requested(asked)
    ran = drive(flags, requests, check=within_bounds)
    assert sorted(request.id for request in ran.finished) == [request.id for request in requests]
    assert ran.scheduler.pool.free == flags.usable_blocks
    assert all(request.generated == request.output_tokens for request in requests)
    assert sum(tokens for tokens, _ in ran.outcomes) == sum(request.output_tokens for request in requests)
    if not ran.scheduler.preemptions:
        wasted = sum(flags.async_scheduling and r.finish_reason == "stop" for r in requests)
        assert 0 <= ran.recomputed <= wasted
    else:
        assert ran.recomputed > 0 or flags.enable_prefix_caching


@settings(max_examples=100, deadline=None, derandomize=True)
@given(flags=FLAGS, asked=ASKED)
def test_among_equals_the_first_come_is_the_first_scheduled(
    flags: Flags, asked: list[tuple[int, int, int, int, int]]
) -> None:
    requests = requested([(prompt, output, tick, 0, 2) for prompt, output, tick, _, _ in asked])
    drive(flags, requests)
    scheduled = [request.scheduled_s for request in requests]
    assert scheduled == sorted(scheduled, key=lambda at_s: at_s or 0.0)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(flags=FLAGS, asked=ASKED)
@example(
    flags=Flags(
        num_gpu_blocks=12,
        block_size=32,
        max_num_seqs=2,
        max_num_batched_tokens=8,
        max_model_len=150,
        enable_prefix_caching=True,
        async_scheduling=False,
        scheduler_reserve_full_isl=False,
    ),
    asked=[(1, 1, 0, 0, 0), (1, 1, 0, 0, 0), (27, 6, 0, 0, 1), (33, 1, 9, 0, 1)],
)  # an answer fills a block that begins as another's prompt does
def test_the_batch_changes_nothing(flags: Flags, asked: list[tuple[int, int, int, int, int]]) -> None:
    def story(ran: Driven) -> object:
        stamps = sorted(
            (r.id, r.scheduled_s, r.first_token_s, r.last_token_s, r.preemptions, r.cached_tokens) for r in ran.finished
        )
        return ran.plans, ran.outcomes, stamps, ran.scheduler.executed_tokens

    together = story(drive(flags, requested(asked)))
    assert together == story(drive(flags, requested(asked), use_batch=False))
