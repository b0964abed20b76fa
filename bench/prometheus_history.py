"""Hours of many servers for a Prometheus, without waiting for them: a recording's scrapes, repeated with its counters
carried on, as OpenMetrics text that promtool makes blocks of.

usage: python bench/prometheus_history.py RECORDING OUT.om [--servers 20] [--hours 6] [--interval 15] [--end UNIX_S]
then:  promtool tsdb create-blocks-from openmetrics OUT.om DATA && prometheus --storage.tsdb.path=DATA …
"""

from __future__ import annotations

import argparse
import time
from itertools import accumulate
from pathlib import Path

from vtop.recording import FileRecording, Scrape, events_of
from vtop.recording.scrape_state import ScrapeState

PHASE_S = 0.7  # from one server's scrapes to the next one's
TOOK = 0.004
APART = 11  # scrapes, from one server to the next one


def pages_of(path: Path) -> list[dict[str, float]]:
    """Every scrape of the first server: sample name with its labels -> value."""
    state = ScrapeState()
    pages = []
    for event in events_of(FileRecording(path)):
        if not isinstance(event, Scrape) or event.server != 0:
            continue
        state.take(event)
        page = {series: value for series, value in state.values.items() if value is not None}
        for series, counts in state.hists.items():
            family, _, labels = series.partition("{")
            inside = labels.removesuffix("}")
            tail = f"{{{inside}}}" if inside else ""
            bounds = [*map(repr, state.le[family]), "+Inf"]
            for le, count in zip(bounds, accumulate(counts.n), strict=True):
                page[f'{family}_bucket{{{inside}{"," if inside else ""}le="{le}"}}'] = float(count)
            page[f"{family}_count{tail}"] = counts.count
            if counts.sum is not None:
                page[f"{family}_sum{tail}"] = counts.sum
        pages.append(page)
    every = set.intersection(*map(set, pages))
    return [{series: page[series] for series in sorted(every)} for page in pages]


def counts_up(series: str, values: list[float]) -> bool:
    name = series.partition("{")[0]
    return name.endswith(("_total", "_bucket", "_count", "_sum")) and values[-1] >= values[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recording", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--servers", type=int, default=20)
    parser.add_argument("--hours", type=float, default=6.0)
    parser.add_argument("--interval", type=float, default=15.0)
    parser.add_argument("--end", type=float, default=time.time())
    asked = parser.parse_args()
    pages = pages_of(asked.recording)
    columns = {series: [page[series] for page in pages] for series in pages[0]}
    scrapes = round(asked.hours * 3600 / asked.interval)
    first_s = asked.end - scrapes * asked.interval
    samples = 0
    with open(asked.out, "w", encoding="utf-8") as out:
        for server in range(asked.servers):
            times = [f"{first_s + n * asked.interval + server * PHASE_S:.3f}" for n in range(scrapes)]
            where = f'instance="10.0.0.{server + 1}:8000",job="vllm"'
            for series, values in columns.items():
                name, _, labels = series.partition("{")
                inside = labels.removesuffix("}")
                label = f'model_name="bench",{inside}' if name.startswith("vllm:") else inside
                head = f"{name}{{{where}{',' if label else ''}{label.strip(',')}}}"
                by = values[-1] - values[0] if counts_up(series, values) else 0.0
                if name == "process_start_time_seconds":
                    values = [first_s - 100.0 * (server + 1)] * len(values)  # noqa: PLW2901
                rows = []
                for n, at in enumerate(times):
                    turn, place = divmod(n + server * APART, len(values))
                    rows.append(f"{head} {values[place] + turn * by!r} {at}\n")
                out.writelines(rows)
                samples += len(rows)
            for name, value in (("up", 1.0), ("scrape_duration_seconds", TOOK)):
                out.writelines(f"{name}{{{where}}} {value:g} {at}\n" for at in times)
                samples += len(times)
        out.write("# EOF\n")
    print(f"{samples:,} samples of {len(columns) + 2} series and {asked.servers} servers in {asked.out}")


if __name__ == "__main__":
    main()
