"""vtop plan, as it is typed: sources, one document of JSON, and one clear line for what cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.vtop import runner
from tests.plan.models import CONFIGS
from vtop.cli import main
from vtop.engine.fit import profile
from vtop.engine.runs.runs import runs
from vtop.plan.seqs_cost import cost_of, heaviest
from vtop.shipped import folder

QWEN = str(CONFIGS / "qwen2.5-7b.json")
ARTICLE = str(CONFIGS / "article-70b.json")
TABLES = Path(__file__).parent / "tables"
SIMPLE = ["plan", "kv", QWEN, "--kv-tokens", "86896", "--request", "1024+256"]
QUEUE = ["plan", "queue", "--service", "50ms", "--slo", "e2e=200ms", "--n", "500", "--rates", "2,9"]
SPLIT = ["plan", "tp", ARTICLE, "--flops", "120e12", "--alpha", "8us", "--bus-bandwidth", "150GB/s"]


def run(*words: str) -> tuple[int, str, str]:
    result = runner().invoke(main, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def document(*words: str) -> dict[str, Any]:
    code, out, _ = run(*words, "--format", "json")
    assert code == 0
    found: dict[str, Any] = json.loads(out)
    assert found["format"] == 1
    return found


def test_the_json_of_kv_has_the_numbers_of_the_text() -> None:
    found = document(*SIMPLE)
    assert found["plan"] == "kv"
    assert (found["token"]["growth_bytes"], found["pool"]["blocks"], found["max_num_seqs"]) == (57_344, 5431, 67)
    assert found["fit"]["in_the_mean"] == pytest.approx(5430 / 72)


def test_the_json_of_tp_has_every_step() -> None:
    found = document(*SPLIT)
    assert [one["p"] for one in found["candidates"]] == [1, 2, 4, 8]
    assert found["candidates"][2]["rows"][-1]["sent_bytes"] == 120 * 1024**2


def test_the_json_of_work_and_queue() -> None:
    work = document("plan", "work", QWEN, "--request", "2048+128")
    assert work["requests"][0]["prefill"]["products"] == 2_098_176
    queue = document("plan", "queue", "--service", "50ms", "--slo", "e2e=200ms", "--n", "500", "--rates", "2")
    assert queue["rates"][0]["attained"]["runs"] == 12
    assert len(queue["rates"]) == 1


def test_a_recording_of_a_gpu_with_a_profile_of_its_own_needs_no_other() -> None:
    _, told, _ = run("plan", "tp", "sweep_c64", "--alpha", "8us", "--bus-bandwidth", "0.3GB/s", "--gpus", "2")
    assert "by h200-qwen2.5-7b, the profile of the GPU on record" in told
    assert "1 hop of" in told


@pytest.mark.parametrize("ending", ["html", "md", "txt", "json"])
@pytest.mark.parametrize("words", [SIMPLE, SPLIT, QUEUE])
def test_a_plan_is_written_in_the_form_of_its_file(tmp_path: Path, words: list[str], ending: str) -> None:
    path = tmp_path / f"plan.{ending}"
    assert run(*words, "-o", str(path))[0] == 0
    assert path.stat().st_size > 500
    assert run(*words, "-o", str(path))[0] == 2  # it is not written over


def test_a_range_of_lengths_is_planned_at_its_ends_and_between() -> None:
    found = document("plan", "kv", QWEN, "--kv-tokens", "86896", "--input-len", "512~2048", "--output-len", "256")
    assert found["demand"]["blocks_at_end"] == (2048 + 256) // 16
    assert found["demand"]["mean_blocks_at_end"] == pytest.approx((512 + 2048) / 2 / 16 + 16, abs=0.6)


def test_a_shipped_recording_is_a_source_and_its_cost_is_left_out_when_asked() -> None:
    found = document("plan", "kv", "overload_loaded", "--no-cost")
    assert (found["max_num_seqs"], found["cost"]) == (10, None)


def test_fewer_max_num_seqs_are_simulated_beside_the_recorded_ones() -> None:
    run = heaviest(runs(folder("recordings") / "sweep.jsonl.gz"))
    assert run is not None
    found = cost_of(run, profile.load("h200-qwen2.5-7b"), 32)
    assert (found.recorded_max_num_seqs, found.max_num_seqs) == (128, 32)
    assert "max_num_seqs is not on record: 128 taken" in found.remarks
    output = next(one for one in found.changes if one.name == "output_per_s")
    assert output.before is not None
    assert output.after is not None
    assert output.ratio == pytest.approx(output.after / output.before - 1)
    assert output.verdict == "worse"


def test_a_plan_for_another_load_says_nothing_of_what_the_recorded_one_would_cost() -> None:
    assert document("plan", "kv", "overload_loaded", "--request", "8000+100")["cost"] is None


def test_a_load_that_fits_has_no_cost() -> None:
    found = document("plan", "kv", "sweep_c64")
    assert found["fit"]["at_peak"] == 67
    assert found["cost"] is None


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["plan", "kv"], "of what?"),
        (["plan", "kv", "nothing.json"], "no such file"),
        (["plan", "kv", "nothing"], "no such file"),
        (["plan", "kv", QWEN, "--url", "localhost:1"], "one of them"),
        (["plan", "kv", "--url", "127.0.0.1:1", "--no-cost"], "does not answer"),
        (["plan", "kv", QWEN, "--kv-cache-memory", "lots"], "no size"),
        (["plan", "kv", QWEN, "--kv-cache-memory", "1"], "at least 2 blocks"),
        (["plan", "kv", QWEN, "--kv-tokens", "999", "--num-gpu-blocks", "3"], "one pool"),
        (["plan", "kv", QWEN, "--kv-cache-dtype", "fp3"], "'fp3' is not known"),
        (["plan", "kv", QWEN, "--input-len", "5"], "both lengths"),
        (["plan", "kv", QWEN, "--request", "5"], "prompt + output"),
        (["plan", "kv", QWEN, "--input-len", "9~5", "--output-len", "1"], "no length"),
        (["plan", "kv", QWEN, "--margin", "1GiB"], "goes with --gpu-memory"),
        (["plan", "kv", QWEN, "--tp", "3"], "28 attention heads"),
        (["plan", "kv", QWEN, "-o", "a.pdf"], "of which form"),
        (["plan", "tp", QWEN], "how long does a step"),
        (["plan", "tp", QWEN, "--flops", "1e12"], "what does an all-reduce of 2"),
        (["plan", "tp", QWEN, "--flops", "1e12", "--alpha", "8"], "write 8us"),
        (["plan", "tp", QWEN, "--flops", "1e12", "--profile", "x"], "one of them"),
        (["plan", "tp", QWEN, "--profile", "none"], "none"),
        (["plan", "tp", QWEN, "--flops", "1e12", "--activation-dtype", "int3"], "int3"),
        (["plan", "tp", QWEN, "--flops", "1e12", "--gpus", "two"], "whole numbers"),
        (["plan", "tp", QWEN, "--flops", "1e12", "--slo", "e2e=1s"], "tpot=20ms"),
        (["plan", "tp", "--identity", "--gpus", "5"], "2, 3 or 6"),
        (["plan", "tp", ARTICLE, "--flops", "1e12", "--all-reduce", "none.txt"], "cannot be read"),
        (["plan", "work", QWEN], "of which lengths"),
        (["plan", "work", QWEN, "--request", "1+1", "--flops", "1e12"], "needs both"),
        (["plan", "queue", "--slo", "e2e=1s"], "whose service times"),
        (["plan", "queue", "--slo", "ttft=1s", "--service", "1s"], "whole requests only"),
        (["plan", "queue", "--slo", "e2e=1s", "--service", "1s:0.5"], "add up to 0.5"),
        (["plan", "queue", "--slo", "e2e=1s", "--service", "0s"], "no time"),
        (["plan", "queue", "--slo", "e2e=1s", "--service", "1s", "--rates", "0"], "no list of rates"),
        (["plan", "queue", "--slo", "e2e=1s", "--service", "1s", "--attain", "101%"], "no share"),
        (["plan", "queue", "open_loop", "--slo", "e2e=1s"], "no closed loop"),
        (["plan", "queue", "sweep_again", "--phase", "9", "--slo", "e2e=1s"], "no closed loop is its phase 9"),
    ],
)
def test_what_cannot_be_is_one_line_that_says_what_to_do(words: list[str], says: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert says in err


BROKEN = {
    name: json.dumps(json.loads(Path(QWEN).read_text()) | numbers)
    for name, numbers in {
        "words": {"num_hidden_layers": "many"},
        "no layer": {"num_hidden_layers": 0},
        "too many": {"num_hidden_layers": 10**9},
        "negative": {"num_key_value_heads": -4, "num_attention_heads": -1},
        "no head": {"head_dim": 0, "hidden_size": 0},
    }.items()
}


def test_a_config_that_is_none_is_said(tmp_path: Path) -> None:
    for name, content in {"a": "", "b": "[]", "c": "{", "d": "{}", **BROKEN}.items():
        path = tmp_path / f"{name}.json"
        path.write_text(content)
        code, _, err = run("plan", "kv", str(path))
        assert code == 2
        assert str(path) in err


def test_refused_is_an_answer_with_its_reason() -> None:
    found = document("plan", "tp", str(CONFIGS / "deepseek-v3.json"), "--flops", "1e12")
    assert "mixture of experts" in found["refused"]
    assert found["candidates"] == []


def test_a_measured_table_and_a_topology_are_taken_from_files() -> None:
    words = ["plan", "tp", ARTICLE, "--flops", "120e12", "--gpus", "4", "--tokens", "32"]
    found = document(*words, "--all-reduce", f"4:{TABLES}/all_reduce_4.txt", "--topo", f"{TABLES}/topo.txt")
    assert found["candidates"][1]["rows"][0]["tau_s"] == pytest.approx(15.9e-6)
    assert found["groups"][0]["weakest"] == "SYS"
