"""A command line gives the flags about performance, read as vLLM reads them, and nothing else."""

from __future__ import annotations

import pytest

from vtop.recording.events import FlagValue
from vtop.server_kinds.vllm.flags import FLAGS
from vtop.sources.flags import flags_of


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("--max-num-seqs 128", {"max-num-seqs": 128}),
        ("--max-num-seqs=128", {"max-num-seqs": 128}),
        ("--max_num_seqs 128", {"max-num-seqs": 128}),
        ("--max_num_seqs=128", {"max-num-seqs": 128}),
        ("--max-num-batched-tokens 8k", {"max-num-batched-tokens": 8000}),
        ("--max-model-len 32K", {"max-model-len": 32768}),
        ("--max-model-len 25.6k", {"max-model-len": 25600}),
        ("--max-model-len -1", {"max-model-len": -1}),
        ("--max-model-len auto", {"max-model-len": "auto"}),
        ("--gpu-memory-utilization 0.85", {"gpu-memory-utilization": 0.85}),
        ("-tp 2 -pp=4", {"tensor-parallel-size": 2, "pipeline-parallel-size": 4}),
        ("-asc 2 -q fp8 -ep", {"api-server-count": 2, "quantization": "fp8", "enable-expert-parallel": True}),
        ("-O3", {"optimization-level": 3}),
        ("-O 2", {"optimization-level": 2}),
        ("--enforce-eager --port 8000", {"enforce-eager": True}),
        ("--no-enable-prefix-caching", {"enable-prefix-caching": False}),
        ("--no-async-scheduling", {"async-scheduling": False}),
        ("--scheduling-policy priority", {"scheduling-policy": "priority"}),
        ("--cudagraph-capture-sizes 1 2 4 --port 1", {"cudagraph-capture-sizes": "1,2,4"}),
        ("--config serve.yaml", {"config": True}),
        ("--max-num-seqs 128 --max-num-seqs 10", {"max-num-seqs": 10}),
        ("--max-num-seqs", {}),
        ("--max-num-seqs --enforce-eager", {"enforce-eager": True}),
        ("--max-num-seqs many", {}),
    ],
)
def test_a_flag_is_read_however_it_is_typed(typed: str, read: dict[str, FlagValue]) -> None:
    assert flags_of(typed.split(), FLAGS) == read


@pytest.mark.parametrize(
    "words",
    [
        ["--speculative-config", '{"method": "eagle", "model": "/models/draft", "num_speculative_tokens": 3}'],
        ["--speculative-config.method", "eagle", "--speculative-config.num_speculative_tokens=3"],
        ["-sc", '{"method":"eagle","num_speculative_tokens":3,"token":"hf_s3cret"}'],
    ],
)
def test_of_a_json_flag_only_what_is_let_through_is_read(words: list[str]) -> None:
    assert flags_of(words, FLAGS) == {
        "speculative-config.method": "eagle",
        "speculative-config.num_speculative_tokens": 3,
    }


def test_the_sizes_in_a_compilation_config_are_read() -> None:
    written = '{"cudagraph_capture_sizes": [1, 2, 4], "cudagraph_mode": "FULL", "cache_dir": "/home/me"}'
    assert flags_of(["-cc", written], FLAGS) == {
        "compilation-config.cudagraph_capture_sizes": "1,2,4",
        "compilation-config.cudagraph_mode": "FULL",
    }
    assert flags_of(["--compilation-config", "3"], FLAGS) == {"compilation-config.level": 3}
    assert flags_of(["--compilation-config", "{broken"], FLAGS) == {}


SECRET = "sk-s3cret"


@pytest.mark.parametrize(
    "words",
    [
        ["--api-key", SECRET],
        ["--api-key", "sk-other", SECRET, "--max-num-seqs", "8"],
        [f"--api-key={SECRET}"],
        [f"--api_key={SECRET}"],
        ["--hf-token", SECRET],
        [f"--hf-overrides={{'token': '{SECRET}'}}"],
        ["--ssl-keyfile", f"/home/{SECRET}"],
        ["--kv-transfer-config", f'{{"kv_connector": "Mine", "kv_connector_extra_config": {{"key": "{SECRET}"}}}}'],
        ["--speculative-config", f'{{"method": "/models/{SECRET}"}}'],
        ["--speculative-config", f'{{"method": {{"key": "{SECRET}"}}}}'],
        ["--quantization", f"/models/{SECRET}"],
        ["--load-format", f"s3://bucket/{SECRET}"],
        ["--dtype", f"a word of more than any dtype has {SECRET}"],
        ["--config", f"/home/{SECRET}.yaml"],
        ["--served-model-name", SECRET, "--model", f"/models/{SECRET}", "--download-dir", SECRET],
        [SECRET, f"--{SECRET}", f"-{SECRET}", f"--{SECRET}=1", f"--no-{SECRET}"],
    ],
)
def test_no_secret_path_or_name_comes_through(words: list[str]) -> None:
    assert SECRET not in repr(flags_of(words, FLAGS))
