"""`vtop whatif` and `vtop fit`: the model's error before its answer, one line for what cannot be asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.cli.test_show import strict
from tests.cli.vtop import runner
from tests.engine.test_runs import busy, loaded, started, written
from tests.session.made import Log, Server
from tests.ui.screens import OVERLOAD
from vtop.cli import main
from vtop.engine.fit import profile
from vtop.recording import GpuReading

RUN = ("sweep", "--phase", "7")  # 64 in flight
PHASE = (*RUN, "--profile-alone")


def asked(*words: str | Path) -> Result:
    return runner().invoke(main, ["whatif", *map(str, words)])


def answered(*words: str | Path) -> str:
    result = asked(*words)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def document(*words: str | Path) -> dict[str, Any]:
    return strict(answered(*words, "--format", "json"))


def refused(result: Result) -> str:
    assert result.exit_code == 2
    assert result.stdout == ""
    return result.stderr.splitlines()[-1]


@pytest.fixture
def at_limit(tmp_path: Path) -> Path:
    """A recording on which four ran while two waited and the pool was a quarter full."""
    log, server = Log(), Server()
    busy(log, server, running=4, waiting=2, kv=0.25)
    loaded(log)
    return written(log, tmp_path / "seated.jsonl")


# --- what is said -----------------------------------------------------------------------------------------------------


def test_the_models_own_error_stands_before_its_answer() -> None:
    text = answered(*RUN, "--max-num-seqs", "16")
    error, answer = text.index("How far off the model is"), text.index("With --max-num-seqs 16")
    assert error < answer
    assert "recorded   profile alone          error   with host factors          error" in text[error:answer]
    assert "to launch a step without a graph" in text[:error]
    assert "output tokens/s" in text[error:answer]
    assert "In 90 %: where the number may lie" in text[answer:]


def test_the_profile_alone_is_asked_for() -> None:
    text = answered(*PHASE)
    assert "recorded   simulated" in text
    assert "to launch a step" not in text


def test_without_a_flag_only_the_error_is_shown() -> None:
    text = answered(*PHASE)
    assert "How far off the model is" in text
    assert "With --" not in text


def test_flags_that_are_not_on_record_are_said_and_so_is_how_fast_it_was() -> None:
    said = asked(*PHASE).stderr
    assert "--max-num-seqs is not on record: 128 taken; was it another? --was-max-num-seqs N" in said
    assert (
        "--max-num-batched-tokens is not on record: 8192 taken; was it another? --was-max-num-batched-tokens N" in said
    )
    assert "times as fast" in said
    told = asked(*PHASE, "--was-max-num-seqs", "100", "--was-max-num-batched-tokens", "4096")
    assert "not on record" not in told.stderr
    assert "--max-num-seqs 100 --kv-tokens 86896 --max-num-batched-tokens 4096" in told.stdout


def test_max_num_seqs_that_the_recording_shows_is_taken(at_limit: Path) -> None:
    result = asked(at_limit, "--profile", "h200-qwen2.5-7b")
    assert "--max-num-seqs is not on record: 4 taken, as so many ran while others waited" in result.stderr
    assert "--max-num-seqs 4" in result.stdout
    assert "that of h200-qwen2.5-7b taken" in result.stdout.replace("\n", " ")


def test_flags_on_record_are_taken_and_said_to_be(tmp_path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server, running=4, waiting=2, kv=0.25)
    loaded(log)
    started(log, 0.55, max_num_seqs=6, max_num_batched_tokens=512)
    path = written(log, tmp_path / "flags.jsonl")
    result = asked(path, "--profile", "h200-qwen2.5-7b")
    assert result.exit_code == 0
    assert "is not on record" not in result.stderr  # nor is what the scrapes suggest looked at
    assert "recorded with  --max-num-seqs 6 --kv-tokens 4096 --max-num-batched-tokens 512" in result.stdout
    assert "on record      --max-num-seqs 6 --max-num-batched-tokens 512" in result.stdout
    (run,) = document(path, "--profile", "h200-qwen2.5-7b")["runs"]
    assert run["flags_from"] == {"max_num_seqs": "on record", "max_num_batched_tokens": "on record"}
    told = document(path, "--profile", "h200-qwen2.5-7b", "--was-max-num-seqs", "8")["runs"][0]
    assert told["recorded_flags"]["max_num_seqs"] == 8
    assert told["flags_from"] == {"max_num_seqs": "told", "max_num_batched_tokens": "on record"}


def test_a_default_that_the_recording_belies_is_not_taken(tmp_path: Path) -> None:
    log, server = Log(), Server()
    log.gpu(0.4, GpuReading(index=0, uuid="GPU-0", name="NVIDIA L4", mem_total_bytes=24 * 2**30, serving=True))
    busy(log, server, running=300)
    loaded(log)
    started(log, 0.55)
    result = asked(written(log, tmp_path / "flags.jsonl"), "--profile", "h200-qwen2.5-7b")
    assert "--max-num-seqs is not on record: 300 taken" in result.stderr  # not 256
    assert "vLLM's default  --max-num-batched-tokens 2048" in result.stdout


@pytest.mark.slow
def test_beyond_what_was_fitted_is_said() -> None:
    text = " ".join(answered(*PHASE, "--kv-tokens", "131072", "--max-num-batched-tokens", "256").split())
    assert "kv tokens 131,072 (86,896–114,688)" in text
    assert "max num batched tokens 256 (512–8,192)" in text


@pytest.mark.slow
def test_the_same_question_has_the_same_answer_to_the_byte() -> None:
    assert answered(*RUN, "--max-num-seqs", "16") == answered(*RUN, "--max-num-seqs", "16")


# --- documents --------------------------------------------------------------------------------------------------------


def test_json_holds_every_number_with_its_error_and_doubt() -> None:
    found = document(*RUN, "--max-num-seqs", "16", "--kv-tokens", "65536", "--slo", "ttft=800ms,tpot=50ms")
    (run,) = found["runs"]
    assert run["recorded_flags"] == {"max_num_seqs": 128, "kv_tokens": 86896, "max_num_batched_tokens": 8192}
    assert run["flags"] == {"max_num_seqs": 16, "kv_tokens": 65536, "max_num_batched_tokens": 8192}
    assert found["taken"] == ["--max-num-seqs 128", "--max-num-batched-tokens 8192"]
    numbers = {number["name"]: number for number in run["numbers"]}
    output = numbers["output_per_s"]
    assert output["error_ratio"] == pytest.approx(output["simulated"] / output["recorded"] - 1)
    alone = output["by_profile_alone"]
    assert output["by_profile_alone_error_ratio"] == pytest.approx(alone / output["recorded"] - 1)
    assert 0.5 < run["host_factors"]["launch"] < 2
    assert output["difference"] == pytest.approx(output["predicted"] - output["simulated"])
    assert output["verdict"] == "worse"
    assert 0 < output["doubt"] < abs(output["difference"])
    assert 0 <= numbers["good_ratio"]["recorded"] <= 1


@pytest.mark.slow
def test_every_phase_is_answered_unless_one_is_asked_for() -> None:
    assert [run["concurrency"] for run in document("sweep", "--profile-alone")["runs"]] == [1, 2, 4, 8, 16, 32, 64]
    assert [run["concurrency"] for run in document(*PHASE)["runs"]] == [64]


@pytest.mark.slow
def test_a_search_is_a_row_a_value_and_names_its_criterion() -> None:
    (run,) = document(*PHASE, "--search", "max-num-seqs=16..64")["runs"]
    assert [one["value"] for one in run["tried"]] == [16, 24, 32, 48, 64]
    assert run["criterion"]["name"] == "output_per_s"
    assert [one["verdict"] for one in run["tried"]].count("best") == 1
    text = answered(*PHASE, "--search", "max-num-seqs=16..64", "--slo", "ttft=800ms")
    assert "best: most requests/s within SLO" in text
    least = answered(*PHASE, "--search", "max-num-seqs=16,64", "--best", "tpot_s")
    assert "--max-num-seqs 16: " in least
    assert "best: least TPOT mean" in least


@pytest.mark.parametrize(
    ("ending", "sign"), [("html", "<!doctype html>"), ("md", "# vtop whatif"), ("txt", "vtop whatif")]
)
def test_it_is_written_in_the_form_that_the_files_ending_says(tmp_path: Path, ending: str, sign: str) -> None:
    path = tmp_path / f"answer.{ending}"
    result = asked(*PHASE, "-o", path)
    assert (result.exit_code, result.stdout) == (0, "")
    assert path.read_text().lower().startswith(sign)


# --- what cannot be asked ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("none.jsonl",), "none.jsonl: cannot be read"),
        ((*PHASE, "--max-num-seqs", "0"), "0 is not in the range"),
        ((*PHASE, "--max-num-batched-tokens", "64"), "--max-num-batched-tokens 64 must be at least --max-num-seqs 128"),
        ((*PHASE, "--kv-tokens", "16"), "at least 2 blocks"),
        ((*PHASE, "--kv-tokens", "320"), "1,280 tokens are more than 304"),
        (("sweep", "--phase", "9"), "no such phase that can be replayed in sweep; it has 1, 2, 3, 4, 5, 6, 7"),
        (("overload", "--phase", "1"), "it has none of vtop's own load"),
        ((*PHASE, "--profile", "h300"), "h200-qwen2.5-7b, rtx4090-qwen2.5-7b"),
        ((*PHASE, "--search", "seqs=1..8"), "--search seqs=1..8: search what"),
        ((*PHASE, "--best", "ttft_s"), "--best goes with --search"),
        ((*PHASE, "--search", "max-num-seqs=8", "--best", "speed"), "--best speed: no such number"),
        ((*PHASE, "--slo", "ttft=fast"), "no time"),
        ((*PHASE, "--was-max-num-seqs", "32"), "has 64 running at once"),
        ((*PHASE, "-o", "answer.pdf"), "of which form"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_said_in_a_line(words: tuple[str, ...], why: str) -> None:
    assert why in refused(asked(*words))


def test_a_recording_without_a_run_says_why(tmp_path: Path) -> None:
    log, server = Log(), Server()
    busy(log, server)
    loaded(log, ended=False)
    path = written(log, tmp_path / "open.jsonl")
    assert refused(asked(path)).endswith(
        "no load in it that can be replayed: phase 1, c=4 n=20: it has no end on record"
    )


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    for name, verb in (("old.md", "whatif"), ("old.toml", "fit")):
        path = tmp_path / name
        path.write_text("mine")
        result = runner().invoke(main, [verb, "sweep_c64", "-o", str(path)])
        assert "exists already" in refused(result)
        assert path.read_text() == "mine"


# --- fit --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_fit_is_a_profile_that_whatif_takes_on_another_recording(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    done = runner().invoke(main, ["fit", "sweep_c64", "-o", str(path), "--was-max-num-seqs", "128"])
    assert done.exit_code == 0, done.stderr
    assert "sweep_c64" in done.stdout
    assert "holds for prompt tokens 1,024" in done.stdout
    made = profile.load(str(path))
    assert (made.name, made.gpu) == ("mine", "NVIDIA H200")
    assert made.origin == "NVIDIA H200, vLLM 0.26.0; fitted on sweep_c64"
    found = document(str(OVERLOAD), "--profile", path)
    numbers = {number["name"]: number for number in found["runs"][0]["numbers"]}
    assert abs(numbers["e2e_s"]["error_ratio"]) < 0.04
    assert (numbers["preemptions"]["recorded"], numbers["preemptions"]["simulated"]) == (37, 37)
    assert [one for one in found["runs"][0]["remarks"] if "beyond what mine was fitted on: prompt tokens 6,144" in one]


def test_a_device_without_a_profile_is_fitted_on_the_recording_itself(at_limit: Path) -> None:
    result = asked(at_limit, "--format", "json")
    assert result.exit_code == 0
    assert "no profile of its GPU, which is not on record: fitting one on" in result.stderr
    found = json.loads(result.stdout)
    assert found["profile"]["origin"] == "fitted on seated.jsonl alone"
    assert [one for one in found["runs"][0]["remarks"] if "fitted on this recording, too" in one]


def test_where_a_profile_is_to_lie_is_looked_at_before_it_is_made(tmp_path: Path) -> None:
    result = runner().invoke(main, ["fit", "sweep_c64", "-o", str(tmp_path / "none" / "mine.toml")])
    assert "there is no folder" in refused(result)


def test_a_profile_is_a_toml_file() -> None:
    result = runner().invoke(main, ["fit", "sweep_c64", "-o", "mine.json"])
    assert "a profile is a .toml file" in refused(result)


# --- the price of each limit ------------------------------------------------------------------------------------------


def test_prices_are_a_row_a_limit_and_say_which_binds() -> None:
    found = json.loads(answered("sweep_c64", "--prices", "--format", "json"))
    (run,) = found["runs"]
    assert run["binds"] == "gpu"
    assert run["suggestion"] is None
    assert [one["limit"] for one in run["prices"]] == ["kv", "max-num-seqs", "token-budget", "gpu", "launch"]


def test_prices_are_of_the_recorded_flags() -> None:
    result = asked("sweep_c64", "--prices", "--max-num-seqs", "8")
    assert result.exit_code == 2
    assert "--prices is of the recorded flags" in result.stderr
