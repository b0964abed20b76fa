"""Opens a day: how long a 24-hour recording at 1 Hz takes to open, to show its last frame, and to seek in.

Run from the repository: python bench/day.py [--hours 24] [--file DAY.jsonl] [--profile]. The recording is made first,
of the busy stretch of recordings/overload over and over with counters that go on growing, page by page through the same
code as a live scrape; --file keeps it, and uses it when it is there. Every measurement is of a fresh process.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import os
import pstats
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple

import msgspec

from vtop.draw.layout import columns_for
from vtop.metrics.page import Folder
from vtop.recording import FileRecording, Gpu, HistogramCounts, LiveRecording, Scrape, Start, Target
from vtop.recording.events import FORMAT
from vtop.server_kinds.registry import series_names
from vtop.session.frame.frame import View
from vtop.session.session import Session

OVERLOAD = Path(__file__).resolve().parent.parent / "recordings" / "overload.jsonl.gz"
RUNS = 3
SEEKS = 40
SLICE = 200
WINDOWS_S = (300.0, 86400.0)
RUNNING = 'vllm:num_requests_running{engine="0"}'


class Moment(NamedTuple):
    """One page of the pattern, with everything on it, and the GPUs then."""

    values: dict[str, float | None]
    hists: dict[str, HistogramCounts]
    gpu: Gpu


def busy_stretch() -> tuple[list[Moment], dict[str, tuple[float, ...]], str]:
    """The pages on which requests ran, the bucket bounds, the model."""
    values: dict[str, float | None] = {}
    hists: dict[str, HistogramCounts] = {}
    bounds: dict[str, tuple[float, ...]] = {}
    moments: list[Moment] = []
    model, gpu = "", None
    for event in FileRecording(OVERLOAD).take():
        if isinstance(event, Gpu):
            gpu = event
        if isinstance(event, Scrape) and gpu is not None:
            values, hists = {**values, **event.values}, {**hists, **event.hists}
            bounds |= event.le
            model = event.model or model
            moments.append(Moment(values, hists, gpu))
    busy = [number for number, moment in enumerate(moments) if moment.values[RUNNING]]
    return moments[busy[0] : busy[-1] + 1], bounds, model


class Pages:
    """The text of the pages: a round of the pattern begins where the counters of the round before ended."""

    def __init__(self) -> None:
        self.moments, self._bounds, self._model = busy_stretch()
        self._lines: dict[str, str] = {}
        self._shown: dict[str, float | None] = {}
        self._counted: dict[str, tuple[tuple[int, ...], float]] = {}

    def text(self, number: int) -> str:
        rounds, at = divmod(number, len(self.moments))
        first, moment, last = self.moments[0], self.moments[at], self.moments[-1]
        for series, own in moment.values.items():
            value = own
            if own is not None and _counts(series):
                value = own + rounds * ((last.values[series] or 0.0) - (first.values[series] or 0.0))
                value = max(value, self._shown.get(series) or value)  # rounding must not look like a restart
            if self._shown.get(series) != value or series not in self._lines:
                self._shown[series] = value
                self._lines[series] = self._scalar(series, value)
        for series, counts in moment.hists.items():
            begin, end = first.hists[series], last.hists[series]
            grown = [rounds * (b - a) for a, b in zip(begin.n, end.n, strict=True)]
            n = tuple(own + more for own, more in zip(counts.n, grown, strict=True))
            total = (counts.sum or 0.0) + rounds * ((end.sum or 0.0) - (begin.sum or 0.0))
            if self._counted.get(series) != (n, total):
                self._counted[series] = (n, total)
                self._lines[series] = self._histogram(series, n, total)
        return "".join(self._lines.values())

    def gpu(self, number: int, at_s: float) -> Gpu:
        rounds, at = divmod(number, len(self.moments))
        reading = self.moments[at].gpu.gpus[0]
        begin, end = self.moments[0].gpu.gpus[0].energy_j or 0.0, self.moments[-1].gpu.gpus[0].energy_j or 0.0
        energy_j = round((reading.energy_j or 0.0) + rounds * (end - begin), 3)
        return Gpu(at_s=at_s, took_s=0.0004, gpus=(msgspec.structs.replace(reading, energy_j=energy_j),))

    def _scalar(self, series: str, value: float | None) -> str:
        name = series.partition("{")[0]
        kind = "counter" if _counts(series) else "gauge"
        return f"# TYPE {name} {kind}\n{self._labelled(series)} {'NaN' if value is None else float(value)}\n"

    def _histogram(self, series: str, n: tuple[int, ...], total: float) -> str:
        name, _, labels = self._labelled(series).partition("{")
        labels = labels.rstrip("}")
        lines, below = [f"# TYPE {name} histogram"], 0
        for bound, count in zip([*map(str, self._bounds[name]), "+Inf"], n, strict=True):
            below += count
            lines.append(f'{name}_bucket{{{labels}{"," if labels else ""}le="{bound}"}} {float(below)}')
        return "\n".join([*lines, f"{name}_count{{{labels}}} {float(below)}", f"{name}_sum{{{labels}}} {total}\n"])

    def _labelled(self, series: str) -> str:
        """As the server writes it: with its model."""
        if not series.startswith("vllm:"):
            return series
        name, _, labels = series.partition("{")
        return f'{name}{{{labels.rstrip("}")}{"," if labels else ""}model_name="{self._model}"}}'


def _counts(series: str) -> bool:
    return series.partition("{")[0].endswith("_total")


def write(path: Path, hours: float) -> None:
    now_s = 0.0
    unix_s = 1_795_950_000.0
    start = Start(
        format=FORMAT, vtop="bench", unix_s=unix_s, servers=(Target(url="http://localhost:8000"),), interval_s=1.0
    )
    recording = LiveRecording(start, lambda: now_s, path)
    pages, folder = Pages(), Folder(series_names)
    for number in range(int(hours * 3600)):
        at_s = float(number)
        now_s = at_s + 0.001
        recording.append(pages.gpu(number, at_s))
        text = pages.text(number)
        now_s = at_s + 0.008
        recording.append(folder.scrape(text, server=0, at_s=at_s, took_s=0.007, bytes=len(text), health=200))
        recording.take()
    recording.close("made by bench/day.py")


def measure(path: Path) -> dict[str, float]:
    """In a process of its own: the parts of opening, then seeks."""
    began = perf_counter()
    with open(path, "rb") as lines:
        found: dict[str, float] = {"lines": sum(1 for _ in lines)}
    found["plain read of the file's lines"] = perf_counter() - began
    began = perf_counter()
    recording = FileRecording(path)
    session = Session(recording.start)
    read_s, fold_s = perf_counter() - began, 0.0
    gc.disable()  # as vtop show does
    while True:
        began = perf_counter()
        events = recording.take(SLICE)
        read_s += perf_counter() - began
        if not events:
            break
        began = perf_counter()
        for event in events:
            session.apply(event)
        fold_s += perf_counter() - began
    gc.enable()
    found["read and decode"], found["fold"] = read_s, fold_s
    for window_s in WINDOWS_S:
        view = View(window_s=window_s, columns=columns_for(120))
        took = list(_frames(session, view))
        found[f"last frame, {window_s:.0f} s"] = took[0]
        found[f"seek, {window_s:.0f} s: median"] = median(took[1:])
        found[f"seek, {window_s:.0f} s: longest"] = max(took[1:])
    return found


def _frames(session: Session, view: View) -> Iterator[float]:
    """Seconds for the last frame, then for frames at instants all over the session."""
    instants = random.Random(7)
    for now_s in (session.end_s, *(instants.uniform(0.0, session.end_s) for _ in range(SEEKS))):
        began = perf_counter()
        session.frame(now_s, view)
        yield perf_counter() - began


def profile(path: Path) -> None:
    """Where the time goes: opening, then a seek in the whole day."""
    recording = FileRecording(path)
    session = Session(recording.start)
    for title, work in (
        ("opening", lambda: _open(recording, session)),
        ("seeks, 300 s", lambda: list(_frames(session, View(window_s=300.0, columns=columns_for(120))))),
        ("seeks, 86400 s", lambda: list(_frames(session, View(window_s=86400.0, columns=columns_for(120))))),
    ):
        print(f"== {title}")
        watch = cProfile.Profile()
        watch.runcall(work)
        pstats.Stats(watch).sort_stats("tottime").print_stats(18)


def _open(recording: FileRecording, session: Session) -> None:
    while events := recording.take(SLICE):
        for event in events:
            session.apply(event)


def run(argv: list[str]) -> tuple[float, int, str]:
    """Wall seconds, peak memory and output of a fresh process."""
    began = perf_counter()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(argv)}: exit code {process.returncode}")
    return perf_counter() - began, usage.ru_maxrss * 1024, output


def table(path: Path) -> None:
    vtop = [sys.executable, "-m", "vtop"]
    shown = [run([*vtop, "show", str(path), "--json"]) for _ in range(RUNS)]
    parts = [json.loads(run([sys.executable, __file__, "--measure", str(path)])[2]) for _ in range(RUNS)]
    row("vtop show FILE --json", [wall_s for wall_s, _, _ in shown], "3 s")
    for name in parts[0]:
        if name != "lines":
            row(f"  {name}", [one[name] for one in parts], "0.3 s" if name.startswith("seek") else "")
    print(f"{'peak memory':38} {median(peak for _, peak, _ in shown) / 2**20:9.0f} MiB")
    print(f"median of {RUNS} fresh processes, least to most; {SEEKS} seeks each; Python {sys.version.split()[0]}")


def row(name: str, took_s: list[float], target: str) -> None:
    wanted = f"target {target}" if target else ""
    print(f"{name:38} {median(took_s):9.4f} s   {min(took_s):.4f} to {max(took_s):.4f}   {wanted}".rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--file", type=Path)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure is not None:
        print(json.dumps(measure(asked.measure)))
        return
    with tempfile.TemporaryDirectory(prefix="vtop-day-") as folder:
        path = asked.file or Path(folder) / "day.jsonl"
        if not path.exists():
            began = perf_counter()
            write(path, asked.hours)
            print(f"made in {perf_counter() - began:.0f} s", file=sys.stderr)
        with open(path, "rb") as lines:
            count = sum(1 for _ in lines)
        print(f"{path.name}: {path.stat().st_size / 2**20:.0f} MiB, {count} lines")
        if asked.profile:
            profile(path)
        else:
            table(path)


if __name__ == "__main__":
    main()
