"""vtop's load on a real vLLM server: both sides count the same, and nothing of a load outlives what started it.

VTOP_VLLM names vLLM's virtual environment; without it these tests are skipped.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import pytest

from tests.live.child import Child
from tests.live.vllm_server import KEY, Page, VllmServer, until
from tests.live.vtop_record import VTOP, environment
from vtop.recording import End, FileRecording, Load, Note, Request
from vtop.recording.events import AnyEvent

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif("VTOP_VLLM" not in os.environ, reason="no vLLM: VTOP_VLLM names no virtual environment with it"),
]

# mean client TTFT - mean TTFT of the server: HTTP, tokenizer process, the read. 2 to 5 ms where the machine is quiet.
APART_S = 0.02


@dataclass(frozen=True, slots=True)
class Swept:
    """A recorded sweep, with the server's own pages from before and after it."""

    path: Path
    before: Page
    after: Page
    stderr: str
    events: list[AnyEvent]

    def grown(self, name: str) -> float:
        return self.after[name] - self.before[name]

    @property
    def requests(self) -> list[Request]:
        """Each by its last line, the trial and the warm-up included."""
        lines = [event for event in self.events if isinstance(event, Request)]
        return list({(line.phase, line.id): line for line in lines}.values())


def command(server: VllmServer, path: Path, *words: str) -> list[str | Path]:
    return [VTOP, "sweep", "--url", server.url, "--api-key", KEY, "--no-gpu", "-o", path, *words]


def swept(server: VllmServer, path: Path, *words: str) -> Swept:
    before = server.idle_page()
    done = subprocess.run(
        command(server, path, *words), stdin=subprocess.DEVNULL, capture_output=True, env=environment(), timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done
    assert done.stdout == b""
    return Swept(path, before, server.idle_page(), done.stderr.decode(), events(path))


def events(path: Path) -> list[AnyEvent]:
    recording = FileRecording(path)
    found = recording.take()
    recording.close()
    return found


PLAN = ("--concurrency", "1,4", "--in", "96", "--out", "24", "--gap", "0.5s", "--with", "n=24 warmup=4 seed=5")


@pytest.fixture(scope="module")
def twice(early: tuple[VllmServer, object], tmp_path_factory: pytest.TempPathFactory) -> tuple[Swept, Swept]:
    server, _ = early
    if server.health() != 200:
        server.start()
    folder = tmp_path_factory.mktemp("sweep")
    return swept(server, folder / "first.jsonl", *PLAN), swept(server, folder / "second.jsonl", *PLAN)


def test_the_client_counts_the_tokens_that_the_server_counts(twice: tuple[Swept, Swept]) -> None:
    for run in twice:
        assert all(request.error is None for request in run.requests)
        assert {request.tokens_from for request in run.requests} == {"ids"}
        assert sum(request.output_tokens or 0 for request in run.requests) == run.grown("vllm:generation_tokens_total")
        assert sum(request.prompt_tokens or 0 for request in run.requests) == run.grown("vllm:prompt_tokens_total")
        measured = [request for request in run.requests if request.phase >= 0]
        assert all(request.prompt_tokens == request.asked_prompt_tokens == 96 for request in measured)
        assert len(measured) == 2 * (24 + 4)


def test_the_clients_time_to_first_token_is_the_servers_and_a_little(
    twice: tuple[Swept, Swept], measured: list[str]
) -> None:
    """Of the quieter of two sweeps: what else runs on this machine makes the way to the client only longer."""
    apart = []
    for run in twice:
        times = [
            request.first_s - request.sent_s
            for request in run.requests
            if request.first_s is not None and request.sent_s is not None
        ]
        family = "vllm:time_to_first_token_seconds"
        assert len(times) == run.grown(f"{family}_count")
        apart.append(fmean(times) - run.grown(f"{family}_sum") / run.grown(f"{family}_count"))
        measured.append(f"mean client TTFT {fmean(times) * 1e3:.1f} ms, {apart[-1] * 1e3:.2f} ms above the server's")
    assert 0 < min(apart) < APART_S


def test_no_run_meets_the_prefix_cache_of_another_of_the_same_seed(twice: tuple[Swept, Swept]) -> None:
    for run in twice:
        assert run.grown("vllm:prefix_cache_queries_total") > 0, "the cache is on"
        assert run.grown("vllm:prefix_cache_hits_total") == 0
        assert "prefix hits" not in run.stderr
    seeds = [{(one.phase, one.id): one.asked_prompt_tokens for one in run.requests} for run in twice]
    assert seeds[0] == seeds[1]


def test_a_sweep_is_a_recording_that_show_reads(twice: tuple[Swept, Swept]) -> None:
    run = twice[0]
    assert isinstance(run.events[-1], End)
    assert [event.reason for event in run.events if isinstance(event, Load) and event.state == "end"] == ["done"] * 2
    assert not [event.text for event in run.events if isinstance(event, Note) and event.source == "load"]
    shown = subprocess.run(
        [VTOP, "show", run.path, "--json"], capture_output=True, env=environment(), timeout=60, check=True
    )
    part = json.loads(shown.stdout)["load"]
    assert (part["spec"][:3], part["done"], part["failed"], part["unfinished"]) == ("c=4", 24, 0, 0)
    assert part["output_tokens"] == 24 * 24
    assert part["ttft"]["mean_s"] > 0


# --- what is broken off ----------------------------------------------------------------------------------------------


@contextmanager
def sweeping(server: VllmServer, path: Path) -> Iterator[Child]:
    """A sweep with eight long requests in flight."""
    words = ("--concurrency", "8", "--in", "32", "--out", "400", "--with", "n=100 warmup=0")
    with open(os.devnull, "wb") as nowhere:
        child = Child(command(server, path, *words), stdout=nowhere, stderr=nowhere, env=environment())
    try:
        until(lambda: server.page()["vllm:num_requests_running"] >= 8, "eight run")
        yield child
    finally:
        child.end()


def children(pid: int) -> list[int]:
    return [int(one) for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_requests_in_are_done_failed_and_aborted(server: VllmServer, tmp_path: Path) -> None:
    before, path = server.idle_page(), tmp_path / "broken.jsonl"
    with sweeping(server, path) as child:
        until(lambda: server.page()["vllm:request_success_total"] > before["vllm:request_success_total"] + 1, "a few")
        child.send(signal.SIGINT)
        assert child.wait(10) == 128 + signal.SIGINT
    until(lambda: server.page()["vllm:num_requests_running"] == 0, "the server has seen the disconnects", within_s=3)
    after = server.idle_page()
    lines = [event for event in events(path) if isinstance(event, Request)]
    last = {(line.phase, line.id): line for line in lines}
    sent = {(line.phase, line.id) for line in lines if line.sent_s is not None}
    assert sent == last.keys()
    errors = [line.error for line in last.values()]
    assert set(errors) == {None, "cancelled_at_end"}
    finished = after.by("vllm:request_success_total", "finished_reason")
    grown = sum(finished.values()) - before["vllm:request_success_total"]
    aborted = finished.get("abort", 0) - before.by("vllm:request_success_total", "finished_reason").get("abort", 0)
    assert errors.count(None) == grown - aborted
    assert errors.count("cancelled_at_end") == 8


def test_nothing_is_left_of_a_sweep_that_is_killed(server: VllmServer, tmp_path: Path) -> None:
    with sweeping(server, tmp_path / "killed.jsonl") as child:
        workers = children(child.pid)
        assert len(workers) == 1
        child.send(signal.SIGKILL)
        child.wait(5)
        until(lambda: all(map(gone, workers)), "the load's process has ended", within_s=2, every_s=0.02)
    until(lambda: server.page()["vllm:num_requests_running"] == 0, "the server has seen the disconnects", within_s=3)
