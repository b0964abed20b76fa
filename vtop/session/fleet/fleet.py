"""The table of servers: what each does, those in trouble first, what they add up to, and who differs from its peers.

Who is in trouble is the verdict of a session of that server alone, judged every JUDGED_S at an instant of its own, so
that what is shown at an instant does not depend on when it was asked for; peers are compared every COMPARED_S.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from vtop.metrics.quantity import Quantity
from vtop.recording import GAP_INTERVALS
from vtop.server_kinds import registry
from vtop.session.fleet.peers import MIN_PEERS, WINDOW_S, seen, unlike
from vtop.session.frame.fleet import (
    Fleet,
    FleetGroup,
    FleetRow,
    FleetView,
    NamedPeer,
    StripCell,
    UnlikeKind,
    UnlikePeers,
)
from vtop.session.frame.servers import ServerPart
from vtop.session.frame.vocabulary import Side, StatusKind, VerdictLimit
from vtop.session.history.server import ServerHistory
from vtop.session.history.sides import Sides
from vtop.session.history.window import ScrapeRange, Window, sum_of_known

JUDGED_S: Final = 15.0
COMPARED_S: Final = 5.0
_SPREAD: Final = 0.618034  # of a turn, from one server's instants to the next one's: they spread evenly
MOST_LOOKS: Final = 240  # at a session, for a report
PEER_LABELS: Final = ("job", "cluster", "namespace")  # of servers that are alike
# gravest first: what does not answer, then what binds; a limit that is not here is no trouble
GRAVE: Final[tuple[StatusKind, ...]] = ("down", "unhealthy", "frozen", "waiting")
TROUBLES: Final[tuple[VerdictLimit, ...]] = (
    "stuck", "no-admission", "kv", "max-num-seqs", "frontend", "deferred", "gpu", "token-budget", "power",
)  # fmt: skip
_CALM: Final = len(GRAVE) + len(TROUBLES)

Judge = Callable[[int, float], VerdictLimit]  # of a server at an instant
Order = tuple[float | str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class FleetRows:
    """All rows of an instant, in no order yet, and what they were made of."""

    now_s: float
    rows: list[FleetRow]
    ranges: dict[ServerHistory, ScrapeRange]
    divided: Sides
    unlike: list[tuple[int, UnlikePeers]]


class FleetHistory:
    """What was judged of each server so far, and the tables made of it."""

    def __init__(self, servers: Sequence[ServerHistory], judge: Judge) -> None:
        self._servers = servers
        self._judge = judge
        self._judged: dict[int, tuple[float, VerdictLimit]] = {}
        self._compared: tuple[float, list[tuple[int, UnlikePeers]]] = (-math.inf, [])

    def prepare(self, now_s: float, most: int) -> None:
        """Judge up to so many of the servers that are due: between two frames, so that neither has to wait for all."""
        for index, server in enumerate(self._servers):
            if most and self._due_s(index, now_s) != self._judged.get(index, (None,))[0] and len(server.t):
                self.verdict(index, now_s)
                most -= 1

    def verdict(self, index: int, now_s: float) -> tuple[float, VerdictLimit] | None:
        """(the instant it was judged at, the limit); None before the first such instant."""
        due_s = self._due_s(index, now_s)
        known = self._judged.get(index)
        if known is None or known[0] != due_s:
            if due_s < 0 or not self._servers[index].visible(due_s):
                return None
            known = self._judged[index] = (due_s, self._judge(index, due_s))
        return known

    def _due_s(self, index: int, now_s: float) -> float:
        phase_s = JUDGED_S * (index * _SPREAD % 1.0)  # whatever servers come later
        return math.floor((now_s - phase_s) / JUDGED_S) * JUDGED_S + phase_s

    def unlike(self, parts: Sequence[ServerPart], now_s: float) -> list[tuple[int, UnlikePeers]]:
        """Who differed from its peers at the latest instant at which that was looked at."""
        at_s = math.floor(now_s / COMPARED_S) * COMPARED_S
        if self._compared[0] != at_s:
            found = [
                one
                for part, server in zip(parts, self._servers, strict=True)
                if part.status.fresh and registry.of(part.kind).reads
                and (one := seen(part.index, server, _peers(part), at_s, prefill=part.side == "prefill")) is not None
            ]  # fmt: skip
            self._compared = at_s, unlike(found)
        return self._compared[1]

    def named(self, parts_at: Callable[[float], Sequence[ServerPart]], end_s: float) -> tuple[NamedPeer, ...]:
        """Who differed from its peers in a session, those at most looks first; there are MOST_LOOKS of them at most."""
        if len(self._servers) <= MIN_PEERS or end_s < WINDOW_S:
            return ()
        every_s = COMPARED_S * max(1, math.ceil((end_s - WINDOW_S) / COMPARED_S / MOST_LOOKS))
        looks = [WINDOW_S + k * every_s for k in range(int((end_s - WINDOW_S) / every_s) + 1)]
        told = [(at_s, one) for at_s in looks for one in self.unlike(parts_at(at_s), at_s)]
        found: dict[tuple[int, UnlikeKind], list[tuple[float, UnlikePeers]]] = {}
        for at_s, (server, how) in told:
            found.setdefault((server, how.kind), []).append((at_s, how))
        rows = [
            NamedPeer(server, self._servers[server].target.url, kind, len(seen_at), len(looks), *seen_at[-1])
            for (server, kind), seen_at in found.items()
        ]
        return tuple(sorted(rows, key=lambda row: (-row.named, row.server)))

    def rows(self, parts: Sequence[ServerPart], window: Window, divided: Sides, *, now_s: float) -> FleetRows:
        """parts: of every server; window: of all of them."""
        ranges = {one.server: one for one in window.ranges}
        told = self.unlike(parts, now_s)
        by_server: dict[int, list[UnlikePeers]] = {}
        for index, how in told:
            by_server.setdefault(index, []).append(how)
        rows = [
            self._row(part, ranges.get(server), tuple(by_server.get(part.index, ())), now_s)
            for part, server in zip(parts, self._servers, strict=True)
            if part.watched
        ]
        return FleetRows(now_s, rows, ranges, divided, told)

    def part(self, all_rows: FleetRows, view: FleetView, window_s: float) -> Fleet:
        """Those of the rows that are looked at, in order; strips go over window_s."""
        rows = all_rows.rows
        by = _group_by(view.group)
        found = [row for row in rows if view.find.lower() in _said(row)] if view.find else rows
        groups = self._groups(found, by, all_rows) if view.group is not None else []
        place = {(group.name, group.side): at for at, group in enumerate(groups)}
        last = len(groups)  # routers, which are in no group
        keys = {row.server: (place.get((by(row), row.side), last), *_order(row, view.order)) for row in found}
        ordered = sorted(found, key=lambda row: keys[row.server])
        first, shown = _shown(ordered, view, by)
        now_s = all_rows.now_s
        return Fleet(
            totals=tuple(self._groups(found, lambda _: "", all_rows)),
            groups=tuple(groups),
            rows=tuple(
                replace(row, group=by(row), strip=self._strip(row.server, now_s, view.strip, window_s)) for row in shown
            ),
            order=tuple(row.server for row in ordered),
            first=first,
            servers=len(rows),
            view=view,
            labels=("model", *sorted({name for row in rows for name in row.labels})),
            states=_states(rows),
            unlike=tuple(all_rows.unlike),
            strip_cell_s=window_s / view.strip if view.strip else 0.0,
        )

    def _row(self, part: ServerPart, one: ScrapeRange | None, how: tuple[UnlikePeers, ...], now_s: float) -> FleetRow:
        reads = registry.of(part.kind).reads
        answers = one is not None and not one.silent and part.status.fresh
        judged = self.verdict(part.index, now_s) if answers and reads else None
        server, last = self._servers[part.index], one.last if one is not None else -1
        told = answers and one is not None
        sums = server.sums(Quantity.TTFT, one.first, last) if told and one is not None else None
        return FleetRow(
            server=part.index,
            url=part.url,
            status=part.status,
            kind=part.kind,
            reads=reads,
            model=", ".join(part.models) or None,
            side=part.side,
            labels=part.labels,
            verdict=judged[1] if judged is not None else None,
            judged_s=judged[0] if judged is not None else None,
            running=server.value(Quantity.RUNNING, last) if told else None,
            waiting=server.value(Quantity.WAITING, last) if told else None,
            kv_used_ratio=server.value(Quantity.KV_USED, last) if told else None,
            generation_per_s=_per_s([one], Quantity.GENERATION_TOKENS) if told and one is not None else None,
            ttft_s=sums[0] / sums[1] if sums is not None and sums[1] > 0 and sums[0] == sums[0] else None,
            age_s=part.age_s,
            unlike=how,
        )

    def _groups(
        self, found: Sequence[FleetRow], by: Callable[[FleetRow], str], all_rows: FleetRows
    ) -> list[FleetGroup]:
        """By group and side, those with the gravest trouble first."""
        members: dict[tuple[str, Side | None], list[FleetRow]] = {}
        for row in found:
            if row.reads:
                members.setdefault((by(row), row.side), []).append(row)
        gravest = {key: min(_order(row, "trouble") for row in own) for key, own in members.items()}
        keys = sorted(members, key=lambda key: (gravest[key], key[0]))
        return [self._group(*key, members[key], all_rows) for key in keys]

    def _group(self, name: str, side: Side | None, rows: Sequence[FleetRow], all_rows: FleetRows) -> FleetGroup:
        ranges = all_rows.ranges
        known = [ranges[server] for row in rows if (server := self._servers[row.server]) in ranges]
        window = Window(tuple(known))
        before, after = all_rows.divided.prefilling(window), all_rows.divided.decoding(window)
        sums = before.sums(Quantity.TTFT)
        return FleetGroup(
            name=name,
            side=side,
            servers=len(rows),
            answering=sum(row.status.fresh for row in rows),
            troubled=sum(_gravity(row) < _CALM for row in rows),
            unlike=sum(bool(row.unlike) for row in rows),
            running=sum_of_known([row.running for row in rows]),
            waiting=sum_of_known([row.waiting for row in rows]),
            kv_high_ratio=max((row.kv_used_ratio for row in rows if row.kv_used_ratio is not None), default=None),
            generation_per_s=_per_s(after.answering, Quantity.GENERATION_TOKENS),
            prompt_per_s=_per_s(before.answering, Quantity.PROMPT_TOKENS),
            ttft_s=sums[0] / sums[1] if sums is not None and sums[1] > 0 and sums[0] == sums[0] else None,
            first_tokens=sums[1] if sums is not None else 0.0,
        )

    def _strip(self, index: int, now_s: float, cells: int, window_s: float) -> tuple[StripCell, ...]:
        """The latest whole cells of a window; they end at multiples of their length."""
        if not cells:
            return ()
        server, cell_s = self._servers[index], window_s / cells
        scrapes = server.visible(now_s)
        used, waiting = server.total(Quantity.KV_USED), server.total(Quantity.WAITING)
        newest = math.floor(now_s / cell_s + 1e-9)
        ends = [(newest - cells + k) * cell_s for k in range(cells + 1)]
        places = [bisect_right(server.at_s, end_s, 0, scrapes) - 1 for end_s in ends]
        found = []
        for k in range(cells):
            first, last = places[k] + 1, places[k + 1]
            if last < first and last >= 0 and ends[k + 1] - server.at_s[last] <= GAP_INTERVALS * server.interval_s:
                first = last  # shorter than the interval: the scrape before still holds
            if last < first or last < 0:
                found.append(StripCell(None, None))
                continue
            wait = waiting.high(first, last) if waiting is not None else None
            found.append(
                StripCell(used.high(first, last) if used is not None else None, None if wait is None else wait > 0)
            )
        return tuple(found)


def _peers(part: ServerPart) -> tuple[object, ...]:
    """Of whom a server is one: the same for servers that are alike."""
    started = part.started
    limits = (started.max_num_seqs, started.max_num_batched_tokens) if started is not None else ()
    return (part.models, part.side, part.kind, limits, *(part.labels.get(name) for name in PEER_LABELS))


def _gravity(row: FleetRow) -> int:
    """0 for the gravest; _CALM and above where nothing is the matter."""
    if row.status.kind in GRAVE:
        return GRAVE.index(row.status.kind)
    if not row.reads:
        return _CALM + 3
    if row.verdict in TROUBLES:
        return len(GRAVE) + TROUBLES.index(row.verdict)
    return _CALM + (0 if row.unlike else 2 if row.verdict in ("idle", "asleep", None) else 1)


def _order(row: FleetRow, order: str) -> Order:
    """Ascending. Waiting, TTFT and KV use count in steps, so that rows do not change places at every scrape."""
    steps = (
        -_doublings(row.waiting), -round(10 * (row.kv_used_ratio or 0.0)), -_doublings((row.ttft_s or 0.0) * 100),
        -_doublings(row.generation_per_s),
    )  # fmt: skip
    down = {"waiting": row.waiting, "KV": row.kv_used_ratio, "TTFT": row.ttft_s, "tok/s": row.generation_per_s}
    if order == "name":
        return row.url, row.server
    if order == "age":
        return -(row.age_s if row.age_s is not None else math.inf), row.server
    if order in down:
        value = down[order]
        return (math.inf if value is None else -value), row.server
    return (_gravity(row), *steps, row.server)


def _doublings(value: float | None) -> int:
    return int(value).bit_length() if value is not None and math.isfinite(value) else 0


def _group_by(name: str | None) -> Callable[[FleetRow], str]:
    if name is None:
        return lambda _: ""
    if name == "model":
        return lambda row: row.model or "model not known"
    return lambda row: row.labels.get(name, f"no {name}")


def _shown(rows: Sequence[FleetRow], view: FleetView, by: Callable[[FleetRow], str]) -> tuple[int, Sequence[FleetRow]]:
    """Which rows have room, the chosen one among them: place of the first, and they. A group's heading takes a line."""
    at = next((place for place, row in enumerate(rows) if row.server == view.chosen), None)
    headings = view.group is not None
    if not headings:
        last_first = max(0, len(rows) - view.lines)  # no empty lines below the last row
        first = min(view.first, last_first)
        first = first if at is None else max(min(first, at), at - view.lines + 1)
        return first, rows[first : first + view.lines]
    first = max(0, min(view.first, len(rows) - 1, len(rows) - 1 if at is None else at))
    while True:
        lines, last = 0, first
        while last < len(rows):
            opens = last == first or (by(rows[last]), rows[last].side) != (by(rows[last - 1]), rows[last - 1].side)
            if lines + 1 + opens > view.lines and last > first:
                break
            lines += 1 + opens
            last += 1
        if at is None or at < last:
            return first, rows[first:last]
        first += 1


def _states(rows: Sequence[FleetRow]) -> tuple[tuple[str, int], ...]:
    """How many are in which state, the gravest first."""
    counts: dict[tuple[int, str], int] = {}
    for row in rows:
        told = row.status.kind in GRAVE or row.verdict is None
        word = "not read" if not row.reads else row.status.kind if told else row.verdict
        key = (_gravity(row) if _gravity(row) < _CALM else _CALM, str(word))
        counts[key] = counts.get(key, 0) + 1
    return tuple((word, n) for (_, word), n in sorted(counts.items()))


def _said(row: FleetRow) -> str:
    """What a row can be found by."""
    words = [row.url, row.model, row.side, row.status.kind, row.verdict, registry.of(row.kind).title]
    words += [*row.labels.values(), *(one.kind for one in row.unlike)]
    return " ".join(word for word in words if word).lower()


def _per_s(ranges: Iterable[ScrapeRange], quantity: Quantity) -> float | None:
    """A counter's growth a second, added up."""
    rates = [
        grown / one.counted_s
        for one in ranges
        if one.counted_s > 0 and (grown := one.server.grown(quantity, one.first, one.last)) is not None
    ]
    return sum_of_known(rates)
