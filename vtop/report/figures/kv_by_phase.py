"""The figures of the KV pool by phase: measured against expected, asked for against resident, work against context."""

from __future__ import annotations

from collections.abc import Sequence

from vtop import units
from vtop.report.figures.choices import HUES, bars, known_of
from vtop.report.figures.figure import Figure, Panel, Series
from vtop.report.model import Report
from vtop.report.numbers import Numbers


def kv_expected(report: Report) -> Figure | None:
    """KV use measured against expected, in both senses: peak and mean."""
    phases = [
        (phase, of) for phase in report.phases if (of := phase.steady or phase.whole) and of.account.nominal is not None
    ]
    if not phases:
        return None

    def expected(of: Numbers, ratio: str) -> float | None:
        return getattr(of.account.nominal, ratio) if of.account.nominal is not None else None

    peak = bars(phases, lambda one: expected(one, "peak_ratio"))
    mean = bars(phases, lambda one: expected(one, "mean_ratio"))

    def effective(of: Numbers) -> float | None:
        return of.account.effective.mean_ratio if of.account.effective is not None else None

    return Figure(
        key="kv-expected",
        title="KV use, measured against expected",
        caption=(
            "Expected: what the clients keep in flight × the blocks of a request, at its end (peak) and half way "
            "(mean). Peak is held against the highest scrape, mean against the median. Above 100 % the pool is "
            "oversubscribed and the rest waits: then what really runs is to be held against."
        ),
        alt="; ".join(
            f"{phase.label}: peak {units.percent(of.kv.peak_ratio)} against "
            f"{units.percent(expected(of, 'peak_ratio'))}, "
            f"median {units.percent(of.kv.median_ratio)} against {units.percent(expected(of, 'mean_ratio'))}"
            for phase, of in phases
        )
        + ".",
        x_title="phase",
        x_kind="category",
        panels=(
            Panel(
                "share of the pool",
                (
                    Series("measured peak", "kv", bars(phases, lambda one: one.kv.peak_ratio), "line"),
                    Series("expected peak (dashed)", "kv", peak, "dashed"),
                    Series("measured median", "running", bars(phases, lambda one: one.kv.median_ratio), "line"),
                    Series("expected mean (dashed)", "running", mean, "dashed"),
                    Series("expected mean of what runs", "queue", bars(phases, effective), "points"),
                ),
                unit="share",
            ),
        ),
    )


def asked_and_resident(report: Report) -> Figure | None:
    """How many requests the clients keep in flight, how many of them run, and what all of them would need."""
    phases = known_of(report, lambda one: one.account.nominal.concurrency if one.account.nominal is not None else None)
    if not phases:
        return None

    def asked(of: Numbers) -> float | None:
        return of.account.nominal.concurrency if of.account.nominal is not None else None

    return Figure(
        key="asked",
        title="Asked for, and resident",
        caption="Need: KV of all that are in flight, each at its full length. More than the pool cannot run at once.",
        alt="; ".join(
            f"{phase.label}: {units.number(asked(of))} in flight, {units.number(of.running.median)} run (median), need "
            f"{units.number(of.account.oversubscription)} × the pool"
            for phase, of in phases
        )
        + ".",
        x_title="phase",
        x_kind="category",
        panels=(
            Panel(
                "requests",
                (
                    Series("in flight", "waiting", bars(phases, asked), "bar"),
                    Series("running, median", "running", bars(phases, lambda one: one.running.median), "bar"),
                ),
            ),
            Panel(
                "need ÷ pool",
                (Series("need ÷ pool", "kv", bars(phases, lambda one: one.account.oversubscription), "bar"),),
            ),
        ),
    )


def work(report: Report) -> Figure | None:
    """Executed tokens for each that the answers needed, against the context: recompute stands above 1."""
    return work_of([(phase.label, phase.whole) for phase in report.phases if phase.whole is not None])


def work_of(named: Sequence[tuple[str, Numbers]], key: str = "work") -> Figure | None:
    """The same of any stretches, each with its name."""
    known = [
        (name, of)
        for name, of in named
        if of.recompute.ratio is not None
        and of.account.input_tokens is not None
        and of.account.output_tokens is not None
    ]
    if not known:
        return None
    points = {name: (_context(of), 1.0 + (of.recompute.ratio or 0.0)) for name, of in known}
    return Figure(
        key=key,
        title="Executed tokens against context",
        caption=(
            "Tokens run through the model for each token that the answers needed, over the mean context of a token "
            "being generated (prompt + half of the output). 1 is no recompute; what stands above was run again after "
            f"preemptions. By {known[0][1].recompute.method}."
        ),
        alt="; ".join(f"{name}: {y:.3f} at a context of {units.count(x)}" for name, (x, y) in points.items()) + ".",
        x_title="mean context, tokens",
        x_kind="number",
        panels=(
            Panel(
                "executed ÷ needed tokens",
                tuple(
                    Series(name, HUES[at % len(HUES)], (point,), "points")
                    for at, (name, point) in enumerate(points.items())
                ),
            ),
        ),
    )


def _context(of: Numbers) -> float:
    return (of.account.input_tokens or 0.0) + (of.account.output_tokens or 0.0) / 2
