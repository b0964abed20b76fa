"""A config.json with numbers that no model has is one clear line, whatever is planned with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.vtop import runner
from vtop.cli import main
from vtop.engine.core.model_shape import shape_of
from vtop.session.kv.model_numbers import nonsense

QWEN = json.loads((Path(__file__).parent / "configs" / "qwen2.5-7b.json").read_text())
MORE = {
    "kv": ("--kv-tokens", "86896", "--request", "1024+256"),
    "work": ("--request", "1024+256"),
    "tp": ("--flops", "1e14", "--gpus", "2", "--alpha", "8us", "--bus-bandwidth", "100GB/s"),
}


def planned(folder: Path, verb: str, changes: dict[str, Any]) -> Result:
    (folder / "config.json").write_text(json.dumps(QWEN | changes))
    return runner().invoke(main, ["plan", verb, str(folder / "config.json"), *MORE[verb]])


@pytest.mark.parametrize("verb", MORE)
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"num_key_value_heads": 0}, "its num_key_value_heads is 0, and a whole number of 1 or more is meant"),
        ({"num_key_value_heads": -4}, "its num_key_value_heads is -4"),
        ({"num_key_value_heads": 3}, "28 attention heads do not share 3 KV heads evenly"),
        ({"num_key_value_heads": [4] * 27}, "its num_key_value_heads has 27 entries for 28 layers"),
        ({"num_key_value_heads": [4] * 27 + [-1]}, "its num_key_value_heads has the entry '-1'"),
        ({"num_attention_heads": 0}, "its num_attention_heads is 0"),
        ({"num_hidden_layers": 28.5}, "its num_hidden_layers is 28.5, and a whole number is meant"),
        ({"num_hidden_layers": "28"}, 'its num_hidden_layers is "28"'),
        ({"num_hidden_layers": 10**9}, "1,000,000,000 layers are no model's"),
        ({"layer_types": ["full_attention"] * 3}, "its layer_types has 3 entries for 28 layers"),
        ({"layer_types": ["full_attention"] * 40}, "its layer_types has 40 entries for 28 layers"),
        ({"hybrid_override_pattern": "M*"}, "its hybrid_override_pattern has 2 letters for 28 layers"),
        ({"hidden_size": 3585}, "its hidden_size 3,585 does not divide by 28 heads, and it says no head_dim"),
        ({"head_dim": 10**15}, "its head_dim is 1,000,000,000,000,000: no model's"),
        ({"max_position_embeddings": -1}, "its max_position_embeddings is -1"),
        ({"num_kv_shared_layers": 28}, "28 of its 28 layers read another's keys"),
        ({"full_attention_interval": 0}, "its full_attention_interval is 0"),
    ],
)
def test_a_number_that_no_model_has_is_refused(tmp_path: Path, verb: str, changes: dict[str, Any], why: str) -> None:
    done = planned(tmp_path, verb, changes)
    assert done.exit_code == 2
    assert why in done.output
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"num_key_value_heads": None},
        {"layer_types": ["full_attention"] * 29, "num_nextn_predict_layers": 1},
        {"sliding_window": 0},
        {"moe_intermediate_size": [3072] * 28},
    ],
)
def test_what_real_models_say_is_not(tmp_path: Path, changes: dict[str, Any]) -> None:
    assert planned(tmp_path, "kv", changes).exit_code == 0


def test_a_shape_on_record_with_such_a_number_is_not_known() -> None:
    assert nonsense({"num_attention_heads": 0}) is not None
    assert shape_of(QWEN | {"num_attention_heads": 0}) is None
