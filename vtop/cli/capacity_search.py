"""Drives a search of capacity: run after run on the simulated engine, on a server, or on two by turns."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtop import units
from vtop.cli import progress
from vtop.cli.capacity_turns import SearchTalk, Stopped, by_turns
from vtop.cli.common import attached, echo, open_recording, whole
from vtop.cli.load import consent, controller_of
from vtop.errors import VtopError

if TYPE_CHECKING:
    from vtop.access import Access
    from vtop.load.workload.phase import PlannedPhase
    from vtop.plan.capacity_answer import Searched
    from vtop.recording import CapacitySearch
    from vtop.recording.events import Target
    from vtop.session.capacity.record import RecordedSearch
    from vtop.session.capacity.search import Next, RunResult
    from vtop.session.session import Session

Servers = tuple[list["Target"], list["Access"]]
FIRST_SCRAPE_S = 15.0  # for a server to be read for the first time


def measure(asked: CapacitySearch, like: PlannedPhase, servers: Servers, given: dict[str, Any]) -> list[Searched]:
    from vtop.plan.capacity_answer import Searched

    if given["against"] is not None:
        from vtop.cli.common import servers_of

        other = servers_of(given | {"urls": (given["against"],)})
        servers = ([*servers[0], *other[0]], [*servers[1], *other[1]])
    earlier = _earlier(given["resume"], asked) if given["resume"] is not None else None
    for target in servers[0]:
        consent(given, target)
    remarks: list[str] = []
    if earlier is not None:
        asked = earlier[1].asked
    elif given["profile"] is not None:
        from vtop.cli.capacity_simulated import foretold, simulate

        (found,) = simulate(asked, like, given)
        asked, remarks = foretold(asked, found), found.recorded.remarks
        known = asked.simulated
        assert known is not None
        low, high = units.number(known.passes_per_s), units.number(known.fails_per_s)
        echo(f"simulated by {known.by}: between {low} and {high} requests/s; now measured", err=True)
    live = _Live(asked, like, servers, given)
    if given["screen"]:
        from vtop.cli.capacity_screen import on_screen

        on_screen(live.attachment, lambda: live.conduct(earlier), live.leave)
    else:
        progress.shown("searching")(live.alone)(earlier)
    whole(live.attachment.recording)
    for one in live.searches:
        one.remarks.extend(remarks)
    return [Searched(one, target.url, like, target.url) for one, target in zip(live.searches, servers[0], strict=True)]


def _earlier(path: Path, asked: CapacitySearch) -> tuple[Session, RecordedSearch]:
    """The search in a recording, to go on with. Raises VtopError where it is none, or of other words."""
    import msgspec

    from vtop.session.session import read

    session = read(open_recording(path))
    found = session.searches.found(session.end_s)
    if len(found) != 1:
        raise VtopError(f"--resume {path}: it holds {len(found) or 'no'} searches of capacity, and one is gone on with")
    was, now = (msgspec.to_builtins(msgspec.structs.replace(one, t=-1.0)) for one in (found[0].asked, asked))
    now["warm_only"] = was["warm_only"]  # which older ones did not ask for
    if found[0].asked.simulated is not None:  # what was simulated then holds, and chose the first rate
        now |= {name: was[name] for name in ("simulated", "first_per_s")}
    names = {"spec": "--with", "requests": "--n", "first_per_s": "--from", "least_per_s": "--min", "slo": "--slo"}
    for name in sorted({*was, *now} - {"server"}):
        if was.get(name) != now.get(name):
            option = names.get(name, f"--{name.partition('_')[0]}")
            raise VtopError(f"--resume {path}: that search had {option} {was.get(name)}, this one {now.get(name)}")
    return session, found[0]


class _Live:
    """One or two servers, their recording, and the search of each. reader: of the recording, by this search alone."""

    def __init__(self, asked: CapacitySearch, like: PlannedPhase, servers: Servers, given: dict[str, Any]) -> None:
        from vtop.session.capacity.record import RecordedSearch, plan_of
        from vtop.session.capacity.search import Search
        from vtop.session.session import Session

        plan = plan_of(asked)
        self._like, self._servers, self._given = like, servers, given
        self.searches = [RecordedSearch(asked, plan, Search(plan)) for _ in servers[0]]
        self.attachment = attached(given, servers, given["record_to"])
        self._recording = self.attachment.recording
        self._reader = self._recording.reader() if given["screen"] else self._recording
        self._session = Session(self._recording.start)
        self._phases: list[PlannedPhase] = []
        self._left = threading.Event()  # whoever asked has gone

    def leave(self) -> None:
        """The search ends as soon as it can, in another thread."""
        self._left.set()

    def conduct(self, earlier: tuple[Session, RecordedSearch] | None) -> None:
        """The search to its end. earlier: what an interrupted one found."""
        from vtop.plan.capacity_answer import gpus_of
        from vtop.session.capacity.server_state import another

        if not self._first_scrapes():
            return
        if earlier is not None:
            was, now = earlier[0].servers[earlier[1].asked.server], self._session.servers[0]
            if (why := another(was, earlier[0].end_s, now, self._session.end_s)) is not None:
                raise VtopError(f"--resume: the server is not the one that was searched: {why}")
            self.searches[0].search.go_on(earlier[1].search)
            self.searches[0].closed.extend(earlier[1].closed)
        self._begin()
        told = SearchTalk(quiet=self._given["screen"])
        by_turns([one.search for one in self.searches], self._run, told, self._given["deadline_s"])
        for number, one in enumerate(self.searches):
            one.gpus = gpus_of(self._session)
            self._end(number, one)

    def alone(self, earlier: tuple[Session, RecordedSearch] | None) -> None:
        """Without a screen."""
        self.attachment.start()
        try:
            self.conduct(earlier)
        finally:
            self.attachment.stop("the search is over")

    def _first_scrapes(self) -> bool:
        """Whether they came before whoever asked had gone. Raises VtopError where they do not come."""
        until_s = time.monotonic() + FIRST_SCRAPE_S
        while time.monotonic() < until_s:
            self._take()
            if all(server.t for server in self._session.servers):
                return True
            if self._left.wait(0.1):
                return False
        silent = next(one.target.url for one in self._session.servers if not one.t)
        raise VtopError(f"{silent}: does not answer with vLLM's metrics; a capacity is judged by what the server says")

    def _begin(self) -> None:
        import msgspec

        from vtop.plan.capacity_runs import closed_phase_of

        for number, one in enumerate(self.searches):
            one.asked = msgspec.structs.replace(one.asked, server=number)
            self._recording.append(one.asked)
        concurrency = self._given["closed_loop"]
        if concurrency is not None and not self.searches[0].closed:
            for number, one in enumerate(self.searches):
                self._phase(number, closed_phase_of(self._like, concurrency, one.plan.requests, one.asked.seed))

    def _run(self, number: int, wanted: Next) -> RunResult:
        from vtop.plan.capacity_runs import phase_of

        index = self._phase(number, phase_of(self._like, wanted))
        asked, now_s = self.searches[number].asked, self._session.end_s
        return self._session.searches.runs.measured(wanted, index, asked.slo, now_s, warm_only=asked.warm_only)

    def _phase(self, number: int, phase: PlannedPhase) -> int:
        """One phase of load on a server, to its end and the scrape after it. Raises VtopError."""
        from vtop.session.capacity.runs import SETTLE_S

        self._phases.append(phase)
        index = len(self._phases) - 1
        servers = [self._servers[0][number]], [self._servers[1][number]]
        controller = controller_of(
            self._given,
            servers,
            self._recording,
            self.attachment.began_s,
            tuple(self._phases),
            first=index,
            server=number,
        )
        controller.start()
        try:
            while not controller.finished.wait(0.25):
                if self._left.is_set():
                    raise Stopped
                self._take()
                self._say_running()
        finally:
            controller.stop()
        if controller.failed is not None:
            raise VtopError(controller.failed)
        self._left.wait(SETTLE_S + self._recording.start.interval_s)  # the scrape after its end is part of the run
        self._take()
        if phase.concurrency is not None:
            one = self.searches[number]
            one.closed.append(self._session.searches.runs.closed(index, one.asked.slo, self._session.end_s))
        return index

    def _end(self, number: int, one: RecordedSearch) -> None:
        from vtop.recording import CapacitySearch

        self._recording.append(CapacitySearch(server=number, reason=one.search.end, why=one.search.why))

    def _take(self) -> None:
        for event in self._reader.take():
            self._session.apply(event)

    def _say_running(self) -> None:
        line, part = progress.current(), self._session.load.part(self._session.end_s)
        if line is not None and part is not None:
            ended = f"{part.done + part.failed + part.unfinished:,} of {part.planned or 0:,} ended"
            line.say(f"{part.spec.split(' ')[0]}, {ended}, {part.in_flight:,} in flight")
