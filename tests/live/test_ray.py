"""A load from two nodes of a real Ray cluster, one's clock 5,000 s ahead, on a server that only streams."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live import ray_hosts
from tests.live.test_simulate import simulating
from tests.live.vtop_record import VTOP, environment, events
from vtop.recording.events import AnyEvent, Load, LoadHost, Note, Request, decode

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[2]
AHEAD_S = 5000
SPEC = "rate=100 n=200 in=32 out=64 seed=3"
# a load whose workers' processes are told, so that one can be killed in its midst
LED = """
import sys, threading, time
from vtop.access import Endpoint
from vtop.load.workers.controller import Controller
from vtop.load.workers.ray_cluster import RayCluster
from vtop.load.workload.spec import phases
from vtop.recording.events import Request, encode
address, url, spec = sys.argv[1:]
origin_s, lock, begun = time.monotonic(), threading.Lock(), set()
def append(event):
    with lock:
        print(encode(event).decode(), flush=True)
        if isinstance(event, Request) and event.phase == 0:
            begun.add(event.id)
            if len(begun) == 40:
                print("pids", *controller.pids, flush=True)
hosts = RayCluster(address, url, print)
clock = lambda: round(time.monotonic() - origin_s, 6)
controller = Controller(phases((spec,)), Endpoint(url), append, clock, origin_s, hosts=hosts)
controller.start()
controller.finished.wait()
controller.stop()
print("ended", controller.failed, controller.short, sep="|", flush=True)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[str, str]]:
    with ray_hosts.cluster(ahead_s=AHEAD_S if ray_hosts.can_shift_clocks() else 0) as addresses:
        yield addresses


@contextmanager
def mock() -> Iterator[str]:
    command: list[str | Path] = [sys.executable, ROOT / "bench" / "load_mock.py", "--itl-ms", "5", "--tokens", "64"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.communicate("")


def loaded(url: str, *words: str) -> list[AnyEvent]:
    done = subprocess.run([VTOP, "load", url, *words], env=environment(), capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return [decode(line) for line in done.stdout.splitlines()]


def requests(events: list[AnyEvent]) -> list[Request]:
    """Of the phase, each by its last line."""
    lines = {one.id: one for one in events if isinstance(one, Request) and one.phase == 0}
    return [lines[k] for k in sorted(lines)]


def schedule(events: list[AnyEvent]) -> list[tuple[int, float, int | None, int | None]]:
    found = requests(events)
    first_s = found[0].due_s or 0.0
    return [
        (one.id, round((one.due_s or 0.0) - first_s, 4), one.asked_prompt_tokens, one.asked_output_tokens)
        for one in found
    ]


def test_one_seed_is_one_schedule_for_any_workers_anywhere_and_clocks_are_corrected(
    cluster: tuple[str, str], measured: list[str]
) -> None:
    within, outside = cluster
    with mock() as url:
        alone = loaded(url, f"{SPEC} workers=1")
        four = loaded(url, f"{SPEC} workers=4")
        far = loaded(url, f"{SPEC} workers=4", "--ray", within)
        from_outside = loaded(url, f"{SPEC} workers=4", "--ray", outside)
    assert schedule(alone) == schedule(four) == schedule(far) == schedule(from_outside)
    before = [one for one in far if isinstance(one, LoadHost) and not one.after]
    assert {one.name.rpartition("/")[2] for one in before} == {"left", "right"}
    assert sorted(number for one in before for number in one.workers) == [0, 1, 2, 3]
    ahead_s = AHEAD_S if ray_hosts.can_shift_clocks() else 0
    by_name = {one.name.rpartition("/")[2]: one for one in before}
    assert abs(by_name["left"].offset_s) <= by_name["left"].rtt_s / 2
    assert abs(by_name["right"].offset_s - ahead_s) <= by_name["right"].rtt_s / 2
    begin_s, end_s = (one.t for one in far if isinstance(one, Load))
    for one in requests(far):
        assert one.error is None
        assert one.due_s is not None
        assert one.sent_s is not None
        assert one.end_s is not None
        assert begin_s <= one.due_s <= one.sent_s <= one.end_s <= end_s
    late_ms = {
        host: max((one.sent_s or 0.0) - (one.due_s or 0.0) for one in requests(far) if one.host == host) * 1000
        for host in (0, 1)
    }
    clocks = ", ".join(f"{one.offset_s:+.6f} s ± {one.rtt_s / 2 * 1000:.2f} ms" for one in before)
    measured.append(f"ray: clocks {clocks}; latest {late_ms[0]:.1f} and {late_ms[1]:.1f} ms late")


def test_a_worker_that_is_killed_costs_its_requests_and_that_is_said(cluster: tuple[str, str]) -> None:
    with mock() as url:
        command = [sys.executable, "-c", LED, cluster[0], url, f"{SPEC} workers=4"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT) as process:
            assert process.stdout is not None
            events: list[AnyEvent] = []
            ended = ""
            for line in process.stdout:
                if line.startswith("pids"):
                    os.kill(int(line.split()[2]), signal.SIGKILL)  # worker 1
                elif line.startswith("ended"):
                    ended = line.strip()
                else:
                    events.append(decode(line.encode()))
    assert ended == "ended|None|rate=100: 1 of 4 workers was lost"
    found = requests(events)
    assert [one.id for one in found] == list(range(200))
    lost = [one for one in found if one.error == "worker_lost"]
    assert {one.id % 4 for one in lost} == {1}
    assert len(lost) >= 30
    assert all(one.error is None for one in found if one.id % 4 != 1)
    (said,) = (one.text for one in events if isinstance(one, Note))
    assert said.endswith(": its requests count as failed, and the load goes on without it")
    assert "killed by SIGKILL" in said


SEARCH = ("--slo", "ttft=20s", "--rule", "floor", "--runs", "2", "--n", "20", "--from", "8", "--max", "8", "--no-hold")
ONE_LOAD = "in=64 out=16 workers=2"


@pytest.mark.parametrize(
    "words",
    [
        ("record", "--load", f"c=4 n=20 {ONE_LOAD}", "--no-gpu", "-o"),
        ("sweep", "--concurrency", "2..4", "--with", f"n=20 {ONE_LOAD}", "--no-gpu", "-o"),
        ("capacity", *SEARCH, "--with", ONE_LOAD, "--no-gpu", "--record"),
    ],
    ids=lambda words: str(words[0]),
)
def test_other_verbs_send_their_load_from_the_cluster_too(
    words: tuple[str, ...], cluster: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "run.jsonl"
    with simulating() as url:
        command: list[str | Path] = [VTOP, words[0], "--url", url, "--ray", cluster[0], *words[1:], path]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = events(path)
    phases = {one.phase for one in found if isinstance(one, Load)}
    assert phases
    for phase in phases:
        hosts = [one for one in found if isinstance(one, LoadHost) and one.phase == phase and not one.after]
        assert sorted(number for one in hosts for number in one.workers) == [0, 1]
        sent = [one for one in found if isinstance(one, Request) and one.phase == phase]
        assert {one.host for one in sent} <= {one.host for one in hosts}
        assert all(one.error is None for one in sent)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--ray", "127.0.0.1:1", "c=1"), "no Ray cluster could be reached"),
        (("--ray", "head", "c=1"), "write auto, HOST:6379"),
    ],
)
def test_a_cluster_that_is_not_there_is_one_line(words: tuple[str, ...], said: str) -> None:
    pytest.importorskip("ray", reason="no Ray: pip install 'vtop[ray]'")
    command: list[str | Path] = [VTOP, "load", *words]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
