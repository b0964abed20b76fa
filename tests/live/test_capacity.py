"""`vtop capacity` on a server that runs in real time: on record, gone on with after an interruption, beside another."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.live.test_simulate import simulating
from tests.live.vtop_record import VTOP, environment
from tests.ui.pty import VTOP as VTOP_MODULE
from tests.ui.pty import Terminal

pytestmark = pytest.mark.live

ASKED = (
    "--slo", "ttft=20s,e2e=30s", "--rule", "floor", "--runs", "2", "--n", "20", "--from", "8",
    "--with", "in=256 out=16", "--precision", "60%", "--no-hold", "--no-gpu", "--interval", "0.5",
)  # fmt: skip


def capacity(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [VTOP, "capacity", *ASKED, *words]
    return subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=240, check=False
    )


def searches(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert done.stdout, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["searches"]
    return found


def test_a_search_is_on_record_and_goes_on_after_an_interruption_on_the_same_server_only(tmp_path: Path) -> None:
    with simulating() as url:
        done = capacity(tmp_path, "--url", url, "--record", "a.jsonl", "--max", "16", "--format", "json")
        (first,) = searches(done)
        assert first["bracket"]["end"] == "nothing failed", done.stderr
        report: list[str | Path] = [VTOP, "report", "a.jsonl", "--format", "json", "--no-prices"]
        told = subprocess.run(report, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True)
        (recorded,) = json.loads(told.stdout)["recordings"][0]["searches"]
        assert recorded["bracket"] == first["bracket"]
        assert [rate["mean_ratio"] for rate in recorded["rates"]] == [rate["mean_ratio"] for rate in first["rates"]]
        again = capacity(tmp_path, "--url", url, "--resume", "a.jsonl", "--max", "16", "--format", "json")
        assert searches(again)[0]["requests_sent"] == first["requests_sent"]  # nothing is left to be run
    with simulating("--kv-tokens", "40000") as url:
        other = capacity(tmp_path, "--url", url, "--resume", "a.jsonl", "--max", "16")
        assert "the server is not the one that was searched: its KV pool is 40,000 tokens" in other.stderr


def test_two_servers_are_searched_by_turns_with_the_same_seeds(tmp_path: Path) -> None:
    with simulating() as url, simulating("--max-num-seqs", "1") as slow:
        done = capacity(tmp_path, "--url", url, "--against", slow, "--max", "32", "--format", "json")
    quick, other = searches(done)
    assert quick["bracket"]["passes_per_s"] == 32, done.stderr
    assert other["bracket"]["fails_per_s"] is None or other["bracket"]["fails_per_s"] <= 32
    assert json.loads(done.stdout)["paired"][0]["rate_per_s"] == 8


def test_a_search_is_simulated_first_and_then_measured_from_there(tmp_path: Path) -> None:
    with simulating("--max-num-seqs", "2") as url:
        more = ("--simulate", "h200-qwen2.5-7b", "--max-num-seqs", "2", "--slo", "ttft=500ms,e2e=2s", "--from", "4")
        done = capacity(tmp_path, "--url", url, *more, "--format", "json")
    (found,) = searches(done)
    simulated = found["simulated"]
    assert found["rates"][0]["rate_per_s"] <= simulated["passes_per_s"] < simulated["fails_per_s"]
    assert simulated["speed_least_ratio"] is not None, done.stderr


def test_the_screen_shows_the_search_and_leaving_it_keeps_what_was_found(tmp_path: Path) -> None:
    with simulating("--max-num-seqs", "2") as url:
        words = [*VTOP_MODULE, "capacity", *ASKED, "--url", url, "--screen", "--record", "a.jsonl"]
        with Terminal(words, size=(160, 48), env=environment(), folder=tmp_path) as terminal:
            terminal.until(b"no rate judged yet")
            terminal.until(b"ended")  # the first run
            terminal.press(b"q")
            terminal.exit_code()
    assert b"it was stopped" in terminal.written
    last = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()[-2:]]
    assert [line["type"] for line in last] == ["search", "end"]
