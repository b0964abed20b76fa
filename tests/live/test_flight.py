"""`vtop record --keep` as a service runs: a trigger, a hung-up terminal, a server that goes away and comes back."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.live.test_prometheus import free_port, running, vtop
from tests.live.vtop_record import VTOP, events, session
from vtop.recording import Scrape

pytestmark = pytest.mark.live
BEFORE_S, AFTER_S = 15, 4


def until(met: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
    ends_s = time.monotonic() + within_s
    while not met():
        assert time.monotonic() < ends_s, f"not in {within_s:g} s: {what}"
        time.sleep(0.2)


def scrapes(folder: Path) -> int:
    return sum(isinstance(event, Scrape) for path in folder.glob("kept-*.jsonl") for event in events(path))


def test_what_was_before_a_trigger_is_cut_out_and_neither_a_hangup_nor_a_restart_ends_it(
    tmp_path: Path, measured: list[str]
) -> None:
    folder, port = tmp_path / "kept", free_port()
    simulate = [str(VTOP), "simulate", "--port", str(port), "--kv-tokens", "16384"]
    recorder = [
        str(VTOP), "record", "--url", f"http://127.0.0.1:{port}", "--keep", "3m", "-o", str(folder),
        "--on", "preemptions or errors", "--before", f"{BEFORE_S}s", "--after", f"{AFTER_S}s",
    ]  # fmt: skip
    with ExitStack() as stack:
        with running(simulate) as server:
            assert server.stderr is not None
            server.stderr.readline()
            recording = stack.enter_context(running(recorder))
            until(lambda: scrapes(folder) > BEFORE_S, f"{BEFORE_S} scrapes before the trigger")
            recording.send_signal(signal.SIGHUP)
            until(lambda: len(list(folder.glob("kept-*.jsonl"))) == 2, "a piece that begins at the hangup")
            vtop("load", f"http://127.0.0.1:{port}", "c=24 in=1024 out=256 for=8s")
            until(lambda: len(list(folder.glob("cut-*.html"))) == 1, "the cut and its report", within_s=90.0)
            (first,) = folder.glob("cut-*.jsonl")
        until(lambda: scrapes(folder) > 0 and recording.poll() is None, "the recorder goes on")
        time.sleep(AFTER_S)  # the server is away
        with running(simulate):
            until(lambda: len(list(folder.glob("cut-*.html"))) == 2, "the cut of the outage", within_s=90.0)
            recording.send_signal(signal.SIGTERM)
            assert recording.wait(30) == 0
        assert recording.stderr is not None
        told = recording.stderr.read().decode()
    assert "scrapes of http" in told
    cut = session(first)
    preempted_s = min(one.at_s for one in cut.event_log(cut.end_s) if one.kind == "preemption")
    assert preempted_s >= BEFORE_S - 3.0  # it is looked at every 2 s, and a preemption is dated by the scrape before
    assert cut.end_s >= preempted_s + AFTER_S
    said = next(line for line in told.splitlines() if " cut: " in line)
    measured.append(f"flight recorder: {said}")
