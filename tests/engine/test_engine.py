"""The whole simulated server: its stamps, its clock, and that one seed gives one result."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import vtop.engine
from vtop.engine.core.engine import NEVER, Engine
from vtop.engine.core.flags import Flags
from vtop.engine.core.model_shape import QWEN_7B, ModelShape
from vtop.engine.core.request import EngineRequest
from vtop.engine.core.step import StepOutcome, StepPlan
from vtop.engine.core.timing import GpuSpeed, captured
from vtop.engine.fit import profile
from vtop.engine.runs.replay import WIRE_S, Ask, Replayed, ReplayLoad, measures, replay

H200 = profile.load("h200-qwen2.5-7b")
FLAGS = Flags(num_gpu_blocks=5431, enable_prefix_caching=False)


def engine(flags: Flags = FLAGS, *, tell_batch: bool = False) -> Engine:
    return Engine(flags, H200.timing, H200.frontend, H200.shape, tell_batch=tell_batch)


def story(load: ReplayLoad, flags: Flags = FLAGS) -> bytes:
    lines: list[str] = []
    seen = replay(load, engine(flags), lambda outcome: lines.append(f"{outcome.at_s!r} {outcome.gaps!r}"))
    lines += [f"{r.id} {r.sent_s!r} {r.arrival_s!r} {r.queued_s!r} {r.answered_s!r}" for r in seen.requests]
    return "\n".join(lines).encode()


def closed(concurrency: int, count: int, prompt: int = 1024, output: int = 64, seed: int = 0) -> ReplayLoad:
    return ReplayLoad(tuple(Ask(prompt, output) for _ in range(count)), concurrency, seed=seed)


def test_the_same_seed_gives_the_same_bytes_and_another_one_others() -> None:
    assert story(closed(8, 32)) == story(closed(8, 32))
    assert story(closed(8, 32)) != story(closed(8, 32, seed=1))


def test_the_stamps_of_a_request_follow_one_another() -> None:
    seen = replay(closed(48, 96, 3000, 300), engine(replace(FLAGS, num_gpu_blocks=4000)))
    assert seen.preemptions > 0
    for r in seen.requests:
        stamps = [r.sent_s, r.arrival_s, r.queued_s, r.scheduled_s, r.first_token_s, r.first_seen_s]
        known = [stamp for stamp in stamps if stamp is not None]
        assert len(known) == len(stamps)
        assert known == sorted(known)
        assert r.first_seen_s is not None
        assert r.end_seen_s is not None
        assert r.first_seen_s <= r.end_seen_s <= (r.answered_s or 0.0)


def test_the_parts_of_a_request_add_up_to_the_whole() -> None:
    seen = replay(closed(8, 32), engine())
    parts = measures(seen.requests)
    assert parts["e2e_s"] == pytest.approx(seen.mean(lambda r: (r.end_seen_s or 0.0) - r.arrival_s))


def test_every_token_is_in_one_inter_token_latency_but_the_first() -> None:
    gaps: list[tuple[float, int]] = []
    seen = replay(closed(64, 80, 6144, 300), engine(), lambda outcome: gaps.extend(outcome.gaps))
    assert sum(count for _, count in gaps) == sum(request.generated - 1 for request in seen.requests)
    decoded_s = sum((r.last_token_s or 0.0) - (r.first_token_s or 0.0) for r in seen.requests)
    assert sum(gap * count for gap, count in gaps) == pytest.approx(decoded_s)


def test_iteration_tokens_never_count_what_is_computed_again() -> None:
    observed: list[int] = []
    told: list[int] = []

    def watch(outcome: object) -> None:
        assert isinstance(outcome, StepOutcome)
        if outcome.iteration_tokens is not None:
            observed.append(outcome.iteration_tokens)
        told.append(outcome.preemptions)

    load = closed(24, 48, 2000, 400)
    seen = replay(load, engine(replace(FLAGS, num_gpu_blocks=2000)), watch)
    assert seen.recomputed_tokens > 10_000
    assert sum(observed) == 48 * 2400
    assert sum(told) == seen.preemptions


def test_an_open_loop_comes_when_it_is_due_whatever_the_server_does() -> None:
    load = ReplayLoad(tuple(Ask(1024, 32, due_s=0.05 * number) for number in range(40)))
    seen = replay(load, engine())
    came = [request.sent_s or 0.0 for request in sorted(seen.requests, key=lambda one: one.id)]
    assert came == pytest.approx([0.05 * number for number in range(40)], abs=WIRE_S)
    again = replay(replace(load, seed=1), engine())
    assert [request.sent_s for request in again.requests] != [request.sent_s for request in seen.requests]
    assert len(seen.requests) == 40


def test_a_request_that_no_pool_could_hold_is_refused_and_the_rest_goes_on() -> None:
    load = ReplayLoad((Ask(6000, 10), Ask(100, 10), Ask(100, 10)), 1)
    seen = replay(load, engine(Flags(num_gpu_blocks=100)))
    assert (seen.refused, len(seen.requests)) == (1, 2)


def test_an_abort_takes_effect_between_two_steps_and_the_engine_falls_idle() -> None:
    one, other = EngineRequest(0, 100, 1000), EngineRequest(1, 100, 5)
    running = engine()
    running.submit(one, 0.0)
    running.submit(other, 0.0)
    while other.finish_reason is None:
        running.advance()
    running.abort(one, running.now_s)
    while running.next_s() != NEVER:
        running.advance()
    assert one.finish_reason == "abort"
    assert one.generated < 20
    assert running.scheduler.pool.free == FLAGS.usable_blocks


def test_a_server_that_streams_is_told_who_got_each_token() -> None:
    tokens: dict[int, int] = {}
    running = engine(tell_batch=True)
    requests = [EngineRequest(number, 6144, 40 + number) for number in range(16)]
    for request in requests:
        running.submit(request, 0.0)
    while running.next_s() != NEVER:
        outcome = running.advance()
        if outcome is not None:
            for request in (*outcome.batch_members, *outcome.delivered):
                tokens[request.id] = tokens.get(request.id, 0) + 1
            assert outcome.tokens == len(outcome.batch_members) + len(outcome.delivered)
    assert tokens == {request.id: request.output_tokens for request in requests}


def test_a_lone_prefill_takes_longer_than_its_products() -> None:
    alone = replay(closed(1, 4, 1024, 2), engine())
    products_s = 1024 * QWEN_7B.matmul_flops_per_token / H200.timing.compute_flops_s
    assert measures(alone.requests)["prefill_s"] > 1.2 * products_s


def test_a_gpu_slows_down_once_it_has_computed_long_enough_and_recovers_while_it_reads() -> None:
    def full() -> StepPlan:
        plan = StepPlan(0, 0.0)
        plan.tokens = 8192
        plan.prefills = [(8192, 8192)]
        return plan

    gpu = GpuSpeed(replace(H200.timing, boost_s=0.2, throttled=1.5), QWEN_7B, FLAGS)
    first, second, third = (gpu.step_s(full(), 0.0) for _ in range(3))
    assert first < second < third
    assert gpu.step_s(full(), 60.0) == pytest.approx(first)


def test_graphs_are_captured_for_1_2_4_and_every_8th_number_of_tokens() -> None:
    assert [captured(tokens) for tokens in (0, 1, 3, 7, 8, 10, 20, 255, 256, 271, 512)] == [
        0, 1, 2, 4, 8, 8, 16, 248, 256, 256, 512,
    ]  # fmt: skip


def test_decodes_of_more_sequences_than_any_whole_graph_has_are_launched_in_pieces() -> None:
    timing = replace(H200.timing, plan_row_s=0.0)

    def launch_s(max_num_seqs: int, decodes: int, prompt: int = 0) -> float:
        plan = StepPlan(0, 0.0)
        plan.decodes, plan.tokens = decodes, decodes + prompt
        if prompt:
            plan.prefills = [(prompt, prompt)]
        return GpuSpeed(timing, QWEN_7B, replace(FLAGS, max_num_seqs=max_num_seqs)).launch_s(plan, 0.0)

    assert [launch_s(10, running) for running in (8, 9, 10)] == [
        timing.launch_graph_s, timing.launch_pieces_s, timing.launch_pieces_s,
    ]  # fmt: skip
    assert launch_s(128, 10) == launch_s(128, 128) == timing.launch_graph_s
    assert launch_s(128, 10, 100) == timing.launch_pieces_s
    assert launch_s(128, 10, 300) == launch_s(10, 10, 7) == timing.launch_eager_s


def test_a_sequence_more_in_a_step_takes_the_engines_thread_longer() -> None:
    few, many = StepPlan(0, 0.0), StepPlan(0, 0.0)
    few.tokens = few.decodes = 4
    many.tokens = many.decodes = 64
    gpu = GpuSpeed(H200.timing, QWEN_7B, FLAGS)
    assert gpu.launch_s(many, 0.0) - gpu.launch_s(few, 0.0) == pytest.approx(60 * H200.timing.plan_row_s)


def test_launches_without_a_graph_get_quicker_the_more_of_them_there_are() -> None:
    gpu = GpuSpeed(H200.timing, QWEN_7B, FLAGS)
    plan = StepPlan(0, 0.0)
    plan.tokens, plan.prefills = 1024, [(1024, 1024)]
    took = [gpu.launch_s(plan, 0.02 * number) for number in range(200)]
    assert took == sorted(took, reverse=True)
    assert took[0] == pytest.approx(H200.timing.launch_eager_s + H200.timing.plan_row_s)
    assert took[-1] < H200.timing.launch_warm_s + 0.15 * (took[0] - H200.timing.launch_warm_s)
    assert gpu.launch_s(plan, 1000.0) == pytest.approx(took[0])


def test_flops_and_bytes_are_those_that_vllm_counts() -> None:
    """The single request of 64 + 64 tokens that was measured on a real server of this shape."""
    tiny = ModelShape(4, 256, 512, 4, 2, 64, 4096)
    plan = StepPlan(0, 0.0)
    plan.tokens, plan.prefills = 64, [(64, 64)]
    work = tiny.work(plan)
    flops, written = work.flops, work.write_bytes
    for context in range(65, 128):
        plan = StepPlan(0, 0.0)
        plan.tokens = plan.decodes = 1
        plan.context = context
        work = tiny.work(plan)
        flops += work.flops
        written += work.write_bytes
    assert flops == 775_028_736
    assert written == 3_385_344


def test_more_in_flight_never_makes_an_answer_quicker() -> None:
    def e2e(concurrency: int) -> float:
        return measures(whole(concurrency).requests)["e2e_s"]

    def whole(concurrency: int) -> Replayed:
        return replay(closed(concurrency, 4 * concurrency), engine())

    times = [e2e(concurrency) for concurrency in (1, 4, 16, 64)]
    assert times == sorted(times)


def test_nothing_of_the_engine_but_its_faces_knows_a_clock_a_socket_or_chance_without_a_seed() -> None:
    outside = {"time", "datetime", "socket", "secrets", "uuid", "os", "asyncio", "threading", "httpx"}
    room = Path(vtop.engine.__file__).parent
    for path in (*sorted((room / "core").glob("*.py")), room / "runs" / "replay.py"):
        name = path.stem
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        chance = set() if name in ("replay", "host_drift") else {"random"}
        assert not imported & (outside | chance), name
