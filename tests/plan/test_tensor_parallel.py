"""plan tp: the article's numbers, the two sides of the inequality, and where the model is refused."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.plan.models import changed, model
from vtop.engine.fit import profile
from vtop.errors import VtopError
from vtop.plan import identity, topology
from vtop.plan.all_reduce import Link, Measured
from vtop.plan.kv import Mix
from vtop.plan.kv_plan import Memory
from vtop.plan.model_config import ModelConfig, load
from vtop.plan.observed import Steps
from vtop.plan.tensor_parallel import (
    attention_flops,
    calls_per_step,
    computing,
    mlp_flops,
    projection_flops,
    roofline,
    step,
    threshold_tokens,
)
from vtop.plan.tp_breaks import Setting, breaks
from vtop.plan.tp_plan import CHECKLIST, MIXED, NO, PAYS, REFUSED, TpQuestion, plan
from vtop.plan.tp_record import commands, on_record, span
from vtop.plan.trace_check import check

ARTICLE = model("article-70b")
assert ARTICLE.dense is not None
SHAPE = ARTICLE.dense
LINK = Link(8e-6, 150e9)
TIMING = computing(SHAPE, 120e12)

SPEED_UP = """
1  0.61x  0.72x  0.79x
4  1.26x  1.81x  2.31x
8  1.53x  2.42x  3.42x
16 1.71x  2.91x  4.51x
32 1.82x  3.25x  5.35x
""".strip().splitlines()


def asked(**changes: Any) -> TpQuestion:
    given: dict[str, Any] = {
        "ps": (1, 2, 4, 8),
        "tokens": (1, 4, 8, 16, 32),
        "costs": {2: LINK, 4: LINK, 8: LINK},
        "timing": TIMING,
        "timing_origin": "given",
        "per_token_s": TIMING(1),
    }
    return TpQuestion(**given | changes)


# --- the article's numbers --------------------------------------------------------------------------------------------


def test_a_call_is_512_kib_and_a_step_120_mib_a_rank() -> None:
    one = step(SHAPE, 32, 4, TIMING, LINK)
    assert one.payload_bytes == 512 * 1024
    assert one.calls == calls_per_step(SHAPE) == 160
    assert one.sent_bytes == 120 * 1024**2


def test_the_whole_speed_up_table_to_two_decimals() -> None:
    found = plan(ARTICLE, asked())
    for row in SPEED_UP:
        tokens, *cells = row.split()
        at = (1, 4, 8, 16, 32).index(int(tokens))
        assert [f"{one.rows[at].speed_up:.2f}x" for one in found.candidates if one.p > 1] == cells


def test_the_identity_holds_with_the_article_s_matrices() -> None:
    for p in (1, 2, 3, 6):
        found = identity.shown(p)
        assert found.holds
        assert found.reduced == [[-14, -20, 4, 38], [86, 40, -6, -52]]
        assert len(found.parts) == p
    with pytest.raises(VtopError, match="do not divide"):
        identity.shown(4)


def test_flops_are_those_of_the_formulas_and_of_the_engine_s_shape() -> None:
    tokens, h, i, kv = 7, 8192, 28672, 1024
    assert attention_flops(SHAPE, tokens) == 4 * tokens * (h * h + h * kv)
    assert mlp_flops(SHAPE, tokens) == 6 * tokens * h * i
    assert projection_flops(SHAPE, tokens) == 80 * (attention_flops(SHAPE, tokens) + mlp_flops(SHAPE, tokens))


def test_at_the_threshold_both_sides_are_equal() -> None:
    for p in (2, 4, 8):
        at = threshold_tokens(SHAPE, p, TIMING(1), LINK)
        assert at is not None
        low, high = step(SHAPE, int(at), p, TIMING, LINK), step(SHAPE, int(at) + 1, p, TIMING, LINK)
        assert not low.pays
        assert high.pays


def test_where_bandwidth_alone_eats_what_is_saved_no_t_pays() -> None:
    slow = Link(8e-6, 1e9)
    assert threshold_tokens(SHAPE, 4, TIMING(1), slow) is None
    (_, four) = plan(ARTICLE, asked(ps=(1, 4), costs={4: slow})).candidates
    assert (four.verdict, four.threshold_known, four.threshold_tokens) == (NO, True, None)


def test_weights_have_no_part_in_the_payload() -> None:
    half = step(SHAPE, 32, 4, TIMING, LINK, activation_bytes=2)
    whole = step(SHAPE, 32, 4, TIMING, LINK, activation_bytes=4)
    assert whole.payload_bytes == 2 * half.payload_bytes


def test_other_costs_stand_on_both_sides() -> None:
    one = step(SHAPE, 32, 4, TIMING, LINK, other_s=(0.001, 0.003))
    assert one.added_s == pytest.approx(160 * one.tau_s + 0.002)
    assert one.speed_up == pytest.approx((TIMING(32) + 0.001) / (TIMING(32) / 4 + 160 * one.tau_s + 0.003))


# --- replicas, memory, stages -----------------------------------------------------------------------------------------


def test_where_time_grows_with_t_alone_replicas_give_more() -> None:
    for p in (2, 4, 8):
        assert all(step(SHAPE, tokens, p, TIMING, LINK).replicas_ratio < 1 for tokens in (1, 8, 32, 512))


def test_where_weights_bound_a_step_splitting_reads_them_faster() -> None:
    known = profile.load("h200-qwen2.5-7b").timing
    qwen = model("qwen2.5-7b").dense
    assert qwen is not None
    timing = roofline(qwen, known.compute_flops_s, known.bandwidth_bytes_s)
    assert timing(1) == timing(64)
    assert step(qwen, 8, 4, timing, Link(8e-6, 300e9)).replicas_ratio > 2


def test_splitting_frees_memory_for_more_requests_than_replicas_have() -> None:
    memory = Memory(40 * 2**30, 0.9)
    found = plan(
        model("llama-3.1-8b"),
        asked(ps=(1, 2), costs={2: LINK}, memory=memory, mix=Mix(((1024, 256),), "given"), max_model_len=8192),
    )
    max_num_seqs = found.candidates[1].max_num_seqs
    assert max_num_seqs is not None
    assert max_num_seqs.split is not None
    assert max_num_seqs.replicas is not None
    assert max_num_seqs.split > max_num_seqs.replicas


def test_what_one_gpu_cannot_hold_is_no_speed_up() -> None:
    found = plan(ARTICLE, asked(memory=Memory(80 * 2**30, 0.92)))
    assert [one.fits for one in found.candidates] == [False, True, True, True]
    assert found.candidates[0].verdict == REFUSED
    assert "no speed-up against one GPU" in found.choice


@pytest.mark.parametrize(
    ("slo_s", "tokens", "says"),
    [(0.050, (32,), "Replicas"), (0.025, (32,), "TP 2"), (0.010, (32,), "TP 8"), (0.001, (32,), "No p keeps")],
)
def test_the_rule_is_a_sentence_by_the_latency_asked_for(slo_s: float, tokens: tuple[int, ...], says: str) -> None:
    timing = roofline(SHAPE, 989e12, 3.4e12)  # 41 ms to read the weights
    assert plan(ARTICLE, asked(slo_s=slo_s, tokens=tokens, timing=timing)).choice.startswith(says)


def test_pipeline_stages_send_hidden_states_and_residual_at_each_end() -> None:
    found = plan(ARTICLE, asked(link_bytes_s=25e9))
    four = found.candidates[2].pipeline
    assert (four.hops, four.bytes_per_hop) == (3, 2 * 512 * 1024)
    assert four.seconds == pytest.approx(3 * 2**20 / 25e9)


def test_verdicts_are_by_every_t_asked_for() -> None:
    found = plan(ARTICLE, asked(ps=(1, 2), tokens=(1, 4)))
    assert found.candidates[1].verdict == MIXED
    assert found.candidates[1].why == "it pays at T = 4, not at the others"
    assert plan(ARTICLE, asked(ps=(1, 2), tokens=(8, 16))).candidates[1].verdict == PAYS


def test_a_p_without_a_cost_is_asked_for() -> None:
    with pytest.raises(VtopError, match="all-reduce of 8 GPUs"):
        plan(ARTICLE, asked(costs={2: LINK, 4: LINK}))


def test_the_causes_stand_in_order() -> None:
    assert [what for what, _ in CHECKLIST] == [
        "correctness and shapes",
        "the physical path",
        "all-reduces of the same payload",
        "benchmark against trace",
        "the matmuls",
        "scheduling and queueing",
    ]


# --- what breaks the model --------------------------------------------------------------------------------------------


def why(of: ModelConfig, p: int, *, refused: bool, setting: Setting = Setting()) -> str:  # noqa: B008 - frozen
    return "; ".join(one.why for one in breaks(of, p, setting) if one.refused is refused)


@pytest.mark.parametrize(
    ("numbers", "p", "says"),
    [
        ({}, 3, "64 attention heads"),
        ({"intermediate_size": 28674}, 4, "28,674 columns do not divide"),
        (
            {"quantization_config": {"group_size": 128}, "intermediate_size": 28736},
            4,
            "groups of 128",
        ),
    ],
)
def test_shapes_that_do_not_divide_are_refused(tmp_path: Path, numbers: dict[str, Any], p: int, says: str) -> None:
    of = load(changed(tmp_path, "article-70b", **numbers))
    assert says in why(of, p, refused=True)
    (_, one) = plan(of, asked(ps=(1, p), costs={p: LINK})).candidates
    assert (one.verdict, one.rows) == (REFUSED, ())


def test_a_vocabulary_that_does_not_divide_is_padded_and_no_problem(tmp_path: Path) -> None:
    of = load(changed(tmp_path, "article-70b", vocab_size=128_257))
    assert breaks(of, 8, Setting()) == []


@pytest.mark.parametrize(
    ("p", "setting", "says"),
    [
        (16, Setting(), "8 KV heads on 16 ranks"),
        (8, Setting(nodes=2), "2 nodes"),
        (8, Setting(context=100_000), "of the projections' FLOPs"),
        (32, Setting(), "896 columns wide"),
    ],
)
def test_what_weakens_the_figures_stands_beside_them(p: int, setting: Setting, says: str) -> None:
    assert says in why(ARTICLE, p, refused=False, setting=setting)


def test_sequence_parallelism_is_refused() -> None:
    assert "reduce-scatter" in why(ARTICLE, 4, refused=True, setting=Setting(sequence_parallel=True))


@pytest.mark.parametrize(
    ("name", "says"), [("deepseek-v3", "mixture of experts"), ("qwen3-next-80b", "mixture of experts")]
)
def test_models_with_other_collectives_have_no_figures(name: str, says: str) -> None:
    found = plan(model(name), asked())
    assert found.refused is not None
    assert says in found.refused
    assert found.candidates == ()


# --- the steps on record ----------------------------------------------------------------------------------------------

STEPS = Steps(le=(1.0, 8.0, 16.0, 32.0, float("inf")), n=(0.0, 90.0, 0.0, 10.0, 0.0), mean_tokens=7.0, steps=100.0)


def test_the_speed_up_over_a_recording_weighs_its_steps() -> None:
    found = on_record(STEPS, TIMING, lambda tokens: step(SHAPE, tokens, 4, TIMING, LINK).step_s)
    alone = 90 * TIMING(5) + 10 * TIMING(24)
    split = sum(many * step(SHAPE, tokens, 4, TIMING, LINK).step_s for tokens, many in ((5, 90), (24, 10)))
    assert found.speed_up == pytest.approx(alone / split)
    assert (found.least_tokens, found.most_tokens) == span(STEPS) == (2, 32)


def test_the_commands_cover_the_payloads_of_the_steps_on_record() -> None:
    nccl, torchrun = commands(SHAPE, (1, 4), span(STEPS), 2)
    assert nccl == (
        "./build/all_reduce_perf -b 32K -e 512K -f 2 -g 4 -d bfloat16 -n 200 -w 50 -G 10 -J all_reduce_4.json"
    )
    assert torchrun.startswith("torchrun --nproc_per_node=4 benchmarks/kernels/benchmark_device_communicators.py ")
    assert "--sequence-lengths 2 4 8 16 32 " in torchrun


# --- a second tau -----------------------------------------------------------------------------------------------------


def test_fused_decode_steps_have_a_tau_of_their_own() -> None:
    fused = Measured(4, ((16_384, 4e-6), (524_288, 6e-6)), "fused")
    found = plan(ARTICLE, asked(ps=(1, 4), costs={4: LINK}, decode_costs={4: fused})).candidates[1]
    assert [one.tau_s for one in found.decode_rows] < [one.tau_s for one in found.rows]
    assert found.decode_rows[0].tau_s == 4e-6


# --- the machine ------------------------------------------------------------------------------------------------------

NVLINK = """
\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV18\tNV18\tNV18\tPXB\t0-55,112-167\t0\t\tN/A
GPU1\tNV18\t X \tNV18\tNV18\tNODE\t0-55,112-167\t0\t\tN/A
GPU2\tNV18\tNV18\t X \tNV18\tSYS\t56-111,168-223\t1\t\tN/A
GPU3\tNV18\tNV18\tNV18\t X \tSYS\t56-111,168-223\t1\t\tN/A
NIC0\tPXB\tNODE\tSYS\tSYS\t X

Legend:
  X    = Self
"""
PCIE = """
        GPU0    GPU1    GPU2    GPU3    CPU Affinity    NUMA Affinity
GPU0     X      PIX     SYS     SYS     0-31    0
GPU1    PIX      X      SYS     SYS     0-31    0
GPU2    SYS     SYS      X      PHB     32-63   1
GPU3    SYS     SYS     PHB      X      32-63   1
"""


def test_the_weakest_link_of_a_group_is_found() -> None:
    four = topology.group(topology.read(NVLINK, "t"), range(4))
    assert (four.weakest, four.nvlink, four.numa_nodes) == ("NV18", True, 2)
    two = topology.group(topology.read(PCIE, "t"), range(2))
    assert (two.weakest, two.numa_nodes, two.nvlink) == ("PIX", 1, False)
    assert topology.group(topology.read(PCIE, "t"), range(4)).weakest == "SYS"


def test_gpus_that_cannot_reach_each_others_memory_are_told() -> None:
    """As `nvidia-smi topo -p2p r` prints it behind `topo -m`."""
    off = (
        PCIE
        + """
 \tGPU0\tGPU1\tGPU2\tGPU3\t
 GPU0\tX\tOK\tCNS\tCNS\t
 GPU1\tOK\tX\tCNS\tCNS\t
 GPU2\tCNS\tCNS\tX\tOK\t
 GPU3\tCNS\tCNS\tOK\tX\t

Legend:
  X    = Self
  OK   = Status Ok
"""
    )
    of = topology.read(off, "t")
    assert topology.group(of, range(4)).no_peer == "the chipset does not support it"
    assert topology.group(of, range(2)).no_peer is None
    assert topology.group(of, range(4)).weakest == "SYS"
    assert topology.group(topology.read(PCIE, "t"), range(4)).no_peer is None


@pytest.mark.parametrize("text", ["", "no GPU here", "\tGPU0\tGPU1\nGPU0\t X \n", "\tGPU0\nGPU0\t X \n"])
def test_what_is_no_topology_is_refused(text: str) -> None:
    with pytest.raises(VtopError):
        topology.group(topology.read(text, "t"), range(2))


def test_a_link_that_is_no_nvlink_and_a_backend_that_is_not_nccl_are_said() -> None:
    groups = [topology.group(topology.read(PCIE, "t"), range(4))]
    found = plan(ARTICLE, asked(), backends=("FLASHINFER", "PYNCCL"), groups=groups)
    assert any("FLASHINFER first" in note for note in found.notes)
    assert any("2 NUMA nodes" in note for note in found.notes)
    assert any("pipeline stages" in note for note in found.notes)


# --- a trace ----------------------------------------------------------------------------------------------------------


def trace(folder: Path, *, calls: int = 161, elements: int | None = 32 * 8192, steps: int = 3, name: str = "") -> Path:
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name"}]
    for at in range(steps):
        label = "execute_context_0(0)_generation_32(32)"
        events.append({"ph": "X", "cat": "user_annotation", "name": label, "ts": at * 1e4, "dur": 9e3})
        for _ in range(calls):
            args = {"device": 0}
            if elements is not None:
                args |= {"In msg nelems": elements, "dtype": "BFloat16"}  # type: ignore[dict-item]
            kernel = name or "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*)"
            events.append({"ph": "X", "cat": "kernel", "name": kernel, "ts": at * 1e4, "dur": 12.0, "args": args})
        events.append({"ph": "X", "cat": "kernel", "name": "gemm", "ts": 0, "dur": 1.0, "args": {"device": 0}})
    path = folder / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    return path


def test_a_trace_of_two_calls_a_layer_of_that_size_lets_the_formula_stand(tmp_path: Path) -> None:
    found = check(trace(tmp_path), 80, 8192, 2)  # and one of the embedding
    assert found.holds
    assert (found.steps, found.calls_per_step, found.payload_ratio) == (3, 161, 1.0)
    assert found.seconds_per_call == pytest.approx(12e-6)
    assert plan(ARTICLE, asked(), trace=found).candidates


@pytest.mark.parametrize(
    ("made", "says"),
    [
        ({"calls": 80}, "80.0 all-reduces a step"),
        ({"calls": 0}, "no all-reduce"),
        ({"elements": 64 * 8192}, "2.00 times"),
    ],
)
def test_a_trace_of_something_else_refuses_the_formula(tmp_path: Path, made: dict[str, Any], says: str) -> None:
    found = check(trace(tmp_path, **made), 80, 8192, 2)
    assert says in "; ".join(found.problems)
    answer = plan(ARTICLE, asked(), trace=found)
    assert answer.candidates == ()
    assert says in (answer.refused or "")


def test_custom_all_reduces_are_counted_though_they_do_not_tell_their_size(tmp_path: Path) -> None:
    kernel = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*)"
    found = check(trace(tmp_path, calls=160, elements=None, name=kernel), 80, 8192, 2)
    assert found.holds
    assert found.payload_bytes is None


NO_TRACES = [b"", b"[]", b"{", b"\x1f\x8b\x08broken", b'{"traceEvents": 3}', b'[{"args": 3}, 7]', b"[" * 100_000]


@pytest.mark.parametrize("content", NO_TRACES)
def test_what_is_no_trace_is_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(VtopError):
        check(path, 80, 8192, 2)
