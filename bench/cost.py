"""Shows where vtop's processor time goes while it watches a server: the parts of each second of live use at 120 x 36.

Run from the repository, with a vLLM server running: python bench/cost.py --url http://127.0.0.1:8000 [--seconds 60]
[--load] [--profile]. vtop runs in a pseudo-terminal with timers around its parts (CPU time of the thread, without that
of the parts inside); what no part accounts for is the rest of its thread. --load sends bursts of requests meanwhile;
--profile prints, of one more run, what cProfile sees of the screen's thread (twice as slow, so for shares only).
"""

from __future__ import annotations

import argparse
import cProfile
import importlib
import io
import json
import os
import pstats
import sys
import tempfile
import threading
import time
from collections import defaultdict
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import httpx
from beside_peer import load
from pseudo_terminal import Program

SETTLE_S = 4.0
THREADS = (("vtop server 0", "server thread"), ("MainThread", "screen thread"))  # others have one row each
PARTS = (  # what, module, function
    ("HTTP: /metrics and /health", "vtop.sources.connection", "Connection.get"),
    ("parse the page", "vtop.metrics.exposition", "Parser.parse"),
    ("what changed on the page", "vtop.metrics.page", "Folder.scrape"),
    ("encode, write, decode a line", "vtop.recording.recording", "LiveRecording.append"),
    ("is the terminal there", "vtop.ui.driver", "is_gone"),
    ("tick: take, decide", "vtop.ui.app", "VtopApp.catch_up"),
    ("fold", "vtop.session.session", "Session.apply"),
    ("frame: charts", "vtop.session.charts", "charts"),
    ("frame: the rest", "vtop.session.session", "Session.frame"),
    ("draw the panels", "vtop.draw.layout", "drawn"),
    ("assemble the lines", "vtop.draw.layout", "assembled"),
    ("what changed on the screen", "vtop.ui.board", "Board.redraw"),
    ("lines to strips", "vtop.ui.board", "Board.render_line"),
    ("Textual: lay out what is dirty", "textual._compositor", "Compositor.render_update"),
    ("Textual: layout", "textual._compositor", "Compositor.reflow"),
    ("Textual: strips to bytes", "textual.app", "App._display"),
)


class Timers:
    """CPU seconds by part, each without the parts called from it."""

    def __init__(self) -> None:
        self.own_s: defaultdict[str, float] = defaultdict(float)  # "thread|what"
        self.calls: defaultdict[str, int] = defaultdict(int)
        self.missing: list[str] = []
        self._local = threading.local()

    def wrap(self, what: str, module: str, function: str) -> None:
        owner: Any = importlib.import_module(module)
        *outer, name = function.split(".")
        for one in outer:
            owner = getattr(owner, one, None)
        original = getattr(owner, name, None)
        if original is None:
            self.missing.append(f"{module}.{function}")
            return

        def timed(*given: Any, **named: Any) -> Any:
            inside: list[float] = self._local.__dict__.setdefault("inside", [])
            inside.append(0.0)
            began = time.thread_time()
            try:
                return original(*given, **named)
            finally:
                took = time.thread_time() - began
                part = f"{threading.current_thread().name}|{what}"
                self.own_s[part] += took - inside.pop()
                self.calls[part] += 1
                if inside:
                    inside[-1] += took

        setattr(owner, name, timed)


def threads_s() -> dict[str, float]:
    """CPU seconds of each thread of this process."""
    found = {}
    for thread in threading.enumerate():
        path = Path(f"/proc/self/task/{thread.native_id}/schedstat")
        if path.exists():
            found[thread.name] = int(path.read_text().split()[0]) / 1e9
    return found


def inside(report: Path, seconds: float, argv: list[str], profiled: bool) -> None:
    """In the pseudo-terminal: vtop with timers, or with cProfile, and a report once the time is over."""
    from vtop import cli

    timers = Timers()
    if not profiled:
        for what, module, function in PARTS:
            timers.wrap(what, module, function)

    def watch() -> None:
        time.sleep(SETTLE_S)
        own_s, calls, before = dict(timers.own_s), dict(timers.calls), threads_s()
        time.sleep(seconds)
        after = threads_s()
        found = {
            "parts": {what: took - own_s.get(what, 0.0) for what, took in timers.own_s.items()},
            "calls": {what: count - calls.get(what, 0) for what, count in timers.calls.items()},
            "threads": {name: took - before.get(name, 0.0) for name, took in after.items()},
            "missing": timers.missing,
        }
        report.write_text(json.dumps(found))

    if profiled:
        _profile_ticks(report, seconds)
    else:
        threading.Thread(target=watch, name="bench", daemon=True).start()
    cli.main(argv)


def _profile_ticks(report: Path, seconds: float) -> None:
    """cProfile of the screen's thread, from a tick to a tick."""
    from vtop.ui.app import VtopApp

    watch, began, original = cProfile.Profile(), time.monotonic(), VtopApp.catch_up

    def catch_up(self: VtopApp) -> None:
        passed_s = time.monotonic() - began
        if passed_s > SETTLE_S + seconds and not report.exists():
            watch.disable()
            text = io.StringIO()
            pstats.Stats(watch, stream=text).sort_stats("tottime").print_stats(40)
            report.write_text(text.getvalue())
        elif passed_s > SETTLE_S and not report.exists():
            watch.enable()
        original(self)

    VtopApp.catch_up = catch_up  # type: ignore[method-assign]


def run(url: str, seconds: float, folder: Path, profiled: bool) -> str:
    """The report of one run, and of the terminal how much was written."""
    report, record = folder / f"report{profiled}", folder / f"{time.monotonic_ns()}.jsonl"
    own = [sys.executable, str(Path(__file__).resolve()), "--seconds", str(seconds), "--inside", str(report)]
    program = Program([*own, *(["--profile"] if profiled else []), "--url", url, "--record", str(record)], cwd=folder)
    try:
        until = time.monotonic() + SETTLE_S + seconds + 10.0
        while not report.exists() or not report.stat().st_size:
            if program.ended_s is not None or time.monotonic() > until:
                raise SystemExit("vtop ended by itself" if program.ended_s is not None else "no report")
            time.sleep(0.1)
        time.sleep(0.2)
        return report.read_text()
    finally:
        program.stop()


def table(found: dict[str, Any], seconds: float) -> None:
    threads: dict[str, float] = found["threads"]
    del threads["bench"]
    whole = sum(threads.values())
    print(f"{'thread':14} {'part':34} {'calls/s':>8} {'ms/s':>7} {'share':>6}")
    for name, title in THREADS:
        left = threads.pop(name)
        parts = [(took, part) for part, took in found["parts"].items() if part.startswith(f"{name}|")]
        for took, part in sorted(parts, reverse=True):
            left -= took
            row(title, part.partition("|")[2], found["calls"][part] / seconds, took / seconds, took / whole)
        row(title, "the rest (Textual's loop, messages)" if name == "MainThread" else "the rest", None, left / seconds,
            left / whole)  # fmt: skip
    for name, took in threads.items():
        row("other", name, None, took / seconds, took / whole)
    row("", "all", None, whole / seconds, 1.0)
    if found["missing"]:
        print(f"not found, so not timed: {', '.join(found['missing'])}")
    print(f"{seconds:.0f} s at 120 x 36, recording; {whole / seconds:.2%} of a core; {os.cpu_count()} cores, "
          f"load average {os.getloadavg()[0]:.2f}")  # fmt: skip


def row(thread: str, what: str, calls_per_s: float | None, own_s: float, share: float) -> None:
    calls = f"{calls_per_s:8.1f}" if calls_per_s is not None else " " * 8
    print(f"{thread:14} {what:34.34} {calls} {own_s * 1e3:7.2f} {share:6.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    asked, more = parser.parse_known_args()
    if asked.inside is not None:
        inside(asked.inside, asked.seconds, ["--url", asked.url, *more], asked.profile)
        return
    if more:
        parser.error(f"unknown: {' '.join(more)}")
    url = asked.url.rstrip("/")
    model = httpx.get(f"{url}/v1/models", trust_env=False).json()["data"][0]["id"]
    with tempfile.TemporaryDirectory(prefix="vtop-cost-") as folder, load(url, model) if asked.load else nullcontext():
        table(json.loads(run(url, asked.seconds, Path(folder), False)), asked.seconds)
        if asked.profile:
            print(run(url, asked.seconds, Path(folder), True))


if __name__ == "__main__":
    main()
