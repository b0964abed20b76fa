"""`vtop report` as a shell runs it: where it writes, what it refuses, and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.vtop import refused, vtop
from tests.report.reports import path_of
from tests.ui.pty import VTOP, environment


def test_without_anything_it_writes_report_html_and_never_over_it(tmp_path: Path) -> None:
    done = vtop("report", "--no-prices", "overload_loaded", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"report.html\n")
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "report.html: exists already" in refused(vtop("report", "--no-prices", "sweep_c64", folder=tmp_path))


@pytest.mark.slow
def test_half_a_report_is_none_and_stands_in_nobodys_way(tmp_path: Path) -> None:
    words = [*VTOP, "report", "sweep_c64"]
    little = ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *words]  # a file may have eight blocks, then it is full
    done = subprocess.run(little, capture_output=True, cwd=tmp_path, env=environment(), timeout=60, check=False)
    assert refused(done) == "vtop: report.html: cannot be written (File too large)"
    assert list(tmp_path.iterdir()) == []
    assert vtop("report", "sweep_c64", folder=tmp_path).returncode == 0


def test_a_report_goes_to_stdout_by_a_dash(tmp_path: Path) -> None:
    done = vtop("report", "--no-prices", "sweep_c64", "-o", "-", "--format", "html", folder=tmp_path)
    assert done.stdout.startswith(b"<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("ending", "begins"), [("md", "# vtop report"), ("txt", "vtop report"), ("json", "{")])
def test_the_ending_says_the_form(tmp_path: Path, ending: str, begins: str) -> None:
    assert vtop("report", "--no-prices", "sweep_c64", "-o", f"x.{ending}", folder=tmp_path).returncode == 0
    assert (tmp_path / f"x.{ending}").read_text(encoding="utf-8").startswith(begins)


def test_a_form_without_a_file_goes_to_stdout(tmp_path: Path) -> None:
    done = vtop("report", "--no-prices", "sweep_c64", "overload", "--format", "json", folder=tmp_path)
    assert done.returncode == 0
    assert [one["file"] for one in json.loads(done.stdout)["recordings"]] == ["sweep_c64.jsonl.gz", "overload.jsonl.gz"]
    assert list(tmp_path.iterdir()) == []


def test_phases_can_be_asked_for(tmp_path: Path) -> None:
    words = ("--phase", "0:10-0:40,full=0:40-2:00", "--format", "json")
    done = vtop("report", "--no-prices", "overload", *words, folder=tmp_path)
    phases = json.loads(done.stdout)["recordings"][0]["phases"]
    assert [(one["name"], one["source"], one["begin_s"]) for one in phases] == [
        ("0:10–0:40", "asked", 10.0),
        ("full", "asked", 40.0),
    ]


def test_expectations_set_the_exit_code_and_say_which_failed(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[quiet]\nthat = "preemptions == 0"\n[small]\nthat = "kv.peak_ratio <= 1"\n', encoding="utf-8")
    words = ("--no-prices", "--expect", "rules.toml")
    done = vtop("report", "overload", *words, "--format", "md", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.decode() == "vtop: overload.jsonl.gz, quiet: not met, preemptions == 0, run: 37\n"
    assert "| quiet | preemptions == 0 | run | not met | 37 |" in done.stdout.decode()
    assert (
        vtop("report", "--no-prices", "sweep_c64", "--expect", "rules.toml", "-o", "x.md", folder=tmp_path).returncode
        == 0
    )


@pytest.mark.parametrize(("package", "ending"), [("altair", "html"), ("vl_convert", "html"), ("plotext", "txt")])
def test_a_package_that_is_not_there_is_said(tmp_path: Path, package: str, ending: str) -> None:
    code = f"import sys; sys.modules[{package!r}] = None; from vtop.cli import main; main(sys.argv[1:])"
    words = [sys.executable, "-c", code, "report", "--no-prices", "sweep_c64", "-o"]
    done = subprocess.run([*words, f"x.{ending}"], capture_output=True, cwd=tmp_path, check=False)
    assert done.stderr.decode() == (
        f"vtop: {ending} needs the package {package}, which vtop installs with itself; md and json need none\n"
    )
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    for other in ("md", "json"):
        assert subprocess.run([*words, f"x.{other}"], capture_output=True, cwd=tmp_path, check=False).returncode == 0


def test_a_file_whose_name_is_no_text_is_reported_too(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"odd\xff.jsonl.gz")
    odd.write_bytes(path_of("sweep_c64").read_bytes())
    for ending in ("md", "json", "txt"):
        done = vtop("report", "--no-prices", os.fsencode(odd.name), "-o", f"x.{ending}", folder=tmp_path)
        assert done.returncode == 0, done
        assert "odd?.jsonl.gz" in (tmp_path / f"x.{ending}").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "missing argument"),
        (("none.jsonl",), "none.jsonl: cannot be read"),
        (("nothing",), "nothing: no such file; with vtop come the recordings"),
        (("overload", "-o", "x.pdf"), "-o x.pdf: of which form?"),
        (("overload", "--no-prices", "-o", "none/x.md"), "none/x.md: cannot be written"),
        (("overload", "--format", "pdf"), "'pdf' is not one of"),
        (("overload", "--phase", "1:00-0:30"), "it ends before it begins"),
        (("overload", "--phase", "1:00-9:30"), "the recording ends at 2:47"),
        (("overload", "--expect", "none.toml"), "--expect none.toml: cannot be read"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    assert said in refused(vtop("report", *words, folder=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_report_prices_each_limit_where_the_gpu_has_a_profile(tmp_path: Path) -> None:
    done = vtop("report", "sweep_c64", "--format", "json", folder=tmp_path)
    (prices,) = json.loads(done.stdout)["recordings"][0]["prices"]
    assert [one["limit"] for one in prices["prices"]] == ["kv", "max-num-seqs", "token-budget", "gpu", "launch"]
    assert prices["prices"][0]["output"] == {"ratio": 0.0, "low": 0.0, "high": 0.0}
    assert 0.05 < prices["prices"][3]["output"]["low"] < prices["prices"][3]["output"]["high"] < 0.1
    without = vtop("report", "--no-prices", "sweep_c64", "--format", "json", folder=tmp_path)
    assert json.loads(without.stdout)["recordings"][0]["prices"] == []
