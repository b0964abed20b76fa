"""`vtop record --keep 2h --on …`: the last hours in bounded space, and the minutes around a trigger as a recording."""

from __future__ import annotations

import contextlib
import math
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from vtop import units
from vtop.cli.common import Stop, attached, echo, servers_of
from vtop.cli.metrics import Follow
from vtop.errors import VtopError
from vtop.free_name import free_name
from vtop.recording import AnyEvent, Start
from vtop.recording.flight import SHARE, FlightRecorder
from vtop.session.rolling import RollingSession
from vtop.session.triggers import VIEW, WINDOW_S, Trigger, parse

EVERY_S: Final = 2.0  # the trigger is looked at
LONGEST_S: Final = 600.0  # of an incident; what lasts longer is cut by then, and not again before it was over
REPORT_S: Final = 300.0  # that making a report, or a command, may take
NICE: Final = ("nice", "-n", "10") if shutil.which("nice") else ()
LAST_REPORT_S: Final = 20.0  # that is waited for at the end
MOST_WAITING: Final = 8  # reports and commands to be run, one at a time


def check(asked: dict[str, Any]) -> Trigger | None:
    """What is waited for. Raises VtopError for options that do not go together, or say nothing."""
    if asked["keep_s"] is None:
        raise VtopError("--on, --run and --webhook go with --keep 2h: the minutes before a trigger must be kept")
    if asked["trigger"] is None:
        if asked["command"] is not None or asked["webhook"] is not None:
            raise VtopError("--run and --webhook go with --on: they are called for each cut")
        return None
    if asked["command"] is not None:
        try:
            words = shlex.split(asked["command"])
        except ValueError as error:
            raise VtopError(f"--run {asked['command']}: {str(error).lower()}") from None
        if not words:
            raise VtopError("--run: no command in it")
    if asked["webhook"] is not None and not _is_of_this_host(asked["webhook"]):
        raise VtopError(f"--webhook {asked['webhook']}: only this host is called: http://127.0.0.1:9000/…")
    return parse(asked["trigger"])


def _is_of_this_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        _ = parts.port  # which may be no number
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and parts.hostname in ("localhost", "127.0.0.1", "::1")


def record(asked: dict[str, Any], folder: Path, for_s: float | None, follow: Follow) -> None:
    """Until a signal, or for_s. Raises VtopError, then nothing runs."""
    trigger = check(asked)
    if folder.is_file() or str(folder) == "-":
        raise VtopError(f"-o {folder}: --keep needs a folder")
    attachment = attached(asked, servers_of(asked), None, filed=False)
    recording = attachment.recording
    kept = FlightRecorder(folder, recording.start, asked["keep_s"], asked["most_bytes"])
    incidents = Incidents(kept, recording.start, trigger, asked) if trigger is not None else None
    stop, again = Stop((signal.SIGINT, signal.SIGTERM)), threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: again.set())  # log rotation, or a terminal that is closed
    until_s = math.inf if for_s is None else attachment.clock() + for_s
    follow(recording, attachment.clock)
    attachment.start()
    waits = f", waiting for {asked['trigger']}" if trigger is not None else ""
    _say(f"keeping the last {units.seconds(asked['keep_s'])} in {folder}{waits}")
    try:
        while not stop.wait(max(0.0, min(1.0, until_s - attachment.clock()))) and attachment.clock() < until_s:
            if again.is_set():
                again.clear()
                kept.begin_anew()
            _take(recording.take(), kept, incidents)
    finally:
        attachment.stop(stop.reason)
        _take(recording.take(), kept, incidents)
        kept.close()
        _take([], kept, None)
        if incidents is not None:
            incidents.close()
    if kept.lost:
        raise VtopError(f"{folder}: not all of it could be recorded")


def _say(text: str) -> None:
    """On stderr, if somebody still reads it: the recorder outlives its terminal."""
    with contextlib.suppress(OSError):
        echo(text, err=True)


def _take(events: list[AnyEvent], kept: FlightRecorder, incidents: Incidents | None) -> None:
    for event in events:
        kept.take(event)
        if incidents is not None:
            incidents.take(event)
    if incidents is not None:
        incidents.look()
    for text in kept.said:
        _say(f"vtop: {text}")
    kept.said.clear()


class Incidents:
    """Looks whether the trigger holds, and cuts out what is around it: once an incident, however long it lasts."""

    def __init__(self, kept: FlightRecorder, start: Start, trigger: Trigger, asked: dict[str, Any]) -> None:
        self._kept, self._start, self._trigger = kept, start, trigger
        self._before_s, self._after_s = asked["before_s"], asked["after_s"]
        self._longest_s = max(self._after_s, min(LONGEST_S, asked["keep_s"] - self._before_s - self._after_s))
        self._most, self._most_bytes = asked["most_cuts"], asked["most_bytes"] * (1 - SHARE)
        self._session = RollingSession(start, kept.known, WINDOW_S)
        self._looked_s = -EVERY_S
        self._began: tuple[float, str] | None = None  # of the incident: when, and why
        self._held_s = -math.inf  # when the trigger held last
        self._is_cut = False
        self._cuts: list[Path] = sorted(one for one in kept.folder.glob("cut-*.jsonl"))
        self._followers = Followers(asked["command"], asked["webhook"])

    def take(self, event: AnyEvent) -> None:
        self._session.apply(event)

    def look(self) -> None:
        now_s = self._kept.end_s
        if now_s - self._looked_s < EVERY_S:
            return
        self._looked_s = now_s
        why = self._trigger.why(self._session.session.frame(now_s, VIEW))
        if why is not None:
            self._held_s = now_s
            if self._began is None:
                self._began, self._is_cut = (now_s, why), False
                _say(f"{self._at(now_s)} {why}")
        if self._began is None:
            return
        over = now_s - self._held_s >= self._after_s
        if not self._is_cut and (over or now_s - self._began[0] >= self._longest_s):
            self._cut(now_s)
        if over:
            self._began = None

    def close(self) -> None:
        """An incident that is not over is cut as far as it went."""
        if self._began is not None and not self._is_cut:
            self._cut(self._kept.end_s)
        self._followers.finish()

    def _cut(self, to_s: float) -> None:
        assert self._began is not None
        began_s, why = self._began
        self._is_cut = True
        name = time.strftime("cut-%Y%m%dT%H%M%SZ", time.gmtime(self._start.unix_s + began_s))
        path = free_name(self._kept.folder, name, ".jsonl")
        from_s = max(0.0, began_s - self._before_s)
        try:
            self._kept.cut_to(path, from_s, to_s, f"cut out by a flight recorder: {why}")
        except (OSError, VtopError) as error:
            _say(f"vtop: {path}: not cut out: {getattr(error, 'strerror', None) or error}")
            return
        _say(f"{self._at(began_s)} cut: {path}, {units.clock(to_s - from_s)}: {why}")
        self._cuts.append(path)
        while len(self._cuts) > 1 and (len(self._cuts) > self._most or self._kept.cut_bytes() > self._most_bytes):
            gone = self._cuts.pop(0)
            for one in (gone, gone.with_suffix(".html")):
                with contextlib.suppress(OSError):
                    one.unlink()
        self._kept.make_room()
        self._followers.follow(path, why)

    def _at(self, at_s: float) -> str:
        return time.strftime("%H:%M:%S", time.localtime(self._start.unix_s + at_s))


class Followers:
    """What comes after a cut, on a thread of its own: its report, then the command and the webhook. Whatever becomes of
    them, the recording goes on."""

    def __init__(self, command: str | None, webhook: str | None) -> None:
        self._command, self._webhook = command, webhook
        self._waiting: deque[tuple[Path, str]] = deque()
        self._news = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._work, name="followers", daemon=True)
        self._thread.start()

    def follow(self, path: Path, why: str) -> None:
        with self._news:
            if len(self._waiting) >= MOST_WAITING:
                _say(f"vtop: {path}: {MOST_WAITING} reports and commands wait already; none is made for it")
                return
            self._waiting.append((path, why))
            self._news.notify()

    def finish(self) -> None:
        """Wait for what was begun, as long as a report usually takes."""
        with self._news:
            self._over = True
            self._news.notify()
        self._thread.join(LAST_REPORT_S)

    def _work(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._waiting or self._over)
                if not self._waiting:
                    return
                path, why = self._waiting.popleft()
            report = path.with_suffix(".html")
            words = [*NICE, sys.executable, "-m", "vtop", "report", str(path), "-o", str(report), "--no-prices"]
            self._run(words, "the report")
            if self._command is not None:
                self._run([*shlex.split(self._command), str(path)], "--run")
            if self._webhook is not None:
                self._post(path, why)

    def _run(self, words: list[str], what: str) -> None:
        try:
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=REPORT_S,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            _say(f"vtop: {what}: not through after {units.seconds(REPORT_S)}, ended")
        except OSError as error:
            _say(f"vtop: {what}: {error.strerror}")
        else:
            if done.returncode:
                last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
                _say(f"vtop: {what}: exit code {done.returncode} {' '.join(last)}")

    def _post(self, path: Path, why: str) -> None:
        import httpx

        try:
            told = {"file": str(path.absolute()), "why": why}
            answer = httpx.post(self._webhook or "", json=told, timeout=5.0, trust_env=False)
            answer.raise_for_status()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            _say(f"vtop: --webhook: {error or type(error).__name__}")
