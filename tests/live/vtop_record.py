"""`vtop record` as a person runs it: a process of its own that writes a file, looked into while it grows."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tests.live.child import Child
from tests.live.vllm_server import until
from tests.session.made import SIGNED
from vtop.errors import VtopError
from vtop.recording import AnyEvent, FileRecording, Identity, Outage, Scrape
from vtop.session.frame.frame import Frame, View
from vtop.session.session import Session

VTOP = Path(sys.executable).with_name("vtop")


def environment() -> dict[str, str]:
    """The tests' own, without vtop's variables, and with a proxy that must not be used for this machine."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VTOP_")}
    return kept | {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}


class VtopRecord:
    """A running `vtop record`; killed at the end of the with block if it still runs."""

    def __init__(self, url: str, path: Path, *options: str) -> None:
        self.path = path
        self._stdout_path = path.with_name(path.name + ".stdout")
        self._stderr_path = path.with_name(path.name + ".stderr")
        self._command: list[str | Path] = [VTOP, "record", "--url", url, "-o", path, *options]

    def __enter__(self) -> Self:
        with open(self._stdout_path, "wb") as stdout, open(self._stderr_path, "wb") as stderr:
            self._child = Child(self._command, stdout=stdout, stderr=stderr, env=environment())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        if error is not None:
            print(self.stderr)

    @property
    def stderr(self) -> str:
        return self._stderr_path.read_text()

    def end(self, within_s: float = 10.0) -> int:
        """Wait for its end and give its exit code. stdout must have stayed empty: what it says is talk."""
        code = self._child.wait(within_s)
        assert self._stdout_path.read_bytes() == b""
        return code

    def terminate(self) -> int:
        self._child.send(signal.SIGTERM)
        return self.end()

    def kill(self) -> None:
        """kill -9"""
        self._child.end()

    def events(self) -> list[AnyEvent]:
        """What the file holds by now."""
        return events(self.path) if self.path.exists() else []

    def scrapes(self) -> list[Scrape]:
        return [event for event in self.events() if isinstance(event, Scrape)]

    def outages(self) -> list[Outage]:
        return [event for event in self.events() if isinstance(event, Outage)]

    def identities(self) -> list[Identity]:
        return [event for event in self.events() if isinstance(event, Identity)]

    def await_scrapes(self, more: int = 3) -> None:
        """Wait for so many further pages. The first may be under way already; the second knows all up to now; with
        the third it shows that nothing has moved since."""
        before = len(self.scrapes())
        until(lambda: len(self.scrapes()) >= before + more, f"{more} more pages in {self.path.name}")


def events(path: Path) -> list[AnyEvent]:
    try:
        recording = FileRecording(path)
    except VtopError:
        return []  # its first line is still to come
    try:
        return recording.take()
    finally:
        recording.close()


def session(path: Path) -> Session:
    """A finished recording, folded."""
    recording = FileRecording(path)
    folded = Session(recording.start)
    for event in recording.take():
        folded.apply(event)
    recording.close()
    return folded


def last_frame(path: Path) -> Frame:
    """All of a recording as one window."""
    folded = session(path)
    return folded.frame(folded.end_s, View(window_s=folded.end_s))


def frames(path: Path) -> list[Frame]:
    """What a screen showed four times a second."""
    folded = session(path)
    return [folded.frame(quarter / 4, View(window_s=10.0)) for quarter in range(1, int(folded.end_s * 4) + 1)]


def negatives(frame: Frame) -> list[str]:
    """Where a frame has a number below zero that has no sign to have."""
    found: list[str] = []

    def walk(value: object, place: str) -> None:
        if isinstance(value, dict):
            for name, part in value.items():
                walk(part, f"{place}.{name}")
        elif isinstance(value, Sequence) and not isinstance(value, str):
            for index, part in enumerate(value):
                walk(part, f"{place}[{index}]")
        elif isinstance(value, int | float) and value < 0 and place.rpartition(".")[2] not in SIGNED:
            found.append(f"{place} = {value}")

    walk(msgspec.to_builtins(frame), "frame")
    return found
