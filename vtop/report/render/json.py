"""A report as JSON: every number it is made of, under the names that `--expect` uses (docs/report.schema.json).

Seconds, bytes, ratios; null is not known. Numbers have at most 12 significant digits, so that the bytes are the same on
every machine. What is only drawn (curves over time, distributions) is not in it: `vtop export` has the samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from vtop.report.expectations import Outcome
from vtop.report.findings.counters import pairs
from vtop.report.findings.findings import findings
from vtop.report.findings.next_steps import steps
from vtop.report.findings.validity import checks
from vtop.report.model import Report
from vtop.session.frame.prices import Prices

FORMAT: Final = 2
DIGITS: Final = 12
DRAWN_ONLY: Final = ("timeline", "zoom", "distributions")


def json(reports: Sequence[Report], outcomes: Sequence[Outcome] = (), prices: Sequence[Sequence[Prices]] = ()) -> bytes:
    """prices: of each recording's loads, where they are asked for."""
    priced = prices or [()] * len(reports)
    content = {
        "format": FORMAT,
        "recordings": [
            recording(report) | {"prices": [_plain(one) for one in of]}
            for report, of in zip(reports, priced, strict=True)
        ],
        "expectations": [_plain(outcome) for outcome in outcomes],
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"


def recording(report: Report) -> dict[str, Any]:
    """One recording's part of it, as plain values."""
    content = _without_drawn(_plain(report))
    content["phases"] = [_without_drawn(phase) for phase in content["phases"]]
    for numbers in (content["run"], *(phase[part] for phase in content["phases"] for part in ("whole", "steady"))):
        if numbers is not None:
            numbers["server"] = dict(numbers["server"])
    return {
        **content,
        "findings": [_plain(one) for one in findings(report)],
        "validity": [_plain(one) for one in checks(report)],
        "counters": [{**_plain(one), "difference": rounded(one.difference)} for one in pairs(report)],
        "steps": [_plain(one) for one in steps(report)],
    }


def _without_drawn(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in DRAWN_ONLY}


def _plain(record: Any) -> Any:
    return rounded(msgspec.to_builtins(record))


def rounded(value: Any) -> Any:
    """The same with shorter numbers; what is no number of JSON is null."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one) for one in value]
    return value
