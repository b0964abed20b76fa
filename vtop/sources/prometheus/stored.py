"""A session of what a Prometheus stored: who was scraped in a span of time, and the lines of its recording."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from vtop import __version__, plain
from vtop.errors import VtopError
from vtop.recording import End, Event, Note, Scrape, Start, Target
from vtop.recording.events import FORMAT
from vtop.sources.address import target
from vtop.sources.attach import struck_out
from vtop.sources.prometheus.api import PrometheusApi
from vtop.sources.prometheus.dcgm import GpuReader, JoinedGpu, joined
from vtop.sources.prometheus.history import History, ScrapeFolder, ServerCopies, about
from vtop.sources.prometheus.pages import PageReader
from vtop.sources.prometheus.who import FoundTarget, servers
from vtop.sources.targets import LONGEST_LABEL

DEFAULT_PORT: Final = 9090
_PAGES: Final = ("/graph", "/query", "/targets", "/alerts", "/api/v1", "/api/v1/query")  # what people copy
_LATE_INTERVALS: Final = 2.5  # a first sample so much later than asked for is reported
GROUPING: Final = ("cluster", "container", "env", "job", "namespace", "node", "pod", "region", "service", "zone")
_UNKNOWN_INTERVAL_S: Final = 15.0


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """What is wanted of a Prometheus. begin_s, end_s: Unix time on its clock."""

    begin_s: float
    end_s: float
    match: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    core: bool = False
    from_is_given: bool = True  # else a first scrape later than begin_s is nothing to speak of
    gpus: bool = True
    gpu_rule: tuple[str, str] | None = None
    shape: Mapping[str, int | str] | None = None


class Stored:
    """The servers of a span. Raises VtopError where there is none, or Prometheus cannot be asked."""

    def __init__(self, api: PrometheusApi, asked: HistoryQuery, *, argv: Sequence[str] = ()) -> None:
        if not asked.begin_s < asked.end_s:
            raise VtopError("--to is not after --from")
        self.api = api
        self.asked = asked
        self.servers, self.told = servers(api, asked.match, asked.begin_s, asked.end_s, asked.by)
        gpus: list[JoinedGpu] = []
        if asked.gpus:
            gpus, said = joined(api, self.servers, asked.begin_s, asked.end_s, asked.gpu_rule)
            self.told += said
        self.start = Start(
            format=FORMAT,
            vtop=__version__,
            unix_s=round(asked.begin_s, 3),
            servers=targets(self.servers, {place for gpu in gpus for place in gpu.servers}),
            interval_s=interval_s(self.servers),
            argv=struck_out(argv),
            origin=f"read from Prometheus at {api.url}",
            t=0.0,
        )
        self.folders = [
            ScrapeFolder(index, server, self.start.unix_s, asked.shape) for index, server in enumerate(self.servers)
        ]
        self.gpus = GpuReader(gpus, self.start.unix_s, self.start.interval_s) if gpus else None
        self.copies = [
            ServerCopies(
                tuple(PageReader(copy, core=asked.core) for copy in server.copies),
                server.interval_s or self.start.interval_s,
            )
            for server in self.servers
        ]
        self.broken_off: str | None = None  # why not all of it was read
        self.end_s = 0.0  # of the session, once its lines have been read
        self.warnings: list[str] = []  # of Prometheus, told at the end

    def notes(self) -> list[Note]:
        """What there is to say before the first scrape."""
        return [about(self.servers, self.api.url), *(Note(source="server", text=text) for text in self.told)]

    def history(self) -> Iterator[Event]:
        """The scrapes, in order of t, and what there is to say of them. Where Prometheus fails halfway, what was read
        stands, and `broken_off` says why."""
        asked = self.asked
        read = History(self.api, self.servers, self.folders, self.copies, (asked.begin_s, asked.end_s), gpus=self.gpus)
        t = 0.0
        late = asked.from_is_given
        try:
            for event in read.events():
                t = event.t
                if late and isinstance(event, Scrape):
                    late = False
                    if event.at_s > _LATE_INTERVALS * self.start.interval_s:
                        said = f"the first scrape is {event.at_s:.0f} s later than --from asks: nothing older is stored"
                        yield Note(t=t, source="server", text=said)
                yield event
        except VtopError as error:
            self.broken_off = str(error)
            yield Note(t=t, source="recording", text=f"not read any further: {error}")
        for text in [*read.notes(), *self.warnings]:
            yield Note(t=t, source="server", text=text)
        self.told += self.warnings
        self.warnings.clear()

    def lines(self) -> Iterator[Event]:
        """All of a recording, from its start to its end; t never goes back."""
        yield self.start
        t = 0.0
        for note in self.notes():
            yield msgspec.structs.replace(note, t=0.0)
        for event in self.history():
            t = max(t, event.t)
            yield event if event.t == t else msgspec.structs.replace(event, t=t)
        self.end_s = t if self.broken_off else max(t, round(self.asked.end_s - self.start.unix_s, 3))
        yield End(t=self.end_s, reason="broken off" if self.broken_off else "read to --to")


def prometheus_target(text: str) -> Target:
    """`prom`, `:9090`, `http://prom:9090/prometheus`, or the address of one of its pages."""
    typed = text.strip().partition("?")[0].partition("#")[0].rstrip("/")
    for page in sorted(_PAGES, key=len, reverse=True):
        typed = typed.removesuffix(page)
    if "://" not in typed and ":" not in typed.partition("/")[0]:
        host, slash, path = typed.partition("/")
        typed = f"{host}:{DEFAULT_PORT}{slash}{path}"
    return target(typed)


def targets(found: Sequence[FoundTarget], with_gpus: Collection[int] = ()) -> tuple[Target, ...]:
    """As a recording names them: by what Prometheus calls them, which need not be an address. with_gpus: the places of
    those whose GPUs are in the recording."""
    usual_s = interval_s(found)
    own = [one.interval_s if one.interval_s != usual_s else None for one in found]
    return tuple(
        Target(url=one.name, local=place in with_gpus, interval_s=own[place], labels=labels_of(one))
        for place, one in enumerate(found)
    )


def labels_of(one: FoundTarget) -> dict[str, str]:
    """What servers are grouped by. Of a label that is not known here nobody knows what it holds."""
    own = [(name, value) for name, value in one.copies[0].labels if name in GROUPING]
    return {name: plain.line(value)[:LONGEST_LABEL] for name, value in own}


def interval_s(found: Sequence[FoundTarget]) -> float:
    """Between the scrapes of most of the servers; the longest of several that are as common."""
    known = [one.interval_s for one in found if one.interval_s is not None]
    return max(known, key=lambda one: (known.count(one), one), default=_UNKNOWN_INTERVAL_S)
