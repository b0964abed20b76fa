"""The tables of what the GPU did: time, energy, arithmetic; FLOP a token against its line."""

from __future__ import annotations

from typing import Final

from vtop import units
from vtop.report.model import Report
from vtop.report.render.document import Table
from vtop.report.tables.cells import Columns, by_phase, of_phases, plus

_WORK: Final[Columns] = (
    ("decode", lambda of, _: units.seconds(of.wallclock.decode_s)),
    ("prefill", lambda of, _: units.seconds(of.wallclock.prefill_s)),
    ("recompute", lambda of, _: units.seconds(of.wallclock.recompute_s)),
    ("idle", lambda of, _: units.seconds(of.wallclock.idle_s)),
    ("decode step", lambda of, _: units.seconds(of.wallclock.step_s)),
    ("stolen", lambda of, _: units.percent(of.wallclock.stolen_ratio)),
    ("tok/step", lambda of, _: units.number(of.tokens_per_step)),
    ("energy", lambda of, _: units.joules(of.energy.joules)),
    ("J/output tok", lambda of, _: units.number(of.energy.per_output_token_j)),
    ("MFU", lambda of, _: units.percent(of.roofline.mfu_ratio)),
    ("bandwidth", lambda of, _: units.percent(of.roofline.bandwidth_ratio)),
)


def work(report: Report) -> Table | None:
    """Time, energy and arithmetic by phase."""
    known = any(
        value is not None
        for _, of in of_phases(report)
        for value in (of.wallclock.decode_s, of.wallclock.idle_s, of.energy.joules, of.roofline.flops_per_s)
    )
    notes = (
        "Stolen: the share of a request's decoding that went to the prefill and recomputing of others.",
        "MFU and bandwidth: of the GPU's dense peaks, by the counters of --enable-mfu-metrics.",
    )
    return by_phase("Where the time and the energy went", report, _WORK, notes) if known else None


def token_flops(report: Report) -> Table | None:
    """FLOP a token, and executed tokens, against what the answers needed."""
    columns: Columns = (
        ("needed tok", lambda of, _: units.count(of.recompute.least_tokens)),
        ("executed tok", lambda of, _: units.count(of.recompute.executed_tokens)),
        ("recomputed", lambda of, _: units.count(of.recompute.tokens)),
        ("of needed", lambda of, _: units.percent(of.recompute.ratio)),
        ("mean context", lambda of, _: units.count(of.token_flops.context_tokens)),
        ("GFLOP/tok", lambda of, _: _giga(of.token_flops.flops)),
        ("of the line", lambda of, _: _giga(of.token_flops.expected_flops)),
        ("apart", lambda of, _: _apart(of.token_flops.apart_ratio)),
    )
    line = next((of.token_flops for _, of in of_phases(report) if of.token_flops.line_flops is not None), None)
    notes = ["Needed: prompts without what was cached, and output; executed: by the bytes that the engine wrote."]
    if line is not None and line.line_flops is not None and line.context_flops is not None:
        notes.append(
            f"GFLOP of one GPU for each needed token; the line is that of the model's shape, "
            f"{line.line_flops / 1e9:.2f} + {line.context_flops / 1e9:.6f} × the mean context. What was run again "
            "stands above it."
        )
    known = any(of.token_flops.flops is not None or of.recompute.least_tokens for _, of in of_phases(report))
    return by_phase("Work for a token", report, columns, notes) if known else None


def _giga(flops: float | None) -> str:
    return units.UNKNOWN if flops is None else f"{flops / 1e9:.2f}"


def _apart(ratio: float | None) -> str:
    return units.UNKNOWN if ratio is None else f"{plus(ratio * 100)} %"
