"""A trace for ui.perfetto.dev and chrome://tracing: requests as slices over time, counters and events below.

Chrome's JSON format: `ts` and `dur` are µs since the session began. Requests that overlap lie on different lanes, and a
track is taken again once it is free. In a request's slice stand

    wait in client    due to sent, where it was late
    frontend          sent until the server queued it, network included     } where the server's own timings are on
    queue, prefill    as the server timed them, laid back from first token  } record (--enable-per-request-metrics)
    first token       sent to first token, where they are not
    decode            first token to last

A counter is written where it changed; a span without scrapes looks as if it had not.
Source: the Trace Event Format of the Chromium project.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from vtop.export.files import new_file
from vtop.export.tables.requests import RequestRows
from vtop.export.track_allocator import TrackAllocator
from vtop.metrics.quantity import Quantity
from vtop.recording import AnyEvent, Recording, Request
from vtop.session.history.tracks import Track
from vtop.session.load.server_timings import timings_of
from vtop.session.session import Session, read

Entry = dict[str, Any]
Place = tuple[int, int]  # pid, tid

_EVENTS_PID: Final = 1  # the tracks from top to bottom: what happened, requests by server, counters by server, GPUs
_REQUESTS_PID: Final = 100
_COUNTERS_PID: Final = 1000
_DEVICES_PID: Final = 2000
_PHASES_TID, _EVENTS_TID = 11, 12  # one that equals its pid would be called the main thread

# name, unit in the trace, quantity, factor
_COUNTERS: Final = (
    ("running", "requests", Quantity.RUNNING, 1.0),
    ("waiting", "requests", Quantity.WAITING, 1.0),
    ("KV used", "%", Quantity.KV_USED, 100.0),
    ("preemptions", "total", Quantity.PREEMPTIONS, 1.0),
    ("generated tokens", "total", Quantity.GENERATION_TOKENS, 1.0),
)
_OF_DEVICES: Final = (("power", "W", "power_w"), ("SM clock", "MHz", "sm_mhz"), ("temperature", "°C", "temp_c"))


def write(recording: Recording, out: Path, *, force: bool) -> list[Path]:
    """Write the trace; says where. Raises VtopError."""
    with new_file(out, force=force) as file:
        trace = Trace(file)
        slices = RequestSlices(recording)

        def watching(event: AnyEvent) -> None:
            trace.add(slices.take(event))

        session = read(recording, watching)
        trace.add(slices.unended(session.end_s))
        trace.add(slices.names())
        trace.add(_load_phases(session))
        trace.add(_instants(session))
        trace.add(_counters(session))
        trace.add(_devices(session))
        trace.close(session)
    return [out]


class Trace:
    """The file: one entry a line."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._before = b'{"displayTimeUnit":"ms","traceEvents":[\n'
        self._encoder = msgspec.json.Encoder()

    def add(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._file.write(self._before + self._encoder.encode(entry))
            self._before = b",\n"

    def close(self, session: Session) -> None:
        start = session.start
        about = {
            "began_unix_s": start.unix_s,
            "recorded_by": f"vtop {start.vtop}",
            "servers": [target.url for target in start.servers],
        }
        self._file.write(b'\n],"otherData":' + self._encoder.encode(about) + b"}\n")


class RequestSlices:
    """The requests, as slices on the lanes of their server; those of a track come in the order of time."""

    def __init__(self, recording: Recording) -> None:
        self._urls = [target.url for target in recording.start.servers]
        self._together = RequestRows(recording.start)
        self._tracks: dict[int, TrackAllocator] = {}  # by server
        self._track_of: dict[tuple[int, int], int] = {}

    def take(self, event: AnyEvent) -> Iterator[Entry]:
        ended = self._together.take(event)
        if not isinstance(event, Request):
            return
        key = (event.phase, event.id)
        server = self._server(event)
        tracks = self._tracks.setdefault(server, TrackAllocator())
        begin_s = _begin_s(event)
        if key not in self._track_of and begin_s is not None:
            self._track_of[key] = tracks.take(begin_s)
        if ended is not None and key in self._track_of:
            track = self._track_of.pop(key)
            end_s = max(ended.end_s or 0.0, begin_s or 0.0)
            tracks.free(track, end_s)
            yield from _slices(ended, end_s, (_REQUESTS_PID + server, track + 1))

    def unended(self, end_s: float) -> Iterator[Entry]:
        """Those still in flight when the recording ends."""
        for request in self._together.unended():
            track = self._track_of.get((request.phase, request.id))
            if track is not None:
                yield from _slices(request, end_s, (_REQUESTS_PID + self._server(request), track + 1))

    def names(self) -> Iterator[Entry]:
        for server, tracks in self._tracks.items():
            url = self._urls[server] if 0 <= server < len(self._urls) else f"server {server}"
            yield from _process(_REQUESTS_PID + server, f"requests to {url}")
            for track in range(tracks.count):
                yield from _thread(_REQUESTS_PID + server, track + 1, f"track {track + 1}")

    def _server(self, request: Request) -> int:
        server = self._together.server(request)
        return server if server is not None else 0


def _begin_s(request: Request) -> float | None:
    """When its slice begins; None for a request that was never sent."""
    if request.sent_s is None:
        return None
    return request.sent_s if request.due_s is None else min(request.due_s, request.sent_s)


def _slices(request: Request, end_s: float, track: Place) -> Iterator[Entry]:
    begin_s, sent_s = _begin_s(request), request.sent_s
    assert begin_s is not None
    assert sent_s is not None
    end_us = max(_us(end_s), _us(begin_s))
    said = "" if request.error is None else f": {request.error}"
    about = {
        "phase": request.phase + 1 if request.phase >= 0 else "trial",
        "warmup": request.warmup or None,
        "prompt_tokens": request.prompt_tokens if request.prompt_tokens is not None else request.asked_prompt_tokens,
        "cached_tokens": request.cached_tokens,
        "output_tokens": request.output_tokens,
        "status": request.status,
        "error": request.error,
        "detail": request.detail,
        "finish": request.finish,
        "unended": True if request.end_s is None else None,
        "sent_s": sent_s if sent_s < 0 else None,  # before the beginning of a cut, where its slice cannot begin
    }
    args = {name: value for name, value in about.items() if value is not None}
    yield _slice(f"request {request.id}{said}", _us(begin_s), end_us, track, args)
    for name, from_us, to_us in _stages(request, end_us):
        if to_us > from_us:
            yield _slice(name, from_us, to_us, track)


def _stages(request: Request, end_us: int) -> Iterator[tuple[str, int, int]]:
    """(name, from, to) one after the other, none beyond the request's end."""
    at_us = _us(_begin_s(request) or 0.0)
    first_us = None if request.first_s is None else _us(request.first_s)
    last_us = end_us if request.last_s is None else _us(request.last_s)
    stages: list[tuple[str, int]] = [("wait in client", _us(request.sent_s or 0.0))]
    if first_us is None:
        stages.append(("no token", end_us))
    else:
        said = timings_of(request.timings)
        if said.queue_s is not None and said.prefill_s is not None:
            scheduled_us = first_us - round(said.prefill_s * 1e6)
            stages.append(("frontend", scheduled_us - round(said.queue_s * 1e6)))
            stages.append(("queue", scheduled_us))
            stages.append(("prefill", first_us))
        else:
            stages.append(("first token", first_us))
        stages.append(("decode", last_us))
    for name, ends_us in stages:
        until_us = min(max(ends_us, at_us), end_us)
        yield name, at_us, until_us
        at_us = until_us


def _load_phases(session: Session) -> Iterator[Entry]:
    yield from _process(_EVENTS_PID, "session")
    yield from _thread(_EVENTS_PID, _PHASES_TID, "load")
    yield from _thread(_EVENTS_PID, _EVENTS_TID, "events")
    for phase in session.load.phases.values():
        _, end = phase.state(session.end_s)
        end_s = end.t if end is not None else session.end_s
        yield _slice(phase.begin.spec, _us(phase.begin.t), _us(end_s), (_EVENTS_PID, _PHASES_TID))


def _instants(session: Session) -> Iterator[Entry]:
    for one in sorted(session.event_log(session.end_s), key=lambda one: one.at_s):
        yield {
            "name": one.text,
            "cat": one.kind,
            "ph": "i",
            "s": "t",
            "ts": _us(one.at_s),
            "pid": _EVENTS_PID,
            "tid": _EVENTS_TID,
        }


def _counters(session: Session) -> Iterator[Entry]:
    for number, server in enumerate(session.servers):
        pid = _COUNTERS_PID + number
        yield from _process(pid, f"{server.target.url}")
        for name, unit, quantity, factor in _COUNTERS:
            yield from _counter(pid, name, _changes(server.total(quantity), server.at_s, unit, factor))


def _devices(session: Session) -> Iterator[Entry]:
    devices = session.gpus.devices.values()
    if devices:
        yield from _process(_DEVICES_PID, "GPUs")
    for device in devices:
        for name, unit, field in _OF_DEVICES:
            changes = _changes(device.numbers[field], session.gpus.at_s, unit)
            yield from _counter(_DEVICES_PID, f"GPU {device.index} {name}", changes)


def _changes(
    track: Track | None, at_s: Sequence[float], unit: str, factor: float = 1.0
) -> Iterator[tuple[float, Entry]]:
    """(instant, value) where a number became another and is known."""
    if track is not None:
        for scrape, value in zip(track.scrape, track.value, strict=True):
            if value == value:
                yield at_s[scrape], {unit: round(value * factor, 6)}


def _counter(pid: int, name: str, changes: Iterable[tuple[float, Entry]]) -> Iterator[Entry]:
    for at_s, value in changes:
        yield {"name": name, "ph": "C", "ts": _us(at_s), "pid": pid, "args": value}


def _slice(name: str, from_us: int, to_us: int, track: Place, args: Entry | None = None) -> Entry:
    entry = {"name": name, "ph": "X", "ts": from_us, "dur": to_us - from_us, "pid": track[0], "tid": track[1]}
    return entry | {"args": args} if args else entry


def _process(pid: int, name: str) -> Iterator[Entry]:
    yield {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}
    yield {"name": "process_sort_index", "ph": "M", "pid": pid, "args": {"sort_index": pid}}


def _thread(pid: int, tid: int, name: str) -> Iterator[Entry]:
    yield {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
    yield {"name": "thread_sort_index", "ph": "M", "pid": pid, "tid": tid, "args": {"sort_index": tid}}


def _us(at_s: float) -> int:
    """Perfetto drops what lies before 0: what a cut knows of before its beginning begins there."""
    return max(0, round(at_s * 1e6))
