"""What a person may get wrong is one clear line on stderr and exit code 2; nothing is lost or overwritten."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.vtop import refused, runner, vtop
from tests.ui.pty import VTOP
from tests.ui.screens import SHIPPED, SWEEP
from vtop import faults
from vtop.cli import main
from vtop.cli.options import PANEL_NAMES
from vtop.draw.layout import body
from vtop.draw.theme import names
from vtop.load.workload.spec import WORDS


def run(*words: str) -> Result:
    return runner().invoke(main, list(words))


def said(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("vtop: ")
    return line


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("verb", [(), *((name,) for name in main.commands)])
def test_every_verb_has_help(verb: tuple[str, ...]) -> None:
    for option in ("--help", "-h"):
        result = run(*verb, option)
        assert result.exit_code == 0
        assert result.stdout.startswith("Usage: ")
        assert result.stderr == ""


def test_help_lists_the_panels_the_themes_and_the_words_of_a_load() -> None:
    said = " ".join(run("--help").stdout.split())
    assert set(PANEL_NAMES) == set(body())
    assert ", ".join(PANEL_NAMES) in said
    assert all(name in said for name in names())
    of_load = run("load", "--help").stdout
    assert all(example in of_load for example, _ in WORDS.values())


def test_version() -> None:
    assert run("--version").stdout.startswith("vtop ")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("--url http://[zz --once", "expected a server's address"),
        ("--url ftp://h --once", "neither http nor https"),
        ("record --url :99999 -o x", "no port"),
        ("--match job=x", "--match goes with --prometheus URL"),
        ("record --from -6h -o x.jsonl", "--from goes with --prometheus URL"),
        ("--prometheus prom --url :8000", "one or the other"),
        ("--prometheus prom --load c=4", "--load needs the server itself"),
        ("--prometheus prom --from yesterday", "write -6h, now or 2026-03-01T02:00"),
        ("record --prometheus :1 --from -1h -o x.jsonl", "http://localhost:1/api/v1/query: "),
        ("--interval 0", "0.1<=x<=3600"),
        ("--interval nan", "not a number"),
        ("plan tp --flops inf --gpus 2", "not a number"),
        ("--interval soon", "not a valid float"),
        ("--theme nope --once", "there is no theme 'nope'"),
        ("show sweep_c64 --theme nope", "dark"),
        ("show sweep_c64 --json --theme nope", "dark"),
        ("show sweep_c64 --hide nope", "no such panel; there are requests"),
        ("replay sweep_c64 --hide nope", "no such panel"),
        ("--hide requests,nope", "no such panel"),
        ("show sweep_c64 --at later", "write 90, 90s, 2m30s or 2:30"),
        ("show sweep_c64 --at nan", "is not a time"),
        ("show sweep_c64 --at inf", "is not a time"),
        ("show sweep_c64 --at 9:99", "sweep_c64 ends at 0:18"),
        ("show sweep_c64 --size big", "columns x lines"),
        ("show sweep_c64 --size 1x1", "20x4 to 1000x500"),
        ("show sweep_c64 --window 0", "at least 1.00 s"),
        ("replay sweep_c64 --speed 0", "0.01<=x<=10000"),
        ("replay sweep_c64 --speed nan", "not a number"),
        ("show nope", "sweep_c64"),
        ("replay nope", "sweep_c64"),
        ("show nope.jsonl", "No such file"),
        ("show .", "directory"),
        ("show text.jsonl", "not a vtop recording"),
        ("show empty.jsonl", "it is empty"),
        ("show broken.jsonl.gz", "cannot be read"),
        ("show", "missing argument 'FILE'"),
        ("record --url :1", "missing option '-o'"),
        ("record -o text.jsonl", "exists already"),
        ("record -o no/where.jsonl", "No such file"),
        ("record -o x --for 0", "at least"),
        ("record -o x --api-key-file no.key", "does not exist"),
        ("record -o x --header nonsense", "NAME: VALUE"),
        ("record -o x --ca-file no.pem", "does not exist"),
        ("show sweep_c64 --svg text.jsonl", "exists already"),
        ("show sweep_c64 --svg no/where.svg", "No such file"),
        ("show sweep_c64 --png text.jsonl", "exists already"),
        ("--url :1 record -o x", "vtop record --url"),
        ("--ascii demo", "vtop demo --ascii"),
        ("--no-gpu show x", "vtop show --no-gpu"),
        ("--json", "--once --json"),
        ("--nonsense", "no such option"),
        ("nonsense", "no such command"),
        ("", "needs a terminal"),
        ("replay sweep_c64", "vtop show sweep_c64 --text"),
    ],
)
def test_bad_input_is_one_line(words: str, hint: str) -> None:
    files = {"text.jsonl": b"dear diary\n", "empty.jsonl": b"", "broken.jsonl.gz": b"\x1f\x8bnothing of the kind"}
    for name, content in files.items():
        Path(name).write_bytes(content)
    assert hint in said(run(*words.split()))
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == files


def test_a_real_process_says_the_same(tmp_path: Path) -> None:
    (tmp_path / "there.svg").write_text("mine")
    assert "exists already" in refused(vtop("show", "sweep_c64", "--svg", "there.svg", folder=tmp_path))
    assert "needs a terminal" in refused(vtop("--record", "r.jsonl", folder=tmp_path))
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_an_instant_past_the_end_of_a_replay_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtop.cli.replay.need_terminal", lambda instead: None)
    assert "ends at 0:18" in said(run("replay", str(SWEEP), "--at", "5:00"))


def test_shipped_recordings_are_found_by_name_from_anywhere_and_a_file_there_comes_first() -> None:
    for path in SHIPPED:
        assert run("show", path.name.partition(".")[0]).exit_code == 0
    Path("sweep_c64").write_text("mine")
    assert "not a vtop recording" in said(run("show", "sweep_c64"))


def test_a_fault_of_vtops_own_is_one_line_a_log_and_exit_code_70(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> None:
        raise RecursionError("Bearer sk-secret")

    monkeypatch.setattr("vtop.recording.JudgedRecording", fail)
    result = run("check", str(SWEEP))
    assert (result.exit_code, result.stdout) == (70, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("vtop: vtop itself failed at this command (RecursionError in ")
    assert "sk-secret" not in line
    assert "in fail" in faults.log_path().read_text()
    faults.told.clear()


def test_a_line_that_cannot_be_taken_in_costs_itself_and_the_exit_code_says_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: object, event: object) -> None:
        raise KeyError

    monkeypatch.setattr("vtop.session.history.gpus.GpuHistory.apply", fail)
    result = run("show", str(SWEEP))
    assert result.exit_code == 1
    assert result.stdout
    (line,) = result.stderr.splitlines()
    assert line.startswith("vtop: vtop itself failed taking in a line (gpu) (KeyError in ")


def test_a_full_disk_behind_stdout_is_one_line() -> None:
    done = subprocess.run(f"{' '.join(VTOP)} show {SWEEP} > /dev/full", shell=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (2, b"vtop: No space left on device\n")


def test_any_load_on_record_is_judged_by_other_bounds_afterwards() -> None:
    shown = run("show", "overload_loaded", "--slo", "ttft=1s,e2e=60s", "--json")
    found = json.loads(shown.stdout)["load"]["slo"]
    assert found["bounds"] == [["e2e", 60.0], ["ttft", 1.0]]
    assert found["judged"] == 128
    assert found["attainment_ratio"] <= min(one["ratio"] for one in found["by_bound"])


@pytest.mark.parametrize("verb", [("show",), ("report", "--no-prices", "--format", "txt"), ("compare", "sweep_c64")])
def test_bounds_without_a_load_on_record_are_refused(verb: tuple[str, ...]) -> None:
    result = run(*verb, "sweep_c64", "--slo", "ttft=1s")
    assert result.exit_code == 2
    assert "holds no load of vtop's own" in said(result)
