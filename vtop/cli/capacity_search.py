"""Drives a search of capacity: run after run on the simulated engine, on a server, or on two by turns."""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtop import units
from vtop.cli.common import attached, echo, open_recording, whole
from vtop.cli.load import consent, controller_of
from vtop.errors import VtopError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtop.access import Access
    from vtop.cli.capacity_panel import CapacityPanel
    from vtop.load.workload.phase import PlannedPhase
    from vtop.plan.capacity_answer import Searched
    from vtop.plan.capacity_runs import SimulatedTarget
    from vtop.recording import CapacitySearch
    from vtop.recording.events import Target
    from vtop.session.capacity.record import RecordedSearch
    from vtop.session.capacity.search import Next, RunResult, Search
    from vtop.session.session import Session

Servers = tuple[list["Target"], list["Access"]]
SEQS = 128  # seats of a simulated server, where none are told
FIRST_SCRAPE_S = 15.0  # for a server to be read for the first time


def simulate(asked: CapacitySearch, like: PlannedPhase, given: dict[str, Any]) -> list[Searched]:
    from vtop.plan.capacity_answer import Searched
    from vtop.plan.capacity_runs import closed_phase_of, plausible, simulated, simulated_closed
    from vtop.session.capacity.record import RecordedSearch, plan_of
    from vtop.session.capacity.search import Search

    server = _simulated_server(given)
    plan = plan_of(asked)
    one = RecordedSearch(asked, plan, Search(plan), gpus=1)
    if given["closed_loop"] is not None:
        phase = closed_phase_of(like, given["closed_loop"], asked.requests, asked.seed)
        one.closed.append(simulated_closed(phase, server, asked.slo))

    def searched(search: Search, on: SimulatedTarget, told: _Told) -> None:
        _by_turns([search], lambda _, wanted: simulated(wanted, like, on, asked.slo), told, given["deadline_s"])

    searched(one.search, server, _Told())
    for number, other in enumerate(plausible(server, given["hosts"]) if given["hosts"] else (), 1):
        if one.search.end == "stopped":
            break
        echo(f"plausible host {number} of {given['hosts']}", err=True)
        search = Search(plan)
        searched(search, other, _Told(quiet=True))
        one.hosts.append(search.bracket())
    runs = [run.running_peak or 0.0 for rate in one.search.rates() if rate.verdict == "pass" for run in rate.runs]
    one.remarks.extend(server.beyond(like, max(runs, default=None)))
    seats = f"--max-num-seqs {server.flags.max_num_seqs}, {server.flags.kv_tokens:,} tokens of KV"
    return [Searched(one, f"the simulated engine, {server.profile.name}, {seats}", like, None)]


def _simulated_server(given: dict[str, Any]) -> SimulatedTarget:
    """Of a profile, or of a recording: its flags, and its host by the profile of its GPU or one fitted on it."""
    from vtop.cli.whatif import profile_for, runs_of
    from vtop.engine.core.flags import Flags
    from vtop.engine.fit import profile
    from vtop.engine.fit.calibration import host_factors_of
    from vtop.engine.whatif.unknowns import Draw
    from vtop.plan.capacity_runs import SimulatedTarget

    name = given["profile"]
    if name.endswith(".toml") or name in profile.names():
        fitted = profile.load(name)
        known = fitted.flags
        seqs = given["max_num_seqs"] or SEQS
        flags = Flags(known["num_gpu_blocks"], block_size=known["block_size"], max_num_seqs=seqs)
        return SimulatedTarget(flags, fitted, fitted.shape)
    runs, _ = runs_of(Path(name), {"was_seqs": None, "was_budget": None, "model_config": given["model_config"]})
    fitted = profile_for(None, runs, Path(name))
    run = max(runs, key=lambda one: one.observed.running or 0.0)
    flags = replace(run.flags, max_num_seqs=given["max_num_seqs"] or run.flags.max_num_seqs)
    return SimulatedTarget(flags, fitted, run.shape or fitted.shape, Draw(host_factors_of(run, fitted), 0.0, 0))


def measure(asked: CapacitySearch, like: PlannedPhase, servers: Servers, given: dict[str, Any]) -> list[Searched]:
    from vtop.plan.capacity_answer import Searched

    if given["against"] is not None:
        from vtop.cli.common import servers_of

        other = servers_of(given | {"urls": (given["against"],)})
        servers = ([*servers[0], *other[0]], [*servers[1], *other[1]])
    earlier = _earlier(given["resume"], asked) if given["resume"] is not None else None
    for target in servers[0]:
        consent(given, target)
    live = _Live(asked, like, servers, given)
    with live.panel or nullcontext():
        live.conduct(earlier)
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
    names = {"spec": "--with", "requests": "--n", "first_per_s": "--from", "least_per_s": "--min", "slo": "--slo"}
    for name in sorted({*was, *now} - {"server"}):
        if was.get(name) != now.get(name):
            option = names.get(name, f"--{name.partition('_')[0]}")
            raise VtopError(f"--resume {path}: that search had {option} {was.get(name)}, this one {now.get(name)}")
    return session, found[0]


class _Live:
    """One or two servers, their recording, and the search of each."""

    def __init__(self, asked: CapacitySearch, like: PlannedPhase, servers: Servers, given: dict[str, Any]) -> None:
        from vtop.cli.capacity_panel import CapacityPanel
        from vtop.session.capacity.record import RecordedSearch, plan_of
        from vtop.session.capacity.search import Search
        from vtop.session.session import Session

        plan = plan_of(asked)
        self._like, self._servers, self._given = like, servers, given
        self.searches = [RecordedSearch(asked, plan, Search(plan)) for _ in servers[0]]
        self._attachment = attached(given, servers, given["record_to"])
        self._recording = self._attachment.recording
        self._session = Session(self._recording.start)
        self._phases: list[PlannedPhase] = []
        self.panel: CapacityPanel | None = CapacityPanel() if sys.stderr.isatty() else None

    def conduct(self, earlier: tuple[Session, RecordedSearch] | None) -> None:
        from vtop.plan.capacity_answer import gpus_of
        from vtop.session.capacity.server_state import another

        self._attachment.start()
        try:
            self._first_scrapes()
            if earlier is not None:
                was, now = earlier[0].servers[earlier[1].asked.server], self._session.servers[0]
                if (why := another(was, earlier[0].end_s, now, self._session.end_s)) is not None:
                    raise VtopError(f"--resume: the server is not the one that was searched: {why}")
                self.searches[0].search.go_on(earlier[1].search)
                self.searches[0].closed.extend(earlier[1].closed)
            self._begin()
            _by_turns([one.search for one in self.searches], self._run, _Told(self.panel), self._given["deadline_s"])
            for number, one in enumerate(self.searches):
                one.gpus = gpus_of(self._session)
                self._end(number, one)
        finally:
            self._attachment.stop("the search is over")
        whole(self._recording)

    def _first_scrapes(self) -> None:
        until_s = time.monotonic() + FIRST_SCRAPE_S
        while time.monotonic() < until_s:
            self._take()
            if all(server.t for server in self._session.servers):
                return
            time.sleep(0.1)
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
        runs, bounds = self._session.searches.runs, self.searches[number].asked.slo
        return runs.measured(wanted, index, bounds, self._session.end_s)

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
            self._attachment.began_s,
            tuple(self._phases),
            first=index,
            server=number,
        )
        controller.start()
        try:
            while not controller.finished.wait(0.25):
                self._take()
                if self.panel is not None:
                    self.panel.running(self._session.load.part(self._session.end_s))
        finally:
            controller.stop()
        if controller.failed is not None:
            raise VtopError(controller.failed)
        time.sleep(SETTLE_S + self._recording.start.interval_s)  # the scrape after its end is part of the run
        self._take()
        if phase.concurrency is not None:
            one = self.searches[number]
            one.closed.append(self._session.searches.runs.closed(index, one.asked.slo, self._session.end_s))
        return index

    def _end(self, number: int, one: RecordedSearch) -> None:
        from vtop.recording import CapacitySearch

        self._recording.append(CapacitySearch(server=number, reason=one.search.end, why=one.search.why))

    def _take(self) -> None:
        for event in self._recording.take():
            self._session.apply(event)


class _Told:
    """What is said while a search runs: a line on stderr for each rate that is judged, and on a terminal a panel."""

    def __init__(self, panel: CapacityPanel | None = None, *, quiet: bool = False) -> None:
        self._panel = panel
        self._quiet = quiet
        self._said: list[dict[float, str]] = []

    def plan(self, searches: Sequence[Search]) -> None:
        for search in searches if not self._quiet else ():
            left = search.left()
            each = search.plan.requests / search.plan.first_per_s
            echo(
                f"plan: {search.plan.name}; about {left.runs} runs, {units.seconds(left.seconds)} of load, if the "
                f"answer is near {units.number(search.plan.first_per_s)} requests/s, where a run takes "
                f"{units.seconds(each)}",
                err=True,
            )
        self._said = [{} for _ in searches]

    def look(self, searches: Sequence[Search], number: int, wanted: Next, elapsed_s: float) -> None:
        if self._panel is not None:
            self._panel.show(searches, number, wanted, elapsed_s)

    def judged(self, number: int, search: Search, result: RunResult) -> None:
        if self._quiet:
            return
        if result.why_not is not None:
            echo(f"rate={result.rate_per_s:g} seed {result.seed}: not counted, {result.why_not}", err=True)
            return
        for rate in search.rates():
            if rate.verdict in ("more", self._said[number].get(rate.rate_per_s)):
                continue
            self._said[number][rate.rate_per_s] = rate.verdict
            now, left = search.bracket(), search.left()
            who = f"server {number + 1}: " if len(self._said) > 1 else ""
            echo(
                f"{who}rate={rate.rate_per_s:g} {rate.verdict}: {units.percent(rate.mean_ratio)} mean, lowest "
                f"{units.percent(rate.lowest_ratio)} of {len(rate.runs)} runs; between "
                f"{units.number(now.passes_per_s)} and {units.number(now.fails_per_s)} requests/s, "
                f"about {units.seconds(left.seconds)} of load left",
                err=True,
            )


def _by_turns(
    searches: Sequence[Search], run: Callable[[int, Next], RunResult], told: _Told, deadline_s: float | None
) -> None:
    """A run of each search after the other, until all are at their end, so that what drifts meets both alike."""
    began_s, longest_s = time.monotonic(), 0.0
    told.plan(searches)
    try:
        while going := [number for number, search in enumerate(searches) if search.next() is not None]:
            for number in going:
                wanted, since_s = searches[number].next(), time.monotonic() - began_s
                if wanted is None:
                    continue
                if deadline_s is not None and since_s + longest_s > deadline_s:
                    _stop(searches, "deadline")
                    return
                told.look(searches, number, wanted, since_s)
                result = run(number, wanted)
                longest_s = max(longest_s, time.monotonic() - began_s - since_s)
                searches[number].tell(result)
                told.judged(number, searches[number], result)
    except KeyboardInterrupt:
        _stop(searches, "stopped")


def _stop(searches: Sequence[Search], why: str) -> None:
    for search in searches:
        if search.end is None:
            search.stop(why)
