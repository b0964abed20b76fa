"""The tables of the KV cache: how crowded it was, its account, and the preemptions one by one."""

from __future__ import annotations

from typing import Final

from vtop import units
from vtop.report.model import Phase, Report
from vtop.report.numbers import Numbers
from vtop.report.render.document import Table
from vtop.report.tables.cells import Columns, by_phase, of_phases, points
from vtop.session.frame.kv import Expectation

EVENTS_SHOWN: Final = 40

_CROWDING: Final[Columns] = (
    ("running*", lambda _, steady: units.number(steady.running.median)),
    ("running peak", lambda of, _: units.count(of.running.peak)),
    ("waiting*", lambda _, steady: units.number(steady.waiting.median)),
    ("waiting peak", lambda of, _: units.count(of.waiting.peak)),
    ("with waiting", lambda of, _: units.percent(of.crowding.waiting_share)),
    ("KV*", lambda _, steady: units.percent(steady.kv.median_ratio)),
    ("KV peak", lambda of, _: units.percent(of.kv.peak_ratio)),
    ("KV ≥ 90 %", lambda of, _: units.percent(of.crowding.kv_90_share)),
    ("KV ≥ 95 %", lambda of, _: units.percent(of.crowding.kv_95_share)),
    ("preempted", lambda of, _: units.count(of.preemptions)),
)


def crowding(report: Report) -> Table | None:
    """How many ran and waited, and how often the pool was nearly full."""
    notes = (
        "* median over the scrapes of the steady part. With waiting, KV ≥ 90 % and ≥ 95 %: the share of the scrapes of "
        "the whole phase.",
    )
    known = any(of.crowding.scrapes for _, of in of_phases(report))
    return by_phase("Requests and the KV pool", report, _CROWDING, notes) if known else None


def account(report: Report) -> Table | None:
    """KV use against what so many requests of such lengths should take."""
    rows = []
    for phase in report.phases:
        of = phase.steady or phase.whole
        if of is None or of.account.nominal is None:
            continue
        for kind, one in (("in flight", of.account.nominal), ("running", of.account.effective)):
            if one is not None and not (kind == "running" and one.concurrency == of.account.nominal.concurrency):
                rows.append(_account_row(phase, of, kind, one))
    if not rows:
        return None
    head = (
        "phase", "of what is", "requests", "tokens each", "peak", "expected", "apart", "median", "expected mean",
        "apart", "need", "need ÷ pool", "fit",
    )  # fmt: skip
    known = [of for phase in report.phases if (of := phase.steady or phase.whole) is not None]
    lengths = sorted({of.account.lengths_from for of in known if of.account.lengths_from is not None})
    notes = (
        "Expected peak: requests × the blocks of a request at its end; expected mean: half way through its output. "
        "Peak is held against the highest scrape of the steady part, mean against the median one; apart in points of "
        "a per cent.",
        f"Lengths from {' and '.join(lengths)}; a pool of {units.count(known[0].kv.pool_tokens)} tokens. Need: of all "
        "in flight; fit: how many of that length the pool holds.",
    )
    return Table("KV account", head, tuple(rows), notes, words=(0, 1))


def _account_row(phase: Phase, of: Numbers, kind: str, one: Expectation) -> tuple[str, ...]:
    account = of.account
    return (
        phase.label,
        kind,
        units.number(one.concurrency),
        units.count(account.request_tokens),
        units.percent(of.kv.peak_ratio),
        units.percent(one.peak_ratio),
        points(one.peak_error_ratio),
        units.percent(of.kv.median_ratio),
        units.percent(one.mean_ratio),
        points(one.mean_error_ratio),
        units.bytes_(account.asked_bytes),
        units.number(account.oversubscription),
        units.number(account.predicted_residents),
    )


def preemptions(report: Report) -> Table | None:
    """Each preemption: when, what triggered it, what it freed."""
    events = report.staircase.events
    if not events:
        return None
    rows = tuple(
        (
            str(number),
            units.clock(one.at_s),
            units.count(one.count),
            one.dated_by,
            units.percent(one.kv_before_ratio),
            units.percent(one.kv_after_ratio),
            units.percent(one.freed_ratio),
            units.count(one.freed_tokens),
            f"{units.count(one.running_before)} → {units.count(one.running_after)}",
            f"{units.count(one.waiting_before)} → {units.count(one.waiting_after)}",
        )
        for number, one in enumerate(events[:EVENTS_SHOWN], start=1)
    )
    notes = ["Dated by the gauges where running fell and waiting rose and nothing finished, else by the counter."]
    if len(events) > EVENTS_SHOWN:
        every = report.run.preemptions if report.run is not None else None
        notes.append(f"{EVENTS_SHOWN} of {units.count(every)}; the JSON report has {len(events):,} of them.")
    head = ("", "at", "count", "dated by", "KV before", "KV after", "freed", "tokens freed", "running", "waiting")
    return Table("Preemptions", head, rows, tuple(notes), words=(3,), folded=len(rows) > 3)
