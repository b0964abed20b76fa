"""`vtop record --keep` as a service runs: a trigger, a hung-up terminal, a server that goes away and comes back."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.live.test_prometheus import free_port, running, vtop
from tests.live.vtop_record import VTOP, events, session
from vtop.recording import Scrape

pytestmark = pytest.mark.live
BEFORE_S, AFTER_S = 60, 4


def until(met: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
    ends_s = time.monotonic() + within_s
    while not met():
        assert time.monotonic() < ends_s, f"not in {within_s:g} s: {what}"
        time.sleep(0.2)


class Called(HTTPServer):
    """What is posted to it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.told: list[bytes] = []


class Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        assert isinstance(self.server, Called)
        self.server.told.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def listening() -> Iterator[Called]:
    with Called() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


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
        "--run", f"cp -t {tmp_path}",
    ]  # fmt: skip
    with ExitStack() as stack:
        called = stack.enter_context(listening())
        recorder += ["--webhook", f"http://127.0.0.1:{called.server_port}/cut"]
        with running(simulate) as server:
            assert server.stderr is not None
            server.stderr.readline()
            recording = stack.enter_context(running(recorder))
            until(lambda: scrapes(folder) > BEFORE_S, f"{BEFORE_S} scrapes before the trigger", within_s=90.0)
            recording.send_signal(signal.SIGHUP)
            until(lambda: len(list(folder.glob("kept-*.jsonl"))) == 2, "a piece that begins at the hangup")
            vtop("load", f"http://127.0.0.1:{port}", "c=24 in=1024 out=256 for=8s")
            until(lambda: len(list(folder.glob("cut-*.html"))) == 1, "the cut and its report", within_s=90.0)
            (first,) = folder.glob("cut-*.jsonl")
            until(lambda: bool(called.told), "the call of the webhook")
            assert (tmp_path / first.name).read_bytes() == first.read_bytes()
            assert json.loads(called.told[0])["file"] == str(first)
        until(lambda: scrapes(folder) > 0 and recording.poll() is None, "the recorder goes on")
        time.sleep(AFTER_S)  # the server is away
        with running(simulate):
            until(lambda: len(list(folder.glob("cut-*.html"))) == 2, "the cut of the outage", within_s=90.0)
            recording.send_signal(signal.SIGTERM)
            assert recording.wait(30) == 0
        assert recording.stderr is not None
        told = recording.stderr.read().decode()
    assert any(f"{scrapes} of http" in told for scrapes in ("1 scrape", "scrapes"))  # how many depends on the engine
    cut = session(first)
    preempted_s = min(one.at_s for one in cut.event_log(cut.end_s) if one.kind == "preemption")
    assert preempted_s >= BEFORE_S - 3.0  # it is looked at every 2 s, and a preemption is dated by the scrape before
    assert cut.end_s >= preempted_s + AFTER_S
    said = next(line for line in told.splitlines() if " cut: " in line)
    measured.append(f"flight recorder: {said.replace(str(folder), folder.name)}")
