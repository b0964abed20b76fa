"""plan work: the article's dot products and their split, and what a request moves and computes."""

from __future__ import annotations

import pytest

from tests.plan.models import model
from vtop.errors import VtopError
from vtop.plan.kv import Mix
from vtop.plan.work import Peak, plan, products, request

QWEN = model("qwen2.5-7b")
H200 = Peak(989e12, 4800e9)


def test_two_requests_of_one_total_are_split_otherwise() -> None:
    one, other = products(2048, 128), products(512, 1664)
    assert one.total == other.total == 2_366_400 == 2175 * 2176 // 2
    assert (one.prefill, one.decode) == (2_098_176, 268_224)
    assert (other.prefill, other.decode) == (131_328, 2_235_072)


@pytest.mark.parametrize(("prompt", "output"), [(1, 1), (5, 1), (3, 4), (7, 9)])
def test_products_are_those_that_one_counts(prompt: int, output: int) -> None:
    assert products(prompt, output).prefill == sum(range(1, prompt + 1))
    assert products(prompt, output).decode == sum(range(prompt + 1, prompt + output))


def test_flops_and_bytes_are_those_of_vllm_s_counters_by_shape() -> None:
    dense = QWEN.dense
    assert dense is not None
    one = request(QWEN, 1024, 256)
    assert one.prefill.attention_flops == dense.attention_flops_per_pair * products(1024, 256).prefill
    assert one.prefill.linear_flops == dense.matmul_flops_per_token * 1024 + dense.flops_per_row
    assert one.decode.kv_read_bytes == 57_344 * products(1024, 256).decode
    assert one.decode.kv_written_bytes == 57_344 * 255
    assert one.prefill.weights_read_bytes == dense.weights_read_bytes


def test_each_rank_has_its_share() -> None:
    one, four = request(QWEN, 1024, 256), request(QWEN, 1024, 256, tp=4)
    assert four.decode.flops == pytest.approx(one.decode.flops / 4)
    assert four.decode.moved_bytes == pytest.approx(one.decode.moved_bytes / 4)


def test_intensity_rises_with_the_batch_towards_an_end_that_the_context_sets() -> None:
    short = plan(QWEN, Mix(((64, 64),), "given"), (1, 8, 64, 512), peak=H200)
    rates = [one.intensity for one in short.batches]
    assert rates == sorted(rates)
    assert short.ridge == pytest.approx(206, abs=0.1)
    assert short.fill_decodes is not None
    at = plan(QWEN, Mix(((64, 64),), "given"), (short.fill_decodes - 1, short.fill_decodes)).batches
    assert at[0].intensity < H200.ridge <= at[1].intensity
    assert plan(QWEN, Mix(((4096, 64),), "given"), (1,), peak=H200).fill_decodes is None


def test_a_prefill_is_beyond_the_ridge_and_a_lone_decode_far_below() -> None:
    one = request(QWEN, 2048, 128)
    assert one.prefill.intensity > H200.ridge
    assert one.decode.intensity < 2


def test_a_single_token_is_decoded_by_nobody() -> None:
    one = request(QWEN, 100, 1)
    assert (one.decode.tokens, one.decode.flops, one.decode.intensity) == (0, 0, 0)


@pytest.mark.parametrize(("name", "tp", "says"), [("deepseek-v3", 1, "mixture of experts"), ("qwen2.5-7b", 3, "heads")])
def test_what_cannot_be_computed_is_refused(name: str, tp: int, says: str) -> None:
    with pytest.raises(VtopError, match=says):
        plan(model(name), Mix(((1, 1),), "given"), (1,), tp=tp)
