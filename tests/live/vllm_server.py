"""The real vLLM server of the live tests: started, watched and stopped here, and asked for its own numbers.

Its page is read by prometheus_client, which shares no code with vtop.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.live.child import Child

T = TypeVar("T")

HERE = Path(__file__).parent
KEY = "sesame-5f1c09d2"
STEP = re.compile(r"Iteration\(\d+\): \d+ context requests, (\d+) context tokens, \d+ \w+ requests, (\d+) \w+ tokens")
READY_WITHIN_S = 300.0  # 30 s on two idle cores, 150 s on two that others use up


def until(condition: Callable[[], T | None], what: str, *, within_s: float = 30.0, every_s: float = 0.1) -> T:
    """What the condition gives once that is true; the test fails when it is not in time."""
    pause = threading.Event()
    latest_s = time.monotonic() + within_s
    while not (found := condition()):
        if time.monotonic() > latest_s:
            pytest.fail(f"not within {within_s:g} s: {what}")
        pause.wait(every_s)
    return found


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


class Page:
    """The server's /metrics at one instant: (series name, its labels without model_name) -> number."""

    def __init__(self, text: str) -> None:
        self.values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = frozenset(pair for pair in sample.labels.items() if pair[0] != "model_name")
                self.values[sample.name, labels] = sample.value

    def __getitem__(self, name: str) -> float:
        """The sum over all series of a name."""
        found = [value for (series, _), value in self.values.items() if series == name]
        assert found, f"the server has no {name}"
        return sum(found)

    def by(self, name: str, label: str) -> dict[str, float]:
        """What each value of a label counted."""
        return {dict(labels)[label]: value for (series, labels), value in self.values.items() if series == name}


class VllmServer:
    """One server on one port, which may be stopped and started again. It wants an API key under /v1."""

    def __init__(self, venv: Path, folder: Path) -> None:
        """folder: for its log and its sockets, whose paths must stay short."""
        self.venv = venv
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.headers = {"authorization": f"Bearer {KEY}"}
        self._log = folder / "server.log"
        self._environment = os.environ | {
            "VLLM_RPC_BASE_PATH": str(folder),
            "VLLM_KEEP_ALIVE_ON_ENGINE_DEATH": "1",  # else it ends itself 0 to 5 s later
        }
        self._child: Child | None = None

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.stop()
        with open(self._log, "ab") as log:
            command = ["bash", str(HERE / "serve_vllm.sh"), str(self.venv), str(self.port), "--api-key", KEY]
            self._child = Child(command, stdout=log, stderr=log, env=self._environment)
        try:
            until(lambda: self.exited or self.health() == 200, "the server is ready", within_s=READY_WITHIN_S)
            assert not self.exited, "the server ended while starting"
        except BaseException:
            self.stop()
            print(self._log.read_text(errors="replace")[-4000:])
            raise

    def stop(self) -> None:
        """SIGINT, then SIGKILL to all that is left; nothing remains."""
        child, self._child = self._child, None
        if child is None:
            return
        child.send(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(20)
        child.end()
        until(lambda: not child.group(), "the server's processes are gone")

    @property
    def exited(self) -> bool:
        return self._child is None or self._child.exited

    def health(self) -> int:
        """The status of /health; 0 without an answer."""
        try:
            return self._get("/health").status_code
        except httpx.TransportError:
            return 0

    def page(self) -> Page:
        return Page(self._get("/metrics").raise_for_status().text)

    def idle_page(self) -> Page:
        """Its page once no request runs or waits, when its counters stand still."""

        def idle() -> Page | None:
            page = self.page()
            return page if page["vllm:num_requests_running"] + page["vllm:num_requests_waiting"] == 0 else None

        return until(idle, "no request runs or waits", within_s=60.0)

    def executed_tokens(self) -> int:
        """Tokens of all steps that its engine ran, as it logs them one by one (--enable-logging-iteration-details)."""
        logged = self._log.read_text(errors="replace")
        return sum(int(context) + int(generation) for context, generation in STEP.findall(logged))

    def kill_engine(self) -> None:
        """SIGKILL to the engine's process; the HTTP server stays."""
        assert self._child is not None
        engines = [pid for pid in self._child.group() if b"EngineCore" in _command(pid)]
        assert len(engines) == 1
        os.kill(engines[0], signal.SIGKILL)

    def _get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=5.0, trust_env=False)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
