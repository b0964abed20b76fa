"""The figures of the KV pool by phase: measured against expected, asked for against resident, work against context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vtop import units
from vtop.report.figures.choices import HUES, bars
from vtop.report.figures.figure import Figure, FigurePanel, Point, RuleLine, Series
from vtop.report.model import Report
from vtop.report.numbers import Numbers

GIGA: Final = 1e9
SPREAD: Final = 1.2  # of the contexts: less is one place of the axis


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
            FigurePanel(
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
    return asked_of([(phase.label, phase.whole) for phase in report.phases if phase.whole is not None])


def asked_of(named: Sequence[tuple[str, Numbers]], key: str = "asked") -> Figure | None:
    """The same of any spans, each with its name."""
    known = [(name, of, of.account.nominal) for name, of in named if of.account.nominal is not None]
    if not known:
        return None
    need: tuple[Point, ...] = tuple((name, of.account.oversubscription) for name, of, _ in known)
    asked: tuple[Point, ...] = tuple((name, one.concurrency) for name, _, one in known)
    ran: tuple[Point, ...] = tuple((name, of.running.peak) for name, of, _ in known)
    return Figure(
        key=key,
        title="Asked for, and resident",
        caption=(
            "Need: KV of all that are in flight, each at its full length, as so many times the pool (logarithmic). "
            "More than the pool cannot run at once."
        ),
        alt="; ".join(
            f"{name}: {units.number(one.concurrency)} in flight, {units.number(of.running.median)} run (median), "
            f"{units.count(of.running.peak)} at most, need {units.number(of.account.oversubscription)} × the pool"
            for name, of, one in known
        )
        + ".",
        x_title="",
        x_kind="category",
        panels=(
            FigurePanel(
                "requests", (Series("in flight", "waiting", asked, "bar"), Series("ran at most", "running", ran, "bar"))
            ),
            FigurePanel(
                "need ÷ pool",
                (Series("need ÷ pool", "kv", need, "points"),),
                (RuleLine("the pool", "limit", 1.0),),
                log=True,
            ),
        ),
    )


def work(report: Report) -> Figure | None:
    """FLOP a token against the context: recompute stands above the line."""
    return work_of([(phase.label, phase.whole) for phase in report.phases if phase.whole is not None])


def work_of(named: Sequence[tuple[str, Numbers]], key: str = "work") -> Figure | None:
    """The same of any spans, each with its name. None where all have the same context: a line needs two."""
    known = [
        (name, one, one.flops, one.context_tokens)
        for name, one in ((name, of.token_flops) for name, of in named)
        if one.flops is not None and one.context_tokens is not None
    ]
    contexts = [context for _, _, _, context in known]
    if not known or max(contexts) < SPREAD * min(contexts):
        return None
    series = [
        Series(name, HUES[at % len(HUES)], ((context, flops / GIGA),), "points")
        for at, (name, _, flops, context) in enumerate(known)
    ]
    line = next((one for _, one, _, _ in known if one.line_flops is not None and one.context_flops is not None), None)
    said = "The shape of the model is not known: there is no line."
    if line is not None:
        base, slope = (line.line_flops or 0.0) / GIGA, (line.context_flops or 0.0) / GIGA
        ends = (0.9 * min(contexts), 1.05 * max(contexts))
        on_line: tuple[Point, ...] = tuple((at, base + slope * at) for at in ends)
        series.append(Series("by the model's shape", "dim", on_line, "dashed"))
        said = f"The line is that of the model's shape: {base:.2f} + {slope:.6f} × the mean context."
    return Figure(
        key=key,
        title="FLOP a token against its context",
        caption=(
            "GFLOP of one GPU for each token that the answers needed, over the mean context that those tokens looked "
            f"at. {said} What was run again after preemptions stands above it. The axis does not begin at 0."
        ),
        alt="; ".join(
            f"{name}: {flops / GIGA:.2f} GFLOP at a context of {units.count(context)}"
            + (f", {one.apart_ratio * 100:.1f} % from the line" if one.apart_ratio is not None else "")
            for name, one, flops, context in known
        )
        + ".",
        x_title="mean context, tokens",
        x_kind="number",
        panels=(FigurePanel("GFLOP/token", tuple(series), bottom=0.9 * min(flops for _, _, flops, _ in known) / GIGA),),
    )
