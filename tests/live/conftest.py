"""The shared server of the live tests, and the figures that they measure, told at the end of the run."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.live.vllm_server import VllmServer
from tests.live.vtop_record import VtopRecord

_measured: list[str] = []


@pytest.fixture(scope="session")
def measured() -> list[str]:
    """Lines for the end of the run."""
    return _measured


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They share one server, so one process runs them all; -n 0 tells the figures, too."""
    for item in items:
        if item.get_closest_marker("live") is not None:
            item.add_marker(pytest.mark.xdist_group("live"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _measured:
        terminalreporter.write_line(f"live: {line}")


@pytest.fixture(scope="session")
def early(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[VllmServer, VtopRecord]]:
    """A server, and a `vtop record` that was attached before the server was up."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a cancelled run stops the server, too
    with ExitStack() as stack:
        stack.callback(signal.signal, signal.SIGTERM, before)
        folder = stack.enter_context(TemporaryDirectory(prefix="vllm-"))
        server = VllmServer(Path(os.environ["VTOP_VLLM"]), Path(folder))
        stack.callback(server.stop)
        with VtopRecord(server.url, tmp_path_factory.mktemp("early") / "early.jsonl") as record:
            server.start()
            record.await_scrapes(3)
            record.terminate()
        yield server, record


@pytest.fixture
def server(early: tuple[VllmServer, VtopRecord]) -> VllmServer:
    """The shared server, healthy; started anew where the test before has ended it."""
    server, _ = early
    if server.health() != 200:
        server.start()
    server.idle_page()
    return server
