"""Workers on other hosts: their clocks, and what a lost one costs. The hosts are this one, under other names."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

import pytest

from tests.load.standin import standing_in
from tests.load.test_controller import TINY, run
from vtop.access import Endpoint
from vtop.errors import VtopError
from vtop.load.workers import ray_cluster, relay
from vtop.load.workers.clock_offset import Offset
from vtop.load.workers.link import HostClock, LocalProcess
from vtop.recording.events import LoadHost


class _FarProcess(LocalProcess):
    def __init__(self, host: int) -> None:
        super().__init__()
        self.host = host  # type: ignore[assignment]

    def last_word(self) -> str:
        super().last_word()
        return f"a worker on host{self.host} was lost"


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
    with standing_in() as server, run(server, f"c=2 n=400 {TINY} workers=2", hosts=_TwoHosts()) as going:
        going.until(lambda: len(going.requests()) >= 20)
        os.kill(going.pids[0], signal.SIGKILL)
        going.until(lambda: going.notes)
        os.kill(going.pids[1], signal.SIGKILL)
        going.to_its_end()
        assert going.controller.failed == "a worker on host1 was lost"
        assert {request.error for request in going.requests()} == {None, "worker_lost"}


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
