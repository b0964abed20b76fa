"""The session: what a recording means so far. The only reducer, and the only place where a shown number is made.

`apply` takes in one decoded line; `frame` says what there is to see at an instant. A frame looks at nothing later
than its instant, so a session read to its end gives for any earlier moment what a live screen showed then.
"""

from __future__ import annotations

import gc
import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from vtop import faults, units
from vtop.metrics.quantity import Quantity
from vtop.recording import (
    AnyEvent,
    CapacitySearch,
    End,
    Gpu,
    Host,
    Identity,
    Load,
    LoadHost,
    Mark,
    Note,
    Outage,
    Recording,
    Request,
    Scrape,
    Start,
    Target,
    TargetChange,
    events_of,
)
from vtop.recording.events import DEFAULT_KIND
from vtop.recording.vocabulary import LOAD_STATES, known
from vtop.session import charts, heat_maps
from vtop.session.bottleneck import incidents, queueing, status
from vtop.session.bottleneck.evidence import pressures
from vtop.session.bottleneck.verdict import verdict
from vtop.session.capacity.record import SearchHistory
from vtop.session.capacity.runs import RunsOnRecord
from vtop.session.event_log import EventLog
from vtop.session.fleet.fleet import FleetHistory, FleetRows
from vtop.session.frame.charts import LoggedEvent
from vtop.session.frame.fleet import Fleet, NamedPeer
from vtop.session.frame.frame import Frame, View
from vtop.session.frame.incidents import Incident
from vtop.session.frame.load import LoadPart
from vtop.session.frame.load_levels import LoadLevels
from vtop.session.frame.requests import Preemption, Requests
from vtop.session.frame.servers import EnginePart, ServerLoad, ServerPart, StartedWith
from vtop.session.frame.values import Count, Throughput
from vtop.session.frame.verdict import Pressure
from vtop.session.frame.vocabulary import LoggedKind, Side, VerdictLimit
from vtop.session.hardware import energy, roofline
from vtop.session.history import adapters, busy, server_config, sides
from vtop.session.history.gpus import GpuHistory
from vtop.session.history.server import Change, ServerHistory
from vtop.session.history.sides import side_of
from vtop.session.history.window import ScrapeRange, Window, window
from vtop.session.kv import crowding, occupancy, pool, preemptions, prompt_sources
from vtop.session.kv.preemption_detector import PreemptionDetector
from vtop.session.latency import itl_tail, latencies, load_levels, load_scaling, speculation, ttft
from vtop.session.load import client_ttft, waterfall
from vtop.session.load.load import LoadHistory, ended_words, target_words
from vtop.session.load.prefix_hits import prefix_hits
from vtop.session.recompute import recompute, token_flops, wall_clock
from vtop.session.recompute.decode_only import DecodeSteps
from vtop.session.recompute.write_fit import WriteFit

EVENTS_SHOWN = 200
KEPT_REQUESTS = 100_000  # of vtop's own load, while it is watched live
KEPT_EVENTS = 20_000  # likewise
ENGINES_NAMED = 8
_JUDGED = View(window_s=60.0, columns=1, stacked=False, limit_alone=True)  # one of several servers
SAID_AGAIN_S = 60.0  # what goes on is told once in so long


class Session:
    """Built by applying events in order; asked for frames at any instant, as often as one likes."""

    def __init__(self, start: Start, *, of: tuple[Session, int | None] | None = None) -> None:
        """of: for the session of one of another's servers, or of none: see `alone`."""
        whole, only = of if of is not None else (None, None)
        chosen = range(len(start.servers)) if whole is None else [only] if only is not None else []
        self.start = start if whole is None else _with_servers(start, [start.servers[one] for one in chosen])
        self.end_s = 0.0  # of the latest line
        self.finished = False
        self.load = LoadHistory()
        self._divided = False  # between prefill and decode servers, and that was said
        self._sides: dict[ServerHistory, Side | None] = {}  # as each server's own counters last told
        self._transfer_said_s: dict[ServerHistory, float] = {}
        self._held_said: set[ServerHistory] = set()
        self._alone: dict[int | None, Session] = {}
        self._of_all: tuple[tuple[float, float], Frame, FleetRows] | None = None  # as last asked for
        self._about: tuple[frozenset[str], str] | None = None  # how the log names servers: the others, this one
        if whole is None:
            self.servers = [ServerHistory(target, start.interval_s, start.unix_s) for target in start.servers]
            self.gpus = GpuHistory(start.interval_s)
            self._detectors = {server: PreemptionDetector(server, number) for number, server in enumerate(self.servers)}
            self._fits = {server: WriteFit(server) for server in self.servers}
            self._decode_steps = {server: DecodeSteps(server) for server in self.servers}
            self._log = EventLog()
        else:
            self.servers = [whole.servers[one] for one in chosen]
            self.gpus, self._log = whole.gpus, whole._log
            self._about = (
                frozenset(whole._who(one) for one in range(len(whole.servers)) if one != only),
                (whole._who(only) if only is not None else ""),
            )
            self._detectors, self._fits, self._decode_steps = whole._detectors, whole._fits, whole._decode_steps
        self.searches = SearchHistory(RunsOnRecord(self.load, self.servers, start.interval_s))
        self._idle_power = energy.IdlePower(self.servers, self.gpus)
        self._load_scaling = load_scaling.LoadScaling(self.servers, self.load)
        self.fleet = FleetHistory(self.servers, self._limit_of)

    # --- what happened -------------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent) -> None:
        """Take in the next line. One that cannot be taken in costs itself: it is told, and the session goes on."""
        try:
            self._take(event)
        except Exception as error:
            said = faults.put_down(error, f"taking in a line ({type(event).__name__.lower()})")
            self._log_event(event.t, event.t, "note", said)

    def _take(self, event: AnyEvent) -> None:
        self.end_s = max(self.end_s, event.t)
        self._seen_by(event.t)
        match event:
            case Scrape():
                if self._known(event.server):
                    self._apply_scrape(event)
            case Gpu():
                self.gpus.apply(event)
            case Request():
                self.load.apply_request(event)
            case Load():
                self._apply_load(event)
            case CapacitySearch():
                if self._known(event.server):
                    self.searches.apply(event)
            case Host():
                self.load.apply_host(event)
            case LoadHost():
                self.load.apply_load_host(event)
            case Outage():
                if self._known(event.server):
                    self._apply_outage(event)
            case Identity():
                if self._known(event.server):
                    self._apply_identity(event)
            case TargetChange():
                self._apply_watched(event)
            case Mark():
                self.mark(event)
            case Note():
                if event.source == "gpu":
                    self.gpus.apply_note(event)
                self._log_event(event.t, event.t, "note", event.text)
            case End():
                self.finished = True
                self._log_event(event.t, event.t, "end", f"end: {event.reason}")
            case _:
                pass  # the start is known; what an unknown event means is not

    def _seen_by(self, t: float) -> None:
        """A line of that t: of earlier instants all stays as it was."""
        if self._of_all is not None and t <= self._of_all[0][0]:
            self._of_all = None

    def _apply_scrape(self, scrape: Scrape) -> None:
        server = self.servers[scrape.server]
        who = self._who(scrape.server)
        broken = server.broken_since_s
        index = len(server.t)
        alternated = server.alternates(scrape.at_s)
        change = server.apply_scrape(scrape)
        restarted = change is Change.RESTARTED
        if index == 0:
            size = f": {units.bytes_(scrape.bytes)}" if scrape.bytes is not None else ""
            self._log_event(scrape.t, scrape.at_s, "start", f"{who}first scrape{size}")
        elif broken is not None:
            self._log_event(scrape.t, scrape.at_s, "back", f"{who}back after {units.seconds(scrape.at_s - broken)}")
        if restarted:
            self._log_event(scrape.t, scrape.at_s, "restart", f"{who}the server restarted: its counters began anew")
        elif change is Change.ANOTHER:
            said = "another process answers, which began earlier: nothing it did before is counted"
            self._log_event(scrape.t, scrape.at_s, "note", who + said)
        elif change is Change.ALTERNATES and not alternated:
            said = "the address leads to several processes in turn: no rate is of one of them; give each its own --url"
            self._log_event(scrape.t, scrape.at_s, "note", who + said)
        changed = index and server.health.scrape[-1] == index
        before, now = server.health.at(index - 1) if changed else scrape.health, scrape.health
        if before != now and now is not None and before is not None:
            if now == 200:
                self._log_event(scrape.t, scrape.at_s, "back", f"{who}healthy again")
            else:
                self._log_event(scrape.t, scrape.at_s, "unhealthy", f"{who}/health says {now or 'nothing'}")
        if scrape.bad_lines and not (index and server.bad_lines.at(index - 1)):
            lines = "1 line" if scrape.bad_lines == 1 else f"{scrape.bad_lines} lines"
            self._log_event(
                scrape.t, scrape.at_s, "note", f"{who}{lines} of /metrics not understood: {scrape.first_bad}"
            )
        self._note_transfers(server, scrape, index, who)
        self._note_sides(scrape)
        if server.held and server not in self._held_said:
            self._held_said.add(server)
            said = "/metrics comes now with, now without some series: those stand where they were for up to 4 scrapes"
            self._log_event(scrape.t, scrape.at_s, "note", who + said)
        if index and change is None and scrape.full:
            self._note_engines(server, scrape, index, who)
        detector = self._detectors[server]
        for step in detector.take(index):
            self._log.preempted(scrape.t, detector, step, who)
        if index and change is None:
            self._note_vanished(server, scrape, index, who)

    def _note_engines(self, server: ServerHistory, scrape: Scrape, index: int, who: str) -> None:
        """Engines that came or went while the server went on."""
        before, now = (set(server.engines(Quantity.RUNNING, at)) for at in (index - 1, index))
        if not before or not now:
            return
        for names, what in ((now - before, "came"), (before - now, "went")):
            if names:
                several = "engines" if len(names) > 1 else "engine"
                shown = ", ".join(sorted(names)[:ENGINES_NAMED]) + (", …" if len(names) > ENGINES_NAMED else "")
                said = f"{who}{several} {shown} {what}: {len(now)} now"
                self._log_event(scrape.t, scrape.at_s, "note", said)

    def _note_transfers(self, server: ServerHistory, scrape: Scrape, index: int, who: str) -> None:
        """KV that a connector could not bring: its prompt tokens are computed again, or its request fails."""
        failed = _transfers_failed(server, index - 1, index) if index else None
        if failed and scrape.at_s - self._transfer_said_s.get(server, -math.inf) >= SAID_AGAIN_S:
            self._transfer_said_s[server] = scrape.at_s
            total = _transfers_failed(server, 0, index)
            said = f"{who}KV transfers fail: {units.count(total)} since vtop attached"
            self._log_event(scrape.t, scrape.at_s, "note", said)

    def _note_sides(self, scrape: Scrape) -> None:
        if self._divided or len(self.servers) < 2:
            return
        server = self.servers[scrape.server]
        side, before = side_of(server, len(server.t) - 1), self._sides.get(server)
        self._sides[server] = side
        if side is None or side == before:
            return  # it tells no more than before
        found = sides.sides(self.servers, scrape.t)
        if found.prefill:
            self._divided = True
            urls = [
                ", ".join(one.target.url for one in self.servers if one in side)
                for side in (found.prefill, found.decode)
            ]
            said = (
                f"prefill on {urls[0]}, decode on {urls[1]}: each request passes both; prompts and TTFT are told of "
                "the prefill side, output tokens and finished requests of the decode side"
            )
            self._log_event(scrape.t, scrape.at_s, "note", said)

    def _note_vanished(self, server: ServerHistory, scrape: Scrape, index: int, who: str) -> None:
        """All requests gone at once and none of them finished. Of a single one a scrape cannot tell: it is no atomic
        snapshot."""
        running, waiting = server.total(Quantity.RUNNING), server.total(Quantity.WAITING)
        if running is None or waiting is None or running.scrape[-1] != index:
            return
        if running.at(index) != 0 or waiting.at(index) != 0:  # None: not known
            return
        before = running.at(index - 1) or 0.0
        finished = [server.total(Quantity.FINISHED, part) for part in server.parts(Quantity.FINISHED)]
        grown = [track.grown(index - 1, index) for track in finished if track is not None]
        if before >= 2 and grown and not any(grown):
            why = "aborted, cancelled by their clients, or the engine was put to sleep"
            self._log_event(scrape.t, scrape.at_s, "note", f"{who}{before:.0f} requests vanished unfinished: {why}")

    def _apply_identity(self, identity: Identity) -> None:
        server = self.servers[identity.server]
        self._note_models(identity)
        before = next((one for one in reversed(server.identities) if one.flags is not None), None)
        server.apply_identity(identity)
        for said in server_config.changed(before, identity) if before is not None else ():
            self._log_event(identity.t, identity.t, "flags", self._who(identity.server) + said)

    def _apply_watched(self, event: TargetChange) -> None:
        """A server that is watched from here on, or is not any more."""
        if event.target is not None and event.server == len(self.servers):
            self._add(event.target, event.t)
            self._log_event(event.t, event.t, "note", f"{self._who(event.server)}watched from here on")
        elif self._known(event.server):
            self.servers[event.server].watch(event.t, on=event.target is not None)
            said = "watched again" if event.target is not None else "not watched any more"
            self._log_event(event.t, event.t, "note", self._who(event.server) + said)

    def _add(self, target: Target, t: float) -> None:
        server = ServerHistory(target, self.start.interval_s, self.start.unix_s)
        server.watch(t, on=True)
        self._detectors[server] = PreemptionDetector(server, len(self.servers))
        self._fits[server], self._decode_steps[server] = WriteFit(server), DecodeSteps(server)
        self.servers.append(server)
        self.start = _with_servers(self.start, [*self.start.servers, target])
        self._idle_power = energy.IdlePower(self.servers, self.gpus)
        self._alone.clear()  # they tell the others by their names

    def _note_models(self, identity: Identity) -> None:
        """A server that serves something else than before."""
        known = self.servers[identity.server].identities
        before = next((one.models for one in reversed(known) if one.models), ())
        if before and identity.models and before != identity.models:
            said = f"it serves {', '.join(identity.models)}, and no longer {', '.join(before)}"
            self._log_event(identity.t, identity.t, "flags", self._who(identity.server) + said)

    def _apply_outage(self, outage: Outage) -> None:
        server = self.servers[outage.server]
        first = server.broken_since_s is None
        server.apply_outage(outage)
        if first and len(server.t):
            said = f"{self._who(outage.server)}no scrape: {outage.detail or outage.reason}"
            self._log_event(outage.t, outage.at_s, "outage", said)

    def _apply_load(self, load: Load) -> None:
        self.load.apply_load(load)
        match known(load.state, LOAD_STATES):
            case "begin":
                text = f"load {load.spec}"
            case "steady":
                text = "warm-up is over"
            case "change":
                text = target_words(load)
            case "other":
                return
            case "end":
                text = ended_words(load, self.load.phases[load.phase].seen(load.t))
        self._log_event(load.t, load.t, "phase", text)

    def _log_event(self, t: float, at_s: float, kind: LoggedKind, text: str) -> None:
        self._log.add(t, LoggedEvent(at_s, kind, text))

    def _who(self, server: int) -> str:
        return f"{self.start.servers[server].url}: " if len(self.servers) > 1 else ""

    def _known(self, server: int) -> bool:
        return 0 <= server < len(self.servers)

    # --- what there is to see ------------------------------------------------------------------------------------

    def alone(self, server: int | None) -> Session:
        """The session of one of its servers, or of none, over the same history. It takes no events of its own; vtop's
        own load is not in it."""
        if (known := self._alone.get(server)) is None:
            known = self._alone[server] = Session(self.start, of=(self, server))
        known.end_s, known.finished = self.end_s, self.finished
        return known

    def forget(self, before_s: float) -> None:
        """Give up the servers' numbers of before an instant, so that a live session of many does not grow for ever.

        What was recorded stays recorded. Numbers over a window from there on stay as they were; counts since the
        session began are not known any more.
        """
        self._log.forget(before_s, EVENTS_SHOWN * 10)
        for server in self.servers:
            self._detectors[server].forget(before_s)
            server.forget(before_s)

    def bound(self) -> None:
        """So that a live session does not grow with every request and happening: it looks back over the latest
        KEPT_REQUESTS of vtop's own load and KEPT_EVENTS. What all of them add up to stays, as does what is recorded."""
        self.load.forget(KEPT_REQUESTS)
        self._log.bound(KEPT_EVENTS)

    def unlike_peers(self) -> tuple[NamedPeer, ...]:
        """The servers that differed from their peers, over the whole session."""
        return self.fleet.named(lambda at_s: self._servers_of(at_s)[0], self.end_s)

    def _limit_of(self, server: int, now_s: float) -> VerdictLimit:
        """The limit that binds at one of several servers."""
        return self.alone(server).frame(now_s, _JUDGED).verdict.limit

    def _of_fleet(self, now_s: float, view: View) -> Frame:
        """The table of servers, and beside it nothing that is added up over them."""
        asked = now_s, view.window_s
        if self._of_all is None or self._of_all[0] != asked:
            nobody = self.alone(None).frame(now_s, replace(view, fleet=None, columns=1))
            servers, divided = self._servers_of(now_s)
            scrapes = window(self.servers, now_s, view.window_s)
            about = replace(nobody, window_s=scrapes.seconds, status=status.of_session(servers), servers=servers)
            self._of_all = asked, about, self.fleet.rows(servers, scrapes, divided, now_s=now_s)
        _, about, rows = self._of_all
        assert view.fleet is not None
        return replace(about, fleet=self.fleet.part(rows, view.fleet, view.window_s))

    def _servers_of(self, now_s: float) -> tuple[tuple[ServerPart, ...], sides.Sides]:
        divided = sides.sides(self.servers, now_s)
        return tuple(self._server(index, now_s, divided.of(one)) for index, one in enumerate(self.servers)), divided

    def _fleet(
        self, servers: Sequence[ServerPart], scrapes: Window, divided: sides.Sides, now_s: float, view: View
    ) -> Fleet | None:
        if view.fleet is None or len(servers) < 2:
            return None
        rows = self.fleet.rows(servers, scrapes, divided, now_s=now_s)
        return self.fleet.part(rows, view.fleet, view.window_s)

    def frame(self, now_s: float, view: View = View()) -> Frame:  # noqa: B008 - frozen
        if view.fleet_alone and view.fleet is not None and len(self.servers) > 1:
            return self._of_fleet(now_s, view)
        scrapes = window(self.servers, now_s, view.window_s)
        # what requests took is that of others than the one vtop tried the server with
        asked = scrapes if view.whole else scrapes.after(self.load.tried_s(now_s))
        event_log = self.event_log(now_s, EVENTS_SHOWN, view.holds) if not view.limit_alone else ()
        phase = self.load.latest(now_s) if not view.limit_alone else None
        requests = waterfall.waterfall(phase, now_s, view.window_s, view.holds)
        gpus = self.gpus.part(now_s, view.window_s, local=any(target.local for target in self.start.servers))
        servers, divided = self._servers_of(now_s)
        if len(servers) > 1:
            servers = _loaded(servers, scrapes, self.servers)
        waiting = scrapes.gauge(Quantity.WAITING)
        preempted = scrapes.count(Quantity.PREEMPTIONS)
        before, after = divided.prefilling(scrapes), divided.decoding(scrapes)
        sources = prompt_sources.prompt_sources(before)
        present = self._present(scrapes, now_s, servers, view)
        frame = Frame(
            now_s=now_s,
            unix_s=self.start.unix_s + now_s,
            start_unix_s=self.start.unix_s,
            interval_s=self.start.interval_s,
            window_s=scrapes.seconds,
            asked_window_s=view.window_s,
            status=status.of_session(servers),
            origin=self.start.origin,
            servers=servers,
            engines=_engines(scrapes, self.servers) if not view.limit_alone else (),
            requests=Requests(
                running=scrapes.gauge(Quantity.RUNNING),
                waiting=waiting,
                waiting_by_reason=scrapes.by_part(Quantity.WAITING_BY_REASON, scrapes.now),
                finished=after.count_of_parts(Quantity.FINISHED),
                finished_by_reason=after.by_part(Quantity.FINISHED, after.delta),
                rejected=scrapes.count_of_parts(Quantity.REJECTED),
                answers_each=after.mean(Quantity.ANSWERS),
                users_per_s=_per_s(after, Quantity.ANSWERS),
            ),
            kv=pool.kv(scrapes, now_s),
            prompt_tokens=before.count(Quantity.PROMPT_TOKENS),
            generation_tokens=after.count(Quantity.GENERATION_TOKENS),
            throughput=busy.throughput(scrapes) if not view.limit_alone else Throughput(),
            iteration=latencies.iteration(after),
            ttft=ttft.ttft(asked, waiting, present, divided),
            latencies=latencies.latencies(asked, divided) if not view.limit_alone else (),
            prefix_cache=latencies.prefix_cache(before, preempted.in_window, sources),
            prompt_sources=sources,
            preemption=_preemption(scrapes, preempted),
            gpus=gpus,
            event_log=event_log,
            waterfall=requests,
            charts=charts.charts(
                self.servers if not view.limit_alone else (),
                self.gpus,
                self._log.marks(now_s) if not view.limit_alone else (),
                now_s,
                view,
                sides=divided,
            ),
            load=self._load(now_s),
            capacity=self.searches.part(now_s) if not view.limit_alone else None,
            fleet=self._fleet(servers, scrapes, divided, now_s, view),
        )
        if view.buckets:
            frame = replace(frame, heat_maps=heat_maps.heat_maps(asked, self.servers, frame.charts, now_s))
        frame = (self._weighed if view.limit_alone else self._analysed)(frame, scrapes, asked, present)
        at, *earlier = self._pressures(scrapes, frame, view) or [None]
        frame = replace(frame, pressure=at)
        return replace(frame, verdict=verdict(frame, [one for one in earlier if one is not None]))

    def mark(self, mark: Mark) -> None:
        """A mark that is set, at any instant, while a recording is looked at."""
        self._seen_by(mark.t)
        self._log_event(mark.t, mark.t, "mark", mark.text or "mark")

    def event_log(self, now_s: float, most: int | None = None, holds: str = "") -> tuple[LoggedEvent, ...]:
        """What was known by an instant; the latest `most` of it, or of what holds a text."""
        if self._about is None or not self.servers:
            return self._log.known(now_s, most, holds)
        others, own = self._about
        known = self._log.known(now_s, None if most is None else most * len(others), holds)
        told = [one for one in known if one.text.partition(": ")[0] + ": " not in others]
        return tuple(replace(one, text=one.text.removeprefix(own)) for one in told[-most if most is not None else 0 :])

    def started_with(self, server: int, now_s: float) -> StartedWith | None:
        """The command of a server as it was known by an instant."""
        known = self.servers[server]
        device = self.gpus.served(known.began_s(now_s, self.start.unix_s), now_s)
        return server_config.started_with(known.identity(now_s), *(device or (None, None)))

    def load_levels(self) -> LoadLevels:
        """How the server answered more and more of vtop's own load, over the whole session."""
        return load_levels.load_levels(self._load_scaling, self.load, self.end_s)

    def incidents(self) -> tuple[Incident, ...]:
        """When a server could not be read or its engine stood still, over the whole session."""
        return incidents.incidents(self.servers, self.end_s)

    def marks(self, kind: LoggedKind) -> tuple[LoggedEvent, ...]:
        """All logged events of a kind that stand in the charts: restart, outage, mark."""
        return tuple(one for one in self._log.marks() if one.kind == kind)

    def landmarks(self) -> tuple[LoggedEvent, ...]:
        """What a reader of the whole session goes by: where phases of load begin, outages, restarts, marks."""
        phases = (LoggedEvent(phase.begin.t, "phase", phase.begin.spec) for phase in self.load.phases.values())
        return (*phases, *self._log.marks())

    def _present(self, scrapes: Window, now_s: float, servers: Sequence[ServerPart], view: View) -> Window:
        """The scrapes of a window that speak of now: under the load of now, of servers whose data are fresh, and none
        where nothing runs or waits any more. Of a `whole` window, which is over, those under its last load."""
        scrapes = scrapes.since(self.load.changed_s(now_s))
        if view.whole:
            return scrapes
        fresh = {server for server, part in zip(self.servers, servers, strict=True) if part.status.fresh}
        scrapes = Window(tuple(one for one in scrapes.ranges if one.server in fresh))
        return scrapes if scrapes.now(Quantity.RUNNING) or scrapes.now(Quantity.WAITING) else Window(())

    def _weighed(self, frame: Frame, scrapes: Window, asked: Window, present: Window) -> Frame:
        """With what the limit is judged by, and no more."""
        own_step_s = _own_step_s(frame.load, scrapes)
        return replace(
            frame,
            wallclock=wall_clock.wallclock(scrapes, self._decode_steps, recomputed_tokens=None, own_step_s=own_step_s),
            account=occupancy.account(scrapes, self.servers, self.load, frame.now_s, frame.kv.bytes_per_token),
        )

    def _analysed(self, frame: Frame, scrapes: Window, asked: Window, present: Window) -> Frame:
        one_load = self._one_load(scrapes, frame.now_s)
        again = recompute.recompute(scrapes, frame.now_s, self._detectors, self._fits)
        frame = replace(
            frame,
            staircase=preemptions.staircase(scrapes, self._detectors),
            recompute=again,
            roofline=roofline.roofline(scrapes, frame.gpus),
            tail=itl_tail.tail(scrapes),
            wallclock=wall_clock.wallclock(
                scrapes,
                self._decode_steps,
                recomputed_tokens=again.tokens,
                own_step_s=_own_step_s(frame.load, scrapes),
            ),
            account=occupancy.account(scrapes, self.servers, self.load, frame.now_s, frame.kv.bytes_per_token),
            crowding=crowding.crowding(scrapes),
            token_flops=token_flops.token_flops(scrapes, frame.now_s, self._fits),
            queueing=queueing.queueing(asked, present.since(self.load.settled_s(frame.now_s))),
            energy=energy.energy(scrapes, self.gpus, self._idle_power, frame.now_s),
            growth=load_scaling.growth(self._load_scaling, frame.ttft, one_load, frame.now_s),
            speculation=speculation.speculation(scrapes),
            failed_transfers=prompt_sources.failed_transfers(scrapes),
            lora=adapters.lora(scrapes),
            own_ttft=client_ttft.own_ttft(scrapes, self.servers, self.load.answered, frame.now_s),
        )
        share = recompute.time_ratio(frame.wallclock)
        return replace(frame, recompute=replace(again, time_ratio=share))

    def _pressures(self, scrapes: Window, frame: Frame, view: View) -> list[Pressure | None]:
        """Up to the latest scrape, and up to each of the few before it."""

        def max_num_seqs(one: ScrapeRange) -> int | None:
            server = frame.servers[self.servers.index(one.server)]
            return server_config.max_num_seqs(
                one.server, one.server.at_s[one.first], frame.now_s, server.started, server.engines
            )

        tokens = frame.kv.pool_tokens, frame.account.input_tokens
        if frame.status.absent is not None:  # of the living
            scrapes = Window(scrapes.answering)
        if not view.whole:
            scrapes = scrapes.after(self.load.changed_s(frame.now_s))
        found = pressures(scrapes, self.servers, *tokens, self.load, whole=view.whole, max_num_seqs=max_num_seqs)
        again = self._recompute_ratio(Window((found[0][1],)), frame) if found and found[0][0].preemptions else None
        return [
            replace(
                at,
                power=energy.held_down(Window((one,)), self.gpus, frame.now_s) if frame.gpus.local else None,
                recompute_time_ratio=again,
            )
            for at, one in found
        ]

    def _recompute_ratio(self, scrapes: Window, frame: Frame) -> float | None:
        """What recomputing took of the time in which the engine worked, over the scrapes of a pressure."""
        tokens = recompute.recompute(scrapes, frame.now_s, self._detectors, self._fits).tokens
        step_s = _own_step_s(frame.load, scrapes)
        clock = wall_clock.wallclock(scrapes, self._decode_steps, recomputed_tokens=tokens, own_step_s=step_s)
        return recompute.time_ratio(clock)

    def _load(self, now_s: float) -> LoadPart | None:
        """vtop's own load, with what the server's prefix cache gave during its phase."""
        part = self.load.part(now_s)
        return part and replace(part, prefix_hit_tokens=prefix_hits(part, self.servers, now_s))

    def _one_load(self, scrapes: Window, now_s: float) -> bool:
        """Whether vtop's own load, where it runs, aimed at one thing all through a window."""
        begins = [one.server.at_s[one.first] for one in scrapes.ranges]
        ends = [one.server.at_s[one.last] for one in scrapes.ranges]
        return not begins or self.load.steady_between(min(begins), max(ends), now_s)

    def _server(self, index: int, now_s: float, side: Side | None) -> ServerPart:
        server = self.servers[index]
        scrapes = server.visible(now_s)
        last = scrapes - 1
        identity = server.identity(now_s)
        began = server.total(Quantity.PROCESS_START)
        began_s = began.at(last) if began is not None and scrapes else None
        bad_lines, size = (server.bad_lines.at(last), server.bytes.at(last)) if scrapes else (None, None)
        read = status.status(server, index, now_s, over=self.finished)
        return ServerPart(
            index=index,
            url=server.target.url,
            status=read,
            local=server.target.local,
            models=identity.models if identity is not None and identity.models else server.models(last),
            version=identity.version if identity is not None else None,
            max_model_len=identity.max_model_len if identity is not None else None,
            uptime_s=max(0.0, self.start.unix_s + now_s - began_s)
            if began_s is not None and read.kind != "down"
            else None,
            age_s=now_s - server.at_s[last] if scrapes else None,
            took_s=server.took_s[last] if scrapes else None,
            scrape_bytes=int(size) if size is not None else None,
            bad_lines=int(bad_lines or 0),
            tries=status.tries_since(server, now_s),
            outages=bisect_right(server.broken_t, now_s),
            restarts=bisect_right(server.restarts, last),
            engines=len(server.engines(Quantity.RUNNING, last)),
            note=identity.note if identity is not None else None,
            started=self.started_with(index, now_s),
            kind=identity.kind if identity is not None else DEFAULT_KIND,
            side=side,
            watched=server.watched(now_s),
            labels=server.target.labels,
        )


def read(recording: Recording, watching: Callable[[AnyEvent], object] | None = None) -> Session:
    """The session of a recording, read to its present end; `watching` is given each event too."""
    session = Session(recording.start)
    collecting = gc.isenabled()
    gc.disable()  # nothing made here is garbage, and looking for it takes half the time
    try:
        for event in events_of(recording):
            session.apply(event)
            if watching is not None:
                watching(event)
    finally:
        if collecting:
            gc.enable()
    return session


def _with_servers(start: Start, servers: Sequence[Target]) -> Start:
    return msgspec.structs.replace(start, servers=tuple(servers))


def _loaded(
    servers: Sequence[ServerPart], scrapes: Window, histories: Sequence[ServerHistory]
) -> tuple[ServerPart, ...]:
    """Each server with what it does, where it answers."""
    parts = list(servers)
    for one in scrapes.answering:
        own, index = Window((one,)), histories.index(one.server)
        does = ServerLoad(
            running=own.now(Quantity.RUNNING),
            waiting=own.now(Quantity.WAITING),
            kv_used_ratio=own.gauge(Quantity.KV_USED, largest=True).now,
            generation_per_s=own.count(Quantity.GENERATION_TOKENS).per_s,
            ttft_s=own.mean(Quantity.TTFT),
        )
        parts[index] = replace(parts[index], load=does)
    return tuple(parts)


def _engines(window: Window, servers: Sequence[ServerHistory]) -> tuple[EnginePart, ...]:
    rows = []
    for one in window.answering:
        waiting = one.server.engines(Quantity.WAITING, one.last)
        used = one.server.engines(Quantity.KV_USED, one.last)
        generated = one.server.engines(Quantity.GENERATION_TOKENS, one.last)
        for name, running in one.server.engines(Quantity.RUNNING, one.last).items():
            grown = generated[name].grown(one.first, one.last) if name in generated else None
            rows.append(
                EnginePart(
                    server=servers.index(one.server),
                    name=name or "0",
                    running=running.at(one.last),
                    waiting=waiting[name].at(one.last) if name in waiting else None,
                    kv_used_ratio=used[name].at(one.last) if name in used else None,
                    generation_per_s=grown / one.counted_s if grown is not None and one.counted_s > 0 else None,
                )
            )
    return tuple(rows)


def _per_s(window: Window, quantity: Quantity) -> float | None:
    """Observations of a histogram in a second."""
    n, seconds = window.observed(quantity), window.counted_s
    return n / seconds if n and seconds > 0 else None


def _own_step_s(load: LoadPart | None, window: Window) -> float | None:
    """Median ITL of vtop's own load, where it ran in the window and its gaps are those of single tokens."""
    end_s = max((one.server.at_s[one.last] for one in window.ranges), default=0.0)
    if load is None or load.itl_is_chunks or load.begin_s + load.elapsed_s <= end_s - window.seconds:
        return None
    return load.itl.p50_s


def _preemption(window: Window, count: Count) -> Preemption:
    latest = []
    for one in window.ranges:
        track = one.server.total(Quantity.PREEMPTIONS)
        rise = track.last_rise(one.last) if track is not None else None
        if rise is not None:
            latest.append(one.server.at_s[rise])
    return Preemption(
        count=count,
        latest_at_s=max(latest, default=None),
    )


def _transfers_failed(server: ServerHistory, first: int, last: int) -> float:
    """By all of the connector's counters that tell of both scrapes."""
    grown = (
        server.grown(Quantity.FAILED_TRANSFERS, first, last, part) for part in server.parts(Quantity.FAILED_TRANSFERS)
    )
    return sum(one for one in grown if one is not None)
