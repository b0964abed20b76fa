"""The session: what a recording means so far. The only reducer, and the only place where a shown number is made.

`apply` takes in one decoded line; `frame` says what there is to see at an instant. A frame looks at nothing later
than its instant, so a session read to its end gives for any earlier moment what a live screen showed then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace

from vtop import units
from vtop.metrics.vllm import Quantity
from vtop.recording import (
    AnyEvent,
    End,
    Gpu,
    Host,
    Identity,
    Load,
    Mark,
    Note,
    Outage,
    Request,
    Scrape,
    Start,
)
from vtop.session import breakdown, charts, kv, latency, status
from vtop.session.cards import CardHistory
from vtop.session.frame import (
    Count,
    EnginePart,
    Frame,
    Happening,
    LoadPart,
    Preemption,
    Requests,
    ServerPart,
    Status,
    View,
)
from vtop.session.load import LoadHistory, target_words
from vtop.session.server import ServerHistory
from vtop.session.window import Window, window

HAPPENINGS_SHOWN = 200

# which server's status speaks for the session, gravest first
_GRAVITY = ("down", "unhealthy", "blind", "frozen", "waiting", "busy", "idle")

_MARKED = ("restart", "outage", "mark")  # kinds of happening that stand in the charts

_PREEMPTION_WORDS = (("KV", Quantity.KV_USED, units.percent), ("running", Quantity.RUNNING, units.count))


class Session:
    """Built by applying events in order; asked for frames at any instant, as often as one likes."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.end_s = 0.0  # of the latest line
        self.finished = False
        self.servers = [ServerHistory(target, start.interval_s) for target in start.servers]
        self.cards = CardHistory(start.interval_s)
        self.load = LoadHistory()
        self._happenings: list[tuple[float, Happening]] = []  # with the t from which it is known
        self._marks: list[tuple[float, Happening]] = []  # those of them that stand in the charts

    # --- what happened -------------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent) -> None:
        self.end_s = max(self.end_s, event.t)
        match event:
            case Scrape():
                if self._known(event.server):
                    self._apply_scrape(event)
            case Gpu():
                self.cards.apply(event)
            case Request():
                self.load.apply_request(event)
            case Load():
                self._apply_load(event)
            case Host():
                self.load.apply_host(event)
            case Outage():
                if self._known(event.server):
                    self._apply_outage(event)
            case Identity():
                if self._known(event.server):
                    self.servers[event.server].identities.append(event)
            case Mark():
                self._happen(event.t, event.t, "mark", event.text or "mark")
            case Note():
                if event.source == "gpu":
                    self.cards.apply_note(event)
                self._happen(event.t, event.t, "note", event.text)
            case End():
                self.finished = True
                self._happen(event.t, event.t, "end", f"end: {event.reason}")
            case _:
                pass  # the start is known; what an unknown event means is not

    def _apply_scrape(self, scrape: Scrape) -> None:
        server = self.servers[scrape.server]
        who = self._who(scrape.server)
        broken = server.broken_since_s
        page = len(server.t)
        restarted = server.apply_scrape(scrape)
        if page == 0:
            self._happen(scrape.t, scrape.at_s, "start", f"{who}first page: {units.bytes_(scrape.bytes)}")
        elif broken is not None:
            self._happen(scrape.t, scrape.at_s, "back", f"{who}back after {units.seconds(scrape.at_s - broken)}")
        if restarted:
            self._happen(scrape.t, scrape.at_s, "restart", f"{who}the server restarted: its counters began anew")
        before, now = server.health.at(page - 1) if page else None, scrape.health
        if page and before != now and now is not None and before is not None:
            kind, word = ("back", "healthy again") if now == 200 else ("unhealthy", f"/health says {now or 'nothing'}")
            self._happen(scrape.t, scrape.at_s, kind, who + word)
        if scrape.bad_lines and not (page and server.bad_lines.at(page - 1)):
            lines = "1 line" if scrape.bad_lines == 1 else f"{scrape.bad_lines} lines"
            self._happen(scrape.t, scrape.at_s, "note", f"{who}{lines} of /metrics not understood: {scrape.first_bad}")
        if page and not restarted:
            self._note_preemption(server, scrape, page, who)
            self._note_vanished(server, scrape, page, who)

    def _note_preemption(self, server: ServerHistory, scrape: Scrape, page: int, who: str) -> None:
        track = server.total(Quantity.PREEMPTIONS)
        if track is None or not track.page or track.page[-1] != page or not (grown := track.grown(page - 1, page)):
            return
        words = [f"{who}preempted {units.count(grown)}"]
        for name, quantity, form in _PREEMPTION_WORDS:
            track = server.total(quantity)
            if track is not None:
                words.append(f"{name} {form(track.at(page - 1))} → {form(track.at(page))}")
        self._happen(scrape.t, scrape.at_s, "preemption", ", ".join(words))

    def _note_vanished(self, server: ServerHistory, scrape: Scrape, page: int, who: str) -> None:
        """All requests gone at once and none of them finished. Of a single one a page cannot tell: it is no atomic
        snapshot."""
        running, waiting = server.total(Quantity.RUNNING), server.total(Quantity.WAITING)
        if running is None or waiting is None or running.page[-1] != page or running.at(page) or waiting.at(page):
            return
        before = running.at(page - 1) or 0.0
        finished = [server.total(Quantity.FINISHED, part) for part in server.parts(Quantity.FINISHED)]
        grown = [track.grown(page - 1, page) for track in finished if track is not None]
        if before >= 2 and grown and not any(grown):
            why = "aborted, cancelled by their clients, or the engine was put to sleep"
            self._happen(scrape.t, scrape.at_s, "note", f"{who}{before:.0f} requests vanished unfinished: {why}")

    def _apply_outage(self, outage: Outage) -> None:
        server = self.servers[outage.server]
        first = server.broken_since_s is None
        server.apply_outage(outage)
        if first and len(server.t):
            said = f"{self._who(outage.server)}no page: {outage.detail or outage.reason}"
            self._happen(outage.t, outage.at_s, "outage", said)

    def _apply_load(self, load: Load) -> None:
        self.load.apply_load(load)
        words = {"begin": load.spec, "steady": "warm-up is over", "change": target_words(load)}
        text = words.get(load.state, f"phase {load.phase + 1} ended: {load.reason or 'done'}")
        self._happen(load.t, load.t, "phase", f"load {text}" if load.state == "begin" else text)

    def _happen(self, t: float, at_s: float, kind: str, text: str) -> None:
        known = (t, Happening(at_s, kind, text))
        self._happenings.append(known)
        if kind in _MARKED:
            self._marks.append(known)

    def _who(self, server: int) -> str:
        return f"{self.start.servers[server].url}: " if len(self.servers) > 1 else ""

    def _known(self, server: int) -> bool:
        return 0 <= server < len(self.servers)

    # --- what there is to see ------------------------------------------------------------------------------------

    def frame(self, now_s: float, view: View = View()) -> Frame:  # noqa: B008 - frozen
        pages = window(self.servers, now_s, view.window_s)
        happenings = _until(self._happenings, now_s, HAPPENINGS_SHOWN)
        servers = tuple(self._server(index, now_s) for index in range(len(self.servers)))
        waiting = pages.gauge(Quantity.WAITING)
        preempted = pages.count(Quantity.PREEMPTIONS)
        return Frame(
            now_s=now_s,
            unix_s=self.start.unix_s + now_s,
            start_unix_s=self.start.unix_s,
            interval_s=self.start.interval_s,
            window_s=pages.seconds,
            asked_window_s=view.window_s,
            status=_gravest(servers),
            origin=self.start.origin,
            servers=servers,
            engines=_engines(pages, self.servers),
            requests=Requests(
                running=pages.gauge(Quantity.RUNNING),
                waiting=waiting,
                waiting_by_reason=pages.by_part(Quantity.WAITING_BY_REASON, pages.now),
                finished=pages.count_of_parts(Quantity.FINISHED),
                finished_by_reason=pages.by_part(Quantity.FINISHED, pages.delta),
                rejected=pages.count_of_parts(Quantity.REJECTED),
            ),
            kv=kv.kv(pages, now_s),
            prompt_tokens=pages.count(Quantity.PROMPT_TOKENS),
            generation_tokens=pages.count(Quantity.GENERATION_TOKENS),
            iteration=latency.iteration(pages),
            ttft=breakdown.ttft(pages, waiting),
            latencies=latency.latencies(pages),
            prefix_cache=latency.prefix_cache(pages, preempted.in_window),
            preemption=_preemption(pages, preempted),
            gpus=self.cards.part(now_s, view.window_s, local=any(target.local for target in self.start.servers)),
            happenings=happenings,
            charts=charts.charts(self.servers, self.cards, _until(self._marks, now_s), now_s, view),
            load=self._load(now_s),
        )

    def _load(self, now_s: float) -> LoadPart | None:
        """vtop's own load, with what the server's prefix cache gave during its phase."""
        part = self.load.part(now_s)
        if part is None or part.server >= len(self.servers):
            return part
        server = self.servers[part.server]
        pages = server.visible(now_s)
        hits = server.total(Quantity.PREFIX_HITS)
        first = max(0, bisect_right(server.at_s, part.begin_s, 0, pages) - 1)
        last = min(pages, bisect_right(server.at_s, part.begin_s + part.elapsed_s, 0, pages) + 1) - 1
        return replace(part, prefix_hit_tokens=hits.grown(first, last) if hits is not None and last >= first else None)

    def _server(self, index: int, now_s: float) -> ServerPart:
        server = self.servers[index]
        pages = server.visible(now_s)
        last = pages - 1
        identity = server.identity(now_s)
        started = server.total(Quantity.PROCESS_START)
        started_s = started.at(last) if started is not None and pages else None
        bad_lines = server.bad_lines.at(last) if pages else None
        return ServerPart(
            index=index,
            url=server.target.url,
            status=status.status(server, index, now_s),
            local=server.target.local,
            models=identity.models if identity is not None and identity.models else server.models(last),
            version=identity.version if identity is not None else None,
            max_model_len=identity.max_model_len if identity is not None else None,
            uptime_s=max(0.0, self.start.unix_s + now_s - started_s) if started_s is not None else None,
            age_s=now_s - server.at_s[last] if pages else None,
            took_s=server.took_s[last] if pages else None,
            page_bytes=server.bytes[last] if pages else None,
            bad_lines=int(bad_lines or 0),
            tries=status.tries_since(server, now_s),
            outages=bisect_right(server.broken_t, now_s),
            restarts=bisect_right(server.restarts, last),
            engines=len(server.engines(Quantity.RUNNING, last)),
            note=identity.note if identity is not None else None,
        )


def _until(known: Sequence[tuple[float, Happening]], now_s: float, most: int | None = None) -> tuple[Happening, ...]:
    """What was known by an instant, the latest `most` of it."""
    seen = bisect_right(known, now_s, key=lambda one: one[0])
    return tuple(happening for _, happening in known[max(0, seen - most) if most is not None else 0 : seen])


def _gravest(servers: Sequence[ServerPart]) -> Status:
    if not servers:
        return Status("waiting", "no server to watch", fresh=False)
    if all(server.status.kind == "waiting" for server in servers):
        return servers[0].status
    return min((server.status for server in servers), key=lambda one: _GRAVITY.index(one.kind))


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
                    generation_per_s=grown / one.seconds if grown is not None and one.seconds > 0 else None,
                )
            )
    return tuple(rows)


def _preemption(window: Window, count: Count) -> Preemption:
    latest = []
    for one in window.stretches:
        track = one.server.total(Quantity.PREEMPTIONS)
        rise = track.last_rise(one.last) if track is not None else None
        if rise is not None:
            latest.append(one.server.at_s[rise])
    return Preemption(
        count=count,
        latest_at_s=max(latest, default=None),
        interval_s=window.seconds / count.in_window if count.in_window else None,
    )
