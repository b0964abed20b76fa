"""What a recording holds, and what is wrong with its lines: made by reading it once, event by event.

A problem is a line that a reader cannot trust; a remark is a fact about the session that one should know before using
it, such as a span without scrapes. Neither says anything about the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from vtop.recording.events import (
    DEFAULT_KIND,
    GAP_INTERVALS,
    AnyEvent,
    End,
    Event,
    Gpu,
    GpuReading,
    Identity,
    Load,
    Outage,
    Request,
    Scrape,
    Start,
    TargetChange,
    Unknown,
)
from vtop.recording.scrape_state import ScrapeState


class _Typed(msgspec.Struct):
    type: str


_typed = msgspec.json.Decoder(_Typed)


@dataclass(slots=True)
class ServerContents:
    """The lines about one server."""

    url: str
    kind: str = DEFAULT_KIND  # of server
    version: str | None = None
    models: tuple[str, ...] = ()
    scrapes: int = 0
    full_scrapes: int = 0
    outages: int = 0  # attempts without a scrape
    series: int = 0  # on the largest scrape
    first_at_s: float | None = None
    last_at_s: float | None = None
    gaps: int = 0
    longest_gap_s: float = 0.0


@dataclass(slots=True)
class GpuContents:
    index: int
    uuid: str
    name: str | None
    readings: int = 0


@dataclass(slots=True)
class PhaseContents:
    """A phase of vtop's own load. `ended`: of its requests, failed ones included."""

    phase: int
    spec: str
    server: int
    begin_s: float
    end_s: float | None = None
    requests: int = 0
    ended: int = 0
    failed: int = 0


@dataclass(slots=True)
class Contents:
    """All that a check says about a recording; times are seconds of the session, and None is not known."""

    format: int
    vtop: str
    unix_s: float
    interval_s: float
    origin: str | None
    duration_s: float = 0.0
    end: str | None = None  # the reason on its last line; None: it has none
    events: dict[str, int] = field(default_factory=dict)  # by type
    unknown: dict[str, int] = field(default_factory=dict)  # by type: kept, and not understood
    servers: list[ServerContents] = field(default_factory=list)
    devices: list[GpuContents] = field(default_factory=list)
    phases: list[PhaseContents] = field(default_factory=list)
    trials: int = 0  # requests before the phases
    open_requests: int = 0  # sent and never ended
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


class RecordingCheck:
    """Takes a recording's events in order, then says what they add up to."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._contents = Contents(start.format, start.vtop, start.unix_s, start.interval_s, start.origin)
        self._contents.servers = [ServerContents(target.url) for target in start.servers]
        self._scrapes: dict[int, ScrapeState] = {}
        self._broken: set[int] = set()  # servers whose latest attempt failed
        self._usual_s: dict[int, float] = {}  # how far apart a server's latest two scrapes were
        self._devices: dict[str, GpuContents] = {}
        self._phases: dict[int, PhaseContents] = {}
        self._open: set[tuple[int, int]] = set()
        self._wrong: dict[str, tuple[int, float]] = {}  # what: (how often, first t)

    def take(self, event: AnyEvent) -> None:
        found = self._contents
        found.duration_s = max(found.duration_s, event.t)
        if isinstance(event, Unknown):
            kind = _typed.decode(event.line).type
            found.unknown[kind] = found.unknown.get(kind, 0) + 1
            return
        kind = str(event.__struct_config__.tag)
        found.events[kind] = found.events.get(kind, 0) + 1
        if found.end is not None:
            self._note(event, "after the end")
        match event:
            case TargetChange():
                if event.target is not None and event.server == len(found.servers):
                    found.servers.append(ServerContents(event.target.url))
            case Scrape() | Outage() | Identity():
                if 0 <= event.server < len(found.servers):
                    self._take_of_server(event, found.servers[event.server])
                else:
                    self._note(event, f"about server {event.server}, which no line before it names")
            case Gpu():
                for reading in event.gpus:
                    self._take_reading(reading)
            case Load():
                self._take_load(event)
            case Request():
                self._take_request(event)
            case End():
                found.end = event.reason
            case _:
                pass

    def contents(self, faults: Sequence[str] = (), faulty: int = 0, backward: int = 0) -> Contents:
        """What the recording holds. `faults`, how many there were, `backward`: what its reader met (FileRecording)."""
        found = self._contents
        found.devices = list(self._devices.values())
        found.phases = list(self._phases.values())
        found.open_requests = len(self._open)
        found.events["note"] = found.events.get("note", 0) - faulty  # those are the reader's, not the file's
        found.events = {kind: count for kind, count in found.events.items() if count > 0}
        found.problems += faults
        if faulty > len(faults):
            found.problems.append(f"lines like these beyond the first {len(faults)}: {faulty - len(faults)}")
        if backward:
            found.problems.append(f"lines that go back in time: {backward}")
        for what, (often, first_t) in self._wrong.items():
            found.problems.append(f"lines {what}: {often} (the first at {first_t:.3f} s)")
        if found.end is None:
            found.problems.append("no line of type end: it was broken off, or is still being written")
        self._remark()
        return found

    def _remark(self) -> None:
        found = self._contents
        for kind, count in found.unknown.items():
            found.remarks.append(f"lines of the unknown type {kind}: {count}, kept, not understood (a newer vtop?)")
        for number, server in enumerate(found.servers):
            if not server.scrapes:
                found.remarks.append(f"server {number} has no scrape")
            if server.gaps:
                longest = f"the longest {server.longest_gap_s:.1f} s"
                found.remarks.append(f"stretches without scrapes of server {number}: {server.gaps}, {longest}")
        if found.open_requests:
            found.remarks.append(f"requests that were sent and have no end: {found.open_requests}")

    def _note(self, event: Event, what: str) -> None:
        often, first_t = self._wrong.get(what, (0, event.t))
        self._wrong[what] = (often + 1, first_t)

    def _take_of_server(self, event: Scrape | Outage | Identity, server: ServerContents) -> None:
        match event:
            case Scrape():
                self._take_scrape(event, server)
            case Outage():
                server.outages += 1
                self._broken.add(event.server)
            case Identity():
                server.kind = event.kind
                server.version = event.version or server.version
                server.models = event.models or server.models

    def _take_scrape(self, scrape: Scrape, server: ServerContents) -> None:
        state = self._scrapes.setdefault(scrape.server, ScrapeState())
        if not scrape.full and not state.whole:
            self._note(scrape, f"of server {scrape.server} that say what changed on a scrape that is not there in full")
        elif not scrape.full and scrape.server in self._broken:
            self._note(scrape, f"of server {scrape.server} that are not full although no scrape could be had before")
        self._broken.discard(scrape.server)
        state.take(scrape)
        server.scrapes += 1
        server.full_scrapes += scrape.full
        server.series = max(server.series, len(state.values) + len(state.hists))
        if state.whole and any(
            len(counts.n) != len(state.le.get(_family(name), ())) + 1 for name, counts in scrape.hists.items()
        ):
            self._note(scrape, f"of server {scrape.server} with a histogram of another number of buckets than bounds")
        if scrape.at_s > scrape.t:
            self._note(scrape, "of scrapes asked for after they were written")
        if server.last_at_s is not None:
            self._take_distance(scrape.at_s - server.last_at_s, scrape.server, server)
        server.first_at_s = scrape.at_s if server.first_at_s is None else server.first_at_s
        server.last_at_s = scrape.at_s

    def _take_distance(self, apart_s: float, number: int, server: ServerContents) -> None:
        """A slow server's scrapes lie further apart than was asked; that is no gap."""
        usual_s = self._usual_s.get(number, self._start.interval_s)
        if apart_s > GAP_INTERVALS * usual_s:
            server.gaps += 1
            server.longest_gap_s = max(server.longest_gap_s, apart_s)
        else:
            self._usual_s[number] = max(self._start.interval_s, apart_s)

    def _take_reading(self, reading: GpuReading) -> None:
        device = self._devices.get(reading.uuid)
        if device is None:
            device = self._devices[reading.uuid] = GpuContents(reading.index, reading.uuid, reading.name)
        device.readings += 1

    def _take_load(self, load: Load) -> None:
        phase = self._phases.get(load.phase)
        if phase is None:
            if load.state != "begin":
                self._note(load, "about a phase of load that never began")
            self._phases[load.phase] = phase = PhaseContents(load.phase, load.spec, load.server, load.t)
        elif load.state == "begin":
            self._note(load, "that begin a phase of load that had begun")
        if load.state == "end":
            phase.end_s = load.t

    def _take_request(self, request: Request) -> None:
        key, phase = (request.phase, request.id), self._phases.get(request.phase)
        stamps = (request.sent_s, request.first_s, request.last_s, request.end_s)
        known = [stamp for stamp in stamps if stamp is not None]
        if known != sorted(known):
            self._note(request, "about a request whose instants are not in order")
        if phase is None and request.phase >= 0:
            self._note(request, "about a request of a phase that never began")
        if phase is not None and key not in self._open:
            phase.requests += 1
        if request.end_s is None:
            self._open.add(key)
            return
        self._open.discard(key)
        if phase is None:
            self._contents.trials += request.phase < 0
            return
        phase.ended += 1
        phase.failed += request.error is not None


def _family(series: str) -> str:
    return series.partition("{")[0]
