"""`vtop compare` as a shell runs it: sides and repeats, forms, exit codes, errors of one line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.vtop import runner
from tests.session.made import RECORDINGS, SMALL
from vtop.cli import main

FILES = {path.name.partition(".")[0]: str(path) for path in (*RECORDINGS, *SMALL)}
SWEEP = "+".join(FILES[f"sweep_c{c}"] for c in (1, 2, 4, 8, 16, 32, 64))
SHORT, LONG = FILES["sweep_c8"], FILES["sweep_c16"]


def compared(*words: str) -> Result:
    return runner().invoke(main, ["compare", *words])


def refused(*words: str) -> str:
    result = compared(*words)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def test_two_recordings_by_name_come_as_text() -> None:
    result = compared("overload", "overload_loaded")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("vtop compare: A overload against B overload_loaded\n")
    assert "Paired by likeness" in result.stdout


def test_seven_files_are_one_run_and_two_devices_reproduce_itl_to_2_percent() -> None:
    """A sweep of an H200 against the same loads on another, one recording each: 1 to 2 % faster between tokens."""
    result = compared("sweep", SWEEP, "--format", "json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert [phase["label"] for phase in found["phases"]] == ["c=1", "c=2", "c=4", "c=8", "c=16", "c=32", "c=64"]
    assert found["phases"][2]["phases"] == ["c=4", "sweep_c4"]
    itl = [one for phase in found["phases"] for one in phase["numbers"] if one["name"] == "itl.mean_s"]
    ratios = [one["differences"][0]["ratio"] for one in itl]
    assert all(-0.02 < ratio < -0.009 for ratio in ratios[:-1])
    assert [one["differences"][0]["verdict"] for one in itl[:2]] == ["better"] * 2


def test_repeats_stand_apart_by_commas() -> None:
    result = compared(f"{SHORT},{SHORT}", SHORT, "--format", "json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert [len(side["runs"]) for side in found["sides"]] == [2, 1]
    assert found["phases"][0]["noise"] == ["between runs: 2 of one, 1 of the other"]


def test_a_name_with_a_comma_or_a_plus_is_a_name(tmp_path: Path) -> None:
    for name in ("a,b+c.jsonl.gz", "d+e.jsonl.gz"):
        odd = tmp_path / name
        odd.write_bytes(Path(SHORT).read_bytes())
        assert compared(str(odd), SHORT, "--format", "json").exit_code == 0


@pytest.mark.parametrize("ending", ["txt", "md", "json", "html", "svg"])
def test_the_ending_says_the_form_and_nothing_is_overwritten(ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"a.{ending}"
    result = compared(SHORT, SHORT, "-o", str(out))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"{out}\n")
    begins = {"txt": b"vtop compare", "md": b"# vtop compare", "json": b"{", "html": b"<!DOCTYPE", "svg": b"<svg"}
    assert out.read_bytes().startswith(begins[ending])
    assert "exists already" in refused(SHORT, SHORT, "-o", str(out))


def test_the_exit_code_tells_what_got_worse() -> None:
    asked = ["overload", "overload_loaded", "--on", "energy.per_output_token_j,tpot.mean_s,itl.mean_s"]
    result = compared(*asked, "--fail-over", "0.05%")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 2
    assert all("worse by more than 0.05 %" in line for line in result.stderr.splitlines())
    assert compared(*asked, "--fail-over", "10%").exit_code == 0


def test_what_is_not_judged_is_not_0(tmp_path: Path) -> None:
    whole = gzip.decompress(Path(FILES["overload"]).read_bytes()).splitlines(keepends=True)
    torn, damaged = tmp_path / "torn.jsonl", tmp_path / "damaged.jsonl"
    torn.write_bytes(b"".join(whole[:-1]))
    damaged.write_bytes(b"".join([*whole[:50], b"{}\n", *whole[50:]]))
    asked = ["overload_loaded", "--on", "output_per_s,tpot.mean_s,itl.mean_s", "--fail-over", "50%"]
    for file, why in ((torn, "it was broken off"), (damaged, "lines of it cannot be read (1)")):
        result = compared(str(file), *asked)
        assert (result.exit_code, result.stderr) == (3, f"vtop: not judged: all of {file.name}: {why}\n")


def test_what_cannot_be_understood_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    assert "with what?" in refused(SHORT)
    assert "no such number" in refused(SHORT, SHORT, "--fail-over", "5", "--on", "speed")
    assert "goes with --fail-over" in refused(SHORT, SHORT, "--on", "itl.mean_s")
    assert "write 5% or 5" in refused(SHORT, SHORT, "--fail-over", "much")
    assert "between 50 and 100" in refused(SHORT, SHORT, "--confidence", "100")
    assert "of which form?" in refused(SHORT, SHORT, "-o", str(tmp_path / "a.xls"))
    assert "a name is missing" in refused(f"{SHORT},", SHORT)
    assert "--unlike" in refused(SHORT, LONG)
    assert "no such file" in refused(SHORT, "nothing")
    assert "cannot be read" in refused(SHORT, str(tmp_path / "nothing.jsonl"))
