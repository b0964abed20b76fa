"""The session: what a recording means so far. The only reducer, and the only place where a shown number is made.

`apply` takes in one decoded line; `frame` says what there is to see at an instant. A frame looks at nothing later
than its instant, so a session read to its end gives for any earlier moment what a live screen showed then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from vtop import units
from vtop.metrics.vllm import Quantity
from vtop.recording import AnyEvent, End, Gpu, Identity, Mark, Note, Outage, Scrape, Start
from vtop.session import breakdown, charts, kv, latency, status
from vtop.session.cards import Card, CardHistory
from vtop.session.frame import (
    Count,
    EnginePart,
    Frame,
    GpuPart,
    Gpus,
    Happening,
    Preemption,
    Requests,
    ServerPart,
    Status,
    View,
)
from vtop.session.server import ServerHistory
from vtop.session.window import Stretch, Window, gauge

HAPPENINGS_SHOWN = 200

# which server's status speaks for the session, gravest first
_GRAVITY = ("down", "unhealthy", "blind", "frozen", "waiting", "busy", "idle")

_PREEMPTION_WORDS = (("KV", Quantity.KV_USED, units.percent), ("running", Quantity.RUNNING, units.count))


class Session:
    """Built by applying events in order; asked for frames at any instant, as often as one likes."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.end_s = 0.0  # of the latest line
        self.finished = False
        self.servers = [ServerHistory(target, start.interval_s) for target in start.servers]
        self.cards = CardHistory()
        self._happenings: list[tuple[float, Happening]] = []  # with the t from which it is known
        self._gpu_notes: list[tuple[float, str]] = []

    # --- what happened -------------------------------------------------------------------------------------------

    def apply(self, event: AnyEvent) -> None:
        self.end_s = max(self.end_s, event.t)
        match event:
            case Scrape():
                if self._known(event.server):
                    self._apply_scrape(event)
            case Gpu():
                self.cards.apply(event)
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
                    self._gpu_notes.append((event.t, event.text))
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

    def _note_preemption(self, server: ServerHistory, scrape: Scrape, page: int, who: str) -> None:
        track = server.total(Quantity.PREEMPTIONS)
        before, now = (track.at(page - 1), track.at(page)) if track is not None else (None, None)
        if before is None or now is None or now <= before:
            return
        words = [f"{who}preempted {units.count(now - before)}"]
        for name, quantity, form in _PREEMPTION_WORDS:
            track = server.total(quantity)
            if track is not None:
                words.append(f"{name} {form(track.at(page - 1))} → {form(track.at(page))}")
        self._happen(scrape.t, scrape.at_s, "preemption", ", ".join(words))

    def _apply_outage(self, outage: Outage) -> None:
        server = self.servers[outage.server]
        first = server.broken_since_s is None
        server.apply_outage(outage)
        if first and len(server.t):
            said = f"{self._who(outage.server)}no page: {outage.detail or outage.reason}"
            self._happen(outage.t, outage.at_s, "outage", said)

    def _happen(self, t: float, at_s: float, kind: str, text: str) -> None:
        self._happenings.append((t, Happening(at_s, kind, text)))

    def _who(self, server: int) -> str:
        return f"{self.start.servers[server].url}: " if len(self.servers) > 1 else ""

    def _known(self, server: int) -> bool:
        return 0 <= server < len(self.servers)

    # --- what there is to see ------------------------------------------------------------------------------------

    def frame(self, now_s: float, view: View = View()) -> Frame:  # noqa: B008 - frozen
        stretches = []
        for server in self.servers:
            pages = server.window(now_s, view.window_s)
            if pages is not None:
                stretches.append(Stretch(server, *pages))
        window = Window(tuple(stretches))
        seen = bisect_right(self._happenings, now_s, key=lambda known: known[0])
        happenings = tuple(happening for _, happening in self._happenings[max(0, seen - HAPPENINGS_SHOWN) : seen])
        servers = tuple(self._server(index, now_s) for index in range(len(self.servers)))
        waiting = window.gauge(Quantity.WAITING)
        preempted = window.count(Quantity.PREEMPTIONS)
        return Frame(
            now_s=now_s,
            unix_s=self.start.unix_s + now_s,
            start_unix_s=self.start.unix_s,
            interval_s=self.start.interval_s,
            window_s=window.seconds,
            asked_window_s=view.window_s,
            status=_gravest(servers),
            origin=self.start.origin,
            servers=servers,
            engines=_engines(window, self.servers),
            requests=Requests(
                running=window.gauge(Quantity.RUNNING),
                waiting=waiting,
                waiting_by_reason=_parts(window, Quantity.WAITING_BY_REASON, window.now),
                finished=_total_of_parts(window, Quantity.FINISHED),
                finished_by_reason=_parts(window, Quantity.FINISHED, window.delta),
                rejected=_total_of_parts(window, Quantity.REJECTED),
            ),
            kv=kv.kv(window, now_s),
            prompt_tokens=window.count(Quantity.PROMPT_TOKENS),
            generation_tokens=window.count(Quantity.GENERATION_TOKENS),
            iteration=latency.iteration(window),
            ttft=breakdown.ttft(window, waiting),
            latencies=latency.latencies(window),
            prefix_cache=latency.prefix_cache(window, preempted.in_window),
            preemption=_preemption(window, preempted),
            gpus=self._gpus(now_s, view.window_s),
            happenings=happenings,
            charts=charts.charts(self.servers, self.cards, happenings, now_s, view),
        )

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
            uptime_s=self.start.unix_s + now_s - started_s if started_s is not None else None,
            age_s=now_s - server.at_s[last] if pages else None,
            took_s=server.took_s[last] if pages else None,
            page_bytes=server.bytes[last] if pages else None,
            bad_lines=int(bad_lines or 0),
            tries=status.tries_since(server, now_s),
            outages=bisect_right(server.broken_t, now_s),
            restarts=bisect_right(server.restarts, last),
            engines=len(server.engines(Quantity.RUNNING)),
            note=identity.note if identity is not None else None,
        )

    def _gpus(self, now_s: float, window_s: float) -> Gpus:
        seen = bisect_right(self._gpu_notes, now_s, key=lambda note: note[0])
        note = self._gpu_notes[seen - 1] if seen else None
        local = any(target.local for target in self.start.servers)
        pages = self.cards.window(now_s, window_s)
        if pages is None:
            return Gpus((), note[1] if note else None, local, None, None, 0, None)
        first, last = pages
        cards = tuple(
            _card(card, first, last, now_s - self.cards.at_s[last])
            for card in sorted(self.cards.cards.values(), key=lambda card: card.index)
            if card.facts.at(last) is not None
        )
        counted = charts.cards_counted(self.cards, last)
        powers = [card.numbers["power_w"].at(last) for card in counted]
        limits = [card.numbers["power_limit_w"].at(last) for card in counted]
        recent = note[1] if note is not None and note[0] > self.cards.t[last] else None
        return Gpus(
            cards=cards,
            note=recent,
            local=local,
            power_w=_whole(powers),
            power_limit_w=_whole(limits),
            counted=len(counted),
            age_s=now_s - self.cards.at_s[last],
        )


def _gravest(servers: Sequence[ServerPart]) -> Status:
    if not servers:
        return Status("waiting", "no server to watch", fresh=False)
    if all(server.status.kind == "waiting" for server in servers):
        return servers[0].status
    return min((server.status for server in servers), key=lambda one: _GRAVITY.index(one.kind))


def _engines(window: Window, servers: Sequence[ServerHistory]) -> tuple[EnginePart, ...]:
    rows = []
    for one in window.stretches:
        waiting = one.server.engines(Quantity.WAITING)
        used = one.server.engines(Quantity.KV_USED)
        generated = one.server.engines(Quantity.GENERATION_TOKENS)
        for name, running in one.server.engines(Quantity.RUNNING).items():
            track = generated.get(name)
            begin, end = (track.at(one.first), track.at(one.last)) if track is not None else (None, None)
            grown = end - begin if begin is not None and end is not None else None
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


def _parts(
    window: Window, quantity: Quantity, ask: Callable[[Quantity, str], float | None]
) -> tuple[tuple[str, float], ...]:
    names = {part for one in window.stretches for part in one.server.parts(quantity)}
    found = [(part, ask(quantity, part)) for part in sorted(names)]
    return tuple((part, value) for part, value in found if value)


def _total_of_parts(window: Window, quantity: Quantity) -> Count:
    """A counter that is exported only by part."""
    names = {part for one in window.stretches for part in one.server.parts(quantity)}
    counts = [window.count(quantity, part) for part in names]
    return Count(
        in_window=_sum_known([count.in_window for count in counts]),
        per_s=_sum_known([count.per_s for count in counts]),
        since_start=_sum_known([count.since_start for count in counts]),
    )


def _preemption(window: Window, count: Count) -> Preemption:
    latest = []
    for one in window.stretches:
        track = one.server.total(Quantity.PREEMPTIONS)
        rises = track.changes(0, one.last) if track is not None else []
        if rises:
            latest.append(one.server.at_s[rises[-1][0]])
    return Preemption(
        count=count,
        latest_at_s=max(latest, default=None),
        interval_s=window.seconds / count.in_window if count.in_window else None,
    )


def _card(card: Card, first: int, last: int, age_s: float) -> GpuPart:
    fact = card.facts.at(last)
    assert fact is not None
    now = {name: track.at(last) for name, track in card.numbers.items()}
    energy = card.numbers["energy_j"]
    begin, end = energy.at(first), energy.at(last)
    used, total = now["mem_used_bytes"], now["mem_total_bytes"]
    return GpuPart(
        index=card.index,
        uuid=card.uuid,
        name=fact.name,
        serving=fact.serving,
        lost=fact.lost,
        util_ratio=now["util_ratio"],
        mem_used_bytes=int(used) if used is not None else None,
        mem_total_bytes=int(total) if total is not None else None,
        power=gauge(now["power_w"], card.numbers["power_w"].each(first, last)),
        power_kind=fact.power_kind,
        power_limit_w=now["power_limit_w"],
        energy_j=end - begin if begin is not None and end is not None and end >= begin else None,
        temp_c=now["temp_c"],
        sm_mhz=now["sm_mhz"],
        sm_max_mhz=now["sm_max_mhz"],
        mem_mhz=now["mem_mhz"],
        mem_max_mhz=now["mem_max_mhz"],
        throttle=fact.throttle,
        age_s=age_s,
    )


def _whole(values: Sequence[float | None]) -> float | None:
    """A sum that is known only where every part is."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _sum_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
