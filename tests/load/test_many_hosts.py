"""Workers on other hosts: their clocks, and what a lost one costs. The hosts are this one, under other names."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.load.standin import hanging, standing_in
from tests.load.test_controller import TINY, run
from vtop.access import Access, Endpoint
from vtop.errors import VtopError
from vtop.load.workers import ray_cluster, relay
from vtop.load.workers.clock_offset import Offset
from vtop.load.workers.link import HostClock, LocalProcess
from vtop.load.workers.losses import unsent
from vtop.load.workers.protocol import Aim, Setup, files_of, with_files_at
from vtop.load.workers.worker_handle import WorkerHandle
from vtop.load.workload.phase import PlannedPhase
from vtop.load.workload.spec import phases
from vtop.recording.events import LoadHost


class _FarProcess(LocalProcess):
    def __init__(self, host: int) -> None:
        super().__init__()
        self.host = host  # type: ignore[assignment]

    def last_word(self) -> str:
        super().last_word()
        return f"a worker on host{self.host} was lost"


class _Gone(LocalProcess):
    def __init__(self, host: int) -> None:
        self.host = host  # type: ignore[assignment]


class _TwoHosts:
    """Workers by turns on two hosts, whose clocks are said to be ahead by so much."""

    def __init__(self, *ahead_s: float) -> None:
        self._ahead_s = ahead_s or (0.0, 0.0)

    def start(self, workers: int) -> Sequence[_FarProcess]:
        return [_FarProcess(number % 2) for number in range(workers)]

    def clocks(self) -> Sequence[HostClock]:
        return [
            HostClock(host, f"host{host}", (host,), Offset(ahead_s, 0.001))
            for host, ahead_s in enumerate(self._ahead_s)
        ]


@pytest.mark.slow
def test_a_lost_workers_requests_fail_and_no_other_sends_them() -> None:
    specs = f"rate=200 arrival=constant n=60 {TINY} workers=2", f"c=2 n=4 {TINY} workers=2"
    with standing_in() as server, run(server, *specs, hosts=_TwoHosts()) as going:
        going.until(lambda: len(going.requests()) >= 10)
        os.kill(going.pids[1], signal.SIGKILL)
        going.to_its_end()
        found = going.requests()
        assert [request.id for request in found] == list(range(60))
        lost = [request for request in found if request.error == "worker_lost"]
        assert len(lost) > 10
        assert {(request.id % 2, request.host) for request in lost} == {(1, 1)}
        assert [request.error for request in found if request.id % 2 == 0] == [None] * 30
        assert any(request.sent_s is None and request.due_s is not None for request in lost)
        assert going.part().failed == len(lost)
        assert "failed here" in (going.part().limited or "")
        # the phase after it is shared by who is left
        assert [(request.id, request.host, request.error) for request in going.requests(1)] == [
            (k, 0, None) for k in range(4)
        ]
        assert going.reasons == ["1 of 2 workers was lost", "done"]
        assert going.notes == [
            "a worker on host1 was lost: its requests count as failed, and the load goes on without it"
        ]
        assert going.controller.failed is None
        assert going.controller.short == "rate=200: 1 of 2 workers was lost"


def test_in_a_closed_loop_the_share_of_a_lost_worker_fails_and_where_all_are_lost_the_load_ends() -> None:
    with standing_in(hanging) as server, run(server, f"c=2 n=9 {TINY} workers=2", hosts=_TwoHosts()) as going:
        going.until(lambda: sum(request.first_s is not None for request in going.requests()) == 2)
        os.kill(going.pids[0], signal.SIGKILL)
        going.until(lambda: going.notes)
        os.kill(going.pids[1], signal.SIGKILL)
        going.to_its_end()
        assert going.controller.failed == "a worker on host1 was lost"
        assert [(one.id, one.host, one.error) for one in going.requests()] == [
            (k, k % 2, "worker_lost") for k in range(9)
        ]


def test_what_lost_workers_were_to_send_comes_in_the_order_in_which_it_was_due() -> None:
    works = [WorkerHandle(number, _Gone(number % 2)) for number in range(3)]
    works[0].gone = works[2].gone = True
    works[0].begun = {0, 3}
    (phase,) = phases(("rate=10 arrival=constant n=12 warmup=1 in=8 out=2",))
    found = list(unsent(7, phase, works, [Aim(101.0, rate_per_s=1.0)], 100.0))
    assert [one.id for one in found] == [2, 5, 6, 8, 9, 11, 12]
    assert [one.due_s for one in found] == [100.2, 100.5, 100.6, 100.8, 100.9, 103.0, 104.0]
    assert {(one.phase, one.error, one.end_s) for one in found} == {(7, "worker_lost", None)}
    assert list(unsent(0, phase, works[1:2], [], 0.0)) == []
    (endless,) = phases(("c=4 for=9s in=8 out=2",))
    assert list(unsent(0, endless, works, [], 0.0)) == []


def test_what_a_hosts_clock_is_ahead_is_taken_off_its_stamps_and_stands_in_the_recording() -> None:
    with standing_in() as server, run(server, f"c=2 n=8 {TINY} workers=2", hosts=_TwoHosts(0.0, -50.0)) as going:
        going.to_its_end()
        sent = {host: [one.sent_s or 0.0 for one in going.requests() if one.host == host] for host in (0, 1)}
        assert len(sent[0]) + len(sent[1]) == 8
        assert 49.0 < min(sent[1]) - max(sent[0]) < 51.0  # of one clock in truth: the correction is all that shows
        hosts = [event for event in going.events if isinstance(event, LoadHost)]
        assert [(one.host, one.offset_s, one.rtt_s, one.after) for one in hosts] == [
            (0, 0.0, 0.001, False), (1, -50.0, 0.001, False), (0, 0.0, 0.001, True), (1, -50.0, 0.001, True),
        ]  # fmt: skip
        assert [(one.name, one.workers, one.offset_error_s) for one in going.part().hosts] == [
            ("host0", 1, 0.0005), ("host1", 1, 0.0005),
        ]  # fmt: skip


def test_a_relay_passes_lines_on_and_says_when_there_are_no_more() -> None:
    there = relay.Relay()
    assert there.about().pid > 0
    there.hang_up()
    said = b""
    while (heard := there.hear()) is not None:
        said += heard
    assert said == b""
    assert there.hear() is None
    assert there.last_word().endswith("(exit code 0)")


def test_orders_that_overtake_each_other_on_their_way_are_given_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bytes] = []
    monkeypatch.setattr(LocalProcess, "tell", lambda self, line: told.append(line))
    there = relay.Relay()
    for number in (2, 0, 3, 1):
        there.tell(number, b"%d" % number)
    assert told == [b"0", b"1", b"2", b"3"]
    there.hang_up()
    assert there.last_word()


def test_files_that_a_load_names_are_read_where_its_host_has_them() -> None:
    there = relay.Relay()
    places = there.keep({"sub/trace.jsonl": b"one", "other/trace.jsonl": b"two", "ca.pem": b"key"})
    assert [Path(places[name]).read_bytes() for name in places] == [b"one", b"two", b"key"]
    assert all(Path(places[name]).name == Path(name).name for name in places)  # as an error calls it
    trace = PlannedPhase(arrival="trace", trace="sub/trace.jsonl")
    planned = trace, PlannedPhase(dataset="other/trace.jsonl"), PlannedPhase()
    known: dict[str, Any] = {"model": "m", "vocabulary": (), "entropy": "", "worker": 0, "workers": 1, "origin_s": 0.0}
    setup = Setup(endpoint=Endpoint("http://a", Access(ca_file="ca.pem")), phases=planned, **known)
    assert files_of(setup) == ["sub/trace.jsonl", "other/trace.jsonl", "ca.pem"]
    moved = with_files_at(setup, places)
    assert files_of(moved) == [places[name] for name in files_of(setup)]
    assert with_files_at(setup, {}) == setup
    there.hang_up()
    assert there.last_word()
    assert not any(Path(place).exists() for place in places.values())


@pytest.mark.parametrize("address", ["head", "http://head:80", "ray://head", "head:port", ""])
def test_an_address_that_is_none_of_a_cluster_is_said(address: str) -> None:
    with pytest.raises(VtopError, match=r"write auto, HOST:6379 .* or ray://HOST:10001"):
        ray_cluster._reach(address)


def test_a_cluster_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(VtopError, match="no Ray cluster could be reached: "):
        ray_cluster._reach("127.0.0.1:1")


@pytest.mark.parametrize(
    ("url", "own"),
    [
        ("http://localhost:8000", True),
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000", True),
        ("unix:///run/vllm.sock", True),
        ("http://gpu7:8000", False),
        ("https://10.0.0.7", False),
    ],
)
def test_an_address_that_means_another_server_on_each_host_is_known(url: str, own: bool) -> None:
    assert ray_cluster._is_own(Endpoint(url).url) is own
