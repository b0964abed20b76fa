"""The table of samples: a row for each scrape of a server, with the totals that the session makes of it.

Counters are what was counted since the server started, and go on over a restart, so a difference of two rows is what
happened in between. Of the GPUs the latest reading stands beside the scrape.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from vtop.export.spans import Values, counts, numbers, spans, sums
from vtop.export.tables.table import Kind, Row, TableColumn, TableLayout
from vtop.metrics.quantity import Quantity
from vtop.server_kinds import registry
from vtop.session.history.server import ServerHistory
from vtop.session.session import Session

_Q = Quantity
_SERIES = registry.DEFAULT.series  # whose names stand in the columns' words

# name, kind, quantity, part, and what it says beyond where it comes from
_GAUGES: tuple[tuple[str, Kind, Quantity, str, str], ...] = (
    ("running_requests", "count", _Q.RUNNING, "", "as the scheduler's last step left it, all engines"),
    ("waiting_requests", "count", _Q.WAITING, "", "preempted ones included"),
    ("waiting_capacity_requests", "count", _Q.WAITING_BY_REASON, "capacity", "for a seat or KV blocks"),
    ("waiting_deferred_requests", "count", _Q.WAITING_BY_REASON, "deferred", "for an adapter, a grammar, remote KV"),
    ("kv_used_ratio", "number", _Q.KV_USED, "", "of the fullest engine"),
)
_COUNTERS: tuple[tuple[str, Kind, Quantity, str, str], ...] = (
    ("preemptions_total", "count", _Q.PREEMPTIONS, "", "may come late (docs/numbers.md)"),
    ("prompt_tokens_total", "count", _Q.PROMPT_TOKENS, "", "cached ones included"),
    ("generation_tokens_total", "count", _Q.GENERATION_TOKENS, "", ""),
    ("prefix_asked_tokens_total", "count", _Q.PREFIX_QUERIES, "", "looked up in the prefix cache"),
    ("prefix_hit_tokens_total", "count", _Q.PREFIX_HITS, "", ""),
    ("finished_stop_total", "count", _Q.FINISHED, "stop", "requests"),
    ("finished_length_total", "count", _Q.FINISHED, "length", "requests"),
    ("finished_abort_total", "count", _Q.FINISHED, "abort", "requests"),
    ("finished_error_total", "count", _Q.FINISHED, "error", "requests"),
    ("finished_repetition_total", "count", _Q.FINISHED, "repetition", "requests"),
    ("flops_total", "number", _Q.FLOPS, "", "a GPU's, estimated by vLLM (--enable-mfu-metrics)"),
    ("read_bytes_total", "number", _Q.READ_BYTES, "", "likewise"),
    ("write_bytes_total", "number", _Q.WRITE_BYTES, "", "likewise"),
    ("process_cpu_s_total", "number", _Q.PROCESS_CPU, "", "of the API server's process"),
)
_HISTOGRAMS = (
    ("ttft", _Q.TTFT, "requests that got their first token"),
    ("itl", _Q.ITL, "tokens after a request's first"),
    ("tpot", _Q.TPOT, "finished requests"),
    ("e2e", _Q.E2E, "finished requests"),
    ("queue", _Q.QUEUE, "finished requests"),
    ("prefill", _Q.PREFILL, "finished requests"),
    ("decode", _Q.DECODE, "finished requests"),
    ("inference", _Q.INFERENCE, "finished requests"),
)


def _of(quantity: Quantity, part: str, says: str) -> str:
    source = f"`{_SERIES.exported_as(quantity)}`" + (f" ({part})" if part else "")
    return f"{source}: {says}" if says else source


SAMPLES = TableLayout(
    "samples",
    "a scrape of a server, in the order of servers and then of time",
    (
        TableColumn("at_s", "number", "the scrape was asked for: seconds of the session"),
        TableColumn("unix_s", "number", "the same instant by the wall clock"),
        TableColumn("written_s", "number", "the line was written: from here on a screen shows the scrape"),
        TableColumn("server", "count", "index of the server, from 0"),
        TableColumn("url", "text", "its URL"),
        TableColumn("took_s", "number", "how long the scrape took"),
        TableColumn("page_bytes", "count", "its size"),
        TableColumn("bad_lines", "count", "lines of it that could not be read"),
        TableColumn("health", "count", "HTTP status of /health asked with it; 0: no answer"),
        TableColumn("restart", "yes/no", "counters began anew on this scrape"),
        *(TableColumn(name, kind, _of(quantity, part, says)) for name, kind, quantity, part, says in _GAUGES),
        *(TableColumn(name, kind, _of(quantity, part, says)) for name, kind, quantity, part, says in _COUNTERS),
        *(
            column
            for name, quantity, whose in _HISTOGRAMS
            for column in (
                TableColumn(f"{name}_sum_s", "number", f"`{_SERIES.exported_as(quantity)}`: sum over {whose}"),
                TableColumn(f"{name}_count", "count", "how many these are; Δ sum ÷ Δ count is an exact mean"),
            )
        ),
        TableColumn(
            "iteration_tokens_total",
            "number",
            f"`{_SERIES.exported_as(_Q.ITERATION_TOKENS)}`: sum; recompute not in it",
        ),
        TableColumn("iterations_total", "count", "engine steps that gave output"),
        TableColumn(
            "gpu_power_w", "number", "NVML, latest reading: of the GPUs in use by a watched server, else of all"
        ),
        TableColumn("gpu_power_limit_w", "number", "of the same GPUs"),
        TableColumn("gpu_sm_mhz", "number", "the fastest of them"),
    ),
)


def samples(session: Session) -> Iterator[Row]:
    """The rows of SAMPLES."""
    for number, server in enumerate(session.servers):
        for first, last in spans(len(server.t)):
            yield from zip(*_columns(session, number, server, first, last), strict=True)


def _columns(session: Session, number: int, server: ServerHistory, first: int, last: int) -> list[Values]:
    scrapes = range(first, last + 1)
    restarts = set(server.restarts)
    columns: list[Values] = [
        [server.at_s[scrape] for scrape in scrapes],
        [session.start.unix_s + server.at_s[scrape] for scrape in scrapes],
        [server.t[scrape] for scrape in scrapes],
        [number] * len(scrapes),
        [server.target.url] * len(scrapes),
        [server.took_s[scrape] for scrape in scrapes],
        counts(server.bytes, first, last),
        counts(server.bad_lines, first, last),
        [server.health.at(scrape) for scrape in scrapes],
        [scrape in restarts for scrape in scrapes],
    ]
    for _, kind, quantity, part, _ in (*_GAUGES, *_COUNTERS):
        column = counts if kind == "count" else numbers
        columns.append(column(server.total(quantity, part), first, last))
    for _, quantity, _ in _HISTOGRAMS:
        columns += sums(server.histogram(quantity), first, last)
    columns += sums(server.histogram(_Q.ITERATION_TOKENS), first, last)
    return columns + _of_devices(session, server, first, last)


def _of_devices(session: Session, server: ServerHistory, first: int, last: int) -> list[Values]:
    devices = session.gpus
    columns: list[Values] = [[], [], []]
    for scrape in range(first, last + 1):
        reading = bisect_right(devices.at_s, server.at_s[scrape] + server.took_s[scrape]) - 1
        stale = reading < 0 or server.at_s[scrape] - devices.at_s[reading] > devices.patience_s
        for column, track in zip(columns, (devices.power_w, devices.power_limit_w, devices.sm_mhz), strict=True):
            column.append(None if stale else track.at(reading))
    return columns
