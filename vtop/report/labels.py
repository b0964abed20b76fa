"""Words and choices that tables, figures and findings share: how a percentile or a breakdown is said and chosen."""

from __future__ import annotations

from collections.abc import Sequence

from vtop import units
from vtop.metrics.histogram import Range
from vtop.report.numbers import Numbers, Percentile, Times
from vtop.server_kinds import registry
from vtop.session.frame.servers import ServerPart

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
    """A percentile of TTFT or ITL: of the own requests where they are enough, else the bucket of the server's."""
    mine: Times | None = {"TTFT": of.ttft, "ITL": of.itl}[name]
    own: Percentile = getattr(mine, quantile) if mine is not None else None
    if own is not None:
        return own
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
