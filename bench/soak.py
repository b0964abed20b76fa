"""A simulated day: how memory, the time of a frame and of a second's work change while a session goes on.

Run from the repository: python bench/soak.py [--hours 24] [--requests 1000000] [--file]. A page and a reading of the
GPU each simulated second (those of bench/day.py) and vtop's own requests evenly in between, no two alike in time, in
three lines each (sent, first token, over), go through the code of a live session: written, decoded, taken in, bounded,
and one frame of five minutes a simulated minute.
Without --file the lines are kept nowhere. A row every twelfth of the time.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from day import Pages

from vtop.draw.layout import columns_for
from vtop.metrics.page import Folder
from vtop.recording import LiveRecording, Load, Request, Start, Target
from vtop.recording.events import FORMAT
from vtop.server_kinds.registry import series_names
from vtop.session.frame.frame import View
from vtop.session.session import Session

TOKENS = 20
ROWS = 12


def request(number: int, at_s: float) -> tuple[Request, Request, Request]:
    """Its three lines: sent, first token, over."""
    took_s = 0.5 + (number * 7_368_787 % 9_500_000) / 1e6  # up to 10 s, all different
    sent_s = at_s - took_s
    first_s = sent_s + took_s / 5
    sent = Request(id=number, phase=0, due_s=sent_s - 1e-4, admitted_s=sent_s - 1e-4, sent_s=sent_s)
    first = Request(id=number, phase=0, first_s=first_s)
    over = Request(
        id=number, phase=0, due_s=sent_s - 1e-4, admitted_s=sent_s - 1e-4, sent_s=sent_s, headers_s=sent_s + 0.01,
        first_s=first_s, last_s=at_s, end_s=at_s, status=200, asked_prompt_tokens=64, prompt_tokens=64,
        asked_output_tokens=TOKENS, output_tokens=TOKENS, tokens_from="ids", chunks=TOKENS, finish="length",
        gaps_us=tuple(20_000 + (number * 7919 + k * 104_729) % 2_000 for k in range(TOKENS - 1)),
    )  # fmt: skip
    return sent, first, over


def memory() -> float:
    """Resident now, in bytes."""
    return 1024.0 * int(Path("/proc/self/status").read_text().partition("VmRSS:")[2].split()[0])


def run(hours: float, requests: int, path: Path | None) -> None:
    now_s = 0.0
    start = Start(
        format=FORMAT, vtop="bench", unix_s=1.79595e9, servers=(Target(url="http://localhost:8000"),), interval_s=1.0
    )
    recording = LiveRecording(start, lambda: now_s, path)
    session, pages, folder = Session(start), Pages(), Folder(series_names)
    view = View(window_s=300.0, columns=columns_for(160))
    seconds, sent = int(hours * 3600), 0
    spec = "c=16 in=64 out=20"
    recording.append(Load(phase=0, state="begin", spec=spec, shape="closed", concurrency=16, requests=requests))
    frames_s: list[float] = []
    began_s, began_cpu_s = perf_counter(), process_time()
    print(f"{'simulated':>9} {'requests':>10} {'memory':>9} {'frame':>9} {'CPU of a simulated second':>26}")
    for second in range(seconds):
        now_s = second + 0.001
        recording.append(pages.gpu(second, float(second)))
        text = pages.text(second)
        recording.append(folder.scrape(text, server=0, at_s=float(second), took_s=0.007, bytes=len(text), health=200))
        due = round((second + 1) / seconds * requests)
        for number in range(sent, due):
            now_s = second + 0.01 + 0.98 * (number - sent) / (due - sent)
            for line in request(number, now_s):
                recording.append(line)
        sent = due
        for event in recording.take():
            session.apply(event)
        session.bound()
        if second % 60 == 59:
            at_s = perf_counter()
            session.frame(now_s, view)
            frames_s.append(perf_counter() - at_s)
        if (second + 1) % max(1, seconds // ROWS) == 0:
            cpu_s = (process_time() - began_cpu_s) / max(1, seconds // ROWS)
            print(
                f"{(second + 1) / 3600:7.1f} h {sent:>10,} {memory() / 2**20:5.0f} MiB "
                f"{1e3 * median(frames_s or [0.0]):6.1f} ms {1e3 * cpu_s:23.2f} ms",
                flush=True,
            )
            frames_s, began_cpu_s = [], process_time()
    recording.close("made by bench/soak.py")
    print(f"took {perf_counter() - began_s:.0f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--file", action="store_true", help="into a file that is thrown away")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vtop-soak-") as folder:
        run(asked.hours, asked.requests, Path(folder) / "soak.jsonl" if asked.file else None)


if __name__ == "__main__":
    main()
