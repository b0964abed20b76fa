"""What is lost when scrapes lie further apart: the headline numbers of recordings of one time side by side, and of one
recording with only each n-th of its scrapes.

usage: python bench/scrape_intervals.py [NAME=]RECORDING… [--thin 5,15,30] [--from UNIX_S --to UNIX_S]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from vtop import units
from vtop.recording import AnyEvent, FileRecording, Identity, Outage, Scrape, Start, events_of
from vtop.recording.scrape_state import ScrapeState
from vtop.report.model import Report, of_session
from vtop.report.phases import TimeRange
from vtop.session.session import Session


def thinned(path: Path, every: int) -> Iterator[AnyEvent | Start]:
    """The lines of a recording of one server with each n-th scrape, whole; first its start."""
    with closing(FileRecording(path)) as recording:
        start = recording.start
        yield msgspec.structs.replace(start, interval_s=start.interval_s * every)
        state, seen = ScrapeState(), 0
        for event in events_of(recording):
            match event:
                case Scrape():
                    state.take(event)
                    seen += 1
                    if seen % every == 0 and (line := state.line()) is not None:
                        yield event if every == 1 else line
                case Identity():
                    yield event
                case Outage() if every == 1:
                    yield event
                case _:
                    pass


def session_of(path: Path, every: int) -> Session:
    lines = thinned(path, every)
    start = next(lines)
    assert isinstance(start, Start)
    session = Session(start)
    for event in lines:
        assert not isinstance(event, Start)
        session.apply(event)
    return session


def column(session: Session, stretch: tuple[float, float] | None) -> dict[str, str]:
    began_s = session.start.unix_s
    asked = [TimeRange("all", "asked", stretch[0] - began_s, stretch[1] - began_s)] if stretch else []
    report: Report = of_session(session, "", asked)
    phase = report.phases[-1]
    numbers = phase.whole
    assert numbers is not None
    time, again, busy = numbers.wallclock, numbers.recompute, numbers.while_busy

    def bucket(found: object) -> str:
        p50 = getattr(found, "p99_s", None)
        return "–" if p50 is None else f"{units.seconds(p50.low)}–{units.seconds(p50.high)}"

    parts, ttft, itl = numbers.parts, numbers.ttft, numbers.itl
    return {
        "scrapes": units.count(numbers.scrapes),
        "requests finished": units.count(numbers.finished),
        "output tokens": units.count(numbers.output_tokens),
        "prompt tokens": units.count(numbers.prompt_tokens),
        "output tokens/s while busy": units.number(busy.output_per_s if busy is not None else None),
        "busy seconds": units.number(busy.busy_s if busy is not None else None),
        "preemptions": units.count(numbers.preemptions),
        "TTFT mean": units.seconds(ttft.mean_s if ttft is not None else None),
        "TTFT p99": bucket(ttft),
        "queue of it": units.seconds(parts.queue_s if parts is not None else None),
        "prefill of it": units.seconds(parts.prefill_s if parts is not None else None),
        "ITL mean": units.seconds(itl.mean_s if itl is not None else None),
        "ITL p99": bucket(itl),
        "running mean": units.number(numbers.running.mean if numbers.running else None),
        "running highest": units.number(numbers.running.peak if numbers.running else None),
        "waiting mean": units.number(numbers.waiting.mean if numbers.waiting else None),
        "waiting highest": units.number(numbers.waiting.peak if numbers.waiting else None),
        "KV use mean": units.percent(numbers.kv.mean_ratio if numbers.kv else None),
        "KV use median": units.percent(numbers.kv.median_ratio if numbers.kv else None),
        "KV use highest": units.percent(numbers.kv.peak_ratio if numbers.kv else None),
        "recomputed tokens": units.count(again.tokens if again is not None else None),
        "time that only decodes": units.seconds(time.decode_s),
        "time of prefill": units.seconds(time.prefill_s),
        "time of recompute": units.seconds(time.recompute_s),
        "idle": units.seconds(time.idle_s),
        "stolen of a request's decode": units.percent(time.stolen_ratio),
        "KV before a preemption": units.percent(report.staircase.trigger_mean_ratio),
        "verdict": numbers.verdict.limit or "–" if numbers.verdict is not None else "–",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recordings", nargs="+")
    parser.add_argument("--thin", default="")
    parser.add_argument("--from", dest="begin_s", type=float)
    parser.add_argument("--to", dest="end_s", type=float)
    asked = parser.parse_args()
    stretch = (asked.begin_s, asked.end_s) if asked.begin_s is not None else None
    columns: dict[str, dict[str, str]] = {}
    for one in asked.recordings:
        name, found, path = one.rpartition("=")
        columns[name if found else Path(path).name.partition(".")[0]] = column(session_of(Path(path), 1), stretch)
    for every in map(int, filter(None, asked.thin.split(","))):
        path = Path(asked.recordings[0].rpartition("=")[2])
        columns[f"every {every}th"] = column(session_of(path, every), stretch)
    print("|  | " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for row in next(iter(columns.values())):
        print(f"| {row} | " + " | ".join(values[row] for values in columns.values()) + " |")


if __name__ == "__main__":
    main()
