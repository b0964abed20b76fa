"""Several servers side by side: what each did, what those of one side add up to, who differed from its peers."""

from __future__ import annotations

from vtop import units
from vtop.report.model import Report
from vtop.report.render.document import Table
from vtop.server_kinds import registry


def servers(report: Report) -> Table | None:
    """A row a server, those in trouble first."""
    fleet = report.fleet
    if fleet is None:
        return None
    rows = tuple(
        (
            row.url,
            (row.verdict or row.status.kind) if row.reads else f"{registry.of(row.kind).title}, not read",
            row.side or units.UNKNOWN,
            units.count(row.running),
            units.count(row.waiting),
            units.whole_percent(row.kv_used_ratio),
            units.number(row.generation_per_s),
            units.seconds(row.ttft_s),
            ", ".join(f"{name}={value}" for name, value in row.labels.items()),
        )
        for row in fleet.rows
    )
    head = ("server", "limit", "side", "running", "waiting", "KV", "output tok/s", "mean TTFT", "labels")
    notes = ("The limit, running, waiting and KV: at the end of the recording. Tokens and TTFT: over all of it.",)
    return Table("The servers", head, rows, notes, words=(0, 1, 2, 8))


def groups(report: Report) -> Table | None:
    """What they add up to. Prefill and decode servers of one deployment are never added up."""
    if report.fleet is None:
        return None
    rows = tuple(
        (
            group.side or "all",
            units.count(group.servers),
            units.count(group.answering),
            units.number(group.generation_per_s) if group.side != "prefill" else units.UNKNOWN,
            units.number(group.prompt_per_s) if group.side != "decode" else units.UNKNOWN,
            units.seconds(group.ttft_s) if group.side != "decode" else units.UNKNOWN,
            units.count(group.first_tokens),
        )
        for group in report.fleet.totals
    )
    head = ("side", "servers", "answer at the end", "output tok/s", "prompt tok/s", "mean TTFT", "first tokens")
    return Table("The servers together", head, rows, (), words=(0,)) if rows else None


def unlike_peers(report: Report) -> Table | None:
    """None where nobody differed, or too few are alike to say so."""
    rows = tuple(
        (one.url, one.kind, f"{one.named} of {one.looks}", units.clock(one.latest_s), one.latest.sentence)
        for one in report.unlike_peers
    )
    head = ("server", "how", "looks", "latest", "as it was then")
    notes = ("A look is at the minute before it. Named is nobody among fewer than five peers.",)
    return Table("Unlike their peers", head, rows, notes, words=(0, 1, 4)) if rows else None
