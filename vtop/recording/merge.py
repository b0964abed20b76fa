"""Several recordings as one session: of different servers side by side, of one server one after another, or both.

They are laid on one time axis by the wall clock at which each began. A server is the same as one before when its URL
is, unless both were watched at once and say that they started at different times: then they are two, on two hosts that
both call them localhost. What cannot be one session is refused: one server twice at once, and recordings that have
neither a server nor a moment in common.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import msgspec

from vtop.errors import VtopError
from vtop.recording.events import (
    FORMAT,
    AnyEvent,
    CapacitySearch,
    End,
    Gpu,
    Identity,
    Load,
    LoadHost,
    Note,
    Outage,
    Request,
    Scrape,
    Start,
    Target,
    TargetChange,
)
from vtop.recording.merge_gpus import Devices
from vtop.recording.shift import moved

_STARTED = "process_start_time_seconds"
_SAME_START_S = 1.0
_TOUCH_S = 1e-3  # one that begins where another ends comes after it


@dataclass(slots=True)
class Extent:
    """What a merge must know of a recording before it begins: made by reading it once."""

    name: str
    start: Start
    end_s: float = 0.0
    phases: int = 0
    started: dict[int, float] = field(default_factory=dict)  # by server: when its process began, as it first said
    finished: bool = False  # closed in good order

    def take(self, event: AnyEvent) -> None:
        self.end_s = max(self.end_s, event.t)
        self.finished = isinstance(event, End)
        if isinstance(event, Load):
            self.phases = max(self.phases, event.phase + 1)
        elif isinstance(event, Scrape) and event.server not in self.started:
            started = event.values.get(_STARTED)
            if started is not None:
                self.started[event.server] = started

    @property
    def span(self) -> tuple[float, float]:
        """Wall clock of its first and last line."""
        return self.start.unix_s, self.start.unix_s + self.end_s


@dataclass(frozen=True, slots=True)
class MergePart:
    """Where one recording goes in the merged one."""

    extent: Extent
    by_s: float
    servers: tuple[int, ...]  # for each of its servers, which it is now
    first_phase: int


@dataclass(frozen=True, slots=True)
class MergePlan:
    start: Start
    parts: tuple[MergePart, ...]  # in the order in which they began
    words: str  # what is done, for people


@dataclass(slots=True)
class _MergedServer:
    target: Target
    watched: list[tuple[Extent, int]]  # recordings, and its number there


def plan(extents: Iterable[Extent]) -> MergePlan:
    """How recordings go together. Raises VtopError where they make no session."""
    ordered = sorted(extents, key=lambda one: one.start.unix_s)
    if len(ordered) < 2:
        raise VtopError("merge takes two recordings or more")
    servers: list[_MergedServer] = []
    parts: list[MergePart] = []
    first_phase = 0
    for extent in ordered:
        places = tuple(_place(servers, extent, number) for number in range(len(extent.start.servers)))
        by_s = round(extent.start.unix_s - ordered[0].start.unix_s, 6)  # no clock knows more
        parts.append(MergePart(extent, by_s, places, first_phase))
        first_phase += extent.phases
    _refuse_strangers(parts)
    start = Start(
        t=0.0,
        format=FORMAT,
        vtop=ordered[0].start.vtop,
        unix_s=ordered[0].start.unix_s,
        servers=tuple(server.target for server in servers),
        interval_s=max(one.start.interval_s for one in ordered),
        origin="; ".join(dict.fromkeys(one.start.origin for one in ordered if one.start.origin)) or None,
    )
    return MergePlan(start, tuple(parts), _words(servers))


def merged(plan: MergePlan, recordings: Sequence[Iterable[AnyEvent]]) -> Iterator[AnyEvent]:
    """The lines of the merged recording, its first line too; `recordings` stand in the order of the plan's parts."""
    yield plan.start
    yield Note(t=0.0, source="recording", text=f"merged: {plan.words}")
    devices = Devices([part.by_s + part.extent.end_s for part in plan.parts], plan.start.interval_s)
    lines = [_lines(number, plan.parts[number], events) for number, events in enumerate(recordings)]
    last_t, asked_at_s = 0.0, dict.fromkeys(range(len(plan.start.servers)), -math.inf)
    for number, event in heapq.merge(*lines, key=lambda line: line[1].t):
        together = devices.with_others(number, event) if isinstance(event, Gpu) else event
        if together is None:
            continue
        if isinstance(together, Scrape):
            if together.full and abs(together.at_s - asked_at_s[together.server]) < _TOUCH_S:
                continue  # a cut begins with the scrape that was the last before it
            asked_at_s[together.server] = together.at_s
        last_t = together.t
        yield together
    yield End(t=last_t, reason="merged")


def _lines(number: int, part: MergePart, events: Iterable[AnyEvent]) -> Iterator[tuple[int, AnyEvent]]:
    name, end_t = part.extent.name, 0.0
    for event in events:
        here = moved(event, part.by_s)
        end_t = here.t
        match here:
            case Start():
                continue
            case End():
                yield number, Note(t=here.t, source="recording", text=f"end of {name}: {here.reason}")
            case Scrape() | Outage() | Identity() | CapacitySearch():
                if 0 <= here.server < len(part.servers):
                    yield number, msgspec.structs.replace(here, server=part.servers[here.server])
            case TargetChange():
                if 0 <= here.server < len(part.servers):
                    yield number, msgspec.structs.replace(here, server=part.servers[here.server])
                elif here.target is not None:
                    said = f"{name}: {here.target.url}, which came later, is left out"
                    yield number, Note(t=here.t, source="recording", text=said)
            case Note() if here.server is not None and 0 <= here.server < len(part.servers):
                yield number, msgspec.structs.replace(here, server=part.servers[here.server])
            case Load() if 0 <= here.server < len(part.servers):
                server, phase = part.servers[here.server], here.phase + part.first_phase
                yield number, msgspec.structs.replace(here, server=server, phase=phase)
            case LoadHost():
                yield number, msgspec.structs.replace(here, phase=here.phase + part.first_phase)
            case Request() if here.phase >= 0:
                yield number, msgspec.structs.replace(here, phase=here.phase + part.first_phase)
            case _:
                yield number, here
    if not part.extent.finished:
        yield number, Note(t=end_t, source="recording", text=f"end of {name}: broken off")


def _place(servers: list[_MergedServer], extent: Extent, number: int) -> int:
    """Which of the merged servers this one is; a new one where it is none of them."""
    target = extent.start.servers[number]
    namesakes = [place for place, server in enumerate(servers) if server.target.url == target.url]
    taken: list[str] = []
    for place in (*namesakes, *_renamed(servers, target.url)):
        rivals = [one for one in servers[place].watched if _overlap(one[0], extent)]
        if not rivals:
            servers[place].watched.append((extent, number))
            return place
        for other, its_number in rivals:
            if not _another(other.started.get(its_number), extent.started.get(number)):
                raise VtopError(
                    f"{extent.name} and {other.name} watch {target.url} at the same time: one of them is enough"
                )
        taken.append(servers[place].target.url)
    if taken:  # two hosts that both say localhost: the fragment keeps them apart
        target = msgspec.structs.replace(target, url=f"{target.url}#{len(taken) + 1}")
    servers.append(_MergedServer(target, [(extent, number)]))
    return len(servers) - 1


def _renamed(servers: list[_MergedServer], url: str) -> list[int]:
    return [place for place, server in enumerate(servers) if server.target.url.startswith(f"{url}#")]


def _another(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and abs(one - other) > _SAME_START_S


def _overlap(one: Extent, other: Extent) -> bool:
    (begin, end), (its_begin, its_end) = one.span, other.span
    return begin < its_end - _TOUCH_S and its_begin < end - _TOUCH_S


def _refuse_strangers(parts: Sequence[MergePart]) -> None:
    """Every recording shares a server or a moment with another, and so on: they hang together."""
    together, left = [parts[0]], list(parts[1:])
    while left:
        joined = [
            one
            for one in left
            if any(set(one.servers) & set(other.servers) or _overlap(one.extent, other.extent) for other in together)
        ]
        if not joined:
            alone = left[0].extent.name
            raise VtopError(
                f"{alone} and {parts[0].extent.name} have neither a server nor a moment in common, so they are no one "
                "session"
            )
        together += joined
        left = [one for one in left if one not in joined]


def _words(servers: Sequence[_MergedServer]) -> str:
    """What stands side by side and what follows what."""
    told = []
    for server in servers:
        spans = sorted(extent.span for extent, _ in server.watched)
        names = " then ".join(extent.name for extent, _ in sorted(server.watched, key=lambda one: one[0].span))
        breaks = [f"{after[0] - before[1]:.1f} s" for before, after in pairwise(spans)]
        between = f" (not recorded in between: {', '.join(breaks)})" if breaks else ""
        told.append(f"{server.target.url} from {names}{between}")
    side_by_side = f"{len(servers)} servers side by side: " if len(servers) > 1 else "one server: "
    return side_by_side + "; ".join(told)
