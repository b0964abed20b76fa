"""The tables of engines and of GPUs: what the samples have in total, one by one."""

from __future__ import annotations

from collections.abc import Iterator

from vtop.export.spans import Values, counts, numbers, spans, whole
from vtop.export.tables.table import Cell, Row, TableColumn, TableLayout
from vtop.metrics.quantity import Quantity
from vtop.session.history.gpus import DeviceHistory
from vtop.session.history.tracks import Track
from vtop.session.session import Session

ENGINES = TableLayout(
    "engines",
    "an engine (data-parallel rank) on a scrape of a server, in the order of servers and then of time",
    (
        TableColumn("at_s", "number", "the scrape was asked for: seconds of the session"),
        TableColumn("unix_s", "number", "the same instant by the wall clock"),
        TableColumn("server", "count", "index of the server"),
        TableColumn("engine", "text", "as its label says"),
        TableColumn("running_requests", "count", ""),
        TableColumn("waiting_requests", "count", ""),
        TableColumn("kv_used_ratio", "number", "of its own pool"),
        TableColumn("generation_tokens_total", "count", "since the server started, restarts included"),
    ),
)
_OF_ENGINES = (Quantity.RUNNING, Quantity.WAITING, Quantity.KV_USED, Quantity.GENERATION_TOKENS)

# name in the session, kind, what it says
_OF_DEVICES = (
    ("util_ratio", "number", "time in which a kernel ran"),
    ("mem_used_bytes", "count", ""),
    ("mem_total_bytes", "count", ""),
    ("power_w", "number", ""),
    ("power_limit_w", "number", ""),
    ("energy_j", "number", "since the driver was loaded"),
    ("temp_c", "number", ""),
    ("sm_mhz", "number", ""),
    ("sm_max_mhz", "number", ""),
    ("mem_mhz", "number", ""),
    ("mem_max_mhz", "number", ""),
)

GPUS = TableLayout(
    "gpus",
    "a GPU in a reading, in the order of GPUs and then of time",
    (
        TableColumn("at_s", "number", "second of the session"),
        TableColumn("unix_s", "number", "the same instant by the wall clock"),
        TableColumn("index", "count", "NVML's number of the GPU"),
        TableColumn("uuid", "text", ""),
        TableColumn("name", "text", ""),
        TableColumn("serving", "yes/no", "a watched server's process uses it, where NVML tells"),
        *(TableColumn(name, "count" if kind == "count" else "number", says) for name, kind, says in _OF_DEVICES),
        TableColumn("power_kind", "text", "average (over 1 s), instant"),
        TableColumn("throttle", "text", "what holds the clock down, in words; none: nothing does"),
        TableColumn("lost", "text", "why the GPU answers nothing"),
    ),
)


def engines(session: Session) -> Iterator[Row]:
    """The rows of ENGINES."""
    for number, server in enumerate(session.servers):
        for scrape, at_s in enumerate(server.at_s):
            of_scrape = [server.engines(quantity, scrape) for quantity in _OF_ENGINES]
            for name in dict.fromkeys(name for tracks in of_scrape for name in tracks):
                running, waiting, used, generated = (_at(tracks.get(name), scrape) for tracks in of_scrape)
                yield (
                    at_s,
                    session.start.unix_s + at_s,
                    number,
                    name or "0",
                    _whole(running),
                    _whole(waiting),
                    used,
                    _whole(generated),
                )


def gpus(session: Session) -> Iterator[Row]:
    """The rows of GPUS."""
    for device in session.gpus.devices.values():
        for first, last in spans(len(session.gpus.t)):
            columns: list[Values] = []
            for name, kind, _ in _OF_DEVICES:
                columns.append((counts if kind == "count" else numbers)(device.numbers[name], first, last))
            for reading, values in zip(range(first, last + 1), zip(*columns, strict=True), strict=True):
                yield from _row(session, device, reading, values)


def _row(session: Session, device: DeviceHistory, reading: int, values: tuple[Cell, ...]) -> Iterator[Row]:
    fact = device.facts.at(reading)
    if fact is None:  # not in this reading
        return
    at_s = session.gpus.at_s[reading]
    throttle = None if fact.throttle is None else ", ".join(fact.throttle) or "none"
    named = (device.index, device.uuid, fact.name, fact.serving)
    yield (at_s, session.start.unix_s + at_s, *named, *values, fact.power_kind, throttle, fact.lost)


def _at(track: Track | None, scrape: int) -> float | None:
    return track.at(scrape) if track is not None else None


def _whole(value: float | None) -> Cell:
    return whole(value) if value is not None else None
