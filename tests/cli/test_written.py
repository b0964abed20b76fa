"""`vtop export`, `check`, `cut` and `merge` as a shell runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.vtop import refused, runner, vtop
from tests.export.recorded import SHORT, SWEEP, loaded, strict, watched, written
from vtop.cli import main
from vtop.export.tables.tables import TABLES
from vtop.recording import FileRecording

NAMES = [table.name for table in TABLES]


def run(*words: object) -> Result:
    return runner().invoke(main, [str(word) for word in words])


def done(*words: object) -> list[str]:
    """The lines on stdout of a verb that did what it was asked."""
    result = run(*words)
    assert (result.exit_code, result.stderr) == (0, ""), result
    return result.stdout.splitlines()


def refusal(*words: object) -> str:
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, ""), result
    (line,) = result.stderr.splitlines()
    return line


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def there() -> set[str]:
    return {path.name for path in Path().iterdir()}


# --- export -------------------------------------------------------------------------------------------------------


def test_tables_go_beside_one_another_under_the_recording_s_name() -> None:
    assert done("export", SHORT, "--to", "csv") == [f"sweep_c64-{name}.csv" for name in NAMES]
    assert there() == {f"sweep_c64-{name}.csv" for name in NAMES}


def test_tables_go_into_a_folder_that_is_asked_for_or_is_there() -> None:
    assert done("export", SHORT, "--to", "csv", "-o", "new/folder/") == [f"new/folder/{name}.csv" for name in NAMES]
    Path("old").mkdir()
    assert done("export", SHORT, "--to", "csv", "-o", "old") == [f"old/{name}.csv" for name in NAMES]
    assert done("export", SHORT, "--to", "csv", "-o", "old/run")[0] == "old/run-samples.csv"


def test_a_shipped_recording_is_exported_by_name() -> None:
    assert done("export", "sweep_c64", "--to", "perfetto") == ["sweep_c64.trace.json"]
    assert strict(Path("sweep_c64.trace.json").read_bytes())["traceEvents"]


def test_text_goes_to_stdout_and_nothing_else_does(tmp_path: Path) -> None:
    path = written(watched(3), tmp_path / "a.jsonl")
    piped = vtop("export", str(path), "--to", "prometheus", "-o", "-", folder=tmp_path)
    assert (piped.returncode, piped.stderr) == (0, b"")
    done("export", path, "--to", "prometheus")
    assert piped.stdout == Path("a.om").read_bytes()
    trace = vtop("export", str(path), "--to", "perfetto", "-o", "-", folder=tmp_path)
    assert strict(trace.stdout)["displayTimeUnit"] == "ms"


def test_a_compressed_name_is_compressed(tmp_path: Path) -> None:
    import gzip

    path = written(watched(3), tmp_path / "a.jsonl")
    done("export", path, "--to", "perfetto", "-o", "a.json.gz")
    done("export", path, "--to", "perfetto", "-o", "a.json")
    assert gzip.decompress(Path("a.json.gz").read_bytes()) == Path("a.json").read_bytes()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--to", "xml"], "'xml' is not one of 'csv', 'parquet', 'perfetto', 'prometheus'"),
        ([], "export to what? --to csv, parquet, perfetto or prometheus"),
        (["--to", "csv", "-o", "-"], "-o -: tables are several files"),
        (["--to", "csv", "--every", "15s"], "--every goes with --to prometheus, not with csv"),
        (["--to", "prometheus", "--every", "soon"], "'soon' is not a time"),
        (["--to", "perfetto", "-o", "no/such/folder.json"], "cannot be written (No such file or directory)"),
        (["--to", "perfetto", "-o", "."], "is a folder"),
    ],
)
def test_what_cannot_be_exported_is_one_line(words: list[str], said: str) -> None:
    assert said in refusal("export", SHORT, *words)
    assert there() == set()


def test_a_file_that_is_there_stays_unless_force_is_said() -> None:
    Path("sweep_c64.om").write_text("precious")
    assert "sweep_c64.om: exists already" in refusal("export", SHORT, "--to", "prometheus")
    assert Path("sweep_c64.om").read_text() == "precious"
    done("export", SHORT, "--to", "prometheus", "--force")
    assert Path("sweep_c64.om").read_text().endswith("\n# EOF\n")
    assert there() == {"sweep_c64.om"}


# --- check --------------------------------------------------------------------------------------------------------


def test_a_good_recording_is_checked_with_exit_code_0() -> None:
    lines = done("check", SWEEP)
    assert lines[-1] == "no problem found"
    assert any("vLLM 0.26.0" in line and "http://localhost:8000" in line for line in lines)
    assert any("c=64" in line and "320 requests, 320 ended, 0 failed" in line for line in lines)


def test_a_torn_one_with_exit_code_1(tmp_path: Path) -> None:
    path = written(loaded(), tmp_path / "a.jsonl")
    path.write_bytes(path.read_bytes()[:-5])
    result = run("check", path)
    assert result.exit_code == 1
    problems = [line for line in result.stdout.splitlines() if line.startswith("problem: ")]
    assert [problem.split()[1:4] for problem in problems] == [["last", "line", "incomplete"], ["no", "line", "of"]]
    assert result.stderr == ""


def test_the_same_as_json(tmp_path: Path) -> None:
    path = written(loaded(), tmp_path / "a.jsonl")
    document = json.loads("\n".join(done("check", path, "--json")))
    assert document["bytes"] == path.stat().st_size
    assert document["lines"] == path.read_bytes().count(b"\n")
    assert document["contents"]["open_requests"] == 1
    path.write_bytes(path.read_bytes()[:-5])
    assert run("check", path, "--json").exit_code == 1


def test_no_recording_is_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("{}\n")
    assert "not a vtop recording" in refused(vtop("check", "a.jsonl", folder=tmp_path))
    assert "no such file" in refusal("check", "nothing")


def test_signs_that_would_move_the_cursor_are_made_harmless(tmp_path: Path) -> None:
    import msgspec

    log = watched(2)
    log.start = msgspec.structs.replace(log.start, origin="\x1b[2Jevil")
    assert not [line for line in done("check", written(log, tmp_path / "a.jsonl")) if "\x1b" in line]


# --- cut and merge ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "jsonl.zst"])
def test_a_cut_is_a_recording_with_nothing_wrong(ending: str) -> None:
    out = f"part.{ending}"
    assert done("cut", SWEEP, "--from", "1:00", "--to", "2m30s", "-o", out) == [out]
    assert done("check", out)[-1] == "no problem found"
    recording = FileRecording(Path(out))
    events = recording.take()
    recording.close()
    assert events[-1].t == 90.0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "cut what? name a stretch"),
        (["--from", "2:00", "--to", "1:00"], "--to 1:00 is not after --from 2:00"),
        (["--from", "9:00"], "--from 9:00: "),
        (["--from", "1:00", "--to", "9:00"], "ends at 6:12"),
        (["--from", "soon"], "'soon' is not a time"),
    ],
)
def test_a_stretch_that_is_not_there_is_refused_and_nothing_written(words: list[str], said: str) -> None:
    assert said in refusal("cut", SWEEP, *words, "-o", "part.jsonl")
    assert there() == set()


def test_a_recording_can_be_cut_into_itself_with_force(tmp_path: Path) -> None:
    path = written(watched(20), tmp_path / "a.jsonl")
    assert "exists already" in refusal("cut", path, "--from", "5", "-o", path)
    done("cut", path, "--from", "5", "-o", path, "--force")
    assert done("check", path)[-1] == "no problem found"
    assert there() == {"a.jsonl"}


def test_two_halves_are_merged_to_the_whole_again() -> None:
    done("cut", SHORT, "--from", "0", "--to", "9.5", "-o", "one.jsonl")
    done("cut", SHORT, "--from", "9.6", "-o", "two.jsonl")
    result = run("merge", "two.jsonl", "one.jsonl", "-o", "both.jsonl")
    assert (result.exit_code, result.stdout) == (0, "both.jsonl\n")
    assert result.stderr.startswith("one server: http://localhost:8000 from one.jsonl then two.jsonl (not recorded in")
    both, whole = (json.loads("\n".join(done("show", file, "--json"))) for file in ("both.jsonl", SHORT))
    assert both["generation_tokens"] == pytest.approx(whole["generation_tokens"])
    assert both["requests"]["running"] == whole["requests"]["running"]


def test_what_makes_no_session_is_refused() -> None:
    assert "watch http://localhost:8000 at the same time" in refusal("merge", SHORT, SHORT, "-o", "both.jsonl")
    assert "two recordings or more" in refusal("merge", SHORT, "-o", "both.jsonl")
    assert there() == set()
