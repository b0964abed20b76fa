"""plan kv: bytes a token of real models, pools and requests as vLLM counts them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.plan.models import changed, model
from vtop.errors import VtopError
from vtop.plan import kv
from vtop.plan.kv import BlockLayout, Lanes, Mix
from vtop.plan.kv_plan import KvQuestion, Memory, plan
from vtop.plan.model_config import load, of_shape
from vtop.plan.observed import observed
from vtop.recording import FileRecording, Request
from vtop.session.kv.geometry import bytes_per_token
from vtop.session.session import read
from vtop.shipped import folder

QWEN = model("qwen2.5-7b")


def layout(name: str = "qwen2.5-7b", **lanes: Any) -> BlockLayout:
    found = kv.layout_of(model(name), Lanes(**lanes))
    assert isinstance(found, BlockLayout)
    return found


def mix(*lengths: tuple[int, int]) -> Mix:
    return Mix(lengths, "given")


# --- bytes a token ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tp", "growth_bytes", "copies"),
    [
        ("qwen2.5-7b", 1, 56 * 1024, 1),
        ("qwen2.5-7b", 4, 14 * 1024, 1),
        ("llama-3.1-8b", 1, 128 * 1024, 1),
        ("llama-3.1-8b", 8, 16 * 1024, 1),
        ("llama-3.1-8b", 16, 16 * 1024, 2),  # beyond 8 KV heads a rank keeps a copy
        ("deepseek-v3", 1, 70_272, 1),
        ("deepseek-v3", 8, 70_272, 8),  # MLA's one vector is on every rank
        ("gemma-3-27b", 1, 10 * 2 * 16 * 128 * 2, 1),  # ten of 62 layers keep all tokens
        ("qwen3-next-80b", 1, 12 * 2 * 2 * 256 * 2, 1),  # twelve of 48 are no state layers
    ],
)
def test_a_token_takes_as_many_bytes_as_its_layers_keep(name: str, tp: int, growth_bytes: int, copies: int) -> None:
    of = kv.token_bytes(model(name), Lanes(tp=tp), 8192)
    assert (of.growth_bytes, of.copies) == (growth_bytes, copies)


def test_the_tiny_model_of_metrics_has_two_kib() -> None:
    numbers = {"num_hidden_layers": 4, "num_key_value_heads": 2, "head_dim": 64}
    assert bytes_per_token({**numbers, "dtype": "bfloat16"}, "auto") == 2048


def test_the_kv_type_is_not_that_of_the_weights(tmp_path: Path) -> None:
    quantized = changed(tmp_path, "qwen2.5-7b", quantization_config={"quant_method": "fp8"})
    assert load(quantized).value_bytes == 2
    assert load(quantized, "fp8").value_bytes == 1
    assert kv.token_bytes(model("qwen2.5-7b", "fp8_e5m2"), Lanes(), None).growth_bytes == 28 * 1024


@pytest.mark.parametrize(
    "told", [{"kv_cache_scheme": {"num_bits": 8, "type": "float"}}, {"kv_cache_quant_algo": "FP8"}]
)
def test_auto_is_the_checkpoint_s_own_kv_type(tmp_path: Path, told: dict[str, Any]) -> None:
    config = changed(tmp_path, "llama-3.1-8b", quantization_config={"quant_method": "modelopt", **told})
    assert load(config, "auto").cache_dtype == "fp8"
    assert load(config, "bfloat16").value_bytes == 2


def test_head_dim_is_the_config_s_own(tmp_path: Path) -> None:
    config = changed(tmp_path, "qwen2.5-7b", head_dim=256)
    assert kv.token_bytes(load(config), Lanes(), None).growth_bytes == 112 * 1024


def test_layers_that_read_another_s_keys_keep_none(tmp_path: Path) -> None:
    config = changed(tmp_path, "qwen2.5-7b", num_kv_shared_layers=14)
    assert kv.token_bytes(load(config), Lanes(), None).growth_bytes == 28 * 1024


def test_global_layers_may_have_heads_of_their_own(tmp_path: Path) -> None:
    kinds = (["sliding_attention"] * 3 + ["full_attention"]) * 7
    config = changed(
        tmp_path,
        "qwen2.5-7b",
        layer_types=kinds,
        sliding_window=512,
        use_sliding_window=None,
        global_head_dim=512,
        num_global_key_value_heads=2,
    )
    of = kv.token_bytes(load(config), Lanes(), 8192)
    assert of.growth_bytes == 7 * 2 * 2 * 512 * 2
    assert of.fixed_bytes == 21 * 512 * 2 * 4 * 128 * 2
    assert "pages of different sizes" in str(kv.layout_of(load(config), Lanes()))


def test_a_list_of_kv_heads_is_one_a_layer(tmp_path: Path) -> None:
    config = changed(tmp_path, "qwen2.5-7b", num_key_value_heads=[4] * 14 + [2] * 14)
    assert kv.token_bytes(load(config), Lanes(), None).growth_bytes == 42 * 1024


@pytest.mark.parametrize("name", ["gemma-3-27b", "qwen3-next-80b"])
def test_a_session_names_no_one_number_for_layers_that_keep_different_tokens(name: str) -> None:
    assert bytes_per_token(model(name).shape, "auto") is None


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        ({"num_hidden_layers": None}, "no number of layers"),
        ({"torch_dtype": None}, "names no type"),
        ({"num_attention_heads": None, "hidden_size": None}, "head_dim"),
        ({"layer_types": ["dreaming"] * 28}, "'dreaming'"),
        ({"layer_types": ["sliding_attention"] * 28, "sliding_window": None}, "how many tokens"),
        ({"attention_chunk_size": 8192}, "which layers|what layers|in which layers"),
        ({"mamba_d_state": 128}, "state layers"),
        ({"index_topk": 2048}, "sparse attention"),
        ({"is_encoder_decoder": True}, "encoder-decoder"),
        ({"block_configs": [{"attention": {}}]}, "different kinds"),
    ],
)
def test_a_model_that_cannot_be_computed_is_refused_with_the_reason(
    tmp_path: Path, numbers: dict[str, Any], why: str
) -> None:
    with pytest.raises(VtopError, match=why):
        load(changed(tmp_path, "qwen2.5-7b", **numbers))


@pytest.mark.parametrize(
    ("config", "kinds"),
    [
        ({"use_sliding_window": False, "sliding_window": 4096}, {"full": 28}),
        ({"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 21}, {"full": 21, "sliding": 7}),
        ({"use_sliding_window": None, "max_window_layers": None, "sliding_window": 4096}, {"sliding": 28}),
        ({"use_sliding_window": None, "sliding_window": 4096, "sliding_window_pattern": 4}, {"sliding": 21, "full": 7}),
        ({"use_sliding_window": None, "sliding_window": 4096, "model_type": "gemma2"}, {"sliding": 14, "full": 14}),
        ({"attn_layer_period": 7, "attn_layer_offset": 3}, {"full": 4, "state": 24}),
        ({"hybrid_override_pattern": "M-M*" * 7}, {"state": 14, "full": 7}),
    ],
)
def test_layers_are_of_the_kind_that_the_config_says(
    tmp_path: Path, config: dict[str, Any], kinds: dict[str, int]
) -> None:
    found = [layer.kind for layer in load(changed(tmp_path, "qwen2.5-7b", **config)).layers]
    assert {kind: found.count(kind) for kind in found} == kinds


# --- pools and requests -----------------------------------------------------------------------------------------------


def test_86_896_tokens_are_10_61_requests_of_8192() -> None:
    pool = kv.pool_of_tokens(layout(), 86_896, 8192)
    assert (pool.blocks, pool.tokens, pool.bytes) == (5431, 86_896, 4_982_964_224)
    assert f"{pool.full_length_requests:.2f}x" == "10.61x"


def test_6_569_114_112_bytes_hold_89_requests_of_1280() -> None:
    answer = plan(KvQuestion(pool_bytes=6_569_114_112, mix=mix((1024, 256)), max_model_len=8192), QWEN)
    assert answer.fit is not None
    assert answer.max_num_seqs == answer.fit.at_peak == 89
    assert plan(KvQuestion(pool_tokens=86_896, mix=mix((1024, 256))), QWEN).max_num_seqs == 67


def test_the_bytes_for_so_many_requests_hold_them_and_one_byte_less_does_not() -> None:
    answer = plan(KvQuestion(requests=89, mix=mix((1024, 256))), QWEN)
    assert answer.needed_bytes is not None
    for less, most in ((0, 89), (1, 88)):
        assert plan(KvQuestion(pool_bytes=answer.needed_bytes - less, mix=mix((1024, 256))), QWEN).max_num_seqs == most


def test_1000_and_256_leave_8_tokens_empty_and_64_of_them_512() -> None:
    answer = plan(KvQuestion(pool_tokens=86_896, mix=mix((1000, 256)), concurrency=64), QWEN)
    assert answer.demand is not None
    assert answer.fit is not None
    assert (answer.demand.blocks_at_end, answer.demand.waste_tokens, answer.fit.waste_tokens) == (79, 8, 512)


def test_a_planned_load_is_held_against_the_pool_at_its_end_and_in_the_mean() -> None:
    answer = plan(KvQuestion(pool_tokens=86_896, mix=mix((6144, 2048)), concurrency=64), QWEN)
    assert answer.fit is not None
    assert answer.fit.peak_ratio == 64 * 512 / 5430
    assert answer.fit.mean_ratio == 64 * 448 / 5430
    assert answer.fit.at_peak == 10


def test_windows_are_groups_of_their_own_over_one_pool_of_blocks() -> None:
    found = layout("gemma-3-27b", in_flight_tokens=8192)
    assert [(group.kind, group.layers, group.tables) for group in found.groups] == [("sliding", 10, 6), ("full", 10, 1)]
    assert found.block_bytes == 10 * 16 * 2 * 16 * 128 * 2
    assert found.blocks(512) == 7 * 32  # shorter than the window: all layers keep all
    window = -(-(1024 - 1 + 8192) // 16) + 1
    assert found.blocks(100_000) == 6 * window + 6250
    assert found.blocks(100_000, settled=True) == 6 * (64 + 1) + 6250
    assert found.full_blocks(131_072) == 6 * window + 8192


def test_without_the_hybrid_manager_windows_cost_what_full_layers_do() -> None:
    found = kv.layout_of(model("gemma-3-27b"), Lanes(), hybrid=False)
    assert isinstance(found, BlockLayout)
    assert found.groups == (kv.KvGroup("full", 62, 1, None),)
    assert found.block_bytes == 62 * 16 * 2 * 16 * 128 * 2


def test_the_pool_that_a_hybrid_logs_gives_back_its_blocks() -> None:
    found = layout("gemma-3-27b")
    pool = kv.pool_of_blocks(found, 40_000, 131_072)
    assert pool.tokens is not None
    assert abs(kv.pool_of_tokens(found, pool.tokens, 131_072).blocks - 40_000) <= 1
    with pytest.raises(VtopError, match="max-model-len"):
        kv.pool_of_tokens(found, pool.tokens, None)


def test_groups_take_the_larger_size_where_layers_of_both_kinds_are_nearly_as_many(tmp_path: Path) -> None:
    kinds = ["full_attention"] * 13 + ["sliding_attention"] * 12
    config = changed(
        tmp_path,
        "qwen2.5-7b",
        num_hidden_layers=25,
        layer_types=kinds,
        sliding_window=128,
        use_sliding_window=None,
    )
    found = kv.layout_of(load(config), Lanes())
    assert isinstance(found, BlockLayout)
    assert [(group.layers, group.tables) for group in found.groups] == [(13, 1), (13, 1)]


def test_decode_context_parallel_spreads_the_tokens_that_ranks_hold_copies_of() -> None:
    mla = model("deepseek-v3")
    alone, spread = (plan(KvQuestion(pool_bytes=2**35, tp=8, dcp=dcp, mix=mix((4096, 512))), mla) for dcp in (1, 8))
    assert alone.pool is not None
    assert spread.pool is not None
    assert alone.pool.tokens is not None
    assert spread.pool.tokens == 8 * alone.pool.tokens
    assert not any("same keys" in note for note in spread.notes)
    with pytest.raises(VtopError, match="does not divide --tp"):
        plan(KvQuestion(tp=8, dcp=3), mla)


def test_the_sparse_layout_of_deepseek_has_656_bytes_a_token_and_layer() -> None:
    of = kv.token_bytes(model("deepseek-v3", "fp8_ds_mla"), Lanes(), None)
    assert of.growth_bytes == pytest.approx(61 * 656)


def test_more_stages_than_layers_are_no_layout() -> None:
    assert "do not make 29 stages" in str(kv.layout_of(QWEN, Lanes(pp=29)))


def test_the_fullest_pipeline_stage_decides() -> None:
    assert layout(pp=3).block_bytes == 10 * 16 * 2 * 4 * 128 * 2


@pytest.mark.parametrize(
    ("tp", "why"), [(3, "28 attention heads"), (6, "28 attention heads"), (28, None), (14, "neither")]
)
def test_what_vllm_would_not_load_is_refused(tp: int, why: str | None) -> None:
    if why is None:
        assert kv.token_bytes(QWEN, Lanes(tp=tp), None).copies == 7
        return
    with pytest.raises(VtopError, match=why):
        kv.token_bytes(QWEN, Lanes(tp=tp), None)


CONV, RECURRENT = (2 * 16 * 128 + 32 * 128) * 3, 32 * 128 * 128  # of Qwen3-Next's gated delta net


def test_a_state_is_a_fixed_size_a_request_whatever_its_length(tmp_path: Path) -> None:
    of = kv.token_bytes(model("qwen3-next-80b"), Lanes(tp=2), None)
    assert of.fixed_bytes == 36 * (CONV + RECURRENT) * 2 / 2
    wider = load(changed(tmp_path, "qwen3-next-80b", mamba_ssm_dtype="float32"))
    assert kv.token_bytes(wider, Lanes(), None).fixed_bytes == 36 * (CONV * 2 + RECURRENT * 4)


def test_states_take_a_block_of_each_table_once_the_block_size_is_told() -> None:
    answer = plan(KvQuestion(pool_bytes=2**34, mix=mix((8192, 512)), block_size=544), model("qwen3-next-80b"))
    assert answer.layout is not None
    assert [(group.kind, group.layers, group.tables) for group in answer.layout.groups] == [
        ("state", 12, 3),
        ("full", 12, 1),
    ]
    assert answer.layout.block_bytes == 12 * 544 * 2 * 2 * 256 * 2
    assert answer.demand is not None
    assert answer.demand.blocks_at_end == 3 + 16  # three states, and 8,704 tokens in blocks of 544


@pytest.mark.parametrize(("block", "says"), [(None, "enlarges the blocks"), (16, "does not fit a page")])
def test_states_without_the_block_size_that_holds_them_have_no_number_of_requests(block: int | None, says: str) -> None:
    asked = KvQuestion(pool_bytes=2**34, mix=mix((1024, 256)), block_size=block)
    answer = plan(asked, model("qwen3-next-80b"))
    assert (answer.layout, answer.pool, answer.fit, answer.max_num_seqs) == (None, None, None, None)
    assert says in answer.notes[0]


def test_mamba_2_is_known_by_its_numbers_and_other_states_are_not(tmp_path: Path) -> None:
    numbers = {"mamba_n_heads": 128, "mamba_d_head": 64, "mamba_n_groups": 1, "mamba_d_state": 128, "mamba_d_conv": 4}
    layers = {"layers_block_type": ["mamba"] * 24 + ["attention"] * 4}
    of = kv.token_bytes(load(changed(tmp_path, "qwen2.5-7b", **layers, **numbers)), Lanes(), None)
    assert of.fixed_bytes == 24 * ((8192 + 256) * 3 + 8192 * 128) * 2
    unknown = load(changed(tmp_path, "qwen2.5-7b", **layers))
    assert kv.token_bytes(unknown, Lanes(), None).fixed_bytes is None
    assert "not known" in str(kv.layout_of(unknown, Lanes(block_told=True)))


# --- memory -----------------------------------------------------------------------------------------------------------


def test_weights_are_those_of_every_matrix_and_the_vocabulary_is_padded_before_it_is_split(tmp_path: Path) -> None:
    assert QWEN.weights_bytes(1) == 2 * 7_615_487_488  # biases of Q, K and V are not in it
    odd = load(changed(tmp_path, "qwen2.5-7b", vocab_size=152_001))
    assert odd.weights_bytes(4) == QWEN.weights_bytes(4)  # 152,001 is padded to 152,064
    eight = model("llama-3.1-8b").weights_bytes(8)
    sixteen = model("llama-3.1-8b").weights_bytes(16)
    assert eight is not None
    assert sixteen is not None
    assert sixteen > eight / 2  # norms are on every rank, and copied KV heads have their projections


def test_every_part_of_the_memory_is_a_term_and_what_is_not_told_is_named() -> None:
    memory = Memory(80 * 2**30, 0.9, activations_bytes=2**30, margin_bytes=2**29)
    answer = plan(KvQuestion(memory=memory, mix=mix((1024, 256)), tp=2), QWEN)
    assert [term.origin for term in answer.memory] == ["given", "computed", "given", "not known", "not known", "given"]
    assert any("CUDA graphs" in note and "at most" in note for note in answer.notes)
    assert answer.pool is not None
    left = 0.9 * 80 * 2**30 - (QWEN.weights_bytes(2) or 0) - 2**30 - 2**29
    assert answer.pool.blocks == left // (917_504 / 2)


def test_a_model_that_leaves_no_memory_is_told_how_much_is_lacking() -> None:
    with pytest.raises(VtopError, match="more than there is"):
        plan(KvQuestion(memory=Memory(24 * 2**30, 0.9), max_model_len=8192), model("article-70b"))


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (KvQuestion(requests=3), "--input-len"),
        (KvQuestion(mix=mix((40_000, 1))), "longer than the model"),
        (KvQuestion(pool_blocks=1), "at least 2 blocks"),
    ],
)
def test_what_cannot_be_answered_is_said(asked: KvQuestion, why: str) -> None:
    with pytest.raises(VtopError, match=why):
        plan(asked, QWEN)


# --- recordings -------------------------------------------------------------------------------------------------------


def seen(name: str) -> Any:
    recording = FileRecording(folder("recordings") / name)
    events = FileRecording(folder("recordings") / name)
    requests = [one for one in iter_events(events) if isinstance(one, Request)]
    events.close()
    session = read(recording)
    recording.close()
    return observed(session, name, requests)


def iter_events(recording: FileRecording) -> list[Any]:
    found: list[Any] = []
    while events := recording.take():
        found += events
    return found


@pytest.fixture(scope="module")
def overload() -> Any:
    return seen("overload_loaded.jsonl.gz")


def test_a_recording_tells_pool_lengths_and_load(overload: Any) -> None:
    answer = plan(KvQuestion(), None, overload)
    assert answer.pool is not None
    assert (answer.pool.blocks, answer.pool.origin) == (5431, "on record")
    assert answer.mix is not None
    assert set(answer.mix.lengths) == {(6144, 2048)}
    assert answer.fit is not None
    assert (answer.fit.concurrency, answer.max_num_seqs) == (64, 10)


def test_a_recording_without_a_shape_counts_blocks_and_no_bytes(overload: Any) -> None:
    from dataclasses import replace

    answer = plan(KvQuestion(), None, replace(overload, shape=None))
    assert answer.max_num_seqs == 10
    assert answer.demand is not None
    assert answer.demand.bytes_at_end is None
    with pytest.raises(VtopError, match="--model-config"):
        plan(KvQuestion(pool_bytes=2**32), None, replace(overload, shape=None))


def test_what_is_asked_for_goes_before_what_is_on_record(overload: Any) -> None:
    answer = plan(KvQuestion(pool_tokens=114_688, mix=mix((1024, 256))), None, overload)
    assert answer.max_num_seqs == 89
    assert answer.fit is not None
    assert answer.fit.concurrency is None  # of another load than the recorded one


def test_the_steps_of_a_recording_are_those_of_its_histogram(overload: Any) -> None:
    assert overload.steps.steps == 23_197
    assert sum(overload.steps.n) == 23_197
    assert overload.steps.le[:2] == (1.0, 8.0)


def test_the_shape_on_record_is_a_model_as_its_config_is(overload: Any) -> None:
    recorded = of_shape(overload.shape, "a")
    assert recorded.layers == QWEN.layers
    assert recorded.weights_bytes(1) == QWEN.weights_bytes(1)
