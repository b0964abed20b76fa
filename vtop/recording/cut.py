"""A span of a recording as a recording of its own, which shows the same numbers for that span.

What was known when the span began is written at its beginning, with its own instants (they come out negative): the
scrape of each server, whole; who answered; the attempts that had failed since; the GPUs; the phases of load that ran,
and of their requests those still in flight, so that their ends, which lie in the span, end something. Requests that
had ended are left out: what a phase adds up to is counted from the beginning of the cut. Marks and notes of before, and
events of an unknown type, whose meaning may be anything, are left out too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from vtop.recording.events import (
    AnyEvent,
    CapacitySearch,
    End,
    Event,
    Gpu,
    Host,
    Identity,
    Load,
    LoadHost,
    Note,
    Outage,
    Request,
    Scrape,
    Start,
    TargetChange,
)
from vtop.recording.scrape_state import ScrapeState
from vtop.recording.shift import moved

JUST_AFTER_S = 1e-6  # what came after the latest scrape is written after it


def cut(start: Start, events: Iterable[AnyEvent], from_s: float, to_s: float, note: str) -> Iterator[AnyEvent]:
    """The lines of a recording of from_s to to_s, both included, its first line too. `note` says what it was cut from.

    Events are taken from the iterable no further than the first after to_s.
    """
    yield msgspec.structs.replace(start, t=0.0, unix_s=start.unix_s + from_s)
    yield Note(t=0.0, source="recording", text=note)
    known: Known | None = Known()
    last_t, ended = 0.0, False
    for event in events:
        if event.t > to_s:
            last_t, ended = max(last_t, round(to_s - from_s, 6)), False  # it goes on: what there was by then is known
            break
        if isinstance(event, Start):
            continue
        if known is not None and event.t < from_s:
            known.take(event)
            continue
        if known is not None:
            for line in known.lines(from_s):
                yield line
                last_t = line.t
            known = None
        line = moved(event, -from_s, max(last_t, round(event.t - from_s, 6)))
        yield line
        last_t, ended = line.t, isinstance(event, End)
    if known is not None:
        yield from known.lines(from_s)
    if not ended:
        yield End(t=last_t, reason="cut")


class Known:
    """What the lines so far say about the instant after them."""

    def __init__(self) -> None:
        self._scrapes: dict[int, ScrapeState] = {}
        self._identities: dict[int, Identity] = {}
        self._watched: list[TargetChange] = []
        self._outages: dict[int, list[Outage]] = {}  # since the server's latest scrape
        self._gpu: Gpu | None = None
        self._gpu_note: Note | None = None  # since the latest reading
        self._hosts: dict[tuple[bool, int | None], Host] = {}  # the latest about the machine, about each of the load
        self._senders: dict[tuple[int, int], LoadHost] = {}  # before its phase: by (phase, host)
        self._searches: dict[int, CapacitySearch] = {}  # by server, that have begun and not ended
        self._phases: dict[int, list[Load]] = {}  # that have begun and not ended
        self._requests: dict[tuple[int, int], list[Request]] = {}  # in flight: by (phase, id)

    def take(self, event: AnyEvent) -> None:
        match event:
            case Scrape():
                self._scrapes.setdefault(event.server, ScrapeState()).take(event)
                self._outages.pop(event.server, None)
            case Outage():
                self._outages.setdefault(event.server, []).append(event)
            case Identity():
                self._identities[event.server] = event
            case TargetChange():
                self._watched.append(event)
            case Gpu():
                self._gpu, self._gpu_note = event, None
            case Note():
                if event.source == "gpu":
                    self._gpu_note = event
            case Host():
                self._hosts[event.load_cpu_ratio is None, event.load_host] = event
            case LoadHost() if not event.after:
                self._senders[event.phase, event.host] = event
            case CapacitySearch():
                self._searches.pop(event.server, None)
                if event.reason is None:
                    self._searches[event.server] = event
            case Load():
                self._take_load(event)
            case Request():
                if event.end_s is None:
                    self._requests.setdefault((event.phase, event.id), []).append(event)
                else:
                    self._requests.pop((event.phase, event.id), None)
            case _:
                pass

    def _take_load(self, load: Load) -> None:
        if load.state == "end":
            self._phases.pop(load.phase, None)
            self._senders = {place: one for place, one in self._senders.items() if place[0] != load.phase}
        else:
            self._phases.setdefault(load.phase, []).append(load)

    def in_session(self, at_s: float) -> Iterator[AnyEvent]:
        """The same lines in the time of the session that goes on, all of them of that instant."""
        return (moved(line, at_s, at_s) for line in self.lines(at_s))

    def lines(self, at_s: float) -> Iterator[AnyEvent]:
        """The lines that say it, written at the beginning of a recording that begins at `at_s`."""
        told: list[Event | None] = [*self._watched, *self._identities.values(), self._gpu, *self._hosts.values()]
        told += [scrape.line() for scrape in self._scrapes.values()]
        told += self._searches.values()
        told += self._senders.values()
        for loads in self._phases.values():
            told += loads
        for requests in self._requests.values():
            told += requests
        since: list[Event | None] = [self._gpu_note]
        for outages in self._outages.values():
            since += outages
        for t, events in ((0.0, told), (JUST_AFTER_S, since)):
            for event in events:
                if event is not None:
                    yield moved(event, -at_s, t)
