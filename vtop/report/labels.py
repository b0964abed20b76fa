"""Words and choices that tables, figures and findings share: how a percentile or a breakdown is reported and chosen."""

from __future__ import annotations

from collections.abc import Sequence

from vtop import units
from vtop.metrics.histogram import Range
from vtop.report.model import Report
from vtop.report.numbers import Numbers, Percentile, Times
from vtop.server_kinds import registry
from vtop.session.frame.load_levels import LoadLevel
from vtop.session.frame.servers import ServerPart
from vtop.session.frame.ttft import PhaseParts

QUANTILES = ("p50_s", "p90_s", "p95_s", "p99_s", "p999_s", "p9999_s")
PARTS = (("queue", "queue"), ("prefill", "prefill"), ("frontend", "frontend"), ("network", "network"))


def kinds(servers: Sequence[ServerPart]) -> str:
    """What kind of server was watched: vLLM; several kinds are joined by a slash."""
    return " / ".join(dict.fromkeys(registry.of(one.kind).title for one in servers)) or registry.DEFAULT.title


def ttft_words(of: Numbers) -> str:
    """379 ms queue + 461 ms prefill + 136 ms frontend = 976 ms."""
    parts = of.parts
    named = (("queue", parts.queue_s), ("prefill", parts.prefill_s), ("frontend", parts.frontend_s))
    said = " + ".join(f"{name} {units.seconds(value)}" for name, value in named)
    return f"{said} = {units.seconds(parts.total_s)}"


def best(of: Numbers, name: str, quantile: str) -> Percentile:
    """A percentile of a latency: of the own requests where they are enough, else the bucket of the server's. Where a
    failed request stands at a lower percentile one stands here too: the server's bucket has no failed ones."""
    mine: Times | None = {"TTFT": of.ttft, "ITL": of.itl, "TPOT": of.tpot, "e2e": of.e2e}[name]
    own: Percentile = getattr(mine, quantile) if mine is not None else None
    if own is not None:
        return own
    lower = [getattr(mine, one) for one in QUANTILES[: QUANTILES.index(quantile)]] if mine is not None else []
    if "failed" in lower:
        return "failed"
    return next((getattr(one, quantile) for known, one in of.server if known == name), None)


def upper(value: Percentile) -> float | None:
    """The number to draw for a percentile: where only its bucket is known, the bucket's upper bound."""
    if isinstance(value, Range):
        return value.high
    return value if isinstance(value, float) else None


def percentile_words(value: Percentile) -> str:
    if isinstance(value, Range):
        return units.bounds(value.low, value.high)
    return value if isinstance(value, str) else units.seconds(value)


def part(of: Numbers, name: str) -> float | None:
    value = getattr(of.parts, f"{name}_s")
    assert value is None or isinstance(value, float)
    return value


def levels_of(report: Report) -> list[tuple[LoadLevel, PhaseParts]]:
    """Each load with the parts of TTFT at it, lowest first; only loads that can be held against each other."""
    parts = {one.phase: one for one in report.growth.phases}
    return [(one, parts[one.phase]) for one in report.load_levels.levels if one.phase in parts]


def stem(file: str) -> str:
    """A recording's name without what its form adds: sweep.jsonl.gz is sweep."""
    return file.removesuffix(".gz").removesuffix(".zst").removesuffix(".jsonl") or file
