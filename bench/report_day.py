"""Reports a day: how long `vtop report` takes for a 24-hour recording at 1 Hz with 100,000 requests of vtop's own load.

Run from the repository: python bench/report_day.py [--hours 24] [--requests 100000] [--tokens 128] [--file DAY.jsonl].
The pages are those of bench/day.py; the requests are spread evenly over the day, each with all its lines: sent, first
token, end with the gap before every token. --file keeps the recording, and uses it when it is there. A fresh process
for each form; wall time and peak memory are the process's, as the system counts them.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter

import msgspec
from day import Pages, run

from vtop.metrics.page import Folder
from vtop.recording import Event, Host, LiveRecording, Load, Request, Start, Target
from vtop.recording.events import FORMAT
from vtop.server_kinds.registry import series_names

RUNS = 3
TARGET_S, TARGET_BYTES = 20.0, 400 * 2**20
STEP_S = 0.006  # between two tokens of an answer, about


def requests(hours: float, count: int, tokens: int) -> Iterator[tuple[float, Event]]:
    """The load's lines, each with the instant at which it is written."""
    spec = f"rate={count / hours / 3600:.4g} in=1024 out={tokens} n={count} seed=7"
    load = Load(
        phase=0, state="begin", spec=spec, shape="open", rate_per_s=count / hours / 3600, arrival="poisson",
        input_tokens=(1024, 1024), output_tokens=(tokens, tokens), requests=count, seed=7,
    )  # fmt: skip
    yield 0.5, load
    chance = random.Random(7)
    end_s = hours * 3600 - 30
    lines: list[tuple[float, int, Event]] = []
    for number in range(count):
        due_s = 1.0 + (end_s - 1.0) * number / count
        sent_s = due_s + chance.uniform(0, 0.001)
        first_s = sent_s + chance.lognormvariate(-1.0, 0.6)
        gaps = tuple(round(1e6 * chance.gauss(STEP_S, 0.0004)) for _ in range(tokens - 1))
        last_s = first_s + sum(gaps) / 1e6
        sent = Request(id=number, phase=0, due_s=due_s, sent_s=sent_s, asked_prompt_tokens=1024)
        first = Request(id=number, phase=0, first_s=first_s, headers_s=first_s)
        whole = msgspec.structs.replace(
            sent, first_s=first_s, last_s=last_s, end_s=last_s, asked_output_tokens=tokens, prompt_tokens=1024,
            output_tokens=tokens, tokens_from="usage", chunks=tokens, gaps_us=gaps, status=200, finish="length",
        )  # fmt: skip
        lines += [(sent_s, number, sent), (first_s, number, first), (last_s, number, whole)]
        if len(lines) > 3000:
            lines.sort(key=lambda line: line[0])
            yield from ((at_s, event) for at_s, _, event in lines[:1500])
            del lines[:1500]
    lines.sort(key=lambda line: line[0])
    yield from ((at_s, event) for at_s, _, event in lines)
    yield end_s + 20, msgspec.structs.replace(load, state="end", reason="done")


def write(path: Path, hours: float, count: int, tokens: int) -> None:
    now_s = 0.0
    start = Start(
        format=FORMAT, vtop="bench", unix_s=1_795_950_000.0, servers=(Target(url="http://localhost:8000"),),
        interval_s=1.0,
    )  # fmt: skip
    recording = LiveRecording(start, lambda: now_s, path)
    pages, folder = Pages(), Folder(series_names)
    lines = requests(hours, count, tokens)
    line = next(lines, None)
    for number in range(int(hours * 3600)):
        at_s = float(number)
        while line is not None and line[0] < at_s:
            now_s = line[0]
            recording.append(line[1])
            line = next(lines, None)
        now_s = at_s + 0.001
        recording.append(pages.gpu(number, at_s))
        recording.append(Host(at_s=at_s, load_cpu_ratio=0.05, load_lag_p50_s=0.0002, load_lag_max_s=0.002))
        text = pages.text(number)
        now_s = at_s + 0.008
        recording.append(folder.scrape(text, server=0, at_s=at_s, took_s=0.007, bytes=len(text), health=200))
        recording.take()
    recording.close("made by bench/report_day.py")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--file", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vtop-report-day-") as folder:
        path = asked.file or Path(folder) / "day.jsonl"
        if not path.exists():
            began = perf_counter()
            write(path, asked.hours, asked.requests, asked.tokens)
            print(f"made in {perf_counter() - began:.0f} s", file=sys.stderr)
        size = f"{path.stat().st_size / 2**20:.0f} MiB"
        print(f"{path.name}: {size}; {asked.requests:,} requests of {asked.tokens} tokens each")
        for form in ("json", "md", "txt", "html"):
            took, peaks = [], []
            for number in range(RUNS):
                written = Path(folder) / f"{form}{number}.{form}"
                wall_s, peak, _ = run([sys.executable, "-m", "vtop", "report", str(path), "-o", str(written)])
                took.append(wall_s)
                peaks.append(peak)
            print(
                f"vtop report -o x.{form:5} {median(took):6.2f} s   {min(took):.2f} to {max(took):.2f}   "
                f"{median(peaks) / 2**20:5.0f} MiB   target {TARGET_S:.0f} s, {TARGET_BYTES / 2**20:.0f} MiB"
            )
    print(f"median of {RUNS} fresh processes, least to most; Python {sys.version.split()[0]}")


if __name__ == "__main__":
    main()
