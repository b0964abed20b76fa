"""A load as vtop runs it, with its processes, against a scripted server: how it begins, changes, ends and fails."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.load.faults import DONE, Answer, at, inband, token, usage
from tests.load.standin import Host, hanging, held, refusal, standing_in, whole
from vtop.access import Endpoint
from vtop.load.workers import controller as conducting
from vtop.load.workers import worker
from vtop.load.workers.controller import Controller
from vtop.load.workers.link import Hosts
from vtop.load.workers.protocol import Pulse
from vtop.load.workload.spec import phases
from vtop.recording.events import FORMAT, Event, Load, Note, Request, Start, Target, decode, encode
from vtop.recording.events import Host as HostLine
from vtop.session.frame.load import LoadPart
from vtop.session.session import Session

WITHIN_S = 20.0
TINY = "in=8 out=2"


class Run:
    """A controller and all that it appended."""

    def __init__(self, host: Host, *specs: str, settle_s: float = 0.0, hosts: Hosts | None = None) -> None:
        self.events: list[Event] = []
        self._news = threading.Condition()
        origin_s = time.monotonic()
        self.controller = Controller(
            phases(specs),
            Endpoint(host.standin.url),
            self._append,
            lambda: time.monotonic() - origin_s,
            origin_s,
            hosts=hosts,
        )
        self.controller.settle_s = settle_s

    def _append(self, event: Event) -> None:
        with self._news:
            self.events.append(event)
            self._news.notify_all()

    def until(self, condition: Callable[[], object]) -> None:
        with self._news:
            assert self._news.wait_for(condition, WITHIN_S), f"waited for what never came; {self.notes}"

    def to_its_end(self) -> None:
        assert self.controller.finished.wait(WITHIN_S), f"no end; {self.notes}"

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Note)]

    def requests(self, phase: int = 0) -> list[Request]:
        """Each by its last line."""
        lines = [event for event in self.events if isinstance(event, Request) and event.phase == phase]
        return sorted({line.id: line for line in lines}.values(), key=lambda line: line.id)

    def states(self, phase: int = 0) -> list[str]:
        return [event.state for event in self.events if isinstance(event, Load) and event.phase == phase]

    def part(self, phase: int = 0) -> LoadPart:
        """What the screen would show of a phase."""
        start = Start(t=0.0, format=FORMAT, vtop="", unix_s=0.0, servers=(Target(url="http://a"),), interval_s=1.0)
        session = Session(start)
        for number, event in enumerate(self.events):
            session.apply(decode(encode(msgspec.structs.replace(event, t=float(number)))))
        part = session.load.part_of(phase, float(len(self.events)))
        assert part is not None
        return part

    @property
    def reasons(self) -> list[str | None]:
        return [event.reason for event in self.events if isinstance(event, Load) and event.state == "end"]

    @property
    def pids(self) -> list[int]:
        return self.controller.pids


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition: Callable[[], object], within_s: float) -> None:
    pause, latest_s = threading.Event(), time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < latest_s, "not in time"
        pause.wait(0.02)


def all_end(going: Run) -> bool:
    numbers = {event.phase for event in going.events if isinstance(event, Request)}
    return all(request.end_s is not None for number in numbers for request in going.requests(number))


@contextmanager
def run(host: Host, *specs: str, **more: Any) -> Iterator[Run]:
    """Whatever happens: every request ends on record, and no process, thread or file is left."""
    files, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    going = Run(host, *specs, **more)
    going.controller.start()
    try:
        yield going
    finally:
        going.controller.stop()
    assert all_end(going)
    assert not any(alive(pid) for pid in going.pids)
    until(lambda: threading.active_count() <= threads, 2.0)
    # the server's own: it may not have noticed all disconnects yet
    until(lambda: len(os.listdir("/proc/self/fd")) <= files, 2.0)


# --- all goes well ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_a_closed_loop_sends_each_request_once(workers: int) -> None:
    with standing_in() as host, run(host, f"c=3 n=20 warmup=5 {TINY} workers={workers}") as going:
        going.to_its_end()
        assert [request.id for request in going.requests()] == list(range(25))
        assert {request.id for request in going.requests() if request.warmup} == set(range(5))
        assert all(request.error is None for request in going.requests())
        assert going.states() == ["begin", "steady", "end"]
        assert going.reasons == ["done"]
        assert len(host.standin.bodies) == 25
        assert host.standin.most_in_flight <= 3
        assert (going.controller.failed, going.controller.short) == (None, None)


def test_more_workers_than_slots_are_no_reason_to_hang() -> None:
    with standing_in() as host, run(host, f"c=1 n=3 {TINY} workers=4", f"c=5 n=9 {TINY} workers=2") as going:
        going.to_its_end()
        assert [len(going.requests(phase)) for phase in (0, 1)] == [3, 9]
        assert len(going.pids) == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_an_open_loop_sends_each_request_once_and_never_early(workers: int) -> None:
    with standing_in() as host, run(host, f"rate=200 n=40 {TINY} workers={workers}") as going:
        going.to_its_end()
        found = going.requests()
        assert [request.id for request in found] == list(range(40))
        dues = [request.due_s or 0.0 for request in found]
        assert dues == sorted(dues)
        assert all((request.sent_s or 0.0) >= (request.due_s or 0.0) for request in found)


def test_phases_come_one_after_another_with_a_gap_to_settle() -> None:
    with standing_in() as host, run(host, f"c=1,2 n=4 {TINY}", settle_s=0.3) as going:
        going.to_its_end()
        assert [going.states(phase) for phase in range(2)] == [["begin", "end"]] * 2
        last_s = max(request.end_s or 0.0 for request in going.requests(0))
        assert min(request.sent_s or 0.0 for request in going.requests(1)) >= last_s + 0.3


def test_how_a_worker_did_in_the_phase_before_is_not_said_of_the_next() -> None:
    with standing_in() as host, run(host, f"c=2 n=2 {TINY} workers=2", f"c=2 for=1.2s {TINY}", settle_s=0.3) as going:
        going.until(lambda: going.states(0) == ["begin", "end"])
        for work in going.controller._pool.works:
            work.pulse = Pulse(9.0, 9.0, 9.0)
        going.to_its_end()
        told = [event for event in going.events if isinstance(event, HostLine)]
        assert told
        assert all(line.load_lag_max_s is not None and line.load_lag_max_s < 9.0 for line in told)


def test_the_time_to_measure_begins_when_all_warm_up_is_over() -> None:
    with standing_in() as host, run(host, f"c=3 for=0.4s warmup=7 {TINY} workers=2") as going:
        going.to_its_end()
        warm_s = max(request.end_s or 0.0 for request in going.requests() if request.warmup)
        last_s = max(request.sent_s or 0.0 for request in going.requests())
        assert warm_s + 0.2 < last_s < warm_s + 1.4
        assert going.reasons == ["done"]


def test_workers_wait_without_using_the_cpu() -> None:
    with standing_in(hanging) as host, run(host, f"c=2 n=4 {TINY}") as going:
        going.until(lambda: sum(request.first_s is not None for request in going.requests()) == 2)
        ticks, at_s = cpu_ticks(going.pids[0]), time.monotonic()
        until(lambda: time.monotonic() > at_s + 1.0, 2.0)
        assert (cpu_ticks(going.pids[0]) - ticks) / os.sysconf("SC_CLK_TCK") < 0.15


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


# --- fields that a server does not take ------------------------------------------------------------------------------


def picky(body: dict[str, Any]) -> Answer:
    for field in ("return_token_ids", "temperature"):
        if field in body:
            return refusal("400 Bad Request", f"Unrecognized request argument supplied: {field}")
    return whole(body)


def test_a_refused_field_is_dropped_once_said_and_no_measured_request_pays() -> None:
    with standing_in(picky) as host, run(host, f"c=2 n=6 {TINY} workers=2") as going:
        going.to_its_end()
        assert going.notes == [
            "the server does not take return_token_ids; requests go without it",
            "the server does not take temperature; requests go without it",
        ]
        assert [request.error for request in going.requests()] == [None] * 6
        assert host.standin.trials == 6  # three of each worker; they are on record as well
        assert len(going.requests(worker.TRIAL)) == 6


def gateway(body: dict[str, Any]) -> Answer:
    """Takes text and nothing else, as gateways before several kinds of servers do."""
    if not isinstance(body.get("prompt", ""), str):
        return refusal("500 X", "unmapped prompt format, the prompt is neither a list of strings nor a string")
    return whole(body | {"prompt": body.get("prompt", "").split()})


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_a_gateway_without_token_ids_and_without_tokenize_is_loaded_and_lengths_are_said_to_be_inexact(
    api: str,
) -> None:
    with standing_in(gateway) as host, run(host, f"c=2 n=6 in=40 out=2 warmup=0 api={api}") as going:
        going.to_its_end()
        refused = ["the server does not take token ids as a prompt; requests go without it"]
        assert going.notes == [
            *(refused if api == "completions" else []),
            "c=2: prompt lengths are not exact: what a word costs is not known, or not the same for all words",
        ]
        assert [request.error for request in going.requests()] == [None] * 6


def by_running_usage(body: dict[str, Any]) -> Answer:
    """Passes over return_token_ids; five tokens in two events, which the running usage tells if it is asked for."""
    said = [token(total=1), token(finish="length", total=body["max_tokens"])]
    if not body["stream_options"].get("continuous_usage_stats"):
        said = [token(), token(finish="length")]
    return Answer(at((0.0, b"".join((*said, usage(body["max_tokens"]), DONE)))), together=True)


def test_a_server_that_passes_over_token_ids_is_asked_for_running_usage() -> None:
    with standing_in(by_running_usage) as host, run(host, "c=1 n=2 in=8 out=5 warmup=0") as going:
        going.to_its_end()
        assert [request.first_tokens for request in going.requests()] == [5, 5]  # the events come in one read
        assert not any("return_token_ids" in body for body in host.standin.bodies[1:])


def breaks_off(body: dict[str, Any]) -> Answer:
    """As a parser that the model drives past the end of its turn; without ignore_eos the model stops by itself."""
    if body["max_tokens"] == 1 or ("ignore_eos" not in body and "min_tokens" not in body):
        return whole(body | {"max_tokens": min(body["max_tokens"], 2)})
    return Answer(at((0.0, token() + inband("Unexpected token 200002") + DONE)), together=True)


def test_answers_that_break_off_under_ignore_eos_are_told_and_asked_for_without_it() -> None:
    with standing_in(breaks_off) as host, run(host, "c=1 n=8 in=8 out=5 warmup=0") as going:
        going.to_its_end()
        assert going.notes == [
            "answers broke off (Unexpected token 200002): from here on requests go without ignore_eos, "
            "and answers are at most as long as asked"
        ]
        errors = [request.error for request in going.requests()]
        assert errors[:3] == ["inband_error"] * 3
        assert errors[-4:] == [None] * 4
    with standing_in(breaks_off) as host, run(host, "c=1 n=4 in=8 out=5 warmup=0 ignore_eos=no") as going:
        going.to_its_end()
        assert [request.error for request in going.requests()] == [None] * 4


# --- by hand ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
def test_concurrency_is_raised_and_lowered_while_it_runs(workers: int) -> None:
    with standing_in(hanging) as host, run(host, f"c=4 n=100 {TINY} workers={workers}") as going:
        host.standin.until(lambda: host.standin.in_flight == 4)
        going.controller.change(1)
        host.standin.until(lambda: host.standin.in_flight == 5)
        for _ in range(9):
            going.controller.change(-1)
        aims = [event.concurrency for event in going.events if isinstance(event, Load) and event.state == "change"]
        assert aims[0] == 5
        assert aims[-1] == workers  # each keeps a slot, or its requests would never be sent


def test_a_rate_is_raised_while_it_runs() -> None:
    with standing_in() as host, run(host, f"rate=20 n=60 arrival=constant {TINY} workers=2") as going:
        going.until(lambda: len(going.requests()) > 2)
        for _ in range(10):
            going.controller.change(1)
        going.to_its_end()
        assert [request.id for request in going.requests()] == list(range(60))
        dues = [request.due_s or 0.0 for request in going.requests()]
        assert dues[-1] - dues[-2] == pytest.approx(1 / (20 * 1.25**10), abs=1e-4)


def test_abort_breaks_off_at_once_and_the_server_sees_it() -> None:
    with standing_in(hanging) as host, run(host, f"c=8 n=100 {TINY}", f"c=1 n=1 {TINY}") as going:
        host.standin.until(lambda: host.standin.in_flight == 8)
        at_s = time.monotonic()
        going.controller.abort()
        host.standin.until(lambda: host.standin.gone == 8, 2.0)
        assert time.monotonic() - at_s < 1.0
        going.to_its_end()
        assert [request.error for request in going.requests()] == ["cancelled_at_end"] * 8
        assert going.reasons == ["stopped"]
        assert not any(alive(pid) for pid in going.pids)  # the session goes on without them
        going.controller.abort()
        going.controller.change(1)


# --- servers that go and come ----------------------------------------------------------------------------------------


def test_a_server_that_is_not_up_is_waited_for_and_that_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conducting, "RETRY_S", 0.05)
    with standing_in() as host:
        host.down()
        with run(host, f"c=1 n=2 {TINY}") as going:
            going.until(lambda: going.notes)
            at_s = time.monotonic()
            until(lambda: time.monotonic() > at_s + 0.2, 2.0)
            host.up()
            going.to_its_end()
            assert len(going.notes) == 1
            assert going.notes[0].startswith("the load waits for the server: ")
            assert len(going.requests()) == 2
            host.down()


def test_waiting_for_a_server_can_be_broken_off() -> None:
    with standing_in() as host:
        host.down()
        with run(host, f"c=1 n=2 {TINY}") as going:
            going.until(lambda: going.notes)
            going.controller.abort()
            going.to_its_end()
            assert (going.pids, going.controller.failed) == ([], None)


def test_a_server_that_dies_ends_the_phase_and_its_requests_say_how() -> None:
    with standing_in(hanging) as host, run(host, f"c=4 n=12 {TINY}") as going:
        host.standin.until(lambda: host.standin.in_flight == 4)
        host.down()
        going.to_its_end()
        errors = [request.error for request in going.requests()]
        assert sorted({str(error) for error in errors}) in (["connect", "reset"], ["connect", "truncated"])
        assert len(errors) == 12


def test_a_prompt_that_does_not_fit_is_said_before_anything_is_sent() -> None:
    with standing_in() as host, run(host, "c=1 n=2 in=4000 out=200") as going:
        going.to_its_end()
        assert "more than tiny takes (4096)" in (going.controller.failed or "")
        assert going.notes == [going.controller.failed]
        assert host.standin.accepted == 1


# --- processes that end ----------------------------------------------------------------------------------------------


def test_a_killed_worker_is_told_and_nothing_hangs() -> None:
    with standing_in(hanging) as host, run(host, f"c=4 n=40 {TINY} workers=2") as going:
        going.until(lambda: sum(request.first_s is not None for request in going.requests()) == 4)
        os.kill(going.pids[1], signal.SIGKILL)
        going.to_its_end()
        assert going.controller.failed == "a load process ended unexpectedly (killed by SIGKILL)"
        assert going.reasons == [going.controller.failed]
        assert [request.error for request in going.requests()] == ["cancelled_at_end"] * 4
        host.standin.until(lambda: host.standin.gone == 4)


def test_a_worker_that_breaks_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with standing_in() as host, run(host, f"c=1 n=1 {TINY}") as going:
        going.to_its_end()
        assert going.controller.failed == "a load process ended unexpectedly (exit code 1)"


def test_a_worker_that_fails_shows_its_own_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "from vtop.load.workers import worker\n"
        "async def fail(*args): raise ZeroDivisionError('Bearer sk-secret')\n"
        "worker.Worker._prepare = fail\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    start: Any = subprocess.Popen

    def as_main(words: list[str], **more: Any) -> Any:  # with -m the module would be loaded anew, unpatched
        return start([words[0], "-c", "from vtop.load.workers import worker; worker.main()"], **more)

    monkeypatch.setattr(subprocess, "Popen", as_main)
    with standing_in() as host, run(host, f"c=1 n=1 {TINY}") as going:
        going.to_its_end()
        failed = going.controller.failed or ""
    assert failed.startswith("a load process broke off: vtop itself failed sending the load (ZeroDivisionError in ")
    assert "SIGABRT" not in failed
    assert "sk-secret" not in failed


@contextmanager
def files_of_a_worker(most: int) -> Iterator[None]:
    """Workers that are started meanwhile may have no more open files than so many."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    start: Any = subprocess.Popen

    def popen(*args: Any, **more: Any) -> Any:
        few = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (32, most))
        return start(*args, preexec_fn=few, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", popen)
        yield
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits


def test_too_few_open_files_are_said_with_what_to_do() -> None:
    with files_of_a_worker(40), standing_in() as host, run(host, f"c=50 n=50 {TINY}") as going:
        going.to_its_end()
        failed = going.controller.failed or ""
        assert failed.startswith("c=50 needs 50 connections in a process; client limit: no more open files than 40")
        assert "ulimit -n" in failed


def test_files_that_run_out_in_the_midst_of_a_phase_are_the_clients_failure_and_mark_the_phase() -> None:
    with files_of_a_worker(90), standing_in(held) as host, run(host, f"rate=400 n=120 {TINY}") as going:
        going.until(lambda: len(going.requests()) == 120)
        host.answer()
        going.to_its_end()
        errors = Counter(request.error for request in going.requests())
        assert errors.keys() == {None, "client_limit"}
        assert 64 < errors[None] < 90
        ends = [event for event in going.events if isinstance(event, Request) and event.error is not None]
        said = r"no more open files than 90 \(\d+ connections\); see ulimit -n"  # one may be about to be opened
        assert all(re.fullmatch(said, end.detail or "") for end in ends)
        assert going.part().limited == f"{errors['client_limit']} failed here: {ends[0].detail}"
        assert going.reasons == ["done"]


PARENT = """
import sys, time
from tests.load.test_controller import Run
from vtop.load.workers import controller
from vtop.access import Endpoint
class Far:
    class standin: url = sys.argv[1]
going = Run(Far, "c=4 n=40 in=8 out=2 workers=2")
going.controller.start()
going.until(lambda: sum(request.first_s is not None for request in going.requests()) == 4)
print(*going.pids, flush=True)
going.controller.finished.wait()
"""


def test_nothing_outlives_a_parent_that_is_killed() -> None:
    with standing_in(hanging) as host:
        command = [sys.executable, "-c", PARENT, host.standin.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as parent:
            assert parent.stdout is not None
            pids = [int(pid) for pid in parent.stdout.readline().split()]
            assert len(pids) == 2
            parent.kill()
        until(lambda: not any(alive(pid) for pid in pids), 2.0)
        host.standin.until(lambda: host.standin.gone == 4)
