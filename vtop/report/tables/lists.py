"""The tables that list: incidents, events, counters against each other."""

from __future__ import annotations

from vtop import units
from vtop.report.findings.counters import CounterPair, pairs
from vtop.report.model import Report
from vtop.report.render.document import Table
from vtop.report.tables.cells import plus

WHAT = {
    "stuck": "stuck: requests, and nothing moved",
    "outage": "no scrape: tries failed",
    "stale": "no scrape came",
    "unhealthy": "not healthy",
    "restart": "restarted",
}


def incidents(report: Report) -> Table | None:
    """When a server could not be read or stood still."""
    rows = tuple(
        (
            units.clock(one.begin_s),
            units.clock(one.end_s) if one.over else "the end",
            units.span(one.seconds) if one.kind != "restart" else units.UNKNOWN,
            WHAT[one.kind],
            units.count(one.running),
            units.count(one.waiting),
            (one.detail or "") if len(report.servers) < 2 else f"{report.servers[one.server].url} {one.detail or ''}",
        )
        for one in report.incidents
    )
    if not rows:
        return None
    head = ("from", "to", "for", "what", "running", "waiting", "said")
    notes = ("Running and waiting: on the last scrape before, or the first of it.",)
    return Table("When the server stood still or could not be read", head, rows, notes, words=(3, 6))


def events(report: Report) -> Table | None:
    rows = tuple(
        (units.clock(one.at_s), one.kind, one.text) for one in report.event_log if one.kind not in ("preemption", "end")
    )
    return Table("Events", ("at", "kind", "what"), rows, words=(1, 2)) if rows else None


def counters(report: Report) -> Table | None:
    """Counters that one would take for the same."""
    rows = tuple(
        (
            one.one,
            _value(one, one.one_value),
            one.other,
            _value(one, one.other_value),
            _signed(one, one.difference),
            f"{plus(one.ratio * 100)} %" if one.ratio is not None else units.UNKNOWN,
            one.where,
            one.why,
        )
        for one in pairs(report)
    )
    if not rows:
        return None
    head = ("one", "is", "other", "is", "apart", "", "where", "why they differ")
    return Table("Counters against each other", head, rows, words=(0, 2, 6, 7), folded=True)


def _value(pair: CounterPair, value: float) -> str:
    return units.seconds(value) if pair.unit == "s" else units.number(value) if value % 1 else units.count(value)


def _signed(pair: CounterPair, value: float) -> str:
    sign = "−" if value < 0 else "+" if value > 0 else ""
    return sign + _value(pair, abs(value))
