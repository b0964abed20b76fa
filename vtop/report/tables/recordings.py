"""The table that sets the phases of several recordings side by side: before and after."""

from __future__ import annotations

from collections.abc import Sequence

from vtop import units
from vtop.report.like_phases import beside
from vtop.report.model import Report
from vtop.report.numbers import Numbers
from vtop.report.render.document import Table
from vtop.report.tables.cells import percentile

HEAD = (
    "configuration", "tokens", "need", "KV peak", "resident", "waiting", "preempted", "output/s", "total/s",
    "TTFT p50", "ITL p50", "ITL p90", "ITL p99", "e2e p50",
)  # fmt: skip


def before_and_after(reports: Sequence[Report]) -> Table | None:
    """Each phase of each recording a row, like loads next to each other: averages over unlike loads are of none."""
    found = beside(reports)
    rows = tuple((one.name, *_row(one.of)) for one in found)
    if not rows:
        return None
    alone = [one.name for one in found if one.alone]
    notes = (
        *((f"Beside no like load, so before and after of nothing: {', '.join(alone)}.",) if alone else ()),
        "Tokens: of a request at its end, prompt and output. Need: KV of all that were in flight, each at its end, as "
        "so many times the pool. Resident: the most that ran, of those in flight. Output/s, total/s: tokens. KV peak, "
        "waiting (peak) and preempted are of the whole phase.",
    )
    return Table("Before and after, phase by phase", HEAD, rows, notes)


def _row(of: Numbers) -> tuple[str, ...]:
    account = of.account
    asked = account.nominal.concurrency if account.nominal is not None else None
    return (
        units.count(account.request_tokens),
        units.UNKNOWN if account.oversubscription is None else f"{account.oversubscription:.2f} ×",
        units.percent(of.kv.peak_ratio),
        f"{units.count(of.running.peak)} / {units.count(asked)}",
        units.count(of.waiting.peak),
        units.count(of.preemptions),
        units.number(of.output_per_s),
        units.number(of.total_per_s),
        percentile(of, "TTFT", "p50_s"),
        percentile(of, "ITL", "p50_s"),
        percentile(of, "ITL", "p90_s"),
        percentile(of, "ITL", "p99_s"),
        percentile(of, "e2e", "p50_s"),
    )
